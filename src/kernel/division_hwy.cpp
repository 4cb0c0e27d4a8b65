// Rests of divisions of arrays: the formulas of division.h in vectors, and one by one where these do not hold.
#include "kernel/division.h"

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/division_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using DF = hn::Rebind<float, D>;
using VF = hn::Vec<DF>;

// of(x, y, rest) of the vectors in which every pair has a rest that double gives exactly, and one(x, y) of other pairs.
template <class Of, class One>
HWY_INLINE void run(const float* x, const float* y, int64_t n, float* out, Of&& of, One&& one) {
  const D d;
  const DF df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const VF u = hn::LoadU(df, x + i), v = hn::LoadU(df, y + i);
    const auto a = hn::PromoteTo(d, u), b = hn::PromoteTo(d, v), quotient = hn::Div(a, b);
    const auto is_small = hn::Lt(hn::Abs(quotient), hn::Set(d, 0x1p28)),
               is_finite = hn::Lt(hn::Abs(b), hn::Set(d, std::numeric_limits<double>::infinity()));
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::And(is_small, is_finite)))) {
      for (int64_t j = i; j < i + lanes; ++j) out[j] = one(x[j], y[j]);
      continue;
    }
    const VF rest = hn::DemoteTo(df, hn::Sub(a, hn::Mul(hn::Trunc(quotient), b)));
    hn::StoreU(of(u, v, hn::CopySign(rest, u)), df, out + i);
  }
  for (; i < n; ++i) out[i] = one(x[i], y[i]);
}

HWY_INLINE hn::Mask<DF> differs_in_sign(VF rest, VF y) {
  const VF zero = hn::Zero(DF());
  return hn::And(hn::Ne(rest, zero), hn::Xor(hn::Lt(y, zero), hn::Lt(rest, zero)));
}

void rest_run(const float* x, const float* y, int64_t n, float* out) {
  run(x, y, n, out, [](VF, VF, VF rest) HWY_ATTR { return rest; }, rest_of<float>);
}
void floor_rest_run(const float* x, const float* y, int64_t n, float* out) {
  const auto of = [](VF, VF v, VF rest)
                      HWY_ATTR { return hn::IfThenElse(differs_in_sign(rest, v), hn::Add(rest, v), rest); };
  run(x, y, n, out, of, floor_rest_of<float>);
}
void floor_quotient_run(const float* x, const float* y, int64_t n, float* out) {
  const auto of = [](VF u, VF v, VF rest) HWY_ATTR {
    const DF df;
    const VF one = hn::Set(df, 1.0f), zero = hn::Zero(df);
    const VF quotient = hn::Sub(hn::Div(hn::Sub(u, rest), v), hn::IfThenElseZero(differs_in_sign(rest, v), one));
    const VF floored = hn::Floor(quotient);
    const auto is_above = hn::Gt(hn::Sub(quotient, floored), hn::Set(df, 0.5f));
    const VF value = hn::Add(floored, hn::IfThenElseZero(is_above, one));
    return hn::IfThenElse(hn::Eq(quotient, zero), hn::CopySign(zero, hn::Div(u, v)), value);
  };
  run(x, y, n, out, of, floor_quotient_of<float>);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(rest_run);
HWY_EXPORT(floor_rest_run);
HWY_EXPORT(floor_quotient_run);

template <class Run> void in_threads(const float* x, const float* y, int64_t n, float* out, Run run) {
  parallel_for(n, int64_t{1} << 13,
               [&](int64_t begin, int64_t end) { run(x + begin, y + begin, end - begin, out + begin); });
}

}  // namespace

void rest_f32(const float* x, const float* y, int64_t n, float* out) { in_threads(x, y, n, out, QDQ_CHOSEN(rest_run)); }
void floor_rest_f32(const float* x, const float* y, int64_t n, float* out) {
  in_threads(x, y, n, out, QDQ_CHOSEN(floor_rest_run));
}
void floor_quotient_f32(const float* x, const float* y, int64_t n, float* out) {
  in_threads(x, y, n, out, QDQ_CHOSEN(floor_quotient_run));
}

}  // namespace qdq::kernel
#endif
