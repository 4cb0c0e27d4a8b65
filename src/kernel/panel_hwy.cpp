// The inner loops under gemm and conv, for every vector width; separate product and sum, so that all widths agree to
// the bit.
#include "kernel/panel.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/panel_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A panel is 16 wide, so a wider vector could not read it.
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D));
// AVX-512 has 32 registers, the others 16: the accumulators, a vector of each operand and a product must fit.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86;
constexpr int kMaxRows = kManyRegisters ? 8 : 4;
constexpr int kWideVectors = 2;
constexpr int kThinVectors = 4;

// How the broadcast operand lies: the rows of a panel side by side, a_stride from one k to the next, or row after row,
// a_stride apart.
enum class Rows { kPanels, kApart };

// `ahead` is a panel that will be read soon.
template <int kRows, int kVectors, bool kOffsets, Rows kLayout>
HWY_INLINE void multiply_registers(const float* HWY_RESTRICT a, int64_t a_stride, const LaneOperand& operand,
                                   int64_t column, int64_t depth, bool accumulate, const float* ahead,
                                   float* HWY_RESTRICT tile, int64_t tile_stride) {
  const D d;
  const float* b[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = column + v * kLanes;
    b[v] = kOffsets ? operand.data + at : operand.data + at / kPanel * operand.panel_stride + at % kPanel;
  }
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t step = kOffsets ? operand.offsets[k] : k * kPanel;
    V bv[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) bv[v] = hn::LoadU(d, b[v] + step);
    if constexpr (!kOffsets) __builtin_prefetch(ahead + k * kPanel, 0, 2);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V av = hn::Set(d, kLayout == Rows::kApart ? a[r * a_stride] : a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Add(sum[r][v], hn::Mul(av, bv[v]));
    }
    a += kLayout == Rows::kApart ? 1 : a_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* at = tile + r * tile_stride + column + v * kLanes;
      hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, at), sum[r][v]) : sum[r][v], d, at);
    }
  }
}

// All the columns for a strip of rows; the last columns go in ever fewer vectors.
template <int kRows, bool kOffsets, Rows kLayout>
HWY_NOINLINE void multiply_strip(const float* a, int64_t a_stride, const LaneOperand& b, int64_t begin, int64_t end,
                                 int64_t depth, bool accumulate, const float* ahead, float* tile, int64_t tile_stride) {
  constexpr int kVectors = kRows * kWideVectors >= 8 ? kWideVectors : kThinVectors;
  for (; begin + (kVectors - 1) * kLanes < end; begin += kVectors * kLanes)
    multiply_registers<kRows, kVectors, kOffsets, kLayout>(a, a_stride, b, begin, depth, accumulate, ahead, tile,
                                                           tile_stride);
  if constexpr (kVectors > 2) {
    for (; begin + kLanes < end; begin += 2 * kLanes)
      multiply_registers<kRows, 2, kOffsets, kLayout>(a, a_stride, b, begin, depth, accumulate, ahead, tile,
                                                      tile_stride);
  }
  for (; begin < end; begin += kLanes)
    multiply_registers<kRows, 1, kOffsets, kLayout>(a, a_stride, b, begin, depth, accumulate, ahead, tile, tile_stride);
}

// Rows in panels of a_panel, each strip of them for all the columns; strip i passes over what will be read from ahead +
// i * ahead_stride on.
template <bool kOffsets, Rows kLayout>
HWY_INLINE void multiply_panel(const float* a, int64_t a_panel, int64_t rows, const LaneOperand& b, int64_t begin,
                               int64_t end, int64_t depth, bool accumulate, const float* ahead, int64_t ahead_stride,
                               float* tile, int64_t tile_stride) {
  int64_t r = 0;
  const auto run = [&](auto function, int64_t count) HWY_ATTR {
    function(a + (kLayout == Rows::kApart ? r * a_panel : r), a_panel, b, begin, end, depth, accumulate, ahead,
             tile + r * tile_stride, tile_stride);
    ahead += ahead_stride;
    r += count;
  };
  while (r + kMaxRows <= rows) run(multiply_strip<kMaxRows, kOffsets, kLayout>, kMaxRows);
  if (kMaxRows > 4 && r + 4 <= rows) run(multiply_strip<4, kOffsets, kLayout>, 4);
  if (r + 2 <= rows) run(multiply_strip<2, kOffsets, kLayout>, 2);
  if (r < rows) run(multiply_strip<1, kOffsets, kLayout>, 1);
}

