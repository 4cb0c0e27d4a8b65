// Exponentials and logarithms of doubles that were floats; included by the room's Highway files after hwy/highway.h,
// once a target.
#if defined(QDQ_KERNEL_WIDE_HWY_H) == defined(HWY_TARGET_TOGGLE)
#ifdef QDQ_KERNEL_WIDE_HWY_H
#undef QDQ_KERNEL_WIDE_HWY_H
#else
#define QDQ_KERNEL_WIDE_HWY_H
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// c[0] + x (c[1] + x (...)).
template <class DT, class T, size_t n> HWY_INLINE hn::Vec<DT> polynomial(DT d, hn::Vec<DT> x, const T (&c)[n]) {
  auto y = hn::Set(d, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) y = hn::Add(hn::Mul(x, y), hn::Set(d, c[i]));
  return y;
}

using W = hn::ScalableTag<double>;
using VW = hn::Vec<W>;
using WI = hn::RebindToUnsigned<W>;
using WF = hn::Rebind<float, W>;
constexpr double kWideLogHigh = 0x1.62e42fee00000p-1, kWideLogLow = 0x1.a39ef35793c76p-33;
// 1.5 * 2^52: a sum with it is rounded to an integer that its bits show.
constexpr double kWideRounder = 6755399441055744.0;

HWY_INLINE VW wide(double value) { return hn::Set(W(), value); }

// log(x) of a positive number that was a float, so that it is normal; -infinity for 0, infinity and NaN for themselves.
HWY_INLINE VW wide_log(VW x) {
  constexpr double kOdd[] = {0x1.999999997fa04p-2, 0x1.c71c51d8e78afp-3, 0x1.39a09d078c69fp-3},
                   kEven[] = {0x1.5555555555593p-1, 0x1.2492494229359p-2, 0x1.7466496cb03dep-3, 0x1.2f112df3e5244p-3};
  constexpr uint64_t kRootHalf = uint64_t{0x3fe6a09e} << 32;
  const WI di;
  const auto shifted = hn::Add(hn::BitCast(di, x), hn::Set(di, (uint64_t{0x3ff00000} << 32) - kRootHalf));
  const auto whole = hn::Sub(hn::ShiftRight<52>(shifted), hn::Set(di, 1023));
  const VW k = hn::Sub(hn::BitCast(W(), hn::Add(whole, hn::BitCast(di, wide(kWideRounder)))), wide(kWideRounder));
  const auto bits = hn::Add(hn::And(shifted, hn::Set(di, (uint64_t{1} << 52) - 1)), hn::Set(di, kRootHalf));
  const VW f = hn::Sub(hn::BitCast(W(), bits), wide(1));
  const VW half_square = hn::Mul(hn::Mul(wide(0.5), f), f), s = hn::Div(f, hn::Add(wide(2), f));
  const VW z = hn::Mul(s, s), w = hn::Mul(z, z);
  const VW r = hn::Add(hn::Mul(z, polynomial(W(), w, kEven)), hn::Mul(w, polynomial(W(), w, kOdd)));
  const VW inner = hn::Add(hn::Mul(s, hn::Add(half_square, r)), hn::Mul(k, wide(kWideLogLow)));
  VW value = hn::Add(hn::Mul(k, wide(kWideLogHigh)), hn::Add(hn::Sub(inner, half_square), f));
  const VW infinity = wide(std::numeric_limits<double>::infinity());
  value = hn::IfThenElse(hn::Eq(x, wide(0)), hn::Neg(infinity), value);
  return hn::IfThenElse(hn::Lt(x, infinity), value, x);
}

HWY_INLINE VW wide_exp(VW x) {
  constexpr double kPolynomial[] = {0x1.555555555553ep-3, -0x1.6c16c16bebd93p-9, 0x1.1566aaf25de2cp-14,
                                    -0x1.bbd41c5d26bf1p-20, 0x1.6376972bea4d0p-25};
  const WI di;
  const VW turns = hn::Add(hn::Mul(wide(1.4426950408889634074), x), wide(kWideRounder));
  const VW k = hn::Sub(turns, wide(kWideRounder));
  const VW high = hn::Sub(x, hn::Mul(k, wide(kWideLogHigh))), low = hn::Mul(k, wide(kWideLogLow));
  const VW r = hn::Sub(high, low), square = hn::Mul(r, r);
  const VW c = hn::Sub(r, hn::Mul(square, polynomial(W(), square, kPolynomial)));
  const VW near_one = hn::Sub(wide(1), hn::Sub(hn::Sub(low, hn::Div(hn::Mul(r, c), hn::Sub(wide(2), c))), high));
  // The low bits of the sum with kWideRounder are k.
  const auto power = hn::ShiftLeft<52>(hn::Add(hn::BitCast(di, turns), hn::Set(di, 1023)));
  VW value = hn::Mul(near_one, hn::BitCast(W(), power));
  value = hn::IfThenZeroElse(hn::Le(x, wide(-708.3964185322641)), value);
  return hn::IfThenElse(hn::Ge(x, wide(709.78271289338400)), wide(std::numeric_limits<double>::infinity()), value);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#endif
