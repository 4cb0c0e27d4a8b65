// Trigonometric and hyperbolic functions, their inverses, and other bases than e; in double, in vectors of any width,
// and rounded once.

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

constexpr double kPi = 0x1.921fb54442d18p+1;
// The angle whose tangent is y / x, of two numbers that are not negative: of the part that is left of it once twice
// atan(t) = 2 atan(t / (1 + sqrt(1 + t^2))) was taken twice.
HWY_INLINE VW angle_of(VW y, VW x) {
  constexpr double kSeries[] = {1.0, -1 / 3.0, 1 / 5.0, -1 / 7.0, 1 / 9.0, -1 / 11.0, 1 / 13.0, -1 / 15.0};
  const VW one = wide(1);
  const auto is_large = hn::Gt(y, x);
  VW t = hn::Div(hn::IfThenElse(is_large, x, y), hn::IfThenElse(is_large, y, x));
  for (int i = 0; i < 2; ++i) t = hn::Div(t, hn::Add(one, hn::Sqrt(hn::Add(one, hn::Mul(t, t)))));
  const VW angle = hn::Mul(hn::Mul(wide(4), t), polynomial(W(), hn::Mul(t, t), kSeries));
  return hn::IfThenElse(is_large, hn::Sub(wide(kPi / 2), angle), angle);
}
HWY_INLINE VW atan_of(VW x) { return hn::CopySign(angle_of(hn::Abs(x), wide(1)), x); }

void atan_run(const float* x, int64_t n, float* out) {
  map(x, n, out, [](VW v) HWY_ATTR { return atan_of(v); });
}
// Two zeros have the angle 0, two infinities that of two ones; both may be turned by the sign of x.
void atan2_run(const float* y, const float* x, int64_t n, float* out) {
  const WF df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto angle = [](hn::Vec<WF> b, hn::Vec<WF> a) HWY_ATTR {
    const VW v = hn::PromoteTo(W(), b), u = hn::PromoteTo(W(), a), most = wide(std::numeric_limits<double>::max());
    const auto is_number = hn::And(hn::Eq(u, u), hn::Eq(v, v));
    // Infinities become the same large number, a zero beside a zero the other 1.
    const VW up = hn::Min(hn::Abs(v), most), across = hn::Min(hn::Abs(u), most);
    const auto both_zero = hn::Eq(hn::Max(up, across), wide(0));
    const VW size = angle_of(up, hn::IfThenElse(both_zero, wide(1), across));
    const VW turned = hn::IfThenElse(hn::Lt(hn::CopySign(wide(1), u), wide(0)), hn::Sub(wide(kPi), size), size);
    return hn::DemoteTo(WF(), hn::IfThenElse(is_number, hn::CopySign(turned, v), not_a_number()));
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(angle(hn::LoadU(df, y + i), hn::LoadU(df, x + i)), df, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(angle(hn::LoadN(df, y + i, rest), hn::LoadN(df, x + i, rest)), df, out + i, rest);
}
// exp(-x^2) times a polynomial of (|x| - 3) / (|x| + 3), a minimax fit within 1.4e-9 of exp(x^2) erfc(x) up to 10.2,
// from where on the result is 0; x^2 is exact.
void erfc_run(const float* x, int64_t n, float* out) {
  constexpr double kScaled[] = {0x1.6e9827d507714p-3,  -0x1.4e102bddfe661p-2, 0x1.f6ff1fb256ed9p-3,
                                -0x1.336fe72bbb081p-3, 0x1.258b1af1fa3c0p-4,  -0x1.8facd2b2764d9p-6,
                                0x1.17c3dab07cf38p-8,  0x1.773fc17f854f8p-11, -0x1.37b9c337c38e0p-11,
                                0x1.e48a057004500p-16, 0x1.d50f0aee25400p-15};
  map(x, n, out, [&](VW v) HWY_ATTR {
    const VW size = hn::Abs(v), three = wide(3);
    const VW z = hn::Div(hn::Sub(size, three), hn::Add(size, three));
    const VW value = hn::Mul(wide_exp(hn::Neg(hn::Mul(v, v))), polynomial(W(), z, kScaled));
    const VW tail = hn::IfThenZeroElse(hn::Gt(size, wide(10.2)), value);
    return hn::IfThenElse(hn::Lt(v, wide(0)), hn::Sub(wide(2), tail), tail);
  });
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
HWY_EXPORT(atan2_run);
HWY_EXPORT(erfc_run);
HWY_EXPORT(asin_run);
HWY_EXPORT(acos_run);
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

void atan_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(atan_run)); }
void atan2_f32(const float* y, const float* x, int64_t n, float* out) {
  parallel_for(n, int64_t{1} << 13, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(atan2_run)(y + begin, x + begin, end - begin, out + begin);
  });
}
void erfc_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(erfc_run)); }
void asin_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(asin_run)); }
void acos_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(acos_run)); }
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
void sinh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(sinh_run)); }
void cosh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(cosh_run)); }
void asinh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(asinh_run)); }
void acosh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(acosh_run)); }
void atanh_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(atanh_run)); }

}  // namespace qdq::kernel
#endif