template <bool kOffsets>
void multiply_rows(const float* a, int64_t a_panel, int64_t a_panel_stride, int64_t rows, const LaneOperand& b,
                   int64_t columns, int64_t depth, bool accumulate, float* tile, int64_t tile_stride) {
  // A strip of columns stays in the first-level cache while all rows pass over it.
  const int64_t strip = rows > kMaxRows ? std::max(kPanel, kWideVectors * kLanes) : columns;
  // Weights come from memory, for those of a network stay in no cache, and the processor's own prefetching starts anew
  // at every panel. So a panel of either operand is asked for while one before it is used: 13 % less time for 512
  // channels of 7 x 7.
  for (int64_t c = 0; c < columns; c += strip) {
    const int64_t end = std::min(c + strip, columns);
    for (int64_t r = 0; r < rows; r += a_panel) {
      const float* panel = a + r / a_panel * a_panel_stride;
      const bool lanes = r == 0 && end < columns, next = c == 0 && r + a_panel < rows;
      const float* ahead = lanes ? b.data + end / kPanel * b.panel_stride : next ? panel + a_panel_stride : panel;
      multiply_panel<kOffsets, Rows::kPanels>(panel, a_panel, std::min(a_panel, rows - r), b, c, end, depth, accumulate,
                                              ahead, lanes ? b.panel_stride : 0, tile + r * tile_stride, tile_stride);
    }
  }
}

void multiply_block(const float* a, int64_t a_panel, int64_t a_panel_stride, int64_t rows, const LaneOperand& b,
                    int64_t columns, int64_t depth, bool accumulate, float* tile, int64_t tile_stride) {
  if (b.offsets) {
    multiply_rows<true>(a, a_panel, a_panel_stride, rows, b, columns, depth, accumulate, tile, tile_stride);
  } else {
    multiply_rows<false>(a, a_panel, a_panel_stride, rows, b, columns, depth, accumulate, tile, tile_stride);
  }
}

void multiply_block_by_rows(const float* a, int64_t a_row_stride, int64_t rows, const LaneOperand& b, int64_t columns,
                            int64_t depth, bool accumulate, float* tile, int64_t tile_stride) {
  constexpr int64_t kStrip = std::max(kPanel, kWideVectors * kLanes);
  for (int64_t c = 0; c < columns; c += kStrip)
    multiply_panel<false, Rows::kApart>(a, a_row_stride, rows, b, c, std::min(c + kStrip, columns), depth, accumulate,
                                        b.data, 0, tile, tile_stride);
}

void store_tile(const float* tile, int64_t tile_stride, int64_t rows, int64_t columns, const float* row_bias,
                const float* column_bias, float* out, int64_t out_stride) {
  const D d;
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = tile + r * tile_stride;
    float* to = out + r * out_stride;
    int64_t c = 0;
    if (row_bias) {
      const V bias = hn::Set(d, row_bias[r]);
      for (; c + kLanes <= columns; c += kLanes) hn::StoreU(hn::Add(hn::LoadU(d, from + c), bias), d, to + c);
      for (; c < columns; ++c) to[c] = from[c] + row_bias[r];
    } else if (column_bias) {
      for (; c + kLanes <= columns; c += kLanes)
        hn::StoreU(hn::Add(hn::LoadU(d, from + c), hn::LoadU(d, column_bias + c)), d, to + c);
      for (; c < columns; ++c) to[c] = from[c] + column_bias[c];
    } else {
      std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(float));
    }
  }
}

