// Trigonometric and hyperbolic functions, their inverses, and other bases than e; in double, in vectors of any width,
// and rounded once.
#include <algorithm>

#include "base/parallel.h"
#include "kernel/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/trigonometric_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/wide_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The rest of an array goes through a vector as well.
template <class F> HWY_INLINE void map(const float* x, int64_t n, float* out, F&& f) {
  const WF df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto one = [&](hn::Vec<WF> v) HWY_ATTR { return hn::DemoteTo(WF(), f(hn::PromoteTo(W(), v))); };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(one(hn::LoadU(df, x + i)), df, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(one(hn::LoadN(df, x + i, rest)), df, out + i, rest);
}

HWY_INLINE VW not_a_number() { return wide(std::numeric_limits<double>::quiet_NaN()); }
// Near 0, where a formula through an exponential or a logarithm would lose digits: x + cubic x^3 + fifth x^5.
HWY_INLINE VW near_zero(VW x, double cubic, double fifth) {
  const VW square = hn::Mul(x, x), more = hn::Add(wide(cubic), hn::Mul(square, wide(fifth)));
  return hn::Add(x, hn::Mul(hn::Mul(x, square), more));
}
HWY_INLINE VW small_or(VW x, VW small, VW value) {
  return hn::IfThenElse(hn::Lt(hn::Abs(x), wide(0.01)), small, value);
}

// Of the part that is left of x once twice atan(t) = 2 atan(t / (1 + sqrt(1 + t^2))) was taken twice.
HWY_INLINE VW atan_of(VW x) {
  constexpr double kSeries[] = {1.0, -1 / 3.0, 1 / 5.0, -1 / 7.0, 1 / 9.0, -1 / 11.0, 1 / 13.0, -1 / 15.0};
  const VW size = hn::Abs(x), one = wide(1);
  const auto is_large = hn::Gt(size, one);
  VW t = hn::IfThenElse(is_large, hn::Div(one, size), size);
  for (int i = 0; i < 2; ++i) t = hn::Div(t, hn::Add(one, hn::Sqrt(hn::Add(one, hn::Mul(t, t)))));
  const VW angle = hn::Mul(hn::Mul(wide(4), t), polynomial(W(), hn::Mul(t, t), kSeries));
  return hn::CopySign(hn::IfThenElse(is_large, hn::Sub(wide(0x1.921fb54442d18p+0), angle), angle), x);
}

void atan_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR { return atan_of(v); });
}
void asin_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR {
    const VW one = wide(1), other = hn::Sqrt(hn::Mul(hn::Sub(one, v), hn::Add(one, v)));
    return atan_of(hn::Div(v, other));
  });
}
void acos_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR {
    const VW one = wide(1), half = hn::Sqrt(hn::Div(hn::Sub(one, v), hn::Add(one, v)));
    return hn::Mul(wide(2), atan_of(half));
  });
}
void exp2_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR { return wide_exp(hn::Mul(v, wide(0x1.62e42fefa39efp-1))); });
}
// log(x) times a factor.
void log_run(const float* x, int64_t n, double factor, float* out) {
  map(x, n, out, [&](VW v) HWY_ATTR {
    return hn::IfThenElse(hn::Ge(v, wide(0)), hn::Mul(wide_log(v), wide(factor)), not_a_number());
  });
}
void sinh_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR {
    const VW power = wide_exp(v), large = hn::Mul(wide(0.5), hn::Sub(power, hn::Div(wide(1), power)));
    return small_or(v, near_zero(v, 1 / 6.0, 1 / 120.0), large);
  });
}
void cosh_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR {
    const VW power = wide_exp(v);
    return hn::Mul(wide(0.5), hn::Add(power, hn::Div(wide(1), power)));
  });
}
void asinh_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR {
    const VW size = hn::Abs(v), root = hn::Sqrt(hn::Add(hn::Mul(v, v), wide(1)));
    return hn::CopySign(small_or(v, near_zero(v, -1 / 6.0, 3 / 40.0), wide_log(hn::Add(size, root))), v);
  });
}
void acosh_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR {
    const VW root = hn::Sqrt(hn::Sub(hn::Mul(v, v), wide(1)));
    return hn::IfThenElse(hn::Ge(v, wide(1)), wide_log(hn::Add(v, root)), not_a_number());
  });
}
void atanh_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR {
    const VW ratio = hn::Div(hn::Add(wide(1), v), hn::Sub(wide(1), v)), value = hn::Mul(wide(0.5), wide_log(ratio));
    const VW any = small_or(v, near_zero(v, 1 / 3.0, 1 / 5.0), value);
    return hn::IfThenElse(hn::Le(hn::Abs(v), wide(1)), any, not_a_number());
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(atan_run);
HWY_EXPORT(asin_run);
HWY_EXPORT(acos_run);
HWY_EXPORT(exp2_run);
HWY_EXPORT(log_run);
HWY_EXPORT(sinh_run);
HWY_EXPORT(cosh_run);
HWY_EXPORT(asinh_run);
HWY_EXPORT(acosh_run);
HWY_EXPORT(atanh_run);

template <class Run> void in_threads(const float* x, int64_t n, float* out, Run run) {
  parallel_for(n, int64_t{1} << 13, [&](int64_t begin, int64_t end) { run(x + begin, end - begin, out + begin); });
}

}  // namespace

void atan_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(atan_run)); }
void asin_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(asin_run)); }
void acos_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(acos_run)); }
void exp2_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(exp2_run)); }
void log2_f32(const float* x, int64_t n, float* out) {
  in_threads(x, n, out, [](const float* from, int64_t count, float* to) {
    HWY_DYNAMIC_DISPATCH(log_run)(from, count, 0x1.71547652b82fep+0, to);
  });
}
void log10_f32(const float* x, int64_t n, float* out) {
  in_threads(x, n, out, [](const float* from, int64_t count, float* to) {
    HWY_DYNAMIC_DISPATCH(log_run)(from, count, 0x1.bcb7b1526e50ep-2, to);
  });
}
void sinh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(sinh_run)); }
void cosh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(cosh_run)); }
void asinh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(asinh_run)); }
void acosh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(acosh_run)); }
void atanh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(atanh_run)); }

}  // namespace qdq::kernel
#endif
