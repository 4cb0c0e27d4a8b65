// Products with weights in groups for every vector width.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernel/gemm_groups.h"
#include "kernel/group_operands.h"
#include "kernel/panel.h"

#if defined(__wasm_relaxed_simd__)
#include <wasm_simd128.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/gemm_groups_hwy.cpp"
#define QDQ_TARGETS_WITH_BYTE_DOT
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef QDQ_GEMM_GROUPS_CALLS
#define QDQ_GEMM_GROUPS_CALLS
namespace qdq::kernel {
// What the loops of every instruction set get. a is int8; for the 16-bit product 16-bit integers in place of it, each
// four neighbours k in the order 0, 2, 1, 3.
struct GroupCall {
  const GroupWeights* weights;
  const uint8_t* blocks;
  int64_t rows;
  const float* x;
  const int8_t* a;
  const int16_t* words;
  const int32_t* sums;  // of a over each group: [rows, groups]
  const TokenQParams* tokens;
  const float* bias;
  float* out;
};
}  // namespace qdq::kernel
#endif

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using D32 = hn::RebindToSigned<DF>;
using D16 = hn::Repartition<int16_t, D32>;
using D8 = hn::Repartition<int8_t, D32>;
using U8 = hn::Repartition<uint8_t, D32>;
using U32 = hn::RebindToUnsigned<D32>;
using VF = hn::Vec<DF>;
using V32 = hn::Vec<D32>;
using W32 = hn::Vec<U32>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(DF));
constexpr int kVectors = static_cast<int>(kGroupPanel / kLanes);  // of a panel
constexpr int kRowVectors = kVectors < 4 ? kVectors : 4;
// Vectors that a block of several rows has at once, and rows.
constexpr int kBlockVectors = 2;
constexpr int kBlockRows = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 ? 8 : 4;
// So many bytes before they are used weights are asked for: the sums of floats take so long that the processor does not
// see far enough by itself.
constexpr int64_t kAhead = 4096;
// Rows that share what was unpacked.
constexpr int64_t kRowChunk = 64;

template <int kShift> HWY_INLINE W32 shifted(W32 words) {
  if constexpr (kShift == 0) return words;
  else return hn::ShiftRight<kShift>(words);
}

// Whether a lookup in a table gives codes of 4 bits less 8. Weights without zero points need no subtraction then, and
// have loops of their own; all others read the zero points or have 8 or 128 in their place.
constexpr bool kHasTable = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;

// float(q - z) of one neighbour in every lane; kCentred: z is 8 and the table's.
template <int kBits, int kShift, bool kCentred> HWY_INLINE VF weight_of(W32 words, VF zero) {
  const DF d;
  const U32 u;
  if constexpr (kBits == 4) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    // The table's lookup heeds no more than four bits.
    const VF table = hn::Iota(d, kCentred ? -8 : 0);
    const VF code{_mm512_permutexvar_ps(shifted<kShift>(words).raw, table.raw)};
    if constexpr (kCentred) return code;
    else return hn::Sub(code, zero);
#else
    const W32 code = kShift == 28 ? shifted<28>(words) : hn::And(shifted<kShift>(words), hn::Set(u, 15));
    return hn::Sub(hn::ConvertTo(d, hn::BitCast(D32(), code)), zero);
#endif
  } else {
    const W32 code = kShift == 24 ? shifted<24>(words) : hn::And(shifted<kShift>(words), hn::Set(u, 255));
    return hn::Sub(hn::ConvertTo(d, hn::BitCast(D32(), code)), zero);
  }
}

// Calls f.template operator()<shift>(neighbour) for every neighbour of a word.
template <int kBits, class F> HWY_INLINE void for_each_neighbour(F&& f) {
  f.template operator()<0>(0);
  f.template operator()<8>(1);
  f.template operator()<16>(2);
  f.template operator()<24>(3);
  if constexpr (kBits == 4) {
    f.template operator()<4>(4);
    f.template operator()<12>(5);
    f.template operator()<20>(6);
    f.template operator()<28>(7);
  }
}

