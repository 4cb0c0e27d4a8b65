// Depthwise products: the bytes of neighbouring taps are interleaved, so that one dot product adds 2 or 4 taps a
// channel.
//
// Bytes are interleaved in vectors of 128 bits on every target: interleaving does not cross that border, and WASM has
// no others. Sums of 16-bit products have 256 bits where there are such vectors, and are the only ones natively: with
// AVX-512 VNNI 8-bit products of 128 bits took 1.2 times as long, and the same code compiled for AVX-512 1.1 times.
#include "kernel/depthwise_int8.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__wasm_relaxed_simd__)
#include <wasm_simd128.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/depthwise_int8_hwy.cpp"
#define QDQ_TARGETS_UP_TO_AVX2
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
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
// Of the 16-bit products.
using P32 = hn::CappedTag<int32_t, 8>;
using P16 = hn::Repartition<int16_t, P32>;
constexpr int64_t kPairLanes = static_cast<int64_t>(HWY_MAX_LANES_D(P32));
// The sums of the pixels that are under way take half of 16 registers.
constexpr int kPairPixels = static_cast<int>(kPairLanes / 2);
#if defined(__wasm_relaxed_simd__)
constexpr bool kHasByteDot = true;
#else
constexpr bool kHasByteDot = false;
#endif

HWY_INLINE V32 dot_bytes(V32 sum, hn::Vec<U8> x, hn::Vec<D8> weights) {
#if defined(__wasm_relaxed_simd__)
  return V32{wasm_i32x4_relaxed_dot_i8x16_i7x16_add(weights.raw, x.raw, sum.raw)};
#else
  (void)x, (void)weights;
  return sum;
#endif
}

// sum[v] += the four taps of a group for the channels 4 v to 4 v + 3 of a panel.
HWY_INLINE void add_quads(V32 (&sum)[4], const uint8_t* at, const int32_t* taps, const int8_t* weights) {
  const U8 d;
  const hn::Repartition<uint16_t, U8> d16;
  const auto t0 = hn::LoadU(d, at + taps[0]), t1 = hn::LoadU(d, at + taps[1]);
  const auto t2 = hn::LoadU(d, at + taps[2]), t3 = hn::LoadU(d, at + taps[3]);
  const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, t0, t1));
  const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d, t0, t1));
  const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d, t2, t3));
  const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d, t2, t3));
  const hn::Vec<decltype(d16)> quads[4] = {
      hn::InterleaveLower(d16, low01, low23), hn::InterleaveUpper(d16, low01, low23),
      hn::InterleaveLower(d16, high01, high23), hn::InterleaveUpper(d16, high01, high23)};
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) sum[v] = dot_bytes(sum[v], hn::BitCast(d, quads[v]), hn::LoadU(D8(), weights + 16 * v));
}

// Two taps of a panel as 16-bit integers, a pair a channel. Two vectors have the channels in the order of
// depthwise_channel: interleaving does not cross 128 bits, and bytes are widened where they are loaded, which takes AMD
// half the time that it takes to widen those in registers.
template <int kVectors>
HWY_INLINE void pairs_at(const uint8_t* first, const uint8_t* second, hn::Vec<P16> (&pairs)[kVectors]) {
  const U8 d;
  const hn::CappedTag<int16_t, 2 * kDepthwisePanel / kVectors> d16;  // P16
  const auto t0 = hn::LoadU(d, first), t1 = hn::LoadU(d, second);
  if constexpr (kVectors == 2) {
    const auto wide0 = hn::PromoteTo(d16, t0), wide1 = hn::PromoteTo(d16, t1);
    pairs[0] = hn::InterleaveLower(d16, wide0, wide1);
    pairs[1] = hn::InterleaveUpper(d16, wide0, wide1);
  } else {
    const hn::Vec<U8> bytes[2] = {hn::InterleaveLower(d, t0, t1), hn::InterleaveUpper(d, t0, t1)};
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      pairs[v] = v % 2 == 0 ? hn::PromoteLowerTo(d16, bytes[v / 2]) : hn::PromoteUpperTo(d16, bytes[v / 2]);
  }
}

// Two vectors of sums from the order of depthwise_channel to that of the channels, or back.
template <int kVectors> HWY_INLINE void reorder(hn::Vec<P32> (&sum)[kVectors]) {
  if constexpr (kVectors == 2) {
    const P32 d;
    const auto low = hn::ConcatLowerLower(d, sum[1], sum[0]);
    sum[1] = hn::ConcatUpperUpper(d, sum[1], sum[0]);
    sum[0] = low;
  }
}

