// Integer products in registers for every vector width, in blocks that fit the registers of each target.
#include "kernel/gemm_int8.h"

#include <algorithm>
#include <cstring>

#include "kernel/panel.h"

#if defined(__wasm_relaxed_simd__)
#include <wasm_simd128.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/gemm_int8_hwy.cpp"
#define QDQ_TARGETS_WITH_BYTE_DOT
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/requantize_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<int32_t, 16>;
using D16 = hn::Repartition<int16_t, D32>;
using D8 = hn::Repartition<int8_t, D32>;
using U8 = hn::Repartition<uint8_t, D32>;
using V32 = hn::Vec<D32>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D32));
#if defined(__wasm_relaxed_simd__)
constexpr bool kHasByteDot = true;
#else
constexpr bool kHasByteDot = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL;
#endif
// The panels of longer vectors would have two matchings in a block.
constexpr bool kHasMatchedBytes = HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2;
// AVX-512 has 32 vector registers, the others 16, of which WASM's engines keep some.
constexpr int kMaxRows = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 ? 8 : HWY_ARCH_X86 ? 6 : 4;
constexpr int kMaxVectors = 4;
// A step of kMatchedBytes needs two registers more.
template <DotRoad kRoad> constexpr int kBlockRows = kRoad == DotRoad::kMatchedBytes ? 5 : kMaxRows;
// Where loads and products of several steps stand together, clang moves all loads to the front and WASM's engines run
// out of registers.
#if defined(__wasm__)
constexpr bool kUnrolled = false;
#else
constexpr bool kUnrolled = true;
#endif
// GCC would add the products of several steps to each other before it adds them to the sum, and keep them in memory
// until then.
HWY_INLINE V32 in_order(V32 sum) {
#if HWY_ARCH_X86
  __asm__("" : "+v"(sum.raw));
#endif
  return sum;
}

// sum[i] += the products of four bytes, or of two 16-bit integers, of lane i.
template <bool kBytes> HWY_INLINE V32 dot(V32 sum, V32 a, hn::Vec<D8> bytes, hn::Vec<D16> pairs) {
  if constexpr (kBytes) {
    (void)pairs;
#if defined(__wasm_relaxed_simd__)
    return V32{wasm_i32x4_relaxed_dot_i8x16_i7x16_add(bytes.raw, a.raw, sum.raw)};
#else
    return hn::SumOfMulQuadAccumulate(D32(), hn::BitCast(U8(), a), bytes, sum);
#endif
  } else {
    (void)bytes;
    return in_order(hn::Add(sum, hn::WidenMulPairwiseAdd(D32(), hn::BitCast(D16(), a), pairs)));
  }
}

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
using Word [[gnu::may_alias, gnu::aligned(1)]] = int32_t;
// The 16-bit products of a pixel's two elements with two vectors of weights. In assembler, because GCC copies sums and
// loads ahead until 16 registers do not suffice.
HWY_INLINE void add_pair_products(V32& first, V32& second, const uint8_t* a, hn::Vec<D16> w0, hn::Vec<D16> w1) {
  __m256i x, product;
  __asm__("vpbroadcastd %4, %2\n\tvpmaddwd %5, %2, %3\n\tvpaddd %3, %0, %0\n\tvpmaddwd %6, %2, %2\n\tvpaddd %2, %1, %1"
          : "+x"(first.raw), "+x"(second.raw), "=&x"(x), "=&x"(product)
          : "m"(*reinterpret_cast<const Word*>(a)), "x"(w0.raw), "x"(w1.raw));
}
#endif

// kWords: weights of the 16-bit products that have 16 bits in memory.
template <bool kBytes, int kRows, int kVectors, bool kWords = false>
HWY_INLINE void dot_step_at(V32 (&sum)[kRows][kVectors], const uint8_t* const* a, int64_t a_at, const int8_t* const* b,
                            int64_t b_at) {
  const D32 d;
  hn::Vec<D8> bytes[kVectors];
  hn::Vec<D16> pairs[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    if constexpr (kBytes) {
      bytes[v] = hn::LoadU(D8(), b[v] + b_at);
    } else {
      bytes[v] = hn::Zero(D8());
    }
    if constexpr (kBytes) {
      pairs[v] = hn::Zero(D16());
    } else if constexpr (kWords) {
      pairs[v] = hn::BitCast(D16(), hn::LoadU(D8(), b[v] + b_at));
    } else {
      pairs[v] = hn::PromoteTo(D16(), hn::LoadU(hn::Rebind<int8_t, D16>(), b[v] + b_at));
    }
  }
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if constexpr (!kBytes && kVectors == 2) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) add_pair_products(sum[r][0], sum[r][1], a[r] + a_at, pairs[0], pairs[1]);
    return;
  }
