// Functions of kernel/math.h that take every argument in vectors of any width: each operation is that of four lanes.
#include <limits>

#include "base/parallel.h"
#include "kernel/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/transcendental_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/curve_hwy.h"
#include "kernel/wide_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;

HWY_INLINE V set(float value) { return hn::Set(D(), value); }
HWY_INLINE V infinity() { return set(std::numeric_limits<float>::infinity()); }
HWY_INLINE VI bits_of(V x) { return hn::BitCast(DI(), x); }
HWY_INLINE V of_bits(VI x) { return hn::BitCast(D(), x); }

// The rest of an array goes through a vector as well, so that an element's place does not change its value.
template <class F> HWY_INLINE void map(const float* x, int64_t n, float* out, F&& f) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(f(hn::LoadN(d, x + i, rest)), d, out + i, rest);
}

// A multiple of log 2 and the rest of x: x is k log 2 + rest, and k is rounded half to even.
constexpr float kLogHigh = 0.693359375f, kLogLow = -0.000212194442f;
HWY_INLINE V without_turns(V x, V& k) {
  k = hn::Sub(hn::Add(hn::Mul(set(1.44269504f), x), set(kRounder)), set(kRounder));
  return hn::Sub(hn::Sub(x, hn::Mul(k, set(kLogHigh))), hn::Mul(k, set(kLogLow)));
}
HWY_INLINE V times_power_of_two(V x, VI k) {
  return hn::Mul(x, of_bits(hn::ShiftLeft<23>(hn::Add(k, hn::Set(DI(), 127)))));
}

// exp(x): 0 below -88.376, infinite above 88.72; half of it is found for large x, where it is still finite.
constexpr float kMostLog = 88.3762626647949f;
HWY_INLINE V exp_any(V x) {
  constexpr float kPolynomial[] = {0.5f, 0.166662768f, 0.0416654013f, 0.00839556288f, 0.00139977958f};
  const auto is_high = hn::Gt(x, set(88.0f));
  const V reduced = hn::IfThenElse(is_high, hn::Sub(x, set(kLogHigh)), x);
  V k;
  const V r = without_turns(reduced, k);
  const V y = hn::Add(hn::Add(hn::Mul(polynomial(D(), r, kPolynomial), hn::Mul(r, r)), r), set(1));
  V value = times_power_of_two(y, hn::ConvertTo(DI(), k));
  value = hn::IfThenZeroElse(hn::Le(reduced, set(-kMostLog)), value);
  value = hn::IfThenElse(hn::Ge(reduced, set(kMostLog)), infinity(), value);
  return hn::IfThenElse(is_high, hn::Mul(value, set(2.0004244340270536f)), value);
}

// 2^x as 2^k times 2^r, -1/2 <= r <= 1/2, by a polynomial within 6e-9; 2^k in two halves, so that the last product
// rounds to numbers below the smallest normal one, 0 and infinity.
HWY_INLINE V exp2_any(V x) {
  constexpr float kPolynomial[] = {0x1.62e430p-1f, 0x1.ebfbe0p-3f,  0x1.c6af6cp-5f,
                                   0x1.3b2a54p-7f, 0x1.5f0890p-10f, 0x1.44138ap-13f};
  const V bounded = clamp_real(x, set(-200), set(200));
  const V k = hn::Sub(hn::Add(bounded, set(kRounder)), set(kRounder)), r = hn::Sub(bounded, k);
  const VI turns = hn::ConvertTo(DI(), k), half = hn::ShiftRight<1>(turns);
  const V near_one = hn::Add(hn::Mul(r, polynomial(D(), r, kPolynomial)), set(1));
  const V value = times_power_of_two(times_power_of_two(near_one, half), hn::Sub(turns, half));
  return hn::IfThenElse(hn::IsNaN(x), x, value);
}