HWY_INLINE V32 zero_of(const GroupWeights& weights, const uint8_t* block, int vector) {
  const hn::Rebind<uint8_t, D32> bytes;
  if (!weights.has_zero_points) return hn::Set(D32(), weights.bits == 4 ? 8 : 128);
  return hn::PromoteTo(D32(), hn::LoadU(bytes, block + kGroupPanel * 4 + vector * kLanes));
}
// The bytes of a block before its words.
HWY_INLINE int64_t head_of(const GroupWeights& weights) { return kGroupPanel * (weights.has_zero_points ? 5 : 4); }
HWY_INLINE VF scale_of(const uint8_t* block, int vector) {
  return hn::LoadU(DF(), reinterpret_cast<const float*>(block) + vector * kLanes);
}
HWY_INLINE W32 words_at(const uint8_t* words, int vector) {
  return hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(words) + vector * kLanes);
}

// The lanes of a panel that there are.
HWY_INLINE void store(VF value, float* out, int64_t left) {
  if (left >= kLanes) hn::StoreU(value, DF(), out);
  else if (left > 0) hn::StoreN(value, DF(), out, static_cast<size_t>(left));
}
HWY_INLINE VF bias_of(const float* bias, int64_t left) {
  if (bias == nullptr || left <= 0) return hn::Zero(DF());
  return left >= kLanes ? hn::LoadU(DF(), bias) : hn::LoadN(DF(), bias, static_cast<size_t>(left));
}

// One row: every weight is used as it is unpacked, kRowVectors vectors of a panel at once.
template <int kBits, bool kCentred> void one_row_f32(const GroupCall& call, int64_t begin, int64_t end) {
  const GroupWeights& weights = *call.weights;
  const int64_t groups = weights.groups(), block_bytes = weights.block_bytes();
  constexpr int64_t kNeighbours = 32 / kBits;
  const DF d;
  for (int64_t part = begin * (kVectors / kRowVectors); part < end * (kVectors / kRowVectors); ++part) {
    const int64_t panel = part / (kVectors / kRowVectors);
    const int first = static_cast<int>(part % (kVectors / kRowVectors)) * kRowVectors;
    const uint8_t* block = call.blocks + panel * groups * block_bytes;
    VF acc[kRowVectors];
    for (int v = 0; v < kRowVectors; ++v) acc[v] = hn::Zero(d);
    const float* x = call.x;
    for (int64_t g = 0; g < groups; ++g, block += block_bytes) {
      VF sum[kRowVectors], zero[kRowVectors];
      for (int v = 0; v < kRowVectors; ++v) {
        sum[v] = hn::Zero(d);
        zero[v] = hn::ConvertTo(d, zero_of(weights, block, first + v));
      }
      const uint8_t* words = block + head_of(weights);
      for (int64_t k = 0; k < weights.group; k += kNeighbours, words += kGroupPanel * 4, x += kNeighbours) {
        __builtin_prefetch(words + kAhead);
        __builtin_prefetch(words + kAhead + 64);
#pragma GCC unroll 4
        for (int v = 0; v < kRowVectors; ++v) {
          const W32 w = words_at(words, first + v);
          VF s = sum[v];
          for_each_neighbour<kBits>([&]<int kShift>(int64_t at) HWY_ATTR {
            s = hn::Add(s, hn::Mul(weight_of<kBits, kShift, kCentred>(w, zero[v]), hn::Set(d, x[at])));
          });
          sum[v] = s;
        }
      }
      for (int v = 0; v < kRowVectors; ++v) acc[v] = hn::Add(acc[v], hn::Mul(sum[v], scale_of(block, first + v)));
    }
    for (int v = 0; v < kRowVectors; ++v) {
      const int64_t at = panel * kGroupPanel + (first + v) * kLanes, left = weights.channels - at;
      const VF sum = call.bias != nullptr ? hn::Add(acc[v], bias_of(call.bias + at, left)) : acc[v];
      store(sum, call.out + at, left);
    }
  }
}

// Calls f.template operator()<rows>(first) for blocks of rows that make up [0, rows).
template <class F> HWY_INLINE void in_blocks(int64_t rows, F&& f) {
  int64_t r = 0;
  for (; r + kBlockRows <= rows; r += kBlockRows) f.template operator()<kBlockRows>(r);
  if constexpr (kBlockRows > 4)
    for (; r + 4 <= rows; r += 4) f.template operator()<4>(r);
  for (; r < rows; ++r) f.template operator()<1>(r);
}

