#include "op/elements.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

namespace qdq {

DType compute_dtype(DType dtype) {
  if (is_float8(dtype) || is_complex(dtype)) refuse_arithmetic(dtype);
  if (dtype == DType::kF64 || dtype == DType::kU64) return dtype;
  return is_floating(dtype) ? DType::kF32 : DType::kS64;
}
DType signed_dtype(DType dtype) {
  QDQ_CHECK(dtype != DType::kU64, kUnsupported, "this is not computed with uint64 tensors; cast them to int64 first");
  return compute_dtype(dtype);
}

void check_index_dtype(const OpDef& op, DType dtype) {
  QDQ_CHECK(dtype == DType::kS64 || dtype == DType::kS32, kInvalidArgument, op.target,
            " needs int64 or int32 indices, found ", to_string(dtype));
}

void check_float(DType dtype, const std::string& op) {
  QDQ_CHECK(is_floating(dtype), kInvalidArgument, op, " needs a float tensor, found ", to_string(dtype));
}

std::vector<int64_t> stable_order(int64_t n, FunctionRef<bool(int64_t, int64_t)> before) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return before(a, b); });
  return order;
}

// By the lowest byte first, then by those above it; bytes that all keys share are left out.
std::vector<int64_t> stable_order(std::span<const int64_t> keys) {
  struct Keyed {
    uint64_t key;
    int64_t place;
  };
  std::vector<Keyed> all, next(keys.size());
  uint64_t differing = 0;
  for (const int64_t key : keys) {
    all.push_back({static_cast<uint64_t>(key) ^ uint64_t{1} << 63, static_cast<int64_t>(all.size())});
    differing |= all.back().key ^ all.front().key;
  }
  for (int shift = 0; shift < 64; shift += 8) {
    if ((differing >> shift & 255) == 0) continue;
    std::array<size_t, 257> begin{};
    for (const Keyed& one : all) ++begin[(one.key >> shift & 255) + 1];
    for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    for (const Keyed& one : all) next[begin[one.key >> shift & 255]++] = one;
    all.swap(next);
  }
  std::vector<int64_t> order;
  order.reserve(all.size());
  for (const Keyed& one : all) order.push_back(one.place);
  return order;
}

int64_t order_key(double value) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (value != value) return kMost;
  const auto bits = std::bit_cast<int64_t>(value == 0 ? 0.0 : value);
  return bits < 0 ? bits ^ kMost : bits;
}

Tensor run_loop(const Tensor& x, DType dtype, const void* f, Loop loop) {
  QDQ_CHECK(x.dtype() == dtype, kInternal, "a loop over ", to_string(dtype), " got a ", to_string(x.dtype()),
            " tensor");
  const Tensor in = x.contiguous(), out = Tensor::empty(x.sizes(), dtype);
  loop(f, {in.raw(), 1}, {nullptr, 0}, out.raw(), in.numel());
  return out;
}

Tensor run_loop(const Tensor& a, const Tensor& b, const Shape& sizes, DType dtype, const void* f, Loop loop) {
  QDQ_CHECK(a.dtype() == dtype && b.dtype() == dtype, kInternal, "a loop over ", to_string(dtype), " got ",
            to_string(a.dtype()), " and ", to_string(b.dtype()), " tensors");
  const Tensor out = Tensor::empty(sizes, dtype), x = a.expand(sizes), y = b.expand(sizes);
  if (x.is_contiguous() && y.is_contiguous()) {
    loop(f, {x.raw(), 1}, {y.raw(), 1}, out.raw(), out.numel());
    return out;
  }
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  const std::array strides{out.strides().data(), x.strides().data(), y.strides().data()};
  for (RowWalk row(sizes, strides); row.next();)
    loop(f, {x.raw() + row.offset(1) * bytes, row.step(1)}, {y.raw() + row.offset(2) * bytes, row.step(2)},
         out.raw() + row.offset(0) * bytes, row.extent());
  return out;
}

namespace {

// The operand in the computing type, then in the type of the loop.
Tensor prepared(const Tensor& x, DType compute, DType loop) { return x.to(compute_dtype(compute)).to(loop); }

std::pair<DType, Loop> loop_for(DType compute, const Loops& loops) {
  const DType c = compute_dtype(compute);
  if (c == DType::kF32 && loops.f32 != nullptr) return {c, loops.f32};
  if (c == DType::kU64 && loops.u64 != nullptr) return {c, loops.u64};
  signed_dtype(c);
  return is_floating(c) ? std::pair(DType::kF64, loops.f64) : std::pair(c, loops.s64);
}

}  // namespace