#endif
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    int32_t word;
    std::memcpy(&word, a[r] + a_at, sizeof word);
    const V32 av = hn::Set(d, word);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = dot<kBytes>(sum[r][v], av, bytes[v], pairs[v]);
  }
}

// The products of a step of kMatchedBytes, added in pairs. The weights stay in memory: all that the sums of a block
// leave of 16 registers are three.
HWY_INLINE hn::Vec<D16> pair_sums(hn::Vec<U8> x, const int8_t* weights) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  hn::Vec<D16> sums;
  __asm__("vpmaddubsw %2, %1, %0" : "=x"(sums.raw) : "x"(x.raw), "m"(*reinterpret_cast<const __m256i_u*>(weights)));
  return sums;
#else
  return hn::SatWidenMulPairwiseAdd(D16(), x, hn::LoadU(D8(), weights));
#endif
}

// A step of kMatchedBytes, or two whose products are added in 16 bits, and shifted by what stands behind their weights.
template <int kSteps, bool kShifted, int kRows, int kVectors>
HWY_INLINE void matched_steps(V32 (&sum)[kRows][kVectors], const uint8_t* const* a, const DotStep* steps,
                              const int8_t* b) {
  const D32 d;
  const U8 d8;
  hn::Vec<U8> from[kSteps];
#pragma GCC unroll 2
  for (int s = 0; s < kSteps; ++s) {
    int32_t word;
    std::memcpy(&word, steps[s].from, sizeof word);
    from[s] = hn::BitCast(d8, hn::Set(d, word));
  }
  const auto ones = hn::Set(D16(), int16_t{1});
  hn::Vec<D16> shift[kVectors];
#pragma GCC unroll 4
  for (int v = 0; kShifted && v < kVectors; ++v)
    shift[v] = hn::BitCast(D16(), hn::LoadU(D8(), b + (kSteps * kDotPanel + v * kLanes) * 4));
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    hn::Vec<D16> pairs[kVectors];
#pragma GCC unroll 2
    for (int s = 0; s < kSteps; ++s) {
      const auto x = hn::TableLookupBytes(hn::LoadDup128(d8, a[r] + steps[kShifted ? s : 0].at), from[s]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int8_t* weights = b + (s * kDotPanel + v * kLanes) * 4;
        const auto two =
            kSteps == 1 ? hn::SatWidenMulPairwiseAdd(D16(), x, hn::LoadU(D8(), weights)) : pair_sums(x, weights);
        pairs[v] = s == 0 ? two : hn::Add(pairs[v], two);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kShifted) pairs[v] = hn::Add(pairs[v], shift[v]);
      sum[r][v] = in_order(hn::Add(sum[r][v], hn::WidenMulPairwiseAdd(d, pairs[v], ones)));
    }
  }
}

// What is rare stands apart, so that the loops around it keep their registers.
template <int kRows, int kVectors>
HWY_NOINLINE void finish_block(const Finish& finish, const int32_t* sums, int64_t pixel, int64_t channel,
                               int64_t last_channel) {
  if (has_curve(*finish.requantize) && channel + kVectors * kLanes <= last_channel)
    return finish_curve_rows<kVectors>(D32(), finish, sums, kRows, pixel, channel);
  V32 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::LoadU(D32(), sums + (r * kVectors + v) * kLanes);
  }
  if (is_plain_or_sum(*finish.requantize) && channel + kVectors * kLanes <= last_channel && finish.residual) {
    finish_plain_rows<true>(D32(), finish, sum, pixel, channel);
  } else {
    finish_rows(D32(), finish, sum, pixel, channel, last_channel - channel);
  }
}

// Vectors of four: the 16-bit road widens the weights of a strip once, in memory, because to widen them in the inner
// loop takes 5 to 10 % longer in WebAssembly. Longer vectors lose as much by it on deep products. One or two pixels,
// whose strips have four vectors, are not worth it.
template <DotRoad kRoad, int kVectors>
constexpr bool kWidensFirst = kRoad == DotRoad::kPairs && kVectors <= 2 && kLanes == 4;

