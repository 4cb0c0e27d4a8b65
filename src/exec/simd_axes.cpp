// Operators along axes on the portable loops: softmax, reductions, concatenation.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/parallel.h"
#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/math.h"
#include "kernel/order.h"
#include "kernel/pointwise.h"
#include "kernel/rows.h"
#include "op/facts.h"
#include "op/infer.h"

namespace qdq {
namespace {

using RowLoop = void (*)(const float* x, int64_t rows, int64_t columns, float* out);

// softmax, log_softmax and logsumexp of columns, to the bits of the loops of rows in kernel/math.h: a row's sum has 16
// strands, and so has a column's.
class ColumnSoftmax {
 public:
  enum class Kind { kSoftmax, kLogSoftmax, kLogSumExp };

  // Of x[outer, count, inner]; logsumexp has a result for each column.
  static void run(Kind kind, const float* x, int64_t outer, int64_t count, int64_t inner, float* out) {
    const int64_t width = std::min(inner, std::clamp(kBlock / count, kLeastWidth, kMostWidth)),
                  blocks = (inner + width - 1) / width, results = kind == Kind::kLogSumExp ? 1 : count;
    parallel_for(outer * blocks, std::max<int64_t>(1, kBlock / (count * width)), [&](int64_t begin, int64_t end) {
      ColumnSoftmax some(kind, count, width);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / blocks, first = i % blocks * width;
        some.run(x + o * count * inner + first, std::min(width, inner - first), inner,
                 out + o * results * inner + first);
      }
    });
  }

  // Whether columns are so many that they are better not turned into rows.
  static bool takes(int64_t inner) { return inner >= kLeastWidth; }

 private:
  static constexpr int64_t kStrands = 16, kBlock = int64_t{1} << 15, kLeastWidth = 64, kMostWidth = 1024;

  ColumnSoftmax(Kind kind, int64_t count, int64_t width)
      : kind_(kind), count_(count), terms_(static_cast<size_t>(count * width)),
        sums_(static_cast<size_t>(kStrands * width)), most_(static_cast<size_t>(width)) {}

  // `n` columns whose rows are `stride` apart.
  void run(const float* x, int64_t n, int64_t stride, float* out) {
    float *most = most_.data(), *terms = terms_.data();
    std::copy_n(x, n, most);
    for (int64_t r = 1; r < count_; ++r) kernel::maximum_f32(x + r * stride, most, n, most);
    for (int64_t r = 0; r < count_; ++r) kernel::sub_f32(x + r * stride, most, n, terms + r * n);
    kernel::exp_f32(terms, count_ * n, terms);
    float* sum = add(n);
    if (kind_ == Kind::kSoftmax) {
      for (int64_t r = 0; r < count_; ++r) kernel::div_f32(terms + r * n, sum, n, out + r * stride);
      return;
    }
    kernel::log_f32(sum, n, sum);
    if (kind_ == Kind::kLogSumExp) {
      // An infinite largest element is the result.
      for (int64_t i = 0; i < n; ++i) out[i] = most[i] - most[i] != 0 ? most[i] : sum[i] + most[i];
      return;
    }
    for (int64_t r = 0; r < count_; ++r) {
      kernel::sub_f32(x + r * stride, most, n, out + r * stride);
      kernel::sub_f32(out + r * stride, sum, n, out + r * stride);
    }
  }

  // The sums of the terms.
  float* add(int64_t n) {
    float *terms = terms_.data(), *sums = sums_.data();
    const int64_t strands = std::min(count_, kStrands);
    std::copy_n(terms, strands * n, sums);
    for (int64_t r = strands; r < count_; ++r) {
      float* strand = sums + r % kStrands * n;
      kernel::add_f32(strand, terms + r * n, n, strand);
    }
    for (int64_t half = kStrands / 2; half > 0; half /= 2)
      if (const int64_t rows = std::min(half, strands - half); rows > 0)
        kernel::add_f32(sums, sums + half * n, rows * n, sums);
    return sums;
  }

