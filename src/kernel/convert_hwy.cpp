#include "kernel/convert.h"

#include <algorithm>
#include <limits>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/convert_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DB = hn::Rebind<uint8_t, DF>;
using DS = hn::Rebind<int8_t, DF>;

// As many elements as a vector of floats has, and the rest through a vector, too.
template <class DIn, class In, class DOut, class Out, class F>
HWY_INLINE void map(DIn din, const In* x, int64_t n, DOut dout, Out* out, F&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(DF()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(din, x + i)), dout, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(f(hn::LoadN(din, x + i, rest)), dout, out + i, rest);
}

HWY_INLINE hn::Mask<DF> fits_int32(hn::Vec<DF> x) {
  const DF d;
  return hn::And(hn::Ge(x, hn::Set(d, -0x1p31f)), hn::Lt(x, hn::Set(d, 0x1p31f)));
}
HWY_INLINE hn::Vec<DI> integers(hn::Vec<DF> x) {
  const DI d;
  const auto fits = fits_int32(x);
  const auto numbers = hn::ConvertTo(d, hn::IfThenElseZero(fits, x));
  return hn::IfThenElse(hn::RebindMask(d, fits), numbers, hn::Set(d, std::numeric_limits<int32_t>::min()));
}

void to_int32(const float* x, int64_t n, int32_t* out) {
  map(DF(), x, n, DI(), out, [](hn::Vec<DF> floats) HWY_ATTR { return integers(floats); });
}
void to_bytes(const float* x, int64_t n, uint8_t* out) {
  const hn::RebindToUnsigned<DI> d;
  map(DF(), x, n, DB(), out,
      [&](hn::Vec<DF> floats) HWY_ATTR { return hn::TruncateTo(DB(), hn::BitCast(d, integers(floats))); });
}
void to_bools(const float* x, int64_t n, uint8_t* out) {
  const hn::RebindToUnsigned<DI> d;
  map(DF(), x, n, DB(), out, [&](hn::Vec<DF> floats) HWY_ATTR {
    const auto is_zero = hn::RebindMask(d, hn::Eq(floats, hn::Zero(DF())));
    return hn::TruncateTo(DB(), hn::IfThenElse(is_zero, hn::Zero(d), hn::Set(d, 1)));
  });
}

int64_t wide_integer(float x) {
  return x >= -0x1p63f && x < 0x1p63f ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}
// By way of int32 where that holds all of a vector.
void to_int64(const float* x, int64_t n, int64_t* out) {
  const DF d;
  const hn::RepartitionToWide<DI> wide;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), half = lanes / 2;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto floats = hn::LoadU(d, x + i);
    if (hn::AllTrue(d, fits_int32(floats))) {
      const auto numbers = hn::ConvertTo(DI(), floats);
      hn::StoreU(hn::PromoteLowerTo(wide, numbers), wide, out + i);
      hn::StoreU(hn::PromoteUpperTo(wide, numbers), wide, out + i + half);
    } else {
      std::transform(x + i, x + i + lanes, out + i, wide_integer);
    }
  }
  std::transform(x + i, x + n, out + i, wide_integer);
}

void from_int32(const int32_t* x, int64_t n, float* out) {
  map(DI(), x, n, DF(), out, [](hn::Vec<DI> v) HWY_ATTR { return hn::ConvertTo(DF(), v); });
}
void from_uint8(const uint8_t* x, int64_t n, float* out) {
  map(DB(), x, n, DF(), out, [](hn::Vec<DB> v) HWY_ATTR { return hn::ConvertTo(DF(), hn::PromoteTo(DI(), v)); });
}
void from_int8(const int8_t* x, int64_t n, float* out) {
  map(DS(), x, n, DF(), out, [](hn::Vec<DS> v) HWY_ATTR { return hn::ConvertTo(DF(), hn::PromoteTo(DI(), v)); });
}
void widen_uint8(const uint8_t* x, int64_t n, int32_t* out) {
  map(DB(), x, n, DI(), out, [](hn::Vec<DB> v) HWY_ATTR { return hn::PromoteTo(DI(), v); });
}
void widen_int8(const int8_t* x, int64_t n, int32_t* out) {
  map(DS(), x, n, DI(), out, [](hn::Vec<DS> v) HWY_ATTR { return hn::PromoteTo(DI(), v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {

HWY_EXPORT(to_int32);
HWY_EXPORT(to_int64);
HWY_EXPORT(to_bytes);
HWY_EXPORT(to_bools);
HWY_EXPORT(from_int32);
HWY_EXPORT(from_uint8);
HWY_EXPORT(from_int8);
HWY_EXPORT(widen_uint8);
HWY_EXPORT(widen_int8);

namespace {

template <class In, class Out>
void in_parts(void (*convert)(const In*, int64_t, Out*), const In* x, int64_t n, Out* out) {
  parallel_for(n, int64_t{1} << 16, [&](int64_t begin, int64_t end) { convert(x + begin, end - begin, out + begin); });
}

}  // namespace

void integers_of_floats(const float* x, int64_t n, int32_t* out) { in_parts(QDQ_CHOSEN(to_int32), x, n, out); }
void integers_of_floats(const float* x, int64_t n, int64_t* out) { in_parts(QDQ_CHOSEN(to_int64), x, n, out); }
void bytes_of_floats(const float* x, int64_t n, uint8_t* out) { in_parts(QDQ_CHOSEN(to_bytes), x, n, out); }
void bools_of_floats(const float* x, int64_t n, uint8_t* out) { in_parts(QDQ_CHOSEN(to_bools), x, n, out); }
void floats_of_integers(const int32_t* x, int64_t n, float* out) { in_parts(QDQ_CHOSEN(from_int32), x, n, out); }
void floats_of_integers(const uint8_t* x, int64_t n, float* out) { in_parts(QDQ_CHOSEN(from_uint8), x, n, out); }
void floats_of_integers(const int8_t* x, int64_t n, float* out) { in_parts(QDQ_CHOSEN(from_int8), x, n, out); }
void integers_of_integers(const uint8_t* x, int64_t n, int32_t* out) { in_parts(QDQ_CHOSEN(widen_uint8), x, n, out); }
void integers_of_integers(const int8_t* x, int64_t n, int32_t* out) { in_parts(QDQ_CHOSEN(widen_int8), x, n, out); }

}  // namespace qdq::kernel
#endif
