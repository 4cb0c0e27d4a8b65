// Halves and floats by arithmetic on their bits, so that instruction sets without halves give the same.
#include "kernel/half.h"

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/half_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<int32_t>;
using V = hn::Vec<D>;
using DF = hn::RebindToFloat<D>;
using DH = hn::Rebind<uint16_t, D>;

// Loads, converts and stores as many elements as a vector of floats has, and the rest through a vector, too.
template <class In, class DIn, class Out, class DOut, class F>
HWY_INLINE void map(DIn din, const In* x, int64_t n, DOut dout, Out* out, F&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(din, x + i)), dout, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(f(hn::LoadN(din, x + i, rest)), dout, out + i, rest);
}

void widen(const uint16_t* x, int64_t n, float* out) {
  const D d;
  const DF df;
  map(DH(), x, n, df, out, [&](hn::Vec<DH> halves) HWY_ATTR {
    const V bits = hn::PromoteTo(d, halves), magnitude = hn::And(bits, hn::Set(d, 0x7fff));
    // The exponent of a half is 112 below that of a float; a small half is a small float, too.
    const V shifted = hn::ShiftLeft<13>(magnitude);
    const V finite = hn::BitCast(d, hn::Mul(hn::BitCast(df, shifted), hn::Set(df, 0x1p112f)));
    const auto is_finite = hn::Lt(magnitude, hn::Set(d, 0x7c00));
    const V value = hn::IfThenElse(is_finite, finite, hn::Or(shifted, hn::Set(d, 0x7f800000)));
    return hn::BitCast(df, hn::Or(value, hn::ShiftLeft<16>(hn::Xor(bits, magnitude))));
  });
}

void narrow(const float* x, int64_t n, uint16_t* out) {
  const D d;
  const DF df;
  map(df, x, n, DH(), out, [&](hn::Vec<DF> floats) HWY_ATTR {
    const V bits = hn::BitCast(d, floats), magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
    const V odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
    const V usual = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), hn::Set(d, 0xfff - 0x38000000)));
    // Below 2^-14 halves are multiples of 2^-24: adding 0.5 lines the bits up and rounds.
    const V aligned = hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f)));
    const V small = hn::Sub(aligned, hn::Set(d, 0x3f000000));
    V value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x38800000)), small, usual);
    value = hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, 0x477ff000)), hn::Set(d, 0x7c00), value);
    value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7f800000)), hn::Set(d, 0x7e00), value);
    const V sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
    return hn::DemoteTo(DH(), hn::Or(value, sign));
  });
}

void widen_brain(const uint16_t* x, int64_t n, float* out) {
  const DF df;
  map(DH(), x, n, df, out,
      [&](hn::Vec<DH> halves) HWY_ATTR { return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(D(), halves))); });
}

void narrow_brain(const float* x, int64_t n, uint16_t* out) {
  const hn::RebindToUnsigned<D> d;
  const DF df;
  map(df, x, n, DH(), out, [&](hn::Vec<DF> floats) HWY_ATTR {
    const auto bits = hn::BitCast(d, floats);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff))));
    const auto is_number = hn::RebindMask(d, hn::Eq(floats, floats));
    return hn::TruncateTo(DH(), hn::IfThenElse(is_number, rounded, hn::Set(d, 0x7fc0)));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {

HWY_EXPORT(widen);
HWY_EXPORT(narrow);
HWY_EXPORT(widen_brain);
HWY_EXPORT(narrow_brain);

static_assert(sizeof(F16) == sizeof(uint16_t) && sizeof(BF16) == sizeof(uint16_t));

void floats_of_halves(const F16* x, int64_t n, float* out) {
  parallel_for(n, int64_t{1} << 16, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(widen)(&x[begin].bits, end - begin, out + begin);
  });
}
void halves_of_floats(const float* x, int64_t n, F16* out) {
  parallel_for(n, int64_t{1} << 16, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(narrow)(x + begin, end - begin, &out[begin].bits);
  });
}
void floats_of_halves(const BF16* x, int64_t n, float* out) {
  parallel_for(n, int64_t{1} << 16, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(widen_brain)(&x[begin].bits, end - begin, out + begin);
  });
}
void halves_of_floats(const float* x, int64_t n, BF16* out) {
  parallel_for(n, int64_t{1} << 16, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(narrow_brain)(x + begin, end - begin, &out[begin].bits);
  });
}

}  // namespace qdq::kernel
#endif