// Widens the weights of kVectors vectors of channels to band.words, [steps][kVectors][2 * kLanes].
template <int kVectors> HWY_INLINE void widen(const DotBand& band, int64_t channel) {
  const int64_t steps = band.run_count * band.run_steps;
  for (int v = 0; v < kVectors; ++v) {
    const int64_t c = channel + v * kLanes;
    const int8_t* from = band.weights + c / kDotPanel * steps * kDotPanel * 2 + c % kDotPanel * 2;
    int16_t* to = band.words + v * 2 * kLanes;
    for (int64_t step = 0; step < steps; ++step, from += 2 * kDotPanel, to += 2 * kVectors * kLanes)
      hn::StoreU(hn::PromoteTo(D16(), hn::LoadU(hn::Rebind<int8_t, D16>(), from)), D16(), to);
  }
}

// Where a run of kRows pixels stands.
template <int kRows>
HWY_INLINE void run_at(const DotBand& band, int64_t pixel, int64_t run, const uint8_t* (&a)[kRows]) {
  const uint8_t* at = band.activations + band.runs[run];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = at + band.pixels[pixel + r];
}

// Adds the products of kRows pixels.
template <DotRoad kRoad, int kRows, int kVectors>
HWY_INLINE void add_products(V32 (&sum)[kRows][kVectors], const DotBand& band, int64_t pixel, int64_t channel) {
  constexpr bool kBytes = kRoad != DotRoad::kPairs, kWords = kWidensFirst<kRoad, kVectors>;
  constexpr int64_t kVectorBytes = kLanes * (kBytes || kWords ? 4 : 2),
                    kStepBytes = kWords ? kVectors * kVectorBytes : kDotPanel * (kBytes ? 4 : 2);
  const int64_t panel_bytes = band.run_count * band.run_steps * kStepBytes;
  const int8_t* b[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t c = channel + v * kLanes;
    // Vectors of one panel are a constant apart, which the compiler should know.
    const int64_t first = kDotPanel % (kVectors * kLanes) == 0 ? channel : c, rest = c - first;
    if constexpr (kWords) {
      b[v] = reinterpret_cast<const int8_t*>(band.words) + v * kVectorBytes;
    } else {
      b[v] = band.weights + first / kDotPanel * panel_bytes + (first % kDotPanel + rest) / kLanes * kVectorBytes;
    }
  }
  for (int64_t run = 0; run < band.run_count; ++run) {
    const uint8_t* a[kRows];
    run_at(band, pixel, run, a);
    if constexpr (kUnrolled) {
      const int64_t end = band.run_steps * 4;
      int64_t at = 0;
      for (; at + 16 <= end; at += 16) {
#pragma GCC unroll 4
        for (int s = 0; s < 4; ++s) dot_step_at<kBytes, kRows, kVectors, kWords>(sum, a, at + 4 * s, b, s * kStepBytes);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) b[v] += 4 * kStepBytes;
      }
      for (; at < end; at += 4) {
        dot_step_at<kBytes, kRows, kVectors, kWords>(sum, a, at, b, 0);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) b[v] += kStepBytes;
      }
      continue;
    }
    int64_t step = band.run_steps;
#if defined(__clang__)
#pragma clang loop unroll(disable)
#endif
    for (; step > 0; --step) {
      dot_step_at<kBytes, kRows, kVectors, kWords>(sum, a, 0, b, 0);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) a[r] += 4;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) b[v] += kStepBytes;
    }
  }
}

// The same on kMatchedBytes; the vectors are of one panel.
template <int kRows, int kVectors>
HWY_INLINE void add_matched_products(V32 (&sum)[kRows][kVectors], const DotBand& band, int64_t pixel, int64_t channel) {
  constexpr int64_t kStepBytes = kDotPanel * 4;
  const int32_t* first = band.first_steps + channel / kDotPanel * band.run_count * 3;
  const int8_t* b = band.weights + *first * kStepBytes + channel % kDotPanel * 4;
  for (int64_t run = 0; run < band.run_count; ++run, first += 3) {
    const uint8_t* a[kRows];
    run_at(band, pixel, run, a);
    const DotStep *step = band.steps + first[0], *const shifted = band.steps + first[1],
                  *const singles = band.steps + first[2], *const end = band.steps + first[3];
    for (; step < shifted; step += 2, b += 2 * kStepBytes) matched_steps<2, false>(sum, a, step, b);
    for (; step < singles; step += 3, b += 3 * kStepBytes) matched_steps<2, true>(sum, a, step, b);
    for (; step < end; ++step, b += kStepBytes) matched_steps<1, false>(sum, a, step, b);
  }
}