// to[j * to_stride + i] = from[i * from_stride + j] + bias[j] for i, j < 4; no addition where bias is null.
HWY_INLINE void transpose_4x4(const float* from, int64_t from_stride, const float* bias, float* to, int64_t to_stride) {
  const hn::FixedTag<float, 4> d;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_stride);
  const auto c = hn::LoadU(d, from + 2 * from_stride), e = hn::LoadU(d, from + 3 * from_stride);
  const auto ac_low = hn::InterleaveLower(d, a, c), be_low = hn::InterleaveLower(d, b, e);
  const auto ac_high = hn::InterleaveUpper(d, a, c), be_high = hn::InterleaveUpper(d, b, e);
  auto first = hn::InterleaveLower(d, ac_low, be_low), second = hn::InterleaveUpper(d, ac_low, be_low);
  auto third = hn::InterleaveLower(d, ac_high, be_high), fourth = hn::InterleaveUpper(d, ac_high, be_high);
  if (bias != nullptr) {
    first = hn::Add(first, hn::Set(d, bias[0]));
    second = hn::Add(second, hn::Set(d, bias[1]));
    third = hn::Add(third, hn::Set(d, bias[2]));
    fourth = hn::Add(fourth, hn::Set(d, bias[3]));
  }
  hn::StoreU(first, d, to);
  hn::StoreU(second, d, to + to_stride);
  hn::StoreU(third, d, to + 2 * to_stride);
  hn::StoreU(fourth, d, to + 3 * to_stride);
}

void store_tile_transposed(const float* tile, int64_t tile_stride, int64_t rows, int64_t columns,
                           const float* column_bias, float* out, int64_t out_stride) {
  int64_t c = 0;
  // The last four rows may be stored twice.
  for (; rows >= 4 && c + 4 <= columns; c += 4)
    for (int64_t r = 0; r < rows; r += 4) {
      const int64_t at = std::min(r, rows - 4);
      transpose_4x4(tile + at * tile_stride + c, tile_stride, column_bias ? column_bias + c : nullptr,
                    out + c * out_stride + at, out_stride);
    }
  for (; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r)
      out[c * out_stride + r] = column_bias ? tile[r * tile_stride + c] + column_bias[c] : tile[r * tile_stride + c];
}

void pack_rows_of_panel(const float* m, int64_t row_stride, int64_t depth, float* panel) {
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4)
    for (int64_t r = 0; r < kPanel; r += 4)
      transpose_4x4(m + r * row_stride + k, row_stride, nullptr, panel + k * kPanel + r, kPanel);
  for (; k < depth; ++k)
    for (int64_t r = 0; r < kPanel; ++r) panel[k * kPanel + r] = m[r * row_stride + k];
}

// Four neighbouring elements of each of kLanes rows, `stride` apart, as four vectors with an element of every row.
HWY_INLINE void turn_rows(const float* from, int64_t stride, V* out) {
  const D d;
  V in[4];
  for (int64_t i = 0; i < 4; ++i) {
    const float* at = from + i * stride;
    if constexpr (kLanes == 4) {
      in[i] = hn::LoadU(d, at);
    } else if constexpr (kLanes == 8) {
      const hn::Half<D> half;
      in[i] = hn::Combine(d, hn::LoadU(half, at + 4 * stride), hn::LoadU(half, at));
    } else {
      const hn::Half<D> half;
      const hn::Half<decltype(half)> quarter;
      const auto pair = [&](int64_t r) HWY_ATTR {
        return hn::Combine(half, hn::LoadU(quarter, at + (r + 4) * stride), hn::LoadU(quarter, at + r * stride));
      };
      in[i] = hn::Combine(d, pair(8), pair(0));
    }
  }
  const V low = hn::InterleaveLower(d, in[0], in[2]), high = hn::InterleaveUpper(d, in[0], in[2]),
          odd_low = hn::InterleaveLower(d, in[1], in[3]), odd_high = hn::InterleaveUpper(d, in[1], in[3]);
  out[0] = hn::InterleaveLower(d, low, odd_low);
  out[1] = hn::InterleaveUpper(d, low, odd_low);
  out[2] = hn::InterleaveLower(d, high, odd_high);
  out[3] = hn::InterleaveUpper(d, high, odd_high);
}