Tensor run_loops(const Tensor& x, DType compute, DType out, const void* f, const Loops& loops) {
  const auto [c, loop] = loop_for(compute, loops);
  return run_loop(prepared(x, compute, c), c, f, loop).to(out);
}

Tensor run_loops(const Tensor& a, const Tensor& b, DType compute, DType out, const void* f, const Loops& loops) {
  const auto [c, loop] = loop_for(compute, loops);
  return run_loop(prepared(a, compute, c), prepared(b, compute, c), broadcast_shapes(a.sizes(), b.sizes()), c, f, loop)
      .to(out);
}

Tensor operand(const Call<Tensor>& call, size_t i) {
  if (const Tensor* tensor = call[i].get_if<Tensor>()) return *tensor;
  if (call.is_integer(i)) return Tensor::scalar<int64_t>(call.integer(i));
  return Tensor::scalar<double>(call.number(i));
}

Value store_in_self(const Call<Tensor>& call, const Tensor& result) {
  const Tensor& self = call.tensor(0);
  const auto kind = [](DType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : t == DType::kBool ? 0 : 1; };
  QDQ_CHECK(kind(result.dtype()) <= kind(self.dtype()), kInvalidArgument, call.op().target, " cannot store a ",
            to_string(result.dtype()), " result in a ", to_string(self.dtype()), " tensor");
  QDQ_CHECK(result.sizes() == self.sizes(), kInvalidArgument, call.op().target, " cannot store a result of shape ",
            to_string(result.sizes()), " in a tensor of shape ", to_string(self.sizes()));
  self.copy_from(result);
  return self;
}

Value eval_in_place(const Call<Tensor>& call) {
  std::vector<Value> args;
  for (size_t i = 0; i < call.size(); ++i) args.push_back(call[i]);
  const Value result = run_op<Tensor>(*call.op().functional, std::move(args));
  return store_in_self(call, *result.get_if<Tensor>());
}

Rows rows_along(const Tensor& x, const std::vector<size_t>& axes) {
  std::vector<bool> inner(x.sizes().size(), false);
  for (size_t axis : axes) inner[axis] = true;
  Rows rows;
  std::vector<int64_t> order;
  for (size_t a = 0; a < inner.size(); ++a) {
    if (inner[a]) continue;
    order.push_back(static_cast<int64_t>(a));
    rows.outer *= x.sizes()[a];
  }
  for (size_t axis : axes) {
    order.push_back(static_cast<int64_t>(axis));
    rows.inner *= x.sizes()[axis];
  }
  rows.data = x.permute(order).contiguous();
  return rows;
}

Tensor take(const Tensor& x, int64_t axis, const std::vector<int64_t>& source, double fill) {
  const size_t at = static_cast<size_t>(wrap_axis(axis, x.dim()));
  Shape sizes = x.sizes();
  const int64_t size = sizes[at];
  sizes[at] = static_cast<int64_t>(source.size());
  const Tensor out = fill == 0 ? Tensor::empty(sizes, x.dtype()) : Tensor::full(sizes, x.dtype(), fill);
  for (int64_t from : source)
    QDQ_CHECK(from < size, kInvalidArgument, "there is no element ", from, " on an axis of size ", size);
  if (out.numel() == 0 || size == 0) return out;
  const Tensor from = x.contiguous();
  const size_t slice = static_cast<size_t>(out.stride(axis)) * size_of(x.dtype());
  std::byte* to = out.raw();
  const auto copy = [&](auto width) {
    for (const std::byte* block = from.raw(); block < from.raw() + from.nbytes();
         block += slice * static_cast<size_t>(size))
      for (size_t i = 0; i < source.size(); ++i, to += slice)
        if (source[i] >= 0) std::memcpy(to, block + slice * static_cast<size_t>(source[i]), width);
  };
  if (slice == 4) copy(std::integral_constant<size_t, 4>());  // no call for each
  else copy(slice);
  return out;
}

}  // namespace qdq