// sums[r] of a group for kRows rows, kBlockVectors vectors of channels from unpacked [group][kGroupPanel].
template <int kRows>
HWY_INLINE void add_rows(const float* x, int64_t depth, int64_t group, const float* unpacked, const uint8_t* block,
                         int first_vector, float* acc) {
  const DF d;
  VF sum[kRows][kBlockVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kBlockVectors; ++v) sum[r][v] = hn::Zero(d);
  for (int64_t k = 0; k < group; ++k) {
    VF w[kBlockVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kBlockVectors; ++v) w[v] = hn::LoadU(d, unpacked + k * kGroupPanel + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const VF xv = hn::Set(d, x[r * depth + k]);
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v) sum[r][v] = hn::Add(sum[r][v], hn::Mul(w[v], xv));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kBlockVectors; ++v) {
      float* to = acc + r * kGroupPanel + v * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), hn::Mul(sum[r][v], scale_of(block, first_vector + v))), d, to);
    }
}

// Several rows: a group of a panel is unpacked once for all of a chunk.
template <int kBits, bool kCentred> void many_rows_f32(const GroupCall& call, int64_t begin, int64_t end) {
  const GroupWeights& weights = *call.weights;
  const int64_t groups = weights.groups(), block_bytes = weights.block_bytes(), depth = weights.depth;
  constexpr int64_t kNeighbours = 32 / kBits;
  const DF d;
  const Scratch unpacked = make_scratch(weights.group * kGroupPanel), acc = make_scratch(kRowChunk * kGroupPanel);
  for (int64_t panel = begin; panel < end; ++panel)
    for (int64_t row = 0; row < call.rows; row += kRowChunk) {
      const int64_t rows = std::min(kRowChunk, call.rows - row);
      std::fill(acc.get(), acc.get() + rows * kGroupPanel, 0.0f);
      const uint8_t* block = call.blocks + panel * groups * block_bytes;
      for (int64_t g = 0; g < groups; ++g, block += block_bytes) {
        const uint8_t* words = block + head_of(weights);
        float* to = unpacked.get();
        for (int64_t k = 0; k < weights.group;
             k += kNeighbours, words += kGroupPanel * 4, to += kNeighbours * kGroupPanel)
          for (int v = 0; v < kVectors; ++v) {
            const W32 w = words_at(words, v);
            const VF zero = hn::ConvertTo(d, zero_of(weights, block, v));
            for_each_neighbour<kBits>([&]<int kShift>(int64_t at) HWY_ATTR {
              hn::StoreU(weight_of<kBits, kShift, kCentred>(w, zero), d, to + at * kGroupPanel + v * kLanes);
            });
          }
        in_blocks(rows, [&]<int kRows>(int64_t r) HWY_ATTR {
          for (int v = 0; v < kVectors; v += kBlockVectors)
            add_rows<kRows>(call.x + (row + r) * depth + g * weights.group, depth, weights.group,
                            unpacked.get() + v * kLanes, block, v, acc.get() + r * kGroupPanel + v * kLanes);
        });
      }
      const int64_t channel = panel * kGroupPanel;
      for (int64_t r = 0; r < rows; ++r)
        for (int v = 0; v < kVectors; ++v) {
          const int64_t at = channel + v * kLanes, left = weights.channels - at;
          VF sum = hn::LoadU(d, acc.get() + r * kGroupPanel + v * kLanes);
          if (call.bias != nullptr) sum = hn::Add(sum, bias_of(call.bias + at, left));
          store(sum, call.out + (row + r) * weights.channels + at, left);
        }
    }
}

// Whether int8 activations can be multiplied four at once; if not, two as 16-bit integers. Codes of 4 bits times int8
// fit every product of bytes: none saturates, and they are the operand of which the relaxed dot product specifies 7
// bits.
constexpr bool has_byte_product(int bits) {
#if defined(__wasm_relaxed_simd__)
  return bits == 4;
#else
  return HWY_ARCH_X86 && HWY_TARGET <= (bits == 4 ? HWY_AVX2 : HWY_AVX3_DL);
#endif
}