  Kind kind_;
  int64_t count_;
  std::vector<float> terms_, sums_, most_;
};

// softmax and log_softmax: rows along the axis, or columns; few columns are turned into rows and back.
class SoftmaxOp : public CompiledOp {
 public:
  SoftmaxOp(RowLoop loop, ColumnSoftmax::Kind kind) : loop_(loop), kind_(kind) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const bool converts =
        call.op().schema->arguments[2].name == "dtype" ? call.dtype(2, DType::kF32) != DType::kF32 : call.boolean(2);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0 || converts)
      return run_reference(call, "its input is empty, not float32 or a single number");
    const int64_t axis = wrap_axis(call.integer(1), given.dim()), columns = given.size(axis);
    const bool is_last = given.numel() == columns || axis == given.dim() - 1;
    const int64_t inner = numel_of(Shape(given.sizes().begin() + axis + 1, given.sizes().end()));
    const bool turns = !is_last && !ColumnSoftmax::takes(inner);
    const Tensor x = (turns ? given.transpose(axis, -1) : given).contiguous(),
                 out = uninitialized(x.sizes(), DType::kF32);
    if (is_last || turns) loop_(x.data<float>(), x.numel() / columns, columns, out.data<float>());
    else ColumnSoftmax::run(kind_, x.data<float>(), x.numel() / columns / inner, columns, inner, out.data<float>());
    return turns ? out.transpose(axis, -1).contiguous() : out;
  }

 private:
  RowLoop loop_;
  ColumnSoftmax::Kind kind_;
};

using FoldLoop = void (*)(const float* a, const float* b, int64_t n, float* out);

// out[i] = x[0, i] then loop(out[i], x[r, i]) for r = 1, 2, ... of x[rows, n].
void fold_rows(FoldLoop loop, const float* x, int64_t rows, int64_t n, float* out) {
  std::copy_n(x, n, out);
  for (int64_t r = 1; r < rows; ++r) loop(out, x + r * n, n, out);
}
// The same of sums: of 128 rows at a time, and then of these, so that long sums stay exact.
void add_rows(const float* x, int64_t rows, int64_t n, float* out) {
  constexpr int64_t kRows = 128;
  fold_rows(kernel::add_f32, x, std::min(rows, kRows), n, out);
  std::vector<float> part(rows > kRows ? static_cast<size_t>(n) : 0);
  for (int64_t r = kRows; r < rows; r += kRows) {
    fold_rows(kernel::add_f32, x + r * n, std::min(rows - r, kRows), n, part.data());
    kernel::add_f32(out, part.data(), n, out);
  }
}
// The one element that the loop leaves of a row: halves meet, and a middle one waits.
float fold_row(FoldLoop loop, const float* x, int64_t n, float* scratch) {
  const float* from = x;
  while (n > 1) {
    const int64_t half = n / 2, rest = n - 2 * half;
    const float middle = from[n - 1];
    loop(from, from + half, half, scratch);
    if (rest > 0) scratch[half] = middle;
    n = half + rest;
    from = scratch;
  }
  return from[0];
}