// The sums of kRows pixels.
template <DotRoad kRoad, int kRows, int kVectors>
HWY_INLINE void products(V32 (&sum)[kRows][kVectors], const DotBand& band, int64_t pixel, int64_t channel) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const V32 start = hn::LoadU(D32(), band.start + channel + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r][v] = start;
  }
  if constexpr (kRoad == DotRoad::kMatchedBytes) {
    add_matched_products(sum, band, pixel, channel);
  } else {
    add_products<kRoad>(sum, band, pixel, channel);
  }
}

// The pixels' sums go to `gathered`, or are finished if that is null.
template <DotRoad kRoad, int kRows, int kVectors>
HWY_INLINE void block(const DotBand& band, const Finish& finish, int64_t pixel, int64_t channel, int32_t* gathered) {
  V32 sum[kRows][kVectors];
  products<kRoad>(sum, band, pixel, channel);
  if (is_plain(*finish.requantize) && channel + kVectors * kLanes <= band.last_channel) {
    finish_plain_rows<false>(D32(), finish, sum, pixel, channel);
    return;
  }
  alignas(64) int32_t own[kRows * kVectors * kLanes];
  int32_t* const sums = gathered != nullptr ? gathered : own;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], D32(), sums + (r * kVectors + v) * kLanes);
  }
  if (gathered == nullptr) finish_block<kRows, kVectors>(finish, sums, pixel, channel, band.last_channel);
}

// As many blocks as fit before `end`; returns where they end.
template <DotRoad kRoad, int kRows, int kVectors>
HWY_NOINLINE int64_t blocks(const DotBand& all, int64_t pixel, int64_t end, int64_t channel, int32_t* gathered) {
  // A copy, which the stores of sums cannot change.
  const DotBand band = all;
  for (; pixel + kRows <= end; pixel += kRows) {
    block<kRoad, kRows, kVectors>(band, all.finish, pixel, channel, gathered);
    if (gathered != nullptr) gathered += kRows * kVectors * kLanes;
  }
  return pixel;
}

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
// The same of 16 channels where finish_plain_block gives the results.
template <DotRoad kRoad, int kRows, bool kResidual>
HWY_NOINLINE int64_t plain_blocks(const DotBand& all, const PlainConstants& constants, int64_t pixel, int64_t end,
                                  int64_t channel) {
  const DotBand band = all;
  for (; pixel + kRows <= end; pixel += kRows) {
    V32 sum[kRows][2];
    products<kRoad>(sum, band, pixel, channel);
    finish_plain_block<kResidual>(band.finish, constants, sum, pixel, channel);
  }
  return pixel;
}

template <DotRoad kRoad, bool kResidual> HWY_NOINLINE void plain_strip(const DotBand& band, int64_t channel) {
  PlainConstants constants;
  constants.set(band.finish, channel);
  const int64_t end = band.pixel_count;
  int64_t pixel = plain_blocks<kRoad, kBlockRows<kRoad>, kResidual>(band, constants, 0, end, channel);
  if (pixel < end) pixel = plain_blocks<kRoad, 4, kResidual>(band, constants, pixel, end, channel);
  if (pixel < end) pixel = plain_blocks<kRoad, 2, kResidual>(band, constants, pixel, end, channel);
  if (pixel < end) plain_blocks<kRoad, 1, kResidual>(band, constants, pixel, end, channel);
}
#endif

// All pixels for kVectors vectors of channels, in ever smaller blocks. SiLU and hard-swish are taken of the sums of
// many pixels at once: their constants, which fill the registers, are fetched for each call.
template <DotRoad kRoad, int kVectors> HWY_NOINLINE void strip(const DotBand& band, int64_t channel) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if constexpr (kVectors == 2) {
    const Requantize& q = *band.finish.requantize;
    if (is_plain_or_sum(q) && channel + kDotPanel <= band.last_channel)
      return q.has_residual ? plain_strip<kRoad, true>(band, channel) : plain_strip<kRoad, false>(band, channel);
  }
