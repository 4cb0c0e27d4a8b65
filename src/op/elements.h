// Loops over the elements of tensors for the reference operators. They convert operands to one computing type, so that
// each formula is written once and compiled for at most three types.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "base/function_ref.h"
#include "op/families.h"
#include "op/infer.h"

namespace qdq {

// The type in which elements are computed: f32 for f16, bf16 and f32; f64; u64; s64 for other integers and bool. Throws
// Error{kUnsupported} for floats of 8 bits.
DType compute_dtype(DType dtype);

// compute_dtype for functions that have no form for uint64: throws Error{kUnsupported} for it, too.
DType signed_dtype(DType dtype);

// Calls body(Type<float>, Type<double> or Type<int64_t>).
template <class Body> decltype(auto) visit_compute(DType dtype, Body&& body) {
  switch (signed_dtype(dtype)) {
    case DType::kF64: return body(Type<double>{});
    case DType::kF32: return body(Type<float>{});
    default: return body(Type<int64_t>{});
  }
}

// Calls body(Type<double> or Type<int64_t>), which hold every element of a float or an integer tensor. For functions
// that choose among elements, or compute in double and round once at the end: the result is the same as from the
// computing type.
template <class Body> decltype(auto) visit_wide(DType dtype, Body&& body) {
  if (is_floating(signed_dtype(dtype))) return body(Type<double>{});
  return body(Type<int64_t>{});
}
inline DType wide_dtype(DType dtype) { return is_floating(signed_dtype(dtype)) ? DType::kF64 : DType::kS64; }

// Throws Error{kInvalidArgument} unless the dtype is int64 or int32.
void check_index_dtype(const OpDef& op, DType dtype);

// visit_compute for floats only. Throws Error{kInvalidArgument} for other dtypes.
void check_float(DType dtype, const std::string& op);
template <class Body> decltype(auto) visit_float(DType dtype, const std::string& op, Body&& body) {
  check_float(dtype, op);
  if (dtype == DType::kF64) return body(Type<double>{});
  return body(Type<float>{});
}

// The numbers from 0 to before n in the order of `before`, or of their keys; equal ones keep theirs. The sorts of all
// operators: each sort of its own would be 2 kB of a page's download. Keys are sorted byte by byte, without comparing.
std::vector<int64_t> stable_order(int64_t n, FunctionRef<bool(int64_t a, int64_t b)> before);
std::vector<int64_t> stable_order(std::span<const int64_t> keys);
// Integers in the order of the values: -0 is 0, and NaN, all alike, lies behind all numbers.
inline int64_t order_key(int64_t value) { return value; }
int64_t order_key(double value);

// A number in the computing type; integers saturate, NaN is 0.
template <class C> C saturate(double value) {
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
template <class C> C add_wrapping(C a, C b) {
  if constexpr (std::is_integral_v<C>) return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}
template <class C> C mul_wrapping(C a, C b) {
  if constexpr (std::is_integral_v<C>) return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return a * b;
}

// The loops of element-wise functions: n results in a row from one or two operands whose elements are `step` apart. A
// loop is all that is compiled for each function and type; shapes, strides and conversions are the same code for all.
// `f` is the function itself.
struct Elements {
  const std::byte* data;
  int64_t step;
};
using Loop = void (*)(const void* f, Elements a, Elements b, std::byte* out, int64_t n);

template <class C, class F> void loop_over(const void* f, Elements a, Elements b, std::byte* out, int64_t n) {
  const F& function = *static_cast<const F*>(f);
  const C* left = reinterpret_cast<const C*>(a.data);
  C* to = reinterpret_cast<C*>(out);
  if constexpr (std::is_invocable_v<const F&, C, C>) {
    const C* right = reinterpret_cast<const C*>(b.data);
    for (int64_t i = 0; i < n; ++i) to[i] = function(left[i * a.step], right[i * b.step]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = function(left[i]);
  }
}

// What map does once its loop is known; the operands have the dtype.
Tensor run_loop(const Tensor& x, DType dtype, const void* f, Loop loop);
Tensor run_loop(const Tensor& a, const Tensor& b, const Shape& sizes, DType dtype, const void* f, Loop loop);

// f of every element of a tensor of C, as a new tensor of C.
template <class C, class F> Tensor map(const Tensor& x, const F& f) {
  return run_loop(x, DTypeOf<C>::value, &f, loop_over<C, F>);
}

// f of every pair of elements of two tensors of C, broadcast to `sizes`, as a new tensor of C.
template <class C, class F> Tensor map(const Tensor& a, const Tensor& b, const Shape& sizes, const F& f) {
  return run_loop(a, b, sizes, DTypeOf<C>::value, &f, loop_over<C, F>);
}

// A function compiled for the types that it needs. Without f32 it computes floats in f64, whose result rounds to the
// same f32 where the function is one exact or correctly rounded step; without s64 it takes no integers, without u64 no
// uint64.
struct Loops {
  Loop f32, f64, s64, u64 = nullptr;
};
template <class F> inline constexpr Loops kLoops{loop_over<float, F>, loop_over<double, F>, loop_over<int64_t, F>};
template <class F> inline constexpr Loops kFloatLoops{loop_over<float, F>, loop_over<double, F>, nullptr};
template <class F> inline constexpr Loops kWideLoops{nullptr, loop_over<double, F>, loop_over<int64_t, F>};
template <class F>
inline constexpr Loops kNumberLoops{nullptr, loop_over<double, F>, loop_over<int64_t, F>, loop_over<uint64_t, F>};
template <class F> inline constexpr Loops kDoubleLoops{nullptr, loop_over<double, F>, nullptr};

// f of every element in the computing type of `compute`, as a tensor of `out`.
Tensor run_loops(const Tensor& x, DType compute, DType out, const void* f, const Loops& loops);
// The same of pairs, broadcast against each other.
Tensor run_loops(const Tensor& a, const Tensor& b, DType compute, DType out, const void* f, const Loops& loops);

// The argument as a tensor: itself, or a number as a 0-d f64 or s64 tensor.
Tensor operand(const Call<Tensor>& call, size_t i);

// What rms_norm adds where eps is None: the machine epsilon of the dtype in which PyTorch computes.
double rms_norm_eps(DType dtype);
// (sum |x|^p)^(1/p); p = inf: the largest, -inf: the smallest, 0: how many are not 0.
double p_norm(const double* x, int64_t n, double p);

// An operator on self that writes its result to self's bytes and returns self. The functional form may return any float
// for a float self, but not a float for an integer self.
Value store_in_self(const Call<Tensor>& call, const Tensor& result);
// The result of the functional form, stored in self.
Value eval_in_place(const Call<Tensor>& call);
template <Eval F> Value in_place(const Call<Tensor>& call) {
  const Value value = F(call);
  return store_in_self(call, *value.get_if<Tensor>());
}

// The form with bytes of its own that functionalization makes of a view.
template <Eval F> Value copied(const Call<Tensor>& call) { return F(call).template get_if<Tensor>()->clone(); }

// A tensor as a matrix whose rows run over the given axes (in order) and whose columns over the others': [outer,
// inner], C order.
struct Rows {
  Tensor data;
  int64_t outer = 1, inner = 1;
};
Rows rows_along(const Tensor& x, const std::vector<size_t>& axes);

// Element i along the axis is element source[i] of x; where source[i] is negative, it is `fill`.
Tensor take(const Tensor& x, int64_t axis, const std::vector<int64_t>& source, double fill = 0);

}  // namespace qdq