HWY_INLINE V expm1_any(V x) {
  constexpr float kPolynomial[] = {1.0f, -0.0333332978f, 0.00158255408f};
  V k;
  const V r = without_turns(x, k), half = hn::Mul(r, set(0.5f)), square = hn::Mul(r, half);
  const V p = polynomial(D(), square, kPolynomial), t = hn::Sub(set(3), hn::Mul(p, half));
  V e = hn::Mul(square, hn::Div(hn::Sub(p, t), hn::Sub(set(6), hn::Mul(r, t))));
  e = hn::Sub(hn::Mul(r, e), square);
  const VI turns = hn::ConvertTo(DI(), k);
  const V less = of_bits(hn::ShiftLeft<23>(hn::Sub(hn::Set(DI(), 127), turns)));
  V value = times_power_of_two(hn::Sub(hn::Sub(set(1), less), hn::Sub(e, r)), turns);
  value = hn::IfThenElse(hn::Lt(x, set(-15.9423847f)), set(-1), value);
  return hn::IfThenElse(hn::Gt(x, set(88.0f)), exp_any(x), value);
}

// The bits of a positive normal number as 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2).
HWY_INLINE V fraction_of(VI bits, VI& k) {
  constexpr int kRootHalf = 0x3f3504f3;
  const VI shifted = hn::Add(bits, hn::Set(DI(), 0x3f800000 - kRootHalf));
  k = hn::Sub(hn::ShiftRight<23>(shifted), hn::Set(DI(), 127));
  return hn::Sub(of_bits(hn::Add(hn::And(shifted, hn::Set(DI(), 0x007fffff)), hn::Set(DI(), kRootHalf))), set(1));
}
// log(2^k (1 + f)) + correction.
HWY_INLINE V log_of_fraction(V f, V k, V correction) {
  constexpr float kOdd[] = {0.400009722f, 0.242790788f}, kEven[] = {0.666666627f, 0.284987867f};
  const V s = hn::Div(f, hn::Add(set(2), f)), z = hn::Mul(s, s), w = hn::Mul(z, z);
  const V r = hn::Add(hn::Mul(z, polynomial(D(), w, kEven)), hn::Mul(w, polynomial(D(), w, kOdd)));
  const V half_square = hn::Mul(hn::Mul(set(0.5f), f), f);
  const V inner = hn::Add(hn::Mul(s, hn::Add(half_square, r)), hn::Add(hn::Mul(k, set(kLogLow)), correction));
  return hn::Add(hn::Mul(k, set(kLogHigh)), hn::Add(hn::Sub(inner, half_square), f));
}
// What a logarithm gives where its argument is none: x is the argument, `given` what it was made of.
HWY_INLINE V log_or_special(V x, V given, V value) {
  value = hn::IfThenElse(hn::Eq(given, infinity()), infinity(), value);
  value = hn::IfThenElse(hn::Eq(x, set(0)), hn::Neg(infinity()), value);
  return hn::IfThenElse(hn::Ge(x, set(0)), value, set(std::numeric_limits<float>::quiet_NaN()));
}

HWY_INLINE V log_any(V x) {
  const auto is_small = hn::Lt(x, set(std::numeric_limits<float>::min()));
  const V normal = hn::IfThenElse(is_small, hn::Mul(x, set(8388608.0f)), x);
  VI k;
  const V f = fraction_of(bits_of(normal), k);
  const VI less = hn::IfThenElseZero(hn::RebindMask(DI(), is_small), hn::Set(DI(), 23));
  return log_or_special(x, x, log_of_fraction(f, hn::ConvertTo(D(), hn::Sub(k, less)), set(0)));
}

// 1 + x is rounded; what that takes off is added as its share of the logarithm.
HWY_INLINE V log1p_any(V x) {
  const V sum = hn::Add(x, set(1));
  VI k;
  const V f = fraction_of(bits_of(sum), k);
  const auto is_large = hn::RebindMask(D(), hn::Ge(k, hn::Set(DI(), 2)));
  const V lost = hn::IfThenElse(is_large, hn::Sub(set(1), hn::Sub(sum, x)), hn::Sub(x, hn::Sub(sum, set(1))));
  return log_or_special(sum, x, log_of_fraction(f, hn::ConvertTo(D(), k), hn::Div(lost, sum)));
}