// GCC would add products to each other before it adds them to the sum, and keep them in memory until then.
HWY_INLINE V32 in_order(V32 sum) {
#if HWY_ARCH_X86
  __asm__("" : "+v"(sum.raw));
#endif
  return sum;
}

// sum += the products of the four codes in a lane's bytes with four activations.
HWY_INLINE V32 byte_product(V32 sum, W32 codes, V32 a) {
#if defined(__wasm_relaxed_simd__)
  return V32{wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a.raw, codes.raw, sum.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
  return in_order(hn::SumOfMulQuadAccumulate(D32(), hn::BitCast(U8(), codes), hn::BitCast(D8(), a), sum));
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const auto pairs = hn::SatWidenMulPairwiseAdd(D16(), hn::BitCast(U8(), codes), hn::BitCast(D8(), a));
  return in_order(hn::Add(sum, hn::WidenMulPairwiseAdd(D32(), pairs, hn::Set(D16(), int16_t{1}))));
#else
  (void)codes, (void)a;
  return sum;
#endif
}

// byte_product for codes of 4 bits in both halves of the bytes, with eight activations.
HWY_INLINE V32 half_byte_products(V32 sum, W32 low, W32 high, V32 a, V32 b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && HWY_TARGET > HWY_AVX3_DL
  const auto pairs = hn::Add(hn::SatWidenMulPairwiseAdd(D16(), hn::BitCast(U8(), low), hn::BitCast(D8(), a)),
                             hn::SatWidenMulPairwiseAdd(D16(), hn::BitCast(U8(), high), hn::BitCast(D8(), b)));
  return in_order(hn::Add(sum, hn::WidenMulPairwiseAdd(D32(), pairs, hn::Set(D16(), int16_t{1}))));
#else
  return byte_product(byte_product(sum, low, a), high, b);
#endif
}

// sum += the products of codes that stand in the lower bits of 16-bit integers.
template <int kShift, int kMask> HWY_INLINE V32 pair_product(V32 sum, W32 words, V32 a) {
  const W32 codes = hn::And(shifted<kShift>(words), hn::Set(U32(), static_cast<uint32_t>(kMask) * 0x10001u));
  return in_order(hn::Add(sum, hn::WidenMulPairwiseAdd(D32(), hn::BitCast(D16(), codes), hn::BitCast(D16(), a))));
}

HWY_INLINE V32 splat_at(const void* bytes) {
  int32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return hn::Set(D32(), word);
}

// sum += the products of one word of each channel with the neighbours that it holds, from a[row] on.
template <int kBits, bool kBytes, int kRows>
HWY_INLINE void add_words(V32 (&sum)[kRows][kBlockVectors], const W32 (&w)[kBlockVectors],
                          const uint8_t* const (&a)[kRows]) {
  if constexpr (kBytes && kBits == 4) {
    const W32 mask = hn::Set(U32(), 0x0F0F0F0Fu);
    W32 low[kBlockVectors], high[kBlockVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kBlockVectors; ++v) {
      low[v] = hn::And(w[v], mask);
      high[v] = hn::And(hn::ShiftRight<4>(w[v]), mask);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V32 first = splat_at(a[r]), second = splat_at(a[r] + 4);
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v) sum[r][v] = half_byte_products(sum[r][v], low[v], high[v], first, second);
    }
  } else if constexpr (kBytes) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V32 first = splat_at(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v) sum[r][v] = byte_product(sum[r][v], w[v], first);
    }
  } else {
    constexpr int kMask = kBits == 4 ? 15 : 255;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v) {
        V32 s = pair_product<0, kMask>(sum[r][v], w[v], splat_at(a[r]));
        s = pair_product<8, kMask>(s, w[v], splat_at(a[r] + 4));
        if constexpr (kBits == 4) {
          s = pair_product<4, kMask>(s, w[v], splat_at(a[r] + 8));
          s = pair_product<12, kMask>(s, w[v], splat_at(a[r] + 12));
        }
        sum[r][v] = s;
      }
  }
}