// Sums of kGroups * kLanes rows, of which the last one may stand for those that are missing. Rows whose distance is a
// power of two would push each other out of the first-level cache, so stretches of them are copied side by side.
template <size_t kGroups>
HWY_INLINE void sum_products_of_rows(const float* m, int64_t row_stride, int64_t last, int64_t depth, const float* x,
                                     int64_t x_stride, V* total) {
  const D d;
  constexpr int64_t kRows = static_cast<int64_t>(kGroups) * kLanes, kStretch = 64, kApart = kStretch + 16;
  static_assert(kSumBlock % kStretch == 0);
  float copies[kRows * kApart];
  V sum[kGroups];
  for (size_t g = 0; g < kGroups; ++g) sum[g] = total[g] = hn::Zero(d);
  for (int64_t begin = 0; begin < depth; begin += kStretch) {
    const int64_t n = std::min(kStretch, depth - begin), whole = n / 4 * 4;
    for (int64_t r = 0; r < kRows; ++r) {
      const float* from = m + std::min(r, last) * row_stride + begin;
      if (n == kStretch) std::memcpy(copies + r * kApart, from, kStretch * sizeof(float));  // a constant size
      else std::copy_n(from, n, copies + r * kApart);
    }
    const float* factors = x + begin * x_stride;
    for (int64_t k = 0; k < whole; k += 4) {
      V columns[kGroups][4];
      for (size_t g = 0; g < kGroups; ++g)
        turn_rows(copies + static_cast<int64_t>(g) * kLanes * kApart + k, kApart, columns[g]);
      for (int64_t j = 0; j < 4; ++j)
        for (size_t g = 0; g < kGroups; ++g)
          sum[g] = hn::Add(sum[g], hn::Mul(columns[g][j], hn::Set(d, factors[(k + j) * x_stride])));
    }
    for (int64_t k = whole; k < n; ++k)
      for (size_t g = 0; g < kGroups; ++g) {
        float column[kLanes];
        for (int64_t r = 0; r < kLanes; ++r) column[r] = copies[(static_cast<int64_t>(g) * kLanes + r) * kApart + k];
        sum[g] = hn::Add(sum[g], hn::Mul(hn::LoadU(d, column), hn::Set(d, factors[k * x_stride])));
      }
    const int64_t end = begin + n;
    if (end % kSumBlock != 0 && end < depth) continue;
    for (size_t g = 0; g < kGroups; ++g) {
      total[g] = end <= kSumBlock ? sum[g] : hn::Add(total[g], sum[g]);
      sum[g] = hn::Zero(d);
    }
  }
}

void multiply_vector(const float* m, int64_t row_stride, int64_t rows, int64_t depth, const float* x, int64_t x_stride,
                     float* out) {
  constexpr size_t kGroups = 2;
  constexpr int64_t kTogether = static_cast<int64_t>(kGroups) * kLanes;
  const D d;
  for (int64_t r = 0; r < rows; r += kTogether) {
    const int64_t count = std::min(kTogether, rows - r);
    const float* first = m + r * row_stride;
    V total[kGroups];
    if (count > kLanes) sum_products_of_rows<kGroups>(first, row_stride, count - 1, depth, x, x_stride, total);
    else sum_products_of_rows<1>(first, row_stride, count - 1, depth, x, x_stride, total);
    for (int64_t i = 0; i < count; i += kLanes)
      hn::StoreN(total[i / kLanes], d, out + r + i, static_cast<size_t>(std::min(kLanes, count - i)));
  }
}

