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
// So many bytes before they are used the weights of one row are asked for. By itself the processor sees no further than
// to the end of a page, and no further than the sums of floats let it. Whole pages ahead cost 5 %.
constexpr int64_t kAhead = 5120;
// Panels of which one row looks its products up at once. They share the tables.
constexpr int kTablePanels = 2;
// Rows that share what was unpacked.
constexpr int64_t kRowChunk = 64;

template <int kShift> HWY_INLINE W32 shifted(W32 words) {
  if constexpr (kShift == 0) return words;
  else return hn::ShiftRight<kShift>(words);
}

// Whether a lookup in a table gives codes of 4 bits less 8. Weights without zero points need no subtraction then, and
// have loops of their own; all others read the zero points or have 8 or 128 in their place.
constexpr bool kHasTable = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;

// Those of the table's 16 floats that the lowest four bits of each lane say.
HWY_INLINE VF looked_up(VF table, W32 codes) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return VF{_mm512_permutexvar_ps(codes.raw, table.raw)};
#else
  (void)codes;
  return table;
#endif
}

// float(q - z) of one neighbour in every lane; kCentred: z is 8 and the table's.
template <int kBits, int kShift, bool kCentred> HWY_INLINE VF weight_of(W32 words, VF zero) {
  const DF d;
  const U32 u;
  if constexpr (kBits == 4 && kHasTable) {
    const VF code = looked_up(hn::Iota(d, kCentred ? -8 : 0), shifted<kShift>(words));
    if constexpr (kCentred) return code;
    else return hn::Sub(code, zero);
  } else if constexpr (kBits == 4) {
    const W32 code = kShift == 28 ? shifted<28>(words) : hn::And(shifted<kShift>(words), hn::Set(u, 15));
    return hn::Sub(hn::ConvertTo(d, hn::BitCast(D32(), code)), zero);
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

// Asks for a panel's scales, or for a word of each of its channels.
HWY_INLINE void ask_for(const uint8_t* panel_row) {
  __builtin_prefetch(panel_row);
  __builtin_prefetch(panel_row + 64);
}

// Stores the sums of the channels from `channel` on that there are, with their bias.
HWY_INLINE void finish(const GroupCall& call, int64_t row, int64_t channel, VF sum) {
  const int64_t channels = call.weights->channels, left = channels - channel;
  if (left <= 0) return;
  const DF d;
  const float* bias = call.bias == nullptr ? nullptr : call.bias + channel;
  float* out = call.out + row * channels + channel;
  if (left >= kLanes) {
    hn::StoreU(bias == nullptr ? sum : hn::Add(sum, hn::LoadU(d, bias)), d, out);
  } else {
    const auto lanes = static_cast<size_t>(left);
    hn::StoreN(bias == nullptr ? sum : hn::Add(sum, hn::LoadN(d, bias, lanes)), d, out, lanes);
  }
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
      ask_for(block + kAhead);
      VF sum[kRowVectors], zero[kRowVectors];
      for (int v = 0; v < kRowVectors; ++v) {
        sum[v] = hn::Zero(d);
        zero[v] = hn::ConvertTo(d, zero_of(weights, block, first + v));
      }
      const uint8_t* words = block + head_of(weights);
      for (int64_t k = 0; k < weights.group; k += kNeighbours, words += kGroupPanel * 4, x += kNeighbours) {
        ask_for(words + kAhead);
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
    for (int v = 0; v < kRowVectors; ++v) finish(call, 0, panel * kGroupPanel + (first + v) * kLanes, acc[v]);
  }
}

// One row, weights of 4 bits without zero points: the products of x[k] with all 16 integers make a table, in which
// every channel of kPanels panels looks its own up.
template <int kPanels> void one_row_by_table(const GroupCall& call, int64_t panel) {
  const GroupWeights& weights = *call.weights;
  const int64_t groups = weights.groups(), block_bytes = weights.block_bytes(), panel_bytes = groups * block_bytes;
  constexpr int kSums = kPanels * kVectors;
  const DF d;
  const VF integers = hn::Iota(d, -8);
  VF acc[kSums];
  for (VF& one : acc) one = hn::Zero(d);
  const float* x = call.x;
  const uint8_t* block = call.blocks + panel * panel_bytes;
  // Behind the end of its panel each asks for a panel that comes next.
  const int64_t last = groups - std::min(groups, std::max<int64_t>(1, kAhead / block_bytes));
  for (int64_t g = 0; g < groups; ++g, block += block_bytes) {
    const int64_t ahead = kAhead + (g < last ? 0 : (kPanels - 1) * panel_bytes);
    VF sum[kSums];
    for (VF& one : sum) one = hn::Zero(d);
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) ask_for(block + p * panel_bytes + ahead);
    const uint8_t* words = block + kGroupPanel * 4;
    for (int64_t k = 0; k < weights.group; k += 8, words += kGroupPanel * 4, x += 8) {
      W32 w[kSums];
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) {
        ask_for(words + p * panel_bytes + ahead);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) w[p * kVectors + v] = words_at(words + p * panel_bytes, v);
      }
      for_each_neighbour<4>([&]<int kShift>(int64_t at) HWY_ATTR {
        const VF products = hn::Mul(integers, hn::Set(d, x[at]));
#pragma GCC unroll 4
        for (int i = 0; i < kSums; ++i) sum[i] = hn::Add(sum[i], looked_up(products, shifted<kShift>(w[i])));
      });
    }
#pragma GCC unroll 4
    for (int i = 0; i < kSums; ++i) {
      const VF scale = scale_of(block + i / kVectors * panel_bytes, i % kVectors);
      acc[i] = hn::Add(acc[i], hn::Mul(sum[i], scale));
    }
  }
  for (int i = 0; i < kSums; ++i) finish(call, 0, panel * kGroupPanel + i * kLanes, acc[i]);
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
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t at = 0; at < kGroupPanel; at += kLanes)
          finish(call, row + r, panel * kGroupPanel + at, hn::LoadU(d, acc.get() + r * kGroupPanel + at));
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
    if constexpr (kRows == 1) ask_for(block + kAhead);
    const uint8_t* words = block + kHead;
    for (int64_t k = 0; k < weights.group; k += kNeighbours, words += kGroupPanel * 4) {
      if constexpr (kRows == 1) ask_for(words + kAhead);
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
      const int64_t channel = panel * kGroupPanel + (first_vector + v) * kLanes;
      const VF correction = hn::LoadU(d, weights.corrections.template data<float>() + channel);
      finish(call, row + r, channel, hn::Mul(hn::Sub(acc[r][v], hn::Mul(zero, correction)), scale));
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
  if (call.rows > 1) return many_rows_f32<kBits, kCentred>(call, begin, end);
  if constexpr (kBits == 4 && kCentred) {
    for (; begin + kTablePanels <= end; begin += kTablePanels) one_row_by_table<kTablePanels>(call, begin);
    for (; begin < end; ++begin) one_row_by_table<1>(call, begin);
  } else {
    one_row_f32<kBits, kCentred>(call, begin, end);
  }
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