// Below 5/8 a polynomial, beyond that 1 - 2 / (1 + exp(2 |x|)), which is 1 from 10 on.
HWY_INLINE V tanh_any(const float* c, V x) {
  constexpr float kPolynomial[] = {-0.333332807f, 0.133314416f, -0.0537397154f, 0.020639088f, -0.00570498873f};
  const V size = hn::Abs(x), square = hn::Mul(size, size);
  const V small = hn::Add(hn::Mul(hn::Mul(polynomial(D(), square, kPolynomial), square), size), size);
  const V bounded = hn::Min(size, set(20));
  const V power = exp_of_minus(D(), c, hn::Neg(hn::Add(bounded, bounded)));
  const V large = hn::Add(hn::Mul(set(-2), hn::Div(set(1), hn::Add(set(1), power))), set(1));
  const V value = hn::CopySign(hn::IfThenElse(hn::Lt(size, set(0.625f)), small, large), x);
  return hn::IfThenElse(hn::IsNaN(x), x, value);
}

// It is 1 from 4 on.
HWY_INLINE V erf_any(const float* c, const float* e, V x) {
  const V bounded = clamp_real(x, set(-8), set(8));
  return hn::IfThenElse(hn::IsNaN(x), x, erf_real(D(), c, e, bounded));
}

void expm1_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return expm1_any(v); });
}
void exp2_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return exp2_any(v); });
}
void log_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return log_any(v); });
}
void log1p_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return log1p_any(v); });
}
void tanh_run(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, [&](V v) HWY_ATTR { return tanh_any(c, v); });
}
void erf_run(const float* x, int64_t n, float* out) {
  const float *c = hidden(kExpConstants), *e = hidden(kErfConstants);
  map(x, n, out, [&](V v) HWY_ATTR { return erf_any(c, e, v); });
}
void gelu_run(const float* x, int64_t n, float* out) {
  const float *c = hidden(kExpConstants), *e = hidden(kErfConstants);
  map(x, n, out, [&](V v) HWY_ATTR {
    const V erf = erf_any(c, e, hn::Mul(v, set(0.70710678118654752f)));
    return hn::Mul(hn::Mul(v, set(0.5f)), hn::Add(set(1), erf));
  });
}
void gelu_tanh_run(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, [&](V v) HWY_ATTR {
    const V cube = hn::Mul(hn::Mul(v, v), v);
    const V inner = hn::Mul(set(0.79788456080286536f), hn::Add(v, hn::Mul(set(0.044715f), cube)));
    return hn::Mul(hn::Mul(set(0.5f), v), hn::Add(set(1), tanh_any(c, inner)));
  });
}
void mish_run(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, [&](V v) HWY_ATTR { return hn::Mul(v, tanh_any(c, log1p_any(exp_any(v)))); });
}
void softplus_run(const float* x, int64_t n, float beta, float threshold, float* out) {
  map(x, n, out, [&](V v) HWY_ATTR {
    const V scaled = hn::Mul(v, set(beta));
    return hn::IfThenElse(hn::Gt(scaled, set(threshold)), v, hn::Div(log1p_any(exp_any(scaled)), set(beta)));
  });
}
void elu_run(const float* x, int64_t n, float negative, float positive, float input_scale, float* out) {
  map(x, n, out, [&](V v) HWY_ATTR {
    return hn::IfThenElse(hn::Lt(v, set(0)), hn::Mul(expm1_any(hn::Mul(v, set(input_scale))), set(negative)),
                          hn::Mul(v, set(positive)));
  });
}