// kRows rows times kBlockVectors vectors of channels of one panel, from `first_vector` on.
template <int kBits, bool kZeroPoints, bool kBytes, int kRows>
HWY_INLINE void rows_s8(const GroupCall& call, int64_t panel, int64_t row, int first_vector) {
  const GroupWeights& weights = *call.weights;
  const int64_t groups = weights.groups(), block_bytes = weights.block_bytes(), depth = weights.depth;
  constexpr int64_t kNeighbours = 32 / kBits, kHead = kGroupPanel * (kZeroPoints ? 5 : 4);
  const DF d;
  const D32 d32;
  VF acc[kRows][kBlockVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kBlockVectors; ++v) acc[r][v] = hn::Zero(d);
  const uint8_t* block = call.blocks + panel * groups * block_bytes;
  const uint8_t* a[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    a[r] = kBytes ? reinterpret_cast<const uint8_t*>(call.a + (row + r) * depth)
                  : reinterpret_cast<const uint8_t*>(call.words + (row + r) * depth);
  for (int64_t g = 0; g < groups; ++g, block += block_bytes) {
    V32 sum[kRows][kBlockVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V32 of_a = hn::Set(d32, -call.sums[(row + r) * groups + g]);
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v) {
        if constexpr (kZeroPoints) {
          const hn::Rebind<uint8_t, D32> bytes;
          const V32 zero = hn::PromoteTo(d32, hn::LoadU(bytes, block + kGroupPanel * 4 + (first_vector + v) * kLanes));
          sum[r][v] = hn::Mul(of_a, zero);
        } else {
          sum[r][v] = kBits == 4 ? hn::ShiftLeft<3>(of_a) : hn::ShiftLeft<7>(of_a);
        }
      }
    }
    const uint8_t* words = block + kHead;
    for (int64_t k = 0; k < weights.group; k += kNeighbours, words += kGroupPanel * 4) {
      W32 w[kBlockVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v) w[v] = words_at(words, first_vector + v);
      add_words<kBits, kBytes>(sum, w, a);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) a[r] += kNeighbours * (kBytes ? 1 : 2);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v)
        acc[r][v] = hn::Add(acc[r][v], hn::Mul(hn::ConvertTo(d, sum[r][v]), scale_of(block, first_vector + v)));
  }
  for (int r = 0; r < kRows; ++r) {
    const TokenQParams& token = call.tokens[row + r];
    const VF scale = hn::Set(d, token.scale), zero = hn::Set(d, static_cast<float>(token.zero_point));
    for (int v = 0; v < kBlockVectors; ++v) {
      const int64_t at = panel * kGroupPanel + (first_vector + v) * kLanes, left = weights.channels - at;
      const VF correction = hn::LoadU(d, weights.corrections.template data<float>() + at);
      VF out = hn::Mul(hn::Sub(acc[r][v], hn::Mul(zero, correction)), scale);
      if (call.bias != nullptr) out = hn::Add(out, bias_of(call.bias + at, left));
      store(out, call.out + (row + r) * weights.channels + at, left);
    }
  }
}

template <int kBits, bool kZeroPoints, bool kBytes>
void all_rows_s8(const GroupCall& call, int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel)
    in_blocks(call.rows, [&]<int kRows>(int64_t row) HWY_ATTR {
      for (int v = 0; v < kVectors; v += kBlockVectors) rows_s8<kBits, kZeroPoints, kBytes, kRows>(call, panel, row, v);
    });
}

bool uses_byte_product(int bits) { return has_byte_product(bits); }

