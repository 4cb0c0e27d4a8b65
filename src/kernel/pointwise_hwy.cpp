// Exact float arithmetic on contiguous arrays in vectors.
#include "kernel/pointwise.h"

#include <algorithm>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/pointwise_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/curve_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The rest of an array goes through a vector as well, so that it takes the same operations.
template <class F> HWY_INLINE void map(const float* x, int64_t n, float* out, F&& f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, out + i);
  const size_t rest = static_cast<size_t>(n - i);
  if (rest) hn::StoreN(f(hn::LoadN(d, x + i, rest)), d, out + i, rest);
}

template <class F> HWY_INLINE void map2(const float* a, const float* b, int64_t n, float* out, F&& f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  const size_t rest = static_cast<size_t>(n - i);
  if (rest) hn::StoreN(f(hn::LoadN(d, a + i, rest), hn::LoadN(d, b + i, rest)), d, out + i, rest);
}

void relu(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(D())), v); });
}
void clamp_run(const float* x, int64_t n, float lo, float hi, float* out) {
  const V low = hn::Set(D(), lo), high = hn::Set(D(), hi);
  map(x, n, out, [&](V v) HWY_ATTR { return clamp_real(v, low, high); });
}
void add(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](V u, V v) HWY_ATTR { return hn::Add(u, v); });
}
void sub(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](V u, V v) HWY_ATTR { return hn::Sub(u, v); });
}
void mul(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](V u, V v) HWY_ATTR { return hn::Mul(u, v); });
}
void div(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](V u, V v) HWY_ATTR { return hn::Div(u, v); });
}
void add_scalar(const float* x, float s, int64_t n, float* out) {
  const V sv = hn::Set(D(), s);
  map(x, n, out, [&](V v) HWY_ATTR { return hn::Add(v, sv); });
}
void mul_scalar(const float* x, float s, int64_t n, float* out) {
  const V sv = hn::Set(D(), s);
  map(x, n, out, [&](V v) HWY_ATTR { return hn::Mul(v, sv); });
}
void add_scaled(const float* a, const float* b, float alpha, int64_t n, float* out) {
  const V factor = hn::Set(D(), alpha);
  map2(a, b, n, out, [&](V u, V v) HWY_ATTR { return hn::Add(u, hn::Mul(factor, v)); });
}
void hardsigmoid(const float* x, int64_t n, float* out) {
  const Hard<D> hard;
  map(x, n, out, [&](V v) HWY_ATTR { return hard.sigmoid(v); });
}
void hardswish(const float* x, int64_t n, float* out) {
  const Hard<D> hard;
  map(x, n, out, [&](V v) HWY_ATTR { return hard.swish(v); });
}
void leaky_relu(const float* x, int64_t n, float slope, float* out) {
  const V factor = hn::Set(D(), slope);
  map(x, n, out, [&](V v) HWY_ATTR { return hn::IfThenElse(hn::Gt(v, hn::Zero(D())), v, hn::Mul(v, factor)); });
}
void threshold(const float* x, int64_t n, float bound, float value, float* out) {
  const V most = hn::Set(D(), bound), other = hn::Set(D(), value);
  map(x, n, out, [&](V v) HWY_ATTR { return hn::IfThenElse(hn::Le(v, most), other, v); });
}
void larger(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](V u, V v) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::IsNaN(u), hn::Gt(u, v)), u, v); });
}
void smaller(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](V u, V v) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::IsNaN(u), hn::Lt(u, v)), u, v); });
}
void prelu(const float* x, const float* slope, int64_t n, float* out) {
  map2(x, slope, n, out, [](V u, V v) HWY_ATTR { return hn::IfThenElse(hn::Gt(u, hn::Zero(D())), u, hn::Mul(u, v)); });
}
void root(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::Sqrt(v); });
}
void inverse(const float* x, int64_t n, float* out) {
  const V one = hn::Set(D(), 1.0f);
  map(x, n, out, [&](V v) HWY_ATTR { return hn::Div(one, v); });
}
void negative(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::Neg(v); });
}
void absolute(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::Abs(v); });
}
void nearest(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::Round(v); });
}
void integer_below(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::Floor(v); });
}
void integer_above(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::Ceil(v); });
}
void integer_part(const float* x, int64_t n, float* out) {
  map(x, n, out, [](V v) HWY_ATTR { return hn::Trunc(v); });
}
void sign(const float* x, int64_t n, float* out) {
  const V zero = hn::Zero(D()), one = hn::Set(D(), 1.0f);
  map(x, n, out, [&](V v) HWY_ATTR {
    return hn::Sub(hn::IfThenElseZero(hn::Gt(v, zero), one), hn::IfThenElseZero(hn::Lt(v, zero), one));
  });
}
void near_silu(const float* x, int64_t n, float* out) {
  const NearSilu<D> silu;
  map(x, n, out, [&](V v) HWY_ATTR { return silu(v); });
}
void scale_shift(const float* x, int64_t n, float scale, float shift, float* out) {
  const V factor = hn::Set(D(), scale), summand = hn::Set(D(), shift);
  map(x, n, out, [&](V v) HWY_ATTR { return hn::Add(hn::Mul(v, factor), summand); });
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(relu);
HWY_EXPORT(clamp_run);
HWY_EXPORT(add);
HWY_EXPORT(sub);
HWY_EXPORT(mul);
HWY_EXPORT(div);
HWY_EXPORT(add_scalar);
HWY_EXPORT(mul_scalar);
HWY_EXPORT(add_scaled);
HWY_EXPORT(hardsigmoid);
HWY_EXPORT(hardswish);
HWY_EXPORT(leaky_relu);
HWY_EXPORT(threshold);
HWY_EXPORT(larger);
HWY_EXPORT(smaller);
HWY_EXPORT(prelu);
HWY_EXPORT(root);
HWY_EXPORT(inverse);
HWY_EXPORT(negative);
HWY_EXPORT(absolute);
HWY_EXPORT(nearest);
HWY_EXPORT(integer_below);
HWY_EXPORT(integer_above);
HWY_EXPORT(integer_part);
HWY_EXPORT(sign);
HWY_EXPORT(near_silu);
HWY_EXPORT(scale_shift);

// Calls body(begin, count) on ranges worth a thread.
template <class Body> void for_ranges(int64_t n, Body&& body) {
  parallel_for(n, int64_t{1} << 16, [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

}  // namespace

void relu_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(relu)(x + i, count, out + i); });
}
void clamp_f32(const float* x, int64_t n, float lo, float hi, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(clamp_run)(x + i, count, lo, hi, out + i); });
}
void add_f32(const float* a, const float* b, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(add)(a + i, b + i, count, out + i); });
}
void sub_f32(const float* a, const float* b, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(sub)(a + i, b + i, count, out + i); });
}
void mul_f32(const float* a, const float* b, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(mul)(a + i, b + i, count, out + i); });
}
void div_f32(const float* a, const float* b, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(div)(a + i, b + i, count, out + i); });
}
void add_scalar_f32(const float* x, float s, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(add_scalar)(x + i, s, count, out + i); });
}
void mul_scalar_f32(const float* x, float s, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(mul_scalar)(x + i, s, count, out + i); });
}
void add_scaled_f32(const float* a, const float* b, float alpha, int64_t n, float* out) {
  for_ranges(n,
             [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(add_scaled)(a + i, b + i, alpha, count, out + i); });
}
void hardsigmoid_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(hardsigmoid)(x + i, count, out + i); });
}
void hardswish_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(hardswish)(x + i, count, out + i); });
}
void leaky_relu_f32(const float* x, int64_t n, float slope, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(leaky_relu)(x + i, count, slope, out + i); });
}
void threshold_f32(const float* x, int64_t n, float bound, float value, float* out) {
  for_ranges(n,
             [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(threshold)(x + i, count, bound, value, out + i); });
}
void near_silu_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(near_silu)(x + i, count, out + i); });
}
void maximum_f32(const float* a, const float* b, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(larger)(a + i, b + i, count, out + i); });
}
void minimum_f32(const float* a, const float* b, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(smaller)(a + i, b + i, count, out + i); });
}
void prelu_f32(const float* a, const float* b, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(prelu)(a + i, b + i, count, out + i); });
}
void sqrt_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(root)(x + i, count, out + i); });
}
void reciprocal_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(inverse)(x + i, count, out + i); });
}
void neg_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(negative)(x + i, count, out + i); });
}
void abs_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(absolute)(x + i, count, out + i); });
}
void round_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(nearest)(x + i, count, out + i); });
}
void floor_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(integer_below)(x + i, count, out + i); });
}
void ceil_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(integer_above)(x + i, count, out + i); });
}

void trunc_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(integer_part)(x + i, count, out + i); });
}
void sign_f32(const float* x, int64_t n, float* out) {
  for_ranges(n, [&](int64_t i, int64_t count) { HWY_DYNAMIC_DISPATCH(sign)(x + i, count, out + i); });
}

void scale_channels_f32(const float* x, int64_t outer, int64_t channels, int64_t inner, const float* scale,
                        const float* shift, float* out) {
  if (inner == 1) {  // the channels are the rows, as behind a linear layer
    parallel_for(outer, std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(channels, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     float* to = out + row * channels;
                     HWY_DYNAMIC_DISPATCH(mul)(x + row * channels, scale, channels, to);
                     if (shift) HWY_DYNAMIC_DISPATCH(add)(to, shift, channels, to);
                   }
                 });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(inner, 1));
  parallel_for(outer * channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* from = x + i * inner;
      float* to = out + i * inner;
      if (shift) {
        HWY_DYNAMIC_DISPATCH(scale_shift)(from, inner, scale[i % channels], shift[i % channels], to);
      } else {
        HWY_DYNAMIC_DISPATCH(mul_scalar)(from, scale[i % channels], inner, to);
      }
    }
  });
}

}  // namespace qdq::kernel
#endif
