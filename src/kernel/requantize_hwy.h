// The formula of kernel/requantize.h on vectors; included by the room's Highway files after hwy/highway.h, once a target.
#if defined(QDQ_KERNEL_REQUANTIZE_HWY_H) == defined(HWY_TARGET_TOGGLE)
#ifdef QDQ_KERNEL_REQUANTIZE_HWY_H
#undef QDQ_KERNEL_REQUANTIZE_HWY_H
#else
#define QDQ_KERNEL_REQUANTIZE_HWY_H
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernel/requantize.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 1.5 * 2^23: a float below 2^22 added to it is rounded half to even to an integer that its bits show.
constexpr float kRounder = 12582912.0f;
constexpr int32_t kRounderBits = 0x4B400000;

// Lanes of u8 less their zero point, as floats. D is a tag of s32.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<float, D>> load_real(D d, const uint8_t* at, int32_t zero_point) {
  const auto wide = hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint8_t, D>(), at));
  return hn::ConvertTo(hn::Rebind<float, D>(), hn::Sub(wide, hn::Set(d, zero_point)));
}

// Quantizes or clamps kVectors vectors of y and stores them at `out`.
template <int kVectors, class D>
HWY_INLINE void store_real(D d, const Requantize& q, const hn::Vec<hn::Rebind<float, D>> (&y)[kVectors],
                           std::byte* out) {
  const hn::Rebind<float, D> df;
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D));
  if (q.out_is_float) {
    float* to = reinterpret_cast<float*>(out);
    const auto low = hn::Set(df, q.real_low), high = hn::Set(df, q.real_high);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::Min(hn::Max(y[v], low), high), df, to + v * kWidth);
    return;
  }
  const auto inverse = hn::Set(df, q.inverse_scale), rounder = hn::Set(df, kRounder);
  const auto low = hn::Set(df, static_cast<float>(q.low - q.zero_point));
  const auto high = hn::Set(df, static_cast<float>(q.high - q.zero_point));
  const auto shift = hn::Set(d, kRounderBits - q.zero_point);
  hn::Vec<D> value[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const auto steps = hn::Min(hn::Max(hn::Mul(y[v], inverse), low), high);
    value[v] = hn::Sub(hn::BitCast(d, hn::Add(steps, rounder)), shift);
  }
  uint8_t* to = reinterpret_cast<uint8_t*>(out);
  if constexpr (kWidth == 4 && kVectors % 2 == 0) {
    const hn::Repartition<int16_t, D> d16;
    const hn::Half<hn::Repartition<uint8_t, D>> d8;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v += 2)
      hn::StoreU(hn::DemoteTo(d8, hn::OrderedDemote2To(d16, value[v], value[v + 1])), d8, to + v * kWidth);
  } else {
    const hn::Rebind<uint8_t, D> d8;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::DemoteTo(d8, value[v]), d8, to + v * kWidth);
  }
}

// Requantizes kVectors vectors of sums: channels from `channel` on of one pixel. `valid` of them exist; a row with fewer
// than its vectors hold goes through a copy, and nothing beyond it is read or written.
template <int kVectors, class D>
HWY_INLINE void finish_row(D d, const Finish& finish, const int32_t* sums, int64_t pixel, int64_t channel,
                           int64_t valid) {
  const hn::Rebind<float, D> df;
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D)), kColumns = kVectors * kWidth;
  const Requantize& q = *finish.requantize;
  hn::Vec<decltype(df)> y[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const auto acc = hn::ConvertTo(df, hn::LoadU(d, sums + v * kWidth));
    y[v] = hn::Add(hn::Mul(acc, hn::LoadU(df, finish.multiplier + channel + v * kWidth)),
                   hn::LoadU(df, finish.offset + channel + v * kWidth));
  }
  if (q.has_residual) {
    const uint8_t* at = finish.residual + pixel * finish.residual_stride + channel;
    uint8_t copy[kColumns];
    if (valid < kColumns) {
      std::memset(copy, 0, sizeof copy);
      std::memcpy(copy, at, static_cast<size_t>(valid));
      at = copy;
    }
    const auto by = hn::Set(df, q.residual_multiplier);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      y[v] = hn::Add(y[v], hn::Mul(load_real(d, at + v * kWidth, q.residual_zero_point), by));
  }
  if (q.activation) {
    float values[kColumns];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(y[v], df, values + v * kWidth);
    q.activation(values, kColumns, values);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) y[v] = hn::LoadU(df, values + v * kWidth);
  }
  const int64_t out_bytes = q.out_is_float ? 4 : 1;
  std::byte* to = finish.out + (pixel * finish.out_stride + channel) * out_bytes;
  if (valid >= kColumns) {
    store_real<kVectors>(d, q, y, to);
  } else {
    alignas(16) std::byte copy[kColumns * 4];
    store_real<kVectors>(d, q, y, copy);
    std::memcpy(to, copy, static_cast<size_t>(valid * out_bytes));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#endif