// Panels from `begin` to before `end`.
template <int kBits, bool kCentred> void panels_f32(const GroupCall& call, int64_t begin, int64_t end) {
  if (call.rows == 1) one_row_f32<kBits, kCentred>(call, begin, end);
  else many_rows_f32<kBits, kCentred>(call, begin, end);
}
void group_panels_f32(const GroupCall& call, int64_t begin, int64_t end) {
  if (call.weights->bits == 8) return panels_f32<8, false>(call, begin, end);
  if constexpr (kHasTable)
    if (!call.weights->has_zero_points) return panels_f32<4, true>(call, begin, end);
  panels_f32<4, false>(call, begin, end);
}
void group_panels_s8(const GroupCall& call, int64_t begin, int64_t end) {
  const GroupWeights& w = *call.weights;
  const auto run = [&]<int kBits, bool kZeroPoints>() {
    // Builds whose engine decides have both.
    constexpr bool kBytes = has_byte_product(kBits);
#if defined(__wasm_relaxed_simd__)
    if (call.words != nullptr) return all_rows_s8<kBits, kZeroPoints, false>(call, begin, end);
#endif
    all_rows_s8<kBits, kZeroPoints, kBytes>(call, begin, end);
  };
  if (w.bits == 4) w.has_zero_points ? run.template operator()<4, true>() : run.template operator()<4, false>();
  else w.has_zero_points ? run.template operator()<8, true>() : run.template operator()<8, false>();
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(group_panels_f32);
HWY_EXPORT(group_panels_s8);
HWY_EXPORT(uses_byte_product);

namespace {

// Panels that are worth a thread.
int64_t grain_of(const GroupWeights& weights, int64_t rows) {
  return std::max<int64_t>(1, 100000 / std::max<int64_t>(1, weights.depth * kGroupPanel * rows));
}

}  // namespace

void linear_groups_f32(const float* x, int64_t rows, const GroupWeights& weights, const float* bias, float* out) {
  if (rows == 0) return;
  const GroupCall call{&weights, weights.blocks.data<uint8_t>(), rows, x, nullptr, nullptr, nullptr, nullptr, bias,
                       out};
  parallel_for(weights.panels(), grain_of(weights, rows),
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(group_panels_f32)(call, begin, end); });
}

namespace {

void multiply_s8(const int8_t* a, const TokenQParams* tokens, int64_t rows, const GroupWeights& weights,
                 const float* bias, bool in_bytes, float* out) {
  const std::vector<int32_t> sums = sums_of_groups(a, rows * weights.groups(), weights.group);
  std::vector<int16_t> words;
  if (!in_bytes) words = words_of(a, rows * weights.depth);
  const GroupCall call{&weights,    weights.blocks.data<uint8_t>(),
                       rows,        nullptr,
                       a,           words.empty() ? nullptr : words.data(),
                       sums.data(), tokens,
                       bias,        out};
  parallel_for(weights.panels(), grain_of(weights, rows),
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(group_panels_s8)(call, begin, end); });
}

#if defined(__wasm_relaxed_simd__)
// Some engines had the relaxed dot product before they had it right (Node 20's first compiler adds twice): these loops
// themselves are tried.
bool engine_is_exact() {
  constexpr int64_t kDepth = 32, kRows = 5;
  std::vector<int8_t> q(static_cast<size_t>(kGroupPanel * kDepth)), a(static_cast<size_t>(kRows * kDepth));
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<int8_t>(static_cast<int>(i * 7 % 16) - 8);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i * 37);
  const std::vector<float> scales(static_cast<size_t>(kGroupPanel), 1.0f);
  const std::vector<TokenQParams> tokens(static_cast<size_t>(kRows));
  const GroupWeights weights = pack_group_weights(q.data(), scales.data(), nullptr, kGroupPanel, kDepth, kDepth);
  std::vector<float> found(static_cast<size_t>(kRows * kGroupPanel)), wanted(found.size());
  multiply_s8(a.data(), tokens.data(), kRows, weights, nullptr, true, found.data());
  multiply_s8(a.data(), tokens.data(), kRows, weights, nullptr, false, wanted.data());
  return found == wanted;
}
#endif

bool multiplies_bytes(int bits) {
  if (!HWY_DYNAMIC_DISPATCH(uses_byte_product)(bits)) return false;
#if defined(__wasm_relaxed_simd__)
  static const bool exact = engine_is_exact();
  return exact;
#else
  return true;
#endif
}

}  // namespace

void linear_groups_s8(const int8_t* a, const TokenQParams* tokens, int64_t rows, const GroupWeights& weights,
                      const float* bias, float* out) {
  if (rows == 0) return;
  multiply_s8(a, tokens, rows, weights, bias, multiplies_bytes(weights.bits), out);
}

}  // namespace qdq::kernel
#endif
