// The extremes, the order and the sums of elements along an axis, on the portable loops.
#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/order.h"
#include "op/infer.h"

namespace qdq {
namespace {

// A dense tensor as [outer, count, inner] around an axis.
struct Around {
  int64_t outer = 1, count = 1, inner = 1;

  Around(const Tensor& x, int64_t axis) {
    for (int64_t a = 0; a < x.dim(); ++a) (a < axis ? outer : a == axis ? count : inner) *= x.size(a);
  }
};

// The places of the extremes of int64 [outer, count, inner] along the axis, the first of equal ones. Turned bits count
// in the other direction.
void extreme_places(const int64_t* x, const Around& rows, bool largest, int64_t* out) {
  const int64_t turn = largest ? 0 : -1;
  std::vector<int64_t> best(static_cast<size_t>(rows.inner));
  for (int64_t o = 0; o < rows.outer; ++o, x += rows.count * rows.inner, out += rows.inner) {
    if (rows.inner == 1) {
      int64_t strands[4] = {x[0] ^ turn, x[0] ^ turn, x[0] ^ turn, x[0] ^ turn};
      const int64_t together = rows.count - rows.count % 4;
      for (int64_t i = 0; i < together; i += 4)
        for (int64_t j = 0; j < 4; ++j) strands[j] = std::max(strands[j], x[i + j] ^ turn);
      for (int64_t i = together; i < rows.count; ++i) strands[0] = std::max(strands[0], x[i] ^ turn);
      *out = std::find(x, x + rows.count, *std::max_element(strands, strands + 4) ^ turn) - x;
      continue;
    }
    std::fill_n(out, rows.inner, int64_t{0});
    for (int64_t i = 0; i < rows.inner; ++i) best[static_cast<size_t>(i)] = x[i] ^ turn;
    for (int64_t r = 1; r < rows.count; ++r)
      for (int64_t i = 0; i < rows.inner; ++i) {
        const int64_t v = x[r * rows.inner + i] ^ turn;
        int64_t& most = best[static_cast<size_t>(i)];
        out[i] = v > most ? r : out[i];
        most = std::max(most, v);
      }
  }
}

// argmax and argmin along an axis, or of all elements.
class ExtremePlaceOp : public CompiledOp {
 public:
  explicit ExtremePlaceOp(bool largest) : largest_(largest) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& operand = call.tensor(0);
    const bool are_integers = counts_in_int64(operand.dtype());
    const Tensor given = is_half_dtype(operand.dtype()) ? widened_to_floats(operand)
                         : are_integers                 ? operand.to(DType::kS64)
                                                        : operand;
    if (!(is_f32(given) || are_integers) || given.dim() == 0 || given.numel() == 0)
      return run_reference(call, "its input is empty, a single number, bool, uint64 or float64");
    const Tensor x = call.is_none(1) ? given.reshape({given.numel()}) : given.contiguous();
    const Around rows(x, call.is_none(1) ? 0 : wrap_axis(call.integer(1), x.dim()));
    if (rows.count > std::numeric_limits<int32_t>::max()) return run_reference(call, "its rows are too long");
    const Tensor out = uninitialized(constant_shape(result_meta(call).sizes), DType::kS64);
    if (are_integers) extreme_places(x.data<int64_t>(), rows, largest_, out.data<int64_t>());
    else kernel::extreme_places_f32(x.data<float>(), rows.outer, rows.count, rows.inner, largest_, out.data<int64_t>());
    return out;
  }

 private:
  bool largest_;
};

// max and min along an axis: the extremes and their places.
class ExtremeOp : public CompiledOp {
 public:
  explicit ExtremeOp(bool largest) : largest_(largest) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32 or a single number");
    const int64_t axis = wrap_axis(call.integer(1), given.dim());
    const Tensor x = given.contiguous();
    const Around rows(x, axis);
    if (rows.count > std::numeric_limits<int32_t>::max()) return run_reference(call, "its rows are too long");
    Shape sizes = x.sizes();
    if (call.boolean(2)) sizes[static_cast<size_t>(axis)] = 1;
    else sizes.erase(sizes.begin() + axis);
    const Tensor values = uninitialized(sizes, DType::kF32), places = uninitialized(sizes, DType::kS64);
    const float* from = x.data<float>();
    float* to = values.data<float>();
    int64_t* place = places.data<int64_t>();
    kernel::extreme_places_f32(from, rows.outer, rows.count, rows.inner, largest_, place);
    for (int64_t o = 0; o < rows.outer; ++o, from += rows.count * rows.inner)
      for (int64_t i = 0; i < rows.inner; ++i, ++place) *to++ = from[*place * rows.inner + i];
    return Value::List{values, places};
  }