// mean, sum, prod, amax, amin and logsumexp over axes. Sums of rows have the order of kernel/math.h, of columns that of
// add_rows.
class ReduceOp : public CompiledOp {
 public:
  enum class Kind { kMean, kSum, kProduct, kMax, kMin, kLogSumExp };
  explicit ReduceOp(Kind kind) : kind_(kind) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32 or a single number");
    std::vector<bool> reduced(given.sizes().size(), false);
    const bool is_of_all = !place_of(call, "dim");  // max and min, and a form of prod
    std::vector<int64_t> axes;
    if (const int64_t* axis = is_of_all ? nullptr : call[1].get_if<int64_t>()) axes = {*axis};
    else if (!is_of_all && !call.is_none(1)) axes = call.integers(1);
    for (const int64_t axis : axes) reduced[static_cast<size_t>(wrap_axis(axis, given.dim()))] = true;
    if (axes.empty()) reduced.assign(reduced.size(), true);
    // [outer, count, inner] if the axes lie side by side; else they go to the end.
    Shape sizes;
    std::vector<int64_t> order;
    int64_t outer = 1, count = 1, inner = 1;
    bool begun = false, ended = false, together = true;
    for (size_t a = 0; a < reduced.size(); ++a) {
      const int64_t size = given.sizes()[a];
      together = together && !(ended && reduced[a] && size > 1);
      if (reduced[a]) begun = true, count *= size;
      else (begun ? inner : outer) *= size, ended = begun && (ended || size > 1);
      if (!reduced[a]) order.push_back(static_cast<int64_t>(a));
      if (!reduced[a]) sizes.push_back(size);
      else if (!is_of_all && call.boolean(2)) sizes.push_back(1);
    }
    together = together && (kind_ != Kind::kLogSumExp || inner == 1 || ColumnSoftmax::takes(inner));
    for (size_t a = 0; a < reduced.size() && !together; ++a)
      if (reduced[a]) order.push_back(static_cast<int64_t>(a));
    const Tensor x = together ? given.contiguous() : given.permute(order).contiguous();
    if (!together) outer *= inner, inner = 1;
    const Tensor out = uninitialized(sizes, DType::kF32);
    if (kind_ == Kind::kLogSumExp && inner > 1)
      ColumnSoftmax::run(ColumnSoftmax::Kind::kLogSumExp, x.data<float>(), outer, count, inner, out.data<float>());
    else if (kind_ == Kind::kLogSumExp) kernel::logsumexp_f32(x.data<float>(), outer, count, out.data<float>());
    else reduce(x.data<float>(), outer, count, inner, out.data<float>());
    return out;
  }

 private:
  bool adds() const { return kind_ == Kind::kMean || kind_ == Kind::kSum; }
  FoldLoop loop() const {
    if (kind_ == Kind::kProduct) return kernel::mul_f32;
    return kind_ == Kind::kMax ? kernel::maximum_f32 : kernel::minimum_f32;
  }

  float one_of_row(const float* from, int64_t count, float* scratch) const {
    float found = 0;
    if (kind_ != Kind::kProduct && kernel::extreme_f32(from, count, kind_ == Kind::kMax, &found)) return found;
    return fold_row(loop(), from, count, scratch);
  }

  void reduce(const float* x, int64_t outer, int64_t count, int64_t inner, float* out) const {
    if (inner == 1 && adds()) {
      kernel::sum_rows_f32(x, outer, count, out);
      for (int64_t i = 0; kind_ == Kind::kMean && i < outer; ++i) out[i] /= static_cast<float>(count);
      return;
    }
    parallel_for(outer, std::max<int64_t>(1, (int64_t{1} << 16) / (count * inner)), [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(inner == 1 ? static_cast<size_t>(count) : 0);
      for (int64_t i = begin; i < end; ++i) {
        const float* from = x + i * count * inner;
        float* to = out + i * inner;
        if (inner == 1) *to = one_of_row(from, count, scratch.data());
        else if (adds()) add_rows(from, count, inner, to);
        else fold_rows(loop(), from, count, inner, to);
        for (int64_t j = 0; kind_ == Kind::kMean && j < inner; ++j) to[j] /= static_cast<float>(count);
      }
    });
  }

  Kind kind_;
};

// var and std: what is left of a row when its mean is taken off, squared and added; sums have the order of
// kernel/math.h. Other axes than the last become rows first.
class SpreadOp : public CompiledOp {
 public:
  explicit SpreadOp(bool takes_root) : takes_root_(takes_root) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32 or a single number");
    const size_t rank = given.sizes().size();
    std::vector<size_t> axes(rank);
    std::iota(axes.begin(), axes.end(), size_t{0});
    if (place_of(call, "dim")) axes = axes_of(call, 1, rank);
    std::vector<int64_t> order;
    int64_t n = 1;
    for (size_t a = 0; a < rank; ++a)
      if (!std::binary_search(axes.begin(), axes.end(), a)) order.push_back(static_cast<int64_t>(a));
    for (const size_t a : axes) order.push_back(static_cast<int64_t>(a)), n *= given.sizes()[a];
    const Tensor x = given.permute(order).contiguous(),
                 out = uninitialized(constant_shape(result_meta(call).sizes), DType::kF32);
    const double divisor = std::max(static_cast<double>(n) - correction_of(call), 0.0);
    parallel_for(out.numel(), std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
      std::vector<float> row(static_cast<size_t>(n));
      for (int64_t r = begin; r < end; ++r) {
        const float* from = x.data<float>() + r * n;
        kernel::add_scalar_f32(from, -kernel::sum_f32(from, n) / static_cast<float>(n), n, row.data());
        kernel::mul_f32(row.data(), row.data(), n, row.data());
        const auto variance = static_cast<float>(static_cast<double>(kernel::sum_f32(row.data(), n)) / divisor);
        out.data<float>()[r] = takes_root_ ? std::sqrt(variance) : variance;
      }
    });
    return out;
  }

 private:
  bool takes_root_;
};

