// Depthwise products: the bytes of neighbouring taps are interleaved, so that one dot product adds 2 or 4 taps a channel.
//
// Vectors have 128 bits on every target: interleaving does not cross that border, and WASM has no others.
#include "kernel/depthwise_int8.h"

#include <algorithm>

#if defined(__wasm_relaxed_simd__)
#include <wasm_simd128.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/depthwise_int8_hwy.cpp"
#define QDQ_TARGETS_WITH_BYTE_DOT
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernel/requantize_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::FixedTag<int32_t, 4>;
using D16 = hn::FixedTag<int16_t, 8>;
using D8 = hn::FixedTag<int8_t, 16>;
using U8 = hn::FixedTag<uint8_t, 16>;
using V32 = hn::Vec<D32>;
#if defined(__wasm_relaxed_simd__)
constexpr bool kHasByteDot = true;
#else
constexpr bool kHasByteDot = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL;
#endif

// sum[v] += the taps of a group for the channels 4 v to 4 v + 3 of a panel.
template <bool kBytes> HWY_INLINE void add_group(V32 (&sum)[4], const uint8_t* at, const int32_t* taps, const int8_t* weights) {
  if constexpr (kBytes) {
    const U8 d;
    const hn::Repartition<uint16_t, U8> d16;
    const auto t0 = hn::LoadU(d, at + taps[0]), t1 = hn::LoadU(d, at + taps[1]);
    const auto t2 = hn::LoadU(d, at + taps[2]), t3 = hn::LoadU(d, at + taps[3]);
    const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, t0, t1));
    const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d, t0, t1));
    const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d, t2, t3));
    const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d, t2, t3));
    const hn::Vec<decltype(d16)> quads[4] = {hn::InterleaveLower(d16, low01, low23), hn::InterleaveUpper(d16, low01, low23),
                                             hn::InterleaveLower(d16, high01, high23), hn::InterleaveUpper(d16, high01, high23)};
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const auto w = hn::LoadU(D8(), weights + 16 * v);
#if defined(__wasm_relaxed_simd__)
      sum[v] = V32{wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w.raw, quads[v].raw, sum[v].raw)};
#else
      sum[v] = hn::SumOfMulQuadAccumulate(D32(), hn::BitCast(d, quads[v]), w, sum[v]);
#endif
    }
  } else {
    const D16 d;
    const hn::Rebind<uint8_t, D16> d8;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const auto t0 = hn::PromoteTo(d, hn::LoadU(d8, at + taps[0] + 8 * half));
      const auto t1 = hn::PromoteTo(d, hn::LoadU(d8, at + taps[1] + 8 * half));
      const auto w0 = hn::PromoteTo(d, hn::LoadU(hn::Rebind<int8_t, D16>(), weights + 16 * half));
      const auto w1 = hn::PromoteTo(d, hn::LoadU(hn::Rebind<int8_t, D16>(), weights + 16 * half + 8));
      V32& low = sum[2 * half];
      V32& high = sum[2 * half + 1];
      low = hn::Add(low, hn::WidenMulPairwiseAdd(D32(), hn::InterleaveLower(d, t0, t1), w0));
      high = hn::Add(high, hn::WidenMulPairwiseAdd(D32(), hn::InterleaveUpper(d, t0, t1), w1));
    }
  }
}

template <bool kBytes, int kPixels> HWY_INLINE void block(const DepthwiseBand& band, int64_t pixel, int64_t channel) {
  const D32 d;
  constexpr int kTaps = kBytes ? 4 : 2;
  V32 sum[kPixels][4];
  const uint8_t* at[kPixels];
#pragma GCC unroll 2
  for (int p = 0; p < kPixels; ++p) {
    at[p] = band.activations + band.pixels[pixel + p] + channel;
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) sum[p][v] = hn::LoadU(d, band.start + channel + 4 * v);
  }
  const int8_t* weights = band.weights + channel * kTaps * band.tap_groups;
  for (int64_t g = 0; g < band.tap_groups; ++g, weights += kDepthwisePanel * kTaps) {
#pragma GCC unroll 2
    for (int p = 0; p < kPixels; ++p) add_group<kBytes>(sum[p], at[p], band.taps + g * kTaps, weights);
  }
  if (is_plain(*band.finish.requantize) && channel + kDepthwisePanel <= band.channels) {
    finish_plain_rows<false>(d, band.finish, sum, pixel, channel);
    return;
  }
  if (is_near_silu(*band.finish.requantize) && channel + kDepthwisePanel <= band.channels) {
    HWY_ALIGN int32_t sums[kPixels * kDepthwisePanel];
#pragma GCC unroll 8
    for (int i = 0; i < kPixels * 4; ++i) hn::Store(sum[i / 4][i % 4], d, sums + 4 * i);
    return finish_silu_rows<4>(d, band.finish, sums, kPixels, pixel, channel);
  }
  finish_rows(d, band.finish, sum, pixel, channel, band.channels - channel);
}

template <bool kBytes> HWY_NOINLINE void band_of(const DepthwiseBand& band) {
  for (int64_t channel = 0; channel < band.channels; channel += kDepthwisePanel) {
    int64_t pixel = 0;
    for (; pixel + 2 <= band.pixel_count; pixel += 2) block<kBytes, 2>(band, pixel, channel);
    if (pixel < band.pixel_count) block<kBytes, 1>(band, pixel, channel);
  }
}

void depthwise_band(const DepthwiseBand& band) {
  if constexpr (kHasByteDot) {
    if (band.road != DotRoad::kPairs) return band_of<true>(band);
  }
  band_of<false>(band);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(depthwise_band);
void depthwise_band(const DepthwiseBand& band) { HWY_DYNAMIC_DISPATCH(depthwise_band)(band); }
}  // namespace qdq::kernel
#endif
