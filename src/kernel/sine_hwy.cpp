// Sine, cosine and tangent of arrays, in double and in vectors of any width: the bits of sine() of kernel/math_xsimd.h.
#include <algorithm>

#include "base/parallel.h"
#include "kernel/math.h"
#include "kernel/math_xsimd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/sine_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using DF = hn::Rebind<float, D>;
using VF = hn::Vec<DF>;

// first + s (c[0] + s (c[1] + ... + s / divisor)).
template <size_t n> HWY_INLINE V series(V s, double first, const double (&c)[n], double divisor) {
  const D d;
  V y = hn::Div(s, hn::Set(d, divisor));
  for (size_t i = n; i-- > 0;) y = hn::Mul(s, hn::Add(hn::Set(d, c[i]), y));
  return hn::Add(hn::Set(d, first), y);
}

constexpr int64_t kTangent = -1;  // in place of a quadrant

// Adding `shift` rounds to an integer, whose last bits are then those of the sum.
HWY_INLINE V sine_of(V x, int64_t quadrant) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V shift = hn::Set(d, 6755399441055744.0);
  const V shifted = hn::Add(hn::Mul(x, hn::Set(d, kQuarterTurns)), shift);
  const V turns = hn::Sub(shifted, shift);
  const V r = hn::Sub(hn::Sub(x, hn::Mul(turns, hn::Set(d, kQuarterTurn))), hn::Mul(turns, hn::Set(d, kQuarterRest)));
  const V s = hn::Mul(r, r);
  const V odd = hn::Mul(r, series(s, 1, kSineSeries, kSineDivisor)), even = series(s, 1, kCosineSeries, kCosineDivisor);
  const auto turn = hn::Add(hn::BitCast(di, shifted), hn::Set(di, std::max<int64_t>(quadrant, 0)));
  const auto is_cosine = hn::RebindMask(d, hn::TestBit(turn, hn::Set(di, 1)));
  if (quadrant == kTangent)
    return hn::Div(hn::IfThenElse(is_cosine, hn::Neg(even), odd), hn::IfThenElse(is_cosine, odd, even));
  const auto sign = hn::ShiftLeft<62>(hn::And(turn, hn::Set(di, 2)));
  return hn::Xor(hn::IfThenElse(is_cosine, even, odd), hn::BitCast(d, sign));
}

void sine_run(const float* x, int64_t n, int64_t quadrant, float* out) {
  const D d;
  const DF df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = std::min(lanes, n - i);
    const VF v = count == lanes ? hn::LoadU(df, x + i) : hn::LoadN(df, x + i, static_cast<size_t>(count));
    if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Le(hn::Abs(v), hn::Set(df, kMostSineArgument))))) {
      for (int64_t j = i; j < i + count; ++j)
        out[j] = quadrant == kTangent ? sine(x[j], 0) / sine(x[j], 1) : sine(x[j], quadrant);
      continue;
    }
    const VF y = hn::DemoteTo(df, sine_of(hn::PromoteTo(d, v), quadrant));
    if (count == lanes) hn::StoreU(y, df, out + i);
    else hn::StoreN(y, df, out + i, static_cast<size_t>(count));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {

HWY_EXPORT(sine_run);

namespace {
void sines(const float* x, int64_t n, int64_t quadrant, float* out) {
  parallel_for(n, int64_t{1} << 13, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sine_run)(x + begin, end - begin, quadrant, out + begin);
  });
}
}  // namespace

void sin_f32(const float* x, int64_t n, float* out) { sines(x, n, 0, out); }
void cos_f32(const float* x, int64_t n, float* out) { sines(x, n, 1, out); }
void tan_f32(const float* x, int64_t n, float* out) { sines(x, n, -1, out); }

}  // namespace qdq::kernel
#endif