void pack_columns(const float* m, int64_t row_stride, int64_t count, int64_t depth, float* panels) {
  const D d;
  // Rows are far apart and come from memory: so much of each is taken at once, and what will be taken next is asked
  // for.
  constexpr int64_t kPanels = 4, kAtOnce = kPanels * kPanel;
  const int64_t panel = depth * kPanel;
  for (; count >= kAtOnce; count -= kAtOnce, m += kAtOnce, panels += kPanels * panel) {
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = m + k * row_stride;
      float* to = panels + k * kPanel;
      for (int64_t p = 0; p < kPanels; ++p) {
        __builtin_prefetch(from + kAtOnce + p * kPanel, 0, 2);
        for (int64_t j = 0; j < kPanel; j += kLanes)
          hn::StoreU(hn::LoadU(d, from + p * kPanel + j), d, to + p * panel + j);
      }
    }
  }
  for (; count > 0; count -= kPanel, m += kPanel, panels += panel) {
    const size_t width = static_cast<size_t>(std::min(count, kPanel));
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = m + k * row_stride;
      float* to = panels + k * kPanel;
      for (size_t j = 0; j < static_cast<size_t>(kPanel); j += static_cast<size_t>(kLanes))
        hn::StoreU(j < width ? hn::LoadN(d, from + j, width - j) : hn::Zero(d), d, to + j);
    }
  }
}

void pack_segments(const float* source, const int64_t* offsets, int64_t depth, const Segment* segments, int64_t count,
                   float* panel) {
  const D d;
  for (int64_t k = 0; k < depth; ++k, panel += kPanel) {
    const float* from = source + offsets[k];
    float* to = panel;
    for (int64_t s = 0; s < count; ++s) {
      const float* at = from + segments[s].begin;
      const int64_t length = segments[s].length;
      for (int64_t j = 0; j < length; j += kLanes) hn::StoreU(hn::LoadU(d, at + j), d, to + j);
      to += length;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(multiply_block);
HWY_EXPORT(multiply_block_by_rows);
HWY_EXPORT(store_tile);
HWY_EXPORT(store_tile_transposed);
HWY_EXPORT(pack_rows_of_panel);
HWY_EXPORT(pack_columns);
HWY_EXPORT(multiply_vector);
HWY_EXPORT(pack_segments);

void multiply_block(const float* a, int64_t a_panel, int64_t a_panel_stride, int64_t rows, const LaneOperand& b,
                    int64_t columns, int64_t depth, bool accumulate, float* tile, int64_t tile_stride) {
  HWY_DYNAMIC_DISPATCH(multiply_block)
  (a, a_panel, a_panel_stride, rows, b, columns, depth, accumulate, tile, tile_stride);
}

void multiply_block_by_rows(const float* a, int64_t a_row_stride, int64_t rows, const LaneOperand& b, int64_t columns,
                            int64_t depth, bool accumulate, float* tile, int64_t tile_stride) {
  HWY_DYNAMIC_DISPATCH(multiply_block_by_rows)
  (a, a_row_stride, rows, b, columns, depth, accumulate, tile, tile_stride);
}

void store_tile(const float* tile, int64_t tile_stride, int64_t rows, int64_t columns, const float* row_bias,
                const float* column_bias, float* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(store_tile)(tile, tile_stride, rows, columns, row_bias, column_bias, out, out_stride);
}

void store_tile_transposed(const float* tile, int64_t tile_stride, int64_t rows, int64_t columns,
                           const float* column_bias, float* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(store_tile_transposed)(tile, tile_stride, rows, columns, column_bias, out, out_stride);
}

void pack_rows_of_panel(const float* m, int64_t row_stride, int64_t depth, float* panel) {
  HWY_DYNAMIC_DISPATCH(pack_rows_of_panel)(m, row_stride, depth, panel);
}

void pack_columns(const float* m, int64_t row_stride, int64_t count, int64_t depth, float* panels) {
  HWY_DYNAMIC_DISPATCH(pack_columns)(m, row_stride, count, depth, panels);
}

void multiply_vector(const float* m, int64_t row_stride, int64_t rows, int64_t depth, const float* x, int64_t x_stride,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(multiply_vector)(m, row_stride, rows, depth, x, x_stride, out);
}

void pack_segments(const float* source, const int64_t* offsets, int64_t depth, const Segment* segments, int64_t count,
                   float* panel) {
  HWY_DYNAMIC_DISPATCH(pack_segments)(source, offsets, depth, segments, count, panel);
}

}  // namespace qdq::kernel
#endif