// Powers go through double, since the rounding of y log(x) is multiplied by the result.
// 1 for y = 0 and for x = 1 whatever the other is; NaN for a negative x unless y is an integer or infinite.
HWY_INLINE VW power_of(VW x, VW y) {
  const VW zero = wide(0), one = wide(1), infinity = wide(std::numeric_limits<double>::infinity());
  const auto is_negative = hn::Lt(x, zero), is_zero = hn::Eq(x, zero);
  const auto y_is_infinite = hn::Eq(hn::Abs(y), infinity);
  const VW half = hn::Mul(y, wide(0.5));
  const auto is_integer = hn::Eq(hn::Trunc(y), y), is_even = hn::Eq(hn::Trunc(half), half);
  VW value = wide_exp(hn::Mul(y, wide_log(hn::Abs(x))));
  value = hn::IfThenZeroElse(hn::And(is_zero, hn::Ge(y, zero)), value);
  value = hn::IfThenElse(hn::AndNot(is_even, hn::And(is_integer, is_negative)), hn::Neg(value), value);
  const auto is_real = hn::Or(hn::Or(is_integer, y_is_infinite), hn::Not(is_negative));
  value = hn::IfThenElse(is_real, value, wide(std::numeric_limits<double>::quiet_NaN()));
  const auto is_minus_one = hn::And(hn::Eq(x, wide(-1)), y_is_infinite);
  return hn::IfThenElse(hn::Or(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), is_minus_one), one, value);
}

void pow_run(const float* x, const float* y, int64_t n, float* out) {
  const WF df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto power = [](hn::Vec<WF> a, hn::Vec<WF> b) HWY_ATTR {
    return hn::DemoteTo(WF(), power_of(hn::PromoteTo(W(), a), hn::PromoteTo(W(), b)));
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(power(hn::LoadU(df, x + i), hn::LoadU(df, y + i)), df, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(power(hn::LoadN(df, x + i, rest), hn::LoadN(df, y + i, rest)), df, out + i, rest);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(expm1_run);
HWY_EXPORT(exp2_run);
HWY_EXPORT(log_run);
HWY_EXPORT(log1p_run);
HWY_EXPORT(tanh_run);
HWY_EXPORT(erf_run);
HWY_EXPORT(gelu_run);
HWY_EXPORT(gelu_tanh_run);
HWY_EXPORT(mish_run);
HWY_EXPORT(softplus_run);
HWY_EXPORT(elu_run);
HWY_EXPORT(pow_run);

// Calls run(begin, count) on ranges worth a thread.
template <class Run> void for_ranges(int64_t n, Run&& run) {
  parallel_for(n, int64_t{1} << 14, [&](int64_t begin, int64_t end) { run(begin, end - begin); });
}

}  // namespace

void expm1_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(expm1_run)(x + i, count, out + i); });
}
void exp2_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(exp2_run)(x + i, count, out + i); });
}
void log_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(log_run)(x + i, count, out + i); });
}
void log1p_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(log1p_run)(x + i, count, out + i); });
}
void tanh_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(tanh_run)(x + i, count, out + i); });
}
void erf_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(erf_run)(x + i, count, out + i); });
}
void gelu_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(gelu_run)(x + i, count, out + i); });
}
void gelu_tanh_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(gelu_tanh_run)(x + i, count, out + i); });
}
void mish_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(mish_run)(x + i, count, out + i); });
}
void softplus_f32(const float* x, int64_t n, float beta, float threshold, float* out) {
  for_ranges(
      n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(softplus_run)(x + i, count, beta, threshold, out + i); });
}
void elu_f32(const float* x, int64_t n, float alpha, float scale, float input_scale, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) {
    HWY_DYNAMIC_DISPATCH(elu_run)(x + i, count, alpha * scale, scale, input_scale, out + i);
  });
}
void pow_f32(const float* x, const float* y, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(pow_run)(x + i, y + i, count, out + i); });
}

}  // namespace qdq::kernel
#endif