#endif
  constexpr int kRows = kVectors > 2 ? kMaxRows / 4 : kBlockRows<kRoad>, kMost = 32 / kRows * kRows;
  if constexpr (kWidensFirst<kRoad, kVectors>) widen<kVectors>(band, channel);
  alignas(64) int32_t sums[kMost * kVectors * kLanes];
  const bool gathered = has_curve(*band.finish.requantize) && channel + kVectors * kLanes <= band.last_channel;
  const float most_sum = most_sum_of(band.run_count * band.run_steps * (kRoad == DotRoad::kPairs ? 2 : 4));
  int64_t pixel = 0;
  while (pixel < band.pixel_count) {
    const int64_t first = pixel, end = gathered ? std::min(pixel + kMost, band.pixel_count) : band.pixel_count;
    const auto place = [&] { return gathered ? sums + (pixel - first) * kVectors * kLanes : nullptr; };
    pixel = blocks<kRoad, kRows, kVectors>(band, pixel, end, channel, place());
    if constexpr (kRows > 4) {
      if (pixel < end) pixel = blocks<kRoad, 4, kVectors>(band, pixel, end, channel, place());
    }
    if constexpr (kRows > 2) {
      if (pixel < end) pixel = blocks<kRoad, 2, kVectors>(band, pixel, end, channel, place());
    }
    if (pixel < end) pixel = blocks<kRoad, 1, kVectors>(band, pixel, end, channel, place());
    if (gathered)
      finish_curve_rows<kVectors>(D32(), band.finish, sums, static_cast<int>(end - first), first, channel, most_sum);
  }
}

template <DotRoad kRoad> void band_of(const DotBand& band) {
  int64_t channel = band.first_channel;
  // A single pixel has few sums under way: more vectors hide the latency of the products.
  if (kRoad != DotRoad::kMatchedBytes && band.pixel_count <= 2) {
    for (; channel + (kMaxVectors - 1) * kLanes < band.last_channel; channel += kMaxVectors * kLanes)
      strip<kRoad, kMaxVectors>(band, channel);
  }
  for (; channel + kLanes < band.last_channel; channel += 2 * kLanes) strip<kRoad, 2>(band, channel);
  // Panels of WASM have two vectors: one less to compile.
  if (channel < band.last_channel) strip<kRoad, kDotPanel == 2 * 4 ? 2 : 1>(band, channel);
}

void dot_band(const DotBand& band) {
  if constexpr (kHasByteDot) {
    if (band.road != DotRoad::kPairs) return band_of<DotRoad::kUnsignedBytes>(band);
  }
  if constexpr (kHasMatchedBytes) {
    if (band.road == DotRoad::kMatchedBytes) return band_of<DotRoad::kMatchedBytes>(band);
  }
  band_of<DotRoad::kPairs>(band);
}

constexpr int kPanelVectors = static_cast<int>(kDotPanel / kLanes);

// kRows rows of one matrix from `row` on, with some vectors of the panel from `weights` on.
template <int kRows, int kVectors>
HWY_INLINE void words_block(const DotWords& words, const int16_t* rows, const int16_t* weights, int32_t* out) {
  const D32 d;
  constexpr int kSteps = kUnrolled ? 4 : 1;
  V32 sum[kRows][kVectors];
  const uint8_t* a[kRows];
  const int8_t* b[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) b[v] = reinterpret_cast<const int8_t*>(weights) + v * kLanes * 4;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    a[r] = reinterpret_cast<const uint8_t*>(rows + r * words.depth);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
#if defined(__clang__)
#pragma clang loop unroll(disable)
#endif
  for (int64_t step = words.depth / 2; step > 0; step -= kSteps) {
#pragma GCC unroll 4
    for (int s = 0; s < kSteps; ++s) dot_step_at<false, kRows, kVectors, true>(sum, a, s * 4, b, s * kDotPanel * 4);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) a[r] += kSteps * 4;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] += kSteps * kDotPanel * 4;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, out += words.matrices * kDotPanel) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, out + v * kLanes);
  }
}