 private:
  bool largest_;
};

// cumsum and cumprod of floats.
class CumulativeSumOp : public CompiledOp {
 public:
  explicit CumulativeSumOp(bool multiplies) : multiplies_(multiplies) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0 || call.dtype(2, DType::kF32) != DType::kF32)
      return run_reference(call, "its input is empty, not float32 or a single number");
    const Tensor x = given.contiguous(), out = uninitialized(x.sizes(), DType::kF32);
    const Around rows(x, wrap_axis(call.integer(1), x.dim()));
    if (multiplies_) multiply(x.data<float>(), rows, out.data<float>());
    else kernel::cumulative_sums_f32(x.data<float>(), rows.outer, rows.count, rows.inner, out.data<float>());
    return out;
  }

 private:
  // In double, each product rounded once, like the sums.
  static void multiply(const float* x, const Around& rows, float* out) {
    const int64_t size = rows.count * rows.inner;
    for (int64_t o = 0; o < rows.outer; ++o, x += size, out += size)
      for (int64_t i = 0; i < rows.inner; ++i) {
        double product = 1;
        for (int64_t at = i; at < size; at += rows.inner)
          out[at] = static_cast<float>(product *= static_cast<double>(x[at]));
      }
  }

  bool multiplies_;
};

// cummax and cummin of float32: the last of equal extremes so far, and its place; NaN wins.
class CumulativeExtremeOp : public CompiledOp {
 public:
  explicit CumulativeExtremeOp(bool largest) : largest_(largest) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32 or a single number");
    const Tensor x = given.contiguous(), values = uninitialized(x.sizes(), DType::kF32),
                 places = uninitialized(x.sizes(), DType::kS64);
    const Around rows(x, wrap_axis(call.integer(1), x.dim()));
    for (int64_t o = 0; o < rows.outer; ++o) {
      const int64_t at = o * rows.count * rows.inner;
      // A column at a time reads memory in its order as long as the columns are few.
      for (int64_t i = at; i < at + rows.inner; ++i)
        go_on(x.data<float>() + i, rows.count, rows.inner, values.data<float>() + i, places.data<int64_t>() + i);
    }
    return Value::List{values, places};
  }

 private:
  void go_on(const float* x, int64_t n, int64_t step, float* values, int64_t* places) const {
    float best = x[0];
    int64_t place = 0;
    for (int64_t i = 0; i < n; ++i, x += step, values += step, places += step) {
      const float v = *x;
      if (v == best || v != v || (best == best && (v > best) == largest_)) best = v, place = i;
      *values = best;
      *places = place;
    }
  }

  bool largest_;
};