// linalg_vector_norm of order 1, the sum of magnitudes, and of order 2, the root of the sum of squares. Squares along
// the last axis stay in the caches.
class NormOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const double order = call.number(1);
    if (!is_f32(given) || given.dim() == 0 || given.numel() == 0 || (order != 1 && order != 2) || !call.is_none(4))
      return run_reference(call, "its input is empty, not float32 or a single number, or it has another order");
    if (order == 1) return sums_of_magnitudes(call, given);
    const Tensor x = given.contiguous(), out = is_of_rows(call) ? sums_of_rows(call, x) : sums_of(call, x);
    kernel::sqrt_f32(out.data<float>(), out.numel(), out.data<float>());
    return out;
  }

 private:
  Value sums_of_magnitudes(const Call<Tensor>& call, const Tensor& given) {
    std::vector<size_t> axes = axes_of(call, 2, given.sizes().size());
    std::sort(axes.begin(), axes.end());
    const size_t first = axes.front(), end = axes.back() + 1;
    if (end - first != axes.size()) return run_reference(call, "its axes do not lie beside each other");
    const Shape& sizes = given.sizes();
    const auto extent = [&](size_t from, size_t to) {
      return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from),
                             sizes.begin() + static_cast<std::ptrdiff_t>(to), int64_t{1}, std::multiplies<>());
    };
    const Tensor x = given.contiguous(), out = uninitialized(constant_shape(result_meta(call).sizes), DType::kF32);
    kernel::sum_magnitudes_f32(x.data<float>(), extent(0, first), extent(first, end), extent(end, sizes.size()),
                               out.data<float>());
    return out;
  }
  static bool is_of_rows(const Call<Tensor>& call) {
    if (call.is_none(2)) return false;
    const std::vector<int64_t> axes = call.integers(2);
    const int64_t rank = call.tensor(0).dim();
    return axes.size() == 1 && wrap_axis(axes[0], rank) == rank - 1;
  }
  static Tensor sums_of_rows(const Call<Tensor>& call, const Tensor& x) {
    Shape sizes = x.sizes();
    const int64_t n = sizes.back();
    if (call.boolean(3)) sizes.back() = 1;
    else sizes.pop_back();
    const Tensor out = uninitialized(sizes, DType::kF32);
    multiply_rows_f32(x.data<float>(), n, x.data<float>(), n, out.numel(), n, out.data<float>());
    return out;
  }
  Tensor sums_of(const Call<Tensor>& call, const Tensor& x) {
    const Tensor squares = uninitialized(x.sizes(), DType::kF32);
    kernel::mul_f32(x.data<float>(), x.data<float>(), x.numel(), squares.data<float>());
    const Value sum = sums_.run(Call<Tensor>(*find_op("torch.ops.aten.sum.dim_IntList"), {squares, call[2], call[3]}));
    return *sum.get_if<Tensor>();
  }

  ReduceOp sums_{ReduceOp::Kind::kSum};
};

// cosine_similarity: of rows along the axis the sum of products, divided by the roots of the sums of squares, all in
// the order of kernel/math.h.
class CosineOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Shape sizes = broadcast_shapes(call.tensor(0).sizes(), call.tensor(1).sizes());
    if (!is_f32(call.tensor(0)) || !is_f32(call.tensor(1)) || numel_of(sizes) == 0 || sizes.empty())
      return run_reference(call, "an operand is empty, not float32 or a single number");
    const int64_t axis = wrap_axis(call.integer(2), static_cast<int64_t>(sizes.size()));
    std::vector<int64_t> order;
    Shape kept;
    for (int64_t a = 0; a < static_cast<int64_t>(sizes.size()); ++a)
      if (a != axis) order.push_back(a), kept.push_back(sizes[static_cast<size_t>(a)]);
    order.push_back(axis);
    const auto rows_of = [&](size_t i) { return call.tensor(i).expand(sizes).permute(order).contiguous(); };
    const Tensor x = rows_of(0), y = rows_of(1), out = uninitialized(kept, DType::kF32);
    const int64_t n = x.size(-1);
    const auto eps = static_cast<float>(call.number(3));
    parallel_for(out.numel(), std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
      std::vector<float> products(static_cast<size_t>(n));
      const auto sum = [&](const float* a, const float* b) {
        kernel::mul_f32(a, b, n, products.data());
        return kernel::sum_f32(products.data(), n);
      };
      for (int64_t r = begin; r < end; ++r) {
        const float *a = x.data<float>() + r * n, *b = y.data<float>() + r * n;
        out.data<float>()[r] = sum(a, b) / std::max(std::sqrt(sum(a, a)), eps) / std::max(std::sqrt(sum(b, b)), eps);
      }
    });
    return out;
  }
};