// sum[p][v] += the two taps of a group of some pixels for vector v of a panel.
template <int kPixels, int kVectors>
HWY_INLINE void add_pairs(hn::Vec<P32> (&sum)[kPixels][kVectors], const uint8_t* const (&at)[kPixels],
                          const int32_t* taps, const int8_t* weights) {
  const P16 d16;
  hn::Vec<P16> w[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t place = kVectors == 2 ? kPairLanes * v : depthwise_channel(kPairLanes * v);
    w[v] = hn::PromoteTo(d16, hn::LoadU(hn::Rebind<int8_t, P16>(), weights + 2 * place));
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) {
    hn::Vec<P16> pairs[kVectors];
    pairs_at(at[p] + taps[0], at[p] + taps[1], pairs);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[p][v] = hn::Add(sum[p][v], hn::WidenMulPairwiseAdd(P32(), pairs[v], w[v]));
  }
}

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
constexpr bool kHasPlainBlocks = true;
#else
constexpr bool kHasPlainBlocks = false;
struct PlainConstants {};
#endif

// kPlain: finish_plain_block gives the results; only it reads the constants. Else the pixels' sums go to `gathered`, or
// are finished if that is null.
template <bool kBytes, bool kPlain, int kPixels>
HWY_INLINE void block(const DepthwiseBand& band, const PlainConstants& constants, int64_t pixel, int64_t channel,
                      int32_t* gathered) {
  using D = std::conditional_t<kBytes, D32, P32>;
  const D d;
  constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D));
  constexpr int kTaps = kBytes ? 4 : 2, kVectors = static_cast<int>(kDepthwisePanel / kLanes);
  hn::Vec<D> sum[kPixels][kVectors];
  const uint8_t* at[kPixels];
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) {
    at[p] = band.activations + band.pixels[pixel + p] + channel;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[p][v] = hn::LoadU(d, band.start + channel + kLanes * v);
    if constexpr (!kBytes) reorder(sum[p]);
  }
  const int8_t* weights = band.weights + channel * kTaps * band.tap_groups;
  for (int64_t g = 0; g < band.tap_groups; ++g, weights += kDepthwisePanel * kTaps) {
    if constexpr (kBytes) {
#pragma GCC unroll 4
      for (int p = 0; p < kPixels; ++p) add_quads(sum[p], at[p], band.taps + g * kTaps, weights);
    } else {
      add_pairs(sum, at, band.taps + g * kTaps, weights);
    }
  }
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if constexpr (kPlain) return finish_plain_block<false>(band.finish, constants, sum, pixel, channel);
#endif
  (void)constants;
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) {
    if constexpr (!kBytes) reorder(sum[p]);
  }
  if (gathered != nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < kPixels * kVectors; ++i) hn::StoreU(sum[i / kVectors][i % kVectors], d, gathered + kLanes * i);
  } else if (is_plain(*band.finish.requantize) && channel + kDepthwisePanel <= band.channels) {
    finish_plain_rows<false>(d, band.finish, sum, pixel, channel);
  } else {
    finish_rows(d, band.finish, sum, pixel, channel, band.channels - channel);
  }
}

// Channels that windows of 3x3 are walked along for: their weights and sums take all registers of WASM.
constexpr int64_t kWalkChannels = kDepthwisePanel / 2;

// The taps of a column of windows, four a channel; the last one is any number. Rows are `row` bytes apart.
HWY_INLINE void column_at(const uint8_t* at, int64_t row, hn::Vec<U8> (&taps)[2]) {
  const U8 d;
  const hn::Repartition<int64_t, U8> d64;
  const hn::Repartition<uint16_t, U8> d16;
  hn::Vec<U8> t[3];
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r) {
    // Twice, because a load into half of a register would have to wait for what the other half held.
    int64_t word;
    std::memcpy(&word, at + r * row, sizeof word);
    t[r] = hn::BitCast(d, hn::Set(d64, word));
  }
  const auto first = hn::BitCast(d16, hn::InterleaveLower(d, t[0], t[1])),
             last = hn::BitCast(d16, hn::InterleaveLower(d, t[2], t[2]));
  taps[0] = hn::BitCast(d, hn::InterleaveLower(d16, first, last));
  taps[1] = hn::BitCast(d, hn::InterleaveUpper(d16, first, last));
}

HWY_INLINE void add_column(V32 (&sum)[2], const hn::Vec<U8> (&taps)[2], const hn::Vec<D8> (&weights)[2]) {
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) sum[v] = dot_bytes(sum[v], taps[v], weights[v]);
}