// The same for `count` rows, of 1 to kRows.
template <int kRows, int kVectors>
HWY_INLINE void words_rows(int64_t count, const DotWords& words, const int16_t* rows, const int16_t* weights,
                           int32_t* out) {
  if (count == kRows) return words_block<kRows, kVectors>(words, rows, weights, out);
  if constexpr (kRows > 1) words_rows<kRows - 1, kVectors>(count, words, rows, weights, out);
}

void dot_words(const DotWords& words) {
  constexpr int kVectors = kPanelVectors < 2 ? kPanelVectors : 2, kRows = HWY_ARCH_X86 ? 6 : 4;
  // Blocks of nearly as many rows each: one of a single row would take nearly as long as a full one.
  const int64_t blocks = divide_up(words.row_count, kRows), rows = words.row_count / blocks,
                longer = words.row_count % blocks;
  for (int64_t matrix = 0; matrix < words.matrices; ++matrix) {
    for (int64_t c = 0; c < kDotPanel; c += kVectors * kLanes) {
      const int16_t *a = words.rows + matrix * words.rows_stride,
                    *b = words.weights + matrix * words.weights_stride + c * 2;
      int32_t* out = words.out + matrix * kDotPanel + c;
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t count = rows + (i < longer ? 1 : 0);
        words_rows<kRows, kVectors>(count, words, a, b, out);
        a += count * words.depth;
        out += count * words.matrices * kDotPanel;
      }
    }
  }
}

void finish_sums(const Finish& finish, const int32_t* sums, int64_t pixel_count, int64_t channel,
                 int64_t last_channel) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if (is_plain(*finish.requantize) && channel + kDotPanel <= last_channel) {
    PlainConstants constants;
    constants.set(finish, channel);
    return finish_plain_sums(finish, constants, sums, pixel_count, 0, channel);
  }
#endif
  constexpr int kRows = 4;
  const bool plain = is_plain(*finish.requantize) && channel + kDotPanel <= last_channel;
  int64_t pixel = 0;
  for (; pixel + kRows <= pixel_count; pixel += kRows, sums += kRows * kDotPanel) {
    if (!plain) {
      finish_block<kRows, kPanelVectors>(finish, sums, pixel, channel, last_channel);
      continue;
    }
    V32 sum[kRows][kPanelVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) sum[r][v] = hn::LoadU(D32(), sums + r * kDotPanel + v * kLanes);
    }
    finish_plain_rows<false>(D32(), finish, sum, pixel, channel);
  }
  for (; pixel < pixel_count; ++pixel, sums += kDotPanel)
    finish_block<1, kPanelVectors>(finish, sums, pixel, channel, last_channel);
}

// Sums of products of some vectors with others: what an inner loop does, without its loads. The vectors change with
// every round, or the products could be taken out of the loop. Nine sums cover the latency of the 8-bit products; where
// product and sum are two instructions, eight leave a register for the product where there are 16.
template <DotRoad kRoad> int64_t peak_of(int64_t rounds) {
  const D32 d;
  constexpr bool kMatched = kRoad == DotRoad::kMatchedBytes, kBytes = kRoad == DotRoad::kUnsignedBytes;
  constexpr int kRows = kBytes ? 3 : 4, kVectors = kBytes ? 3 : 2;
  // From memory that the compiler knows nothing of, or it would compute with constants.
  volatile int32_t seeds[] = {0x01020304, 0x03040506, 0x05060708, 0x0708090a};
  V32 sum[kRows][kVectors], a[kRows], b[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    a[i] = hn::Set(d, seeds[i]);
    if (i < kVectors) b[i] = hn::Set(d, seeds[i]);
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) sum[i][j] = a[i];
  }
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors && !kBytes; ++j) b[j] = hn::Xor(b[j], a[j]);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      if constexpr (kBytes) a[i] = hn::Xor(a[i], b[i]);
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) {
        const auto bytes = hn::BitCast(D8(), b[j]);
        if constexpr (kMatched) {
          const auto pairs = hn::SatWidenMulPairwiseAdd(D16(), hn::BitCast(U8(), a[i]), bytes);
          sum[i][j] = dot<false>(sum[i][j], hn::BitCast(d, pairs), bytes, hn::Set(D16(), int16_t{1}));
        } else {
          sum[i][j] = dot<kBytes>(sum[i][j], a[i], bytes, hn::BitCast(D16(), b[j]));
        }
      }
    }
  }
  V32 total = hn::Zero(d);
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) total = hn::Xor(total, sum[i][j]);
  }
  volatile int32_t keep = hn::GetLane(total);
  (void)keep;
  return rounds * kRows * kVectors * kLanes * (kRoad == DotRoad::kPairs ? 2 : 4);
}