// The first half along an axis times the sigmoid of the second.
class GluOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const int64_t axis = given.dim() == 0 ? 0 : wrap_axis(call.integer(1), given.dim());
    if (!is_f32(given) || given.numel() == 0 || given.dim() == 0 || given.size(axis) % 2 != 0)
      return run_reference(call, "its input is empty, not float32, or its halves are not as long");
    const Tensor x = given.contiguous();
    Shape sizes = x.sizes();
    sizes[static_cast<size_t>(axis)] /= 2;
    const Tensor out = uninitialized(sizes, DType::kF32);
    const int64_t half = x.stride(axis) * x.size(axis) / 2;
    for (int64_t i = 0; i < out.numel(); i += half) {
      const float* from = x.data<float>() + 2 * i;
      kernel::sigmoid_f32(from + half, half, out.data<float>() + i);
      kernel::mul_f32(out.data<float>() + i, from, half, out.data<float>() + i);
    }
    return out;
  }
};

// aten.cat of tensors of one rank and dtype.
class ConcatOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    std::vector<Tensor> parts = call.tensors(0);
    std::erase_if(parts, [](const Tensor& part) { return part.sizes() == Shape{0}; });
    if (parts.empty()) return run_reference(call, "all tensors are empty");
    const int64_t axis = wrap_axis(call.integer(1), parts[0].dim());
    const DType dtype = parts[0].dtype();
    Shape sizes = parts[0].sizes();
    const auto at = static_cast<size_t>(axis);
    sizes[at] = 0;
    for (Tensor& part : parts) {
      if (part.dtype() != dtype || part.sizes().size() != sizes.size())
        return run_reference(call, "its inputs are of several dtypes or ranks");
      for (size_t a = 0; a < sizes.size(); ++a)
        if (a != at && part.sizes()[a] != sizes[a]) return run_reference(call, "its inputs do not fit each other");
      sizes[at] += part.size(axis);
      part = part.contiguous();
    }
    const Tensor out = uninitialized(sizes, dtype);
    const int64_t outer = outer_of(sizes, at);
    if (outer == 0) return out;
    const int64_t row = static_cast<int64_t>(out.nbytes()) / outer;
    std::byte* to = out.raw();
    for (const Tensor& part : parts) {
      const int64_t width = static_cast<int64_t>(part.nbytes()) / outer;
      kernel::copy_row_bytes(part.raw(), width, to, row, width, outer);
      to += width;
    }
    return out;
  }

 private:
  static int64_t outer_of(const Shape& sizes, size_t axis) {
    return numel_of(Shape(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(axis)));
  }
};

// aten.stack: the tensors with an axis of one more, put side by side along it.
class StackOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    infer_call(call);
    const std::vector<Tensor> parts = call.tensors(0);
    const int64_t axis = wrap_axis(call.integer(1), parts[0].dim() + 1);
    Value::List list;
    for (const Tensor& part : parts) {
      if (part.dtype() != parts[0].dtype()) return run_reference(call, "its inputs are of several dtypes");
      list.emplace_back(part.unsqueeze(axis));
    }
    return concat_.run(Call<Tensor>(*find_op("torch.ops.aten.cat.default"), {Value(list), axis}));
  }

 private:
  ConcatOp concat_;
};