// Walks along a row of windows, so that every column is read and interleaved once: it is the last one of a window, the
// middle one of the next and the first one of the next but one. The sums go to band.sums.
template <bool kBytes> HWY_NOINLINE void walk(const DepthwiseBand& band, const uint8_t* at, int64_t channel) {
  const D32 d;
  constexpr int64_t kColumnBytes = 4 * kDepthwisePanel;
  const int64_t width = band.width, step = band.column_bytes, row = band.taps[1] - band.taps[0];
  const int8_t* packed = band.weights + channel / kDepthwisePanel * 3 * kColumnBytes + channel % kDepthwisePanel * 4;
  hn::Vec<D8> w[3][2];
  V32 start[2], sum[2], next[2];
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    start[v] = sum[v] = next[v] = hn::LoadU(d, band.start + channel + 4 * v);
#pragma GCC unroll 3
    for (int column = 0; column < 3; ++column) w[column][v] = hn::LoadU(D8(), packed + column * kColumnBytes + 16 * v);
  }
  hn::Vec<U8> taps[2];
  column_at(at, row, taps);
  add_column(sum, taps, w[0]);
  column_at(at += step, row, taps);
  add_column(sum, taps, w[1]);
  add_column(next, taps, w[0]);
  int32_t* out = band.sums;
  for (int64_t x = 0; x < width; ++x, out += kWalkChannels) {
    column_at(at += step, row, taps);
    add_column(sum, taps, w[2]);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      hn::StoreU(sum[v], d, out + 4 * v);
      sum[v] = next[v];
      next[v] = start[v];
    }
    add_column(sum, taps, w[1]);
    add_column(next, taps, w[0]);
  }
}

template <int kRows>
HWY_INLINE void finish_walk(const DepthwiseBand& band, const int32_t* sums, int64_t pixel, int64_t channel) {
  const D32 d;
  V32 sum[kRows][2];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) sum[r][v] = hn::LoadU(d, sums + r * kWalkChannels + 4 * v);
  }
  if (is_plain(*band.finish.requantize) && channel + kWalkChannels <= band.channels) {
    finish_plain_rows<false>(d, band.finish, sum, pixel, channel);
  } else {
    finish_rows(d, band.finish, sum, pixel, channel, band.channels - channel);
  }
}

template <bool kBytes> HWY_NOINLINE void walk_band(const DepthwiseBand& band) {
  for (int64_t channel = 0; channel < band.channels; channel += kWalkChannels) {
    for (int64_t pixel = 0; pixel < band.pixel_count; pixel += band.width) {
      walk<kBytes>(band, band.activations + band.pixels[pixel] + channel, channel);
      if (has_curve(*band.finish.requantize) && channel + kWalkChannels <= band.channels) {
        finish_curve_rows<2>(D32(), band.finish, band.sums, static_cast<int>(band.width), pixel, channel,
                             most_sum_of(9));
        continue;
      }
      int64_t x = 0;
      for (; x + 4 <= band.width; x += 4) finish_walk<4>(band, band.sums + x * kWalkChannels, pixel + x, channel);
      for (; x < band.width; ++x) finish_walk<1>(band, band.sums + x * kWalkChannels, pixel + x, channel);
    }
  }
}

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
// The same with 16-bit products: the upper two rows of a column are a pair, which three windows read, and what the last
// row has in two neighbouring columns is another, which two windows read. The channels of the sums are in the order of
// depthwise_channel, or in their own.
template <bool kInOrder> HWY_NOINLINE void walk_pairs(const DepthwiseBand& band, int64_t pixel, int64_t channel) {
  const P32 d;
  const P16 d16;
  constexpr int kGroups = 5;
  const int64_t step = band.column_bytes, row = band.taps[1] - band.taps[0], width = band.width;
  const uint8_t* at = band.activations + band.pixels[pixel] + channel;
  const int8_t* packed = band.weights + channel * kGroups * 2;
  HWY_ALIGN int16_t weights[kGroups * 2 * kDepthwisePanel];
#pragma GCC unroll 10
  for (int i = 0; i < kGroups * 2; ++i)
    hn::Store(hn::PromoteTo(d16, hn::LoadU(hn::Rebind<int8_t, P16>(), packed + 16 * i)), d16, weights + 16 * i);
  using Sums = hn::Vec<P32>[2];
  using Pairs = hn::Vec<P16>[2];
  const auto add = [&](const Sums& from, const Pairs& x, int group, Sums& to) HWY_ATTR {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v)
      to[v] = hn::Add(from[v], hn::WidenMulPairwiseAdd(d, x[v], hn::Load(d16, weights + (2 * group + v) * 16)));
  };
  Sums start = {hn::LoadU(d, band.start + channel), hn::LoadU(d, band.start + channel + kPairLanes)}, sum, next;
  reorder(start);
  Pairs upper, lower;
  pairs_at(at, at + row, upper);
  add(start, upper, 0, sum);
  at += step;
  pairs_at(at, at + row, upper);
  pairs_at(at + 2 * row - step, at + 2 * row, lower);
  add(sum, upper, 1, sum);
  add(sum, lower, 3, sum);
  add(start, upper, 0, next);
  int32_t* out = band.sums;
  for (int64_t x = 0; x < width; ++x, out += kDepthwisePanel) {
    at += step;
    pairs_at(at, at + row, upper);
    pairs_at(at + 2 * row - step, at + 2 * row, lower);
    add(sum, upper, 2, sum);
    add(sum, lower, 4, sum);
    if constexpr (kInOrder) reorder(sum);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) hn::StoreU(sum[v], d, out + kPairLanes * v);
    add(next, upper, 1, sum);
    add(sum, lower, 3, sum);
    add(start, upper, 0, next);
  }
}