// topk and sort: keys of 32 bits in the wanted order, each with its place behind it, so that equal ones stay in order.
class OrderOp : public CompiledOp {
 public:
  explicit OrderOp(bool is_sort) : is_sort_(is_sort) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const size_t dim = is_sort_ ? *place_of(call, "dim") : 2;
    const bool descending = call.boolean(is_sort_ ? *place_of(call, "descending") : 3);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32 or a single number");
    infer_call(call);
    const int64_t axis = wrap_axis(call.integer(dim), given.dim()), n = given.size(axis),
                  k = is_sort_ ? n : call.integer(1);
    if (n > std::numeric_limits<int32_t>::max()) return run_reference(call, "its rows are too long");
    const Tensor x = given.transpose(axis, -1).contiguous();
    Shape sizes = x.sizes();
    sizes.back() = k;
    const Tensor values = uninitialized(sizes, DType::kF32), places = uninitialized(sizes, DType::kS64);
    parallel_for(x.numel() / n, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
      std::vector<int32_t> keys(static_cast<size_t>(n));
      std::vector<uint64_t> first;
      for (int64_t r = begin; r < end; ++r) {
        const float* row = x.data<float>() + r * n;
        kernel::order_keys_f32(row, n, descending, keys.data());
        find_first(keys, k, first);
        for (int64_t i = 0; i < k; ++i) {
          const auto place = static_cast<int64_t>(first[static_cast<size_t>(i)] & 0xffffffff);
          places.data<int64_t>()[r * k + i] = place;
          values.data<float>()[r * k + i] = row[place];
        }
      }
    });
    return Value::List{values.transpose(axis, -1).contiguous(), places.transpose(axis, -1).contiguous()};
  }

 private:
  // A key as the upper half of a number, which goes in its order, with its place below.
  static uint64_t with_place(const std::vector<int32_t>& keys, int64_t i) {
    const auto key = static_cast<uint32_t>(keys[static_cast<size_t>(i)]) ^ 0x80000000u;
    return uint64_t{key} << 32 | static_cast<uint64_t>(i);
  }
  static int32_t key_of(uint64_t number) {
    return static_cast<int32_t>(static_cast<uint32_t>(number >> 32) ^ 0x80000000u);
  }

  // The k smallest in their order. A few are kept in a heap whose largest is in front; most keys do not pass it.
  static void find_first(const std::vector<int32_t>& keys, int64_t k, std::vector<uint64_t>& out) {
    const auto n = static_cast<int64_t>(keys.size()), kept = k <= n / 8 ? k : n;
    out.clear();
    for (int64_t i = 0; i < kept; ++i) out.push_back(with_place(keys, i));
    if (kept > 0 && kept < n) {
      std::make_heap(out.begin(), out.end());
      const auto next = [&](int64_t from) { return kernel::find_below(keys.data(), from, n, key_of(out[0])); };
      for (int64_t i = next(kept); i < n; i = next(i + 1)) replace_first(out, with_place(keys, i));
    }
    std::sort(out.begin(), out.end());
  }
  static void replace_first(std::vector<uint64_t>& heap, uint64_t value) {
    size_t at = 0;
    for (size_t child = 1; child < heap.size(); child = 2 * at + 1) {
      if (child + 1 < heap.size() && heap[child + 1] > heap[child]) ++child;
      if (heap[child] <= value) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = value;
  }

  bool is_sort_;
};

template <bool largest> std::unique_ptr<CompiledOp> make_extreme_place(const Node&, bool) {
  return std::make_unique<ExtremePlaceOp>(largest);
}
template <bool largest> std::unique_ptr<CompiledOp> make_extreme(const Node&, bool) {
  return std::make_unique<ExtremeOp>(largest);
}
template <bool multiplies> std::unique_ptr<CompiledOp> make_cumulative_sum(const Node&, bool) {
  return std::make_unique<CumulativeSumOp>(multiplies);
}
template <bool largest> std::unique_ptr<CompiledOp> make_cumulative_extreme(const Node&, bool) {
  return std::make_unique<CumulativeExtremeOp>(largest);
}
template <bool is_sort> std::unique_ptr<CompiledOp> make_order(const Node&, bool) {
  return std::make_unique<OrderOp>(is_sort);
}

constexpr SimdOp kOrdering[] = {
    {"aten.cumsum.default", make_cumulative_sum<false>, elementwise_obstacle},
    {"aten.cumprod.default", make_cumulative_sum<true>, elementwise_obstacle},
    {"aten.cummax.default", make_cumulative_extreme<true>, elementwise_obstacle},
    {"aten.cummin.default", make_cumulative_extreme<false>, elementwise_obstacle},
    {"aten.max.dim", make_extreme<true>, elementwise_obstacle},
    {"aten.min.dim", make_extreme<false>, elementwise_obstacle},
    {"aten.topk.default", make_order<false>, elementwise_obstacle},
    {"aten.sort.default", make_order<true>, elementwise_obstacle},
    {"aten.sort.stable", make_order<true>, elementwise_obstacle},
};
constexpr SimdOp kPlacing[] = {
    {"aten.argmax.default", make_extreme_place<true>, places_obstacle},
    {"aten.argmin.default", make_extreme_place<false>, places_obstacle},
};

}  // namespace

std::span<const SimdOp> ordering_simd_ops() { return kOrdering; }
std::span<const SimdOp> placing_simd_ops() { return kPlacing; }

}  // namespace qdq