std::unique_ptr<CompiledOp> make_softmax(const Node&, bool) {
  return std::make_unique<SoftmaxOp>(kernel::softmax_f32, ColumnSoftmax::Kind::kSoftmax);
}
std::unique_ptr<CompiledOp> make_log_softmax(const Node&, bool) {
  return std::make_unique<SoftmaxOp>(kernel::log_softmax_f32, ColumnSoftmax::Kind::kLogSoftmax);
}
template <ReduceOp::Kind kind> std::unique_ptr<CompiledOp> make_reduce(const Node&, bool) {
  return std::make_unique<ReduceOp>(kind);
}
template <bool takes_root> std::unique_ptr<CompiledOp> make_spread(const Node&, bool) {
  return std::make_unique<SpreadOp>(takes_root);
}
std::unique_ptr<CompiledOp> make_norm(const Node&, bool) { return std::make_unique<NormOp>(); }
std::unique_ptr<CompiledOp> make_cosine(const Node&, bool) { return std::make_unique<CosineOp>(); }
std::unique_ptr<CompiledOp> make_glu(const Node&, bool) { return std::make_unique<GluOp>(); }
std::string norm_obstacle(const Node& node) {
  const double order = argument_of(node, 1).number().value_or(2);
  if (order != 1 && order != 2) return "its order is neither 1 nor 2";
  return elementwise_obstacle(node);
}
std::unique_ptr<CompiledOp> make_concat(const Node&, bool) { return std::make_unique<ConcatOp>(); }

constexpr SimdOp kAlongAxes[] = {
    {"aten.softmax.int", make_softmax, softmax_obstacle},
    {"aten._softmax.default", make_softmax, softmax_obstacle},
    {"aten.log_softmax.int", make_log_softmax, softmax_obstacle},
    {"aten._log_softmax.default", make_log_softmax, softmax_obstacle},
    {"aten.mean.dim", make_reduce<ReduceOp::Kind::kMean>, elementwise_obstacle},
    {"aten.sum.dim_IntList", make_reduce<ReduceOp::Kind::kSum>, elementwise_obstacle},
    {"aten.prod.default", make_reduce<ReduceOp::Kind::kProduct>, elementwise_obstacle},
    {"aten.prod.dim_int", make_reduce<ReduceOp::Kind::kProduct>, elementwise_obstacle},
    {"aten.amax.default", make_reduce<ReduceOp::Kind::kMax>, elementwise_obstacle},
    {"aten.amin.default", make_reduce<ReduceOp::Kind::kMin>, elementwise_obstacle},
    {"aten.max.default", make_reduce<ReduceOp::Kind::kMax>, elementwise_obstacle},
    {"aten.min.default", make_reduce<ReduceOp::Kind::kMin>, elementwise_obstacle},
    {"aten.var.correction", make_spread<false>, elementwise_obstacle},
    {"aten.var.dim", make_spread<false>, elementwise_obstacle},
    {"aten.var.default", make_spread<false>, elementwise_obstacle},
    {"aten.std.correction", make_spread<true>, elementwise_obstacle},
    {"aten.std.dim", make_spread<true>, elementwise_obstacle},
    {"aten.std.default", make_spread<true>, elementwise_obstacle},
    {"aten.linalg_vector_norm.default", make_norm, norm_obstacle},
    {"aten.cosine_similarity.default", make_cosine, matmul_obstacle},
    {"aten.glu.default", make_glu, elementwise_obstacle},
    {"aten.logsumexp.default", make_reduce<ReduceOp::Kind::kLogSumExp>, elementwise_obstacle},
};
std::unique_ptr<CompiledOp> make_stack(const Node&, bool) { return std::make_unique<StackOp>(); }
constexpr SimdOp kJoining[] = {
    {"aten.cat.default", make_concat, nullptr},
    {"aten.stack.default", make_stack, nullptr},
};

}  // namespace

void multiply_rows_f32(const float* x, int64_t x_stride, const float* y, int64_t y_stride, int64_t rows, int64_t n,
                       float* out) {
  parallel_for(rows, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
    std::vector<float> products(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      kernel::mul_f32(x + r * x_stride, y + r * y_stride, n, products.data());
      out[r] = kernel::sum_f32(products.data(), n);
    }
  });
}

std::span<const SimdOp> axis_simd_ops() { return kAlongAxes; }
std::span<const SimdOp> joining_simd_ops() { return kJoining; }

}  // namespace qdq