int64_t dot_peak(DotRoad road, int64_t rounds) {
  if constexpr (kHasByteDot) {
    if (road != DotRoad::kPairs) return peak_of<DotRoad::kUnsignedBytes>(rounds);
  }
  if constexpr (kHasMatchedBytes) {
    if (road == DotRoad::kMatchedBytes) return peak_of<DotRoad::kMatchedBytes>(rounds);
  }
  return peak_of<DotRoad::kPairs>(rounds);
}

DotRoad best_road() {
#if defined(__wasm_relaxed_simd__)
  // The engine's compilers may differ in how they treat the operands, so they come from memory.
  constexpr int8_t kExtremes[] = {-128, -127, -1, 0, 1, 2, 64, 126, 127};
  bool is_unsigned = true, is_signed = true;
  volatile int8_t weights[16], operand[16];
  for (int8_t w0 : kExtremes) {
    for (int8_t w1 : kExtremes) {
      for (int8_t x0 : kExtremes) {
        for (int8_t x1 : kExtremes) {
          for (int i = 0; i < 16; ++i) {
            weights[i] = i % 4 < 2 ? w0 : w1;
            operand[i] = i % 2 ? x1 : x0;
          }
          int8_t w[16], x[16];
          for (int i = 0; i < 16; ++i) w[i] = weights[i], x[i] = operand[i];
          const v128_t got =
              wasm_i32x4_relaxed_dot_i8x16_i7x16_add(wasm_v128_load(w), wasm_v128_load(x), wasm_i32x4_splat(-77));
          int32_t sums[4];
          wasm_v128_store(sums, got);
          for (int lane = 0; lane < 4; ++lane) {
            int32_t with_unsigned = -77, with_signed = -77;
            for (int i = 4 * lane; i < 4 * lane + 4; ++i) {
              with_unsigned += int32_t{w[i]} * static_cast<uint8_t>(x[i]);
              with_signed += int32_t{w[i]} * x[i];
            }
            is_unsigned &= sums[lane] == with_unsigned;
            is_signed &= sums[lane] == with_signed;
          }
        }
      }
    }
  }
  return is_unsigned ? DotRoad::kUnsignedBytes : is_signed ? DotRoad::kSignedBytes : DotRoad::kPairs;
#else
  return kHasByteDot ? DotRoad::kUnsignedBytes : kHasMatchedBytes ? DotRoad::kMatchedBytes : DotRoad::kPairs;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(dot_band);
HWY_EXPORT(dot_words);
HWY_EXPORT(finish_sums);
HWY_EXPORT(dot_peak);
HWY_EXPORT(best_road);

DotRoad dot_road() {
#if defined(__wasm__)
  static const DotRoad road = HWY_DYNAMIC_DISPATCH(best_road)();
  return road;
#else
  return HWY_DYNAMIC_DISPATCH(best_road)();
#endif
}

std::string_view dot_road_name(DotRoad road) {
  switch (road) {
    case DotRoad::kUnsignedBytes: return "8-bit dot product, unsigned by signed";
    case DotRoad::kSignedBytes: return "8-bit dot product, signed by signed";
    case DotRoad::kMatchedBytes: return "8-bit products of matched channels";
    case DotRoad::kPairs: break;
  }
  return "16-bit dot product";
}

void dot_band(const DotBand& band) { HWY_DYNAMIC_DISPATCH(dot_band)(band); }
void dot_words(const DotWords& words) { HWY_DYNAMIC_DISPATCH(dot_words)(words); }
void finish_sums(const Finish& finish, const int32_t* sums, int64_t pixel_count, int64_t channel,
                 int64_t last_channel) {
  HWY_DYNAMIC_DISPATCH(finish_sums)(finish, sums, pixel_count, channel, last_channel);
}
int64_t dot_peak(DotRoad road, int64_t rounds) { return HWY_DYNAMIC_DISPATCH(dot_peak)(road, rounds); }

}  // namespace qdq::kernel
#endif
