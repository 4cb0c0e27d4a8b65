// Loops over the elements of tensors for the reference operators: operands are brought to one computing type, so that a formula is
// written once and compiled for at most three types.
#pragma once

#include <algorithm>
#include <cmath>

#include "op/families.h"
#include "op/infer.h"

namespace qdq {

// The type in which elements are computed: f32 for f16, bf16 and f32; f64; s64 for integers and bool.
inline DType compute_dtype(DType dtype) {
  if (dtype == DType::kF64) return dtype;
  return is_floating(dtype) ? DType::kF32 : DType::kS64;
}

// Calls body(Type<float>, Type<double> or Type<int64_t>).
template <class Body>
decltype(auto) visit_compute(DType dtype, Body&& body) {
  switch (compute_dtype(dtype)) {
    case DType::kF64: return body(Type<double>{});
    case DType::kF32: return body(Type<float>{});
    default: return body(Type<int64_t>{});
  }
}

// The same for floats only. Throws Error{kInvalidArgument} for other dtypes.
template <class Body>
decltype(auto) visit_float(DType dtype, const std::string& op, Body&& body) {
  QDQ_CHECK(is_floating(dtype), kInvalidArgument, op, " wants a float tensor, found ", to_string(dtype));
  if (dtype == DType::kF64) return body(Type<double>{});
  return body(Type<float>{});
}

// A number in the computing type; integers saturate, NaN is 0.
template <class C>
C saturate(double value) {
  if constexpr (std::is_integral_v<C>) {
    if (!(value > -0x1p63)) return value == value ? std::numeric_limits<C>::min() : 0;
    return value < 0x1p63 ? static_cast<C>(value) : std::numeric_limits<C>::max();
  } else {
    return static_cast<C>(value);
  }
}

// Sums of C are kept in double, sums of integers in 64 bits that wrap.
template <class C> using Accumulator = std::conditional_t<std::is_same_v<C, int64_t>, int64_t, double>;

// Integer arithmetic that wraps, as PyTorch's does.
template <class C>
C add_wrapping(C a, C b) {
  if constexpr (std::is_integral_v<C>) return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}
template <class C>
C mul_wrapping(C a, C b) {
  if constexpr (std::is_integral_v<C>) return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return a * b;
}

// f of every element of a tensor of C, as a new tensor of C.
template <class C, class F>
Tensor map(const Tensor& x, F f) {
  const Tensor in = x.contiguous();
  const Tensor out = Tensor::empty(x.sizes(), DTypeOf<C>::value);
  const C* from = in.data<C>();
  C* to = out.data<C>();
  for (int64_t i = 0; i < in.numel(); ++i) to[i] = f(from[i]);
  return out;
}

// f of every pair of elements of two tensors of C, broadcast to `sizes`, as a new tensor of C.
template <class C, class F>
Tensor map(const Tensor& a, const Tensor& b, const Shape& sizes, F f) {
  const Tensor out = Tensor::empty(sizes, DTypeOf<C>::value);
  const Tensor x = a.expand(sizes), y = b.expand(sizes);
  const C* left = x.data<C>();
  const C* right = y.data<C>();
  C* to = out.data<C>();
  if (x.is_contiguous() && y.is_contiguous()) {
    for (int64_t i = 0; i < out.numel(); ++i) to[i] = f(left[i], right[i]);
    return out;
  }
  for_each_index<3>(sizes, {out.strides().data(), x.strides().data(), y.strides().data()},
                    [&](const std::array<int64_t, 3>& at) { to[at[0]] = f(left[at[1]], right[at[2]]); });
  return out;
}

// The argument as a tensor: itself, or a number as a 0-d f64 or s64 tensor.
Tensor operand(const Call<Tensor>& call, size_t i);

// An operator on self that writes its result to self's bytes and returns self. The functional form may return any float for a float
// self, but not a float for an integer self.
Value store_in_self(const Call<Tensor>& call, const Tensor& result);
template <Eval F>
Value in_place(const Call<Tensor>& call) {
  const Value value = F(call);
  return store_in_self(call, *value.get_if<Tensor>());
}

// A tensor as a matrix whose rows run over the given axes (in order) and whose columns over the others': [outer, inner], C order.
struct Rows {
  Tensor data;
  int64_t outer = 1, inner = 1;
};
Rows rows_along(const Tensor& x, const std::vector<size_t>& axes);

// Element i along the axis is element source[i] of x; where source[i] is negative, it is `fill`.
Tensor take(const Tensor& x, int64_t axis, const std::vector<int64_t>& source, double fill = 0);

}  // namespace qdq