template <int kRows>
HWY_INLINE void finish_pairs(const DepthwiseBand& band, const int32_t* sums, int64_t pixel, int64_t channel) {
  const P32 d;
  hn::Vec<P32> sum[kRows][2];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) sum[r][v] = hn::LoadU(d, sums + r * kDepthwisePanel + v * kPairLanes);
  }
  finish_rows(d, band.finish, sum, pixel, channel, band.channels - channel);
}

HWY_NOINLINE void walk_band_of_pairs(const DepthwiseBand& band) {
  for (int64_t channel = 0; channel < band.channels; channel += kDepthwisePanel) {
    const bool whole = channel + kDepthwisePanel <= band.channels, plain = whole && is_plain(*band.finish.requantize);
    PlainConstants constants;
    if (plain) constants.set<true>(band.finish, channel);
    for (int64_t pixel = 0; pixel < band.pixel_count; pixel += band.width) {
      if (plain) {
        walk_pairs<false>(band, pixel, channel);
        finish_plain_sums(band.finish, constants, band.sums, band.width, pixel, channel);
        continue;
      }
      walk_pairs<true>(band, pixel, channel);
      if (whole && has_curve(*band.finish.requantize)) {
        finish_curve_rows<2>(P32(), band.finish, band.sums, static_cast<int>(band.width), pixel, channel,
                             most_sum_of(9));
        continue;
      }
      int64_t x = 0;
      for (; x + 4 <= band.width; x += 4) finish_pairs<4>(band, band.sums + x * kDepthwisePanel, pixel + x, channel);
      for (; x < band.width; ++x) finish_pairs<1>(band, band.sums + x * kDepthwisePanel, pixel + x, channel);
    }
  }
}
#endif

// SiLU and hard-swish are taken of the sums of many pixels at once, as in kernel/gemm_int8_hwy.cpp.
template <bool kBytes, bool kPlain> HWY_NOINLINE void panel(const DepthwiseBand& band, int64_t channel) {
  using D = std::conditional_t<kBytes, D32, P32>;
  constexpr int kPixels = kBytes ? 2 : kPairPixels, kMost = 32;
  PlainConstants constants;
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if constexpr (kPlain) constants.set<true>(band.finish, channel);
#endif
  HWY_ALIGN int32_t sums[kMost * kDepthwisePanel];
  const bool gathers = !kPlain && has_curve(*band.finish.requantize) && channel + kDepthwisePanel <= band.channels;
  int64_t pixel = 0;
  while (pixel < band.pixel_count) {
    const int64_t first = pixel, end = gathers ? std::min(pixel + kMost, band.pixel_count) : band.pixel_count;
    const auto place = [&] { return gathers ? sums + (pixel - first) * kDepthwisePanel : nullptr; };
    for (; pixel + kPixels <= end; pixel += kPixels)
      block<kBytes, kPlain, kPixels>(band, constants, pixel, channel, place());
    if constexpr (kPixels > 2) {
      for (; pixel + 2 <= end; pixel += 2) block<kBytes, kPlain, 2>(band, constants, pixel, channel, place());
    }
    for (; pixel < end; ++pixel) block<kBytes, kPlain, 1>(band, constants, pixel, channel, place());
    if (gathers)
      finish_curve_rows<static_cast<int>(kDepthwisePanel / HWY_MAX_LANES_D(D))>(
          D(), band.finish, sums, static_cast<int>(end - first), first, channel,
          most_sum_of(band.tap_groups * depthwise_taps(band.road)));
  }
}

template <bool kBytes> void band_of(const DepthwiseBand& band) {
  const bool plain = kHasPlainBlocks && is_plain(*band.finish.requantize);
  for (int64_t channel = 0; channel < band.channels; channel += kDepthwisePanel) {
    if (plain && channel + kDepthwisePanel <= band.channels) panel<kBytes, kHasPlainBlocks>(band, channel);
    else panel<kBytes, false>(band, channel);
  }
}

void depthwise_band(const DepthwiseBand& band) {
  if constexpr (kHasByteDot) {
    if (band.width > 0) return walk_band<true>(band);
    if (band.road != DotRoad::kPairs) return band_of<true>(band);
  }
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if (band.width > 0) return walk_band_of_pairs(band);
#endif
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
