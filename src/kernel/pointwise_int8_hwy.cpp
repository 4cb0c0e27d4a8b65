// Integer pools and elementwise loops; vectors run along the channels of a pixel.
#include "kernel/pointwise_int8.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "kernel/panel.h"

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/pointwise_int8_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/requantize_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<int32_t, 16>;
using DF = hn::Rebind<float, D32>;
using VF = hn::Vec<DF>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D32));
constexpr int kVectors = kLanes == 4 ? 4 : 2;
constexpr int64_t kColumns = kVectors * kLanes;
// Pools: 16 channels at once on every target, so that few are left over.
using U8 = hn::FixedTag<uint8_t, 16>;
using U16 = hn::FixedTag<uint16_t, 8>;

// finish_real for one row, with the constants of the rounding in registers where all that follows t is that.
struct RowFinish {
  const Requantize& to;
  bool only_rounds, is_scaled;
  Quantizer<D32> quantize;
  VF inverse;

  HWY_INLINE explicit RowFinish(const Requantize& q)
      : to(q), only_rounds(!q.activation && !q.out_is_float), is_scaled(q.inverse_scale == 1.0f), quantize(q),
        inverse(hn::Set(DF(), q.inverse_scale)) {}
  template <int kCount> HWY_INLINE void operator()(VF (&t)[1][kCount], std::byte* out, int64_t valid) const {
    if (!only_rounds || valid < kCount * kLanes) return finish_real(D32(), to, t, out, 0, valid);
    hn::Vec<D32> q[kCount];
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) q[v] = quantize(is_scaled ? t[0][v] : hn::Mul(t[0][v], inverse));
    store_bytes<kCount>(D32(), q, reinterpret_cast<uint8_t*>(out));
  }
};

// Calls columns(count, i, valid) for stretches of n elements: `count` vectors from element i on, of which `valid`
// elements exist. A row often ends between two blocks of vectors, so that the rest goes by single ones. The last may
// take elements a second time if the result is not written over an operand.
template <class Columns> HWY_INLINE void for_columns(int64_t n, bool may_repeat, Columns&& columns) {
  const std::integral_constant<int, 1> one;
  int64_t i = 0;
  for (; i + kColumns <= n; i += kColumns) columns(std::integral_constant<int, kVectors>(), i, kColumns);
  for (; i + kLanes <= n; i += kLanes) columns(one, i, kLanes);
  if (i == n) return;
  if (may_repeat && n >= kLanes) return columns(one, n - kLanes, kLanes);
  columns(one, i, n - i);
}

// Calls combine(a, b) on vectors of two operands, and finishes what it returns.
template <class Combine>
HWY_INLINE void combine_rows(const RealRows& a, const RealRows& b, int64_t begin, int64_t end, int64_t n,
                             const Requantize& to, std::byte* out, Combine&& combine) {
  const int64_t out_bytes = to.out_is_float ? 4 : 1;
  const RowFinish finish(to);
  for (int64_t r = begin; r < end; ++r) {
    for_columns(n, out != a.data && out != b.data, [&](auto count, int64_t i, int64_t valid) HWY_ATTR {
      constexpr int kCount = decltype(count)::value;
      VF x[kCount], y[kCount], t[1][kCount];
      load_operand<kCount>(D32(), a.data, a.is_float, a.zero_point, r * a.row_stride + i, valid, x);
      load_operand<kCount>(D32(), b.data, b.is_float, b.zero_point, r * b.row_stride + i, valid, y);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) t[0][v] = combine(x[v], y[v]);
      finish(t, out + (r * n + i) * out_bytes, valid);
    });
  }
}

void add_range(const RealRows& a, float a_multiplier, const RealRows& b, float b_multiplier, int64_t begin, int64_t end,
               int64_t n, const Requantize& to, std::byte* out) {
  const VF a_by = hn::Set(DF(), a_multiplier), b_by = hn::Set(DF(), b_multiplier);
  combine_rows(a, b, begin, end, n, to, out,
               [&](VF x, VF y) HWY_ATTR { return hn::Add(hn::Mul(x, a_by), hn::Mul(y, b_by)); });
}

void mul_range(const RealRows& a, const RealRows& b, float multiplier, int64_t begin, int64_t end, int64_t n,
               const Requantize& to, std::byte* out) {
  if (multiplier == 1.0f)
    return combine_rows(a, b, begin, end, n, to, out, [&](VF x, VF y) HWY_ATTR { return hn::Mul(x, y); });
  const VF by = hn::Set(DF(), multiplier);
  combine_rows(a, b, begin, end, n, to, out, [&](VF x, VF y) HWY_ATTR { return hn::Mul(hn::Mul(x, by), y); });
}

void prelu_range(const RealRows& x, const RealRows& slopes, float multiplier, int64_t begin, int64_t end, int64_t n,
                 const Requantize& to, std::byte* out) {
  const VF by = hn::Set(DF(), multiplier);
  combine_rows(x, slopes, begin, end, n, to, out, [&](VF value, VF slope) HWY_ATTR {
    const VF t = hn::Mul(value, by);
    return hn::IfThenElse(hn::Gt(t, hn::Zero(DF())), t, hn::Mul(t, slope));
  });
}

void convert_range(const RealRows& x, float multiplier, int64_t n, const Requantize& to, std::byte* out) {
  const VF by = hn::Set(DF(), multiplier);
  const RowFinish finish(to);
  for_columns(n, out != x.data, [&](auto count, int64_t i, int64_t valid) HWY_ATTR {
    constexpr int kCount = decltype(count)::value;
    VF t[1][kCount];
    load_operand<kCount>(D32(), x.data, x.is_float, x.zero_point, i, valid, t[0]);
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) t[0][v] = hn::Mul(t[0][v], by);
    finish(t, out + i * (to.out_is_float ? 4 : 1), valid);
  });
}

void finish_sums(const int32_t* sums, int64_t n, float multiplier, const Requantize& to, std::byte* out) {
  const D32 d;
  const VF by = hn::Set(DF(), multiplier);
  for (int64_t i = 0; i < n; i += kColumns) {
    int32_t copy[kColumns] = {};
    const int32_t* from = sums + i;
    if (n - i < kColumns) {
      std::copy(from, from + (n - i), copy);
      from = copy;
    }
    VF t[1][kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) t[0][v] = hn::Mul(hn::ConvertTo(DF(), hn::LoadU(d, from + v * kLanes)), by);
    finish_real(d, to, t, out + i * (to.out_is_float ? 4 : 1), 0, n - i);
  }
}

// table[index] of 16 entries a block of lanes, 0 where an index is 16 or more.
template <class V> HWY_INLINE V entry_or_zero(V table, V index) {
#if defined(__wasm_simd128__)
  return V{wasm_i8x16_swizzle(table.raw, index.raw)};
#else
  return hn::TableLookupBytesOr0(table, hn::SaturatedAdd(index, hn::Set(hn::DFromV<V>(), uint8_t{0x70})));
#endif
}

// As many stretches of kTogether vectors as fit, from i on; returns where they end.
template <int kTogether, class D>
HWY_INLINE int64_t map_stretches(D d, const uint8_t* x, int64_t i, int64_t n, const ByteTable& table, uint8_t* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, table.low), high = hn::Set(d, table.high), step = hn::Set(d, uint8_t{16});
  for (; i + kTogether * lanes <= n; i += kTogether * lanes) {
    hn::Vec<D> index[kTogether], found[kTogether];
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) {
      index[v] = hn::Sub(hn::Max(hn::Min(hn::LoadU(d, x + i + v * lanes), high), low), low);
      found[v] = hn::Zero(d);
    }
    const uint8_t* entries = table.entries.data();
    for (int piece = 0; piece < table.pieces; ++piece, entries += 16) {
      const auto of = hn::LoadDup128(d, entries);
#pragma GCC unroll 4
      for (int v = 0; v < kTogether; ++v) {
        found[v] = hn::Or(found[v], entry_or_zero(of, index[v]));
        index[v] = hn::Sub(index[v], step);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) hn::StoreU(found[v], d, out + i + v * lanes);
  }
  return i;
}

// As many stretches of 8 bytes as fit, each byte by itself; returns where they end.
HWY_INLINE int64_t map_single_bytes(const uint8_t* x, int64_t n, const ByteTable& table, uint8_t* out) {
  const uint8_t* whole = table.whole.data();
  const uint8_t* const end = x + n / 8 * 8;
  for (; x != end; x += 8, out += 8) {
    uint8_t found[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) found[i] = whole[x[i]];
    std::memcpy(out, found, sizeof found);
  }
  return n / 8 * 8;
}

void map_bytes(const uint8_t* x, int64_t n, const ByteTable& table, uint8_t* out) {
  using D = hn::CappedTag<uint8_t, 64>;
  int64_t i = 0;
  // Where vectors have 16 bytes, a piece takes 0.022 ns a byte (WebAssembly in Node 24), and all of the table 0.19 ns
  // byte by byte.
  constexpr int kPiecesAByte = 8;
  if (HWY_MAX_LANES_D(D) == 16 && table.pieces > kPiecesAByte) {
    i = map_single_bytes(x, n, table, out);
  } else {
    i = map_stretches<4>(D(), x, i, n, table, out);
    i = map_stretches<1>(U8(), x, i, n, table, out);
  }
  for (; i < n; ++i) out[i] = table.whole[x[i]];
}

// A row of pixels at a time: so many lie in the cache while their channels are taken in blocks of kCount vectors.
template <int kCount>
HWY_INLINE int64_t sum_rounded_blocks(const Quantizer<D32>& quantize, VF inverse, const float* x, int64_t columns,
                                      int64_t column_stride, int64_t c, int64_t channels, int32_t* sums) {
  const D32 d;
  for (; c + kCount * kLanes <= channels; c += kCount * kLanes) {
    hn::Vec<D32> total[kCount];
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) total[v] = hn::LoadU(d, sums + c + v * kLanes);
    for (int64_t j = 0; j < columns; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v)
        total[v] =
            hn::Add(total[v], quantize.bits(hn::Mul(hn::LoadU(DF(), x + j * column_stride + c + v * kLanes), inverse)));
    }
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) hn::StoreU(total[v], d, sums + c + v * kLanes);
  }
  return c;
}

void sum_rounded(const float* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                 int64_t channels, const Requantize& rounding, int32_t* sums) {
  const Quantizer<D32> quantize(rounding);
  const VF inverse = hn::Set(DF(), rounding.inverse_scale);
  // The integers are added with the rounder's bits, and both sums are modulo 2^32.
  std::fill_n(sums, channels,
              static_cast<int32_t>(0 - static_cast<uint32_t>(rows * columns) * static_cast<uint32_t>(kRounderBits)));
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = x + i * row_stride;
    int64_t c = sum_rounded_blocks<4>(quantize, inverse, row, columns, column_stride, 0, channels, sums);
    c = sum_rounded_blocks<1>(quantize, inverse, row, columns, column_stride, c, channels, sums);
    if (c == channels) continue;
    const auto rest = static_cast<size_t>(channels - c);
    auto total = hn::LoadN(D32(), sums + c, rest);
    for (int64_t j = 0; j < columns; ++j)
      total = hn::Add(total, quantize.bits(hn::Mul(hn::LoadN(DF(), row + j * column_stride + c, rest), inverse)));
    hn::StoreN(total, D32(), sums + c, rest);
  }
}

// The taps of output o that lie inside: [first, first + count) of the kernel's.
struct Taps {
  int64_t first, count;
};
inline Taps taps_inside(int64_t o, int64_t stride, int64_t pad, int64_t dilation, int64_t kernel, int64_t extent) {
  const int64_t begin = o * stride - pad;
  const int64_t first = begin < 0 ? divide_up(-begin, dilation) : 0;
  return {first, std::min(kernel, divide_up(extent - begin, dilation)) - first};
}

// The largest of rows x columns pixels in channels [c, n), as many vectors of D as fit; returns the first channel that
// is left.
template <class D>
HWY_INLINE int64_t max_vectors(D d, const uint8_t* x, Taps rows, int64_t row_stride, Taps columns,
                               int64_t column_stride, int64_t c, int64_t n, uint8_t* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + lanes <= n; c += lanes) {
    auto largest = hn::Zero(d);
    for (int64_t i = 0; i < rows.count; ++i) {
      for (int64_t j = 0; j < columns.count; ++j)
        largest = hn::Max(largest, hn::LoadU(d, x + i * row_stride + j * column_stride + c));
    }
    hn::StoreU(largest, d, out + c);
  }
  return c;
}

// One row of outputs; `x` is the image's row of the first tap.
void max_row(const uint8_t* x, Taps rows, const Pool2d& p, int64_t n, uint8_t* out) {
  const int64_t row_stride = p.dilation_h * p.in_w * n, column_stride = p.dilation_w * n;
  for (int64_t ow = 0; ow < p.out_w; ++ow, out += n) {
    const Taps columns = taps_inside(ow, p.stride_w, p.pad_w, p.dilation_w, p.kernel_w, p.in_w);
    const uint8_t* at = x + (ow * p.stride_w - p.pad_w + columns.first * p.dilation_w) * n;
    int64_t c = max_vectors(hn::CappedTag<uint8_t, 64>(), at, rows, row_stride, columns, column_stride, 0, n, out);
    c = max_vectors(U8(), at, rows, row_stride, columns, column_stride, c, n, out);
    c = max_vectors(hn::FixedTag<uint8_t, 8>(), at, rows, row_stride, columns, column_stride, c, n, out);
    for (; c < n; ++c) {
      uint8_t largest = 0;
      for (int64_t i = 0; i < rows.count; ++i)
        for (int64_t j = 0; j < columns.count; ++j)
          largest = std::max(largest, at[i * row_stride + j * column_stride + c]);
      out[c] = largest;
    }
  }
}

void max_rows(const uint8_t* x, const Pool2d& p, int64_t channels, int64_t begin, int64_t end, uint8_t* out) {
  const int64_t row_stride = p.in_w * channels;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t n = row / p.out_h, oh = row % p.out_h;
    const Taps rows = taps_inside(oh, p.stride_h, p.pad_h, p.dilation_h, p.kernel_h, p.in_h);
    const int64_t first = n * p.in_h + oh * p.stride_h - p.pad_h + rows.first * p.dilation_h;
    max_row(x + first * row_stride, rows, p, channels, out + row * p.out_w * channels);
  }
}

// Planes of three channels as pixels.
void interleave_3(const uint8_t* x, int64_t pixels, uint8_t* out) {
  const U8 d;
  int64_t p = 0;
  for (; p + 16 <= pixels; p += 16)
    hn::StoreInterleaved3(hn::LoadU(d, x + p), hn::LoadU(d, x + pixels + p), hn::LoadU(d, x + 2 * pixels + p), d,
                          out + 3 * p);
  for (; p < pixels; ++p)
    for (int64_t c = 0; c < 3; ++c) out[3 * p + c] = x[c * pixels + p];
}

// 16 planes from x on as 16 channels of `pixels` pixels, which lie `channels` bytes apart in `out`. In each of four
// rounds row i of a tile is paired with row i + 8, which makes columns of rows.
void interleave_16(const uint8_t* x, int64_t stride, int64_t pixels, int64_t channels, uint8_t* out) {
  const U8 d;
  int64_t p = 0;
  for (; p + 16 <= pixels; p += 16) {
    hn::Vec<U8> a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) a[i] = hn::LoadU(d, x + i * stride + p);
    const auto round = [&](const hn::Vec<U8>(&from)[16], hn::Vec<U8>(&to)[16]) HWY_ATTR {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        to[2 * i] = hn::InterleaveLower(d, from[i], from[i + 8]);
        to[2 * i + 1] = hn::InterleaveUpper(d, from[i], from[i + 8]);
      }
    };
    round(a, b);
    round(b, a);
    round(a, b);
    round(b, a);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) hn::StoreU(a[i], d, out + (p + i) * channels);
  }
  for (; p < pixels; ++p)
    for (int64_t c = 0; c < 16; ++c) out[p * channels + c] = x[c * stride + p];
}

void sum_pixels(const uint8_t* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                int64_t channels, int32_t zero_point, int32_t* sums) {
  const U8 d;
  const U16 d16;
  const hn::FixedTag<int32_t, 4> d32;
  const auto base = static_cast<int32_t>(-rows * columns * zero_point);
  int64_t c = 0;
  for (; c + 16 <= channels; c += 16) {
    hn::Vec<decltype(d32)> total[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) total[v] = hn::Set(d32, base);
    // 16 bits hold the sum of 256 bytes.
    auto low = hn::Zero(d16), high = hn::Zero(d16);
    int64_t count = 0;
    const auto flush = [&]() HWY_ATTR {
      total[0] = hn::Add(total[0], hn::PromoteTo(d32, hn::LowerHalf(low)));
      total[1] = hn::Add(total[1], hn::PromoteTo(d32, hn::UpperHalf(hn::Half<U16>(), low)));
      total[2] = hn::Add(total[2], hn::PromoteTo(d32, hn::LowerHalf(high)));
      total[3] = hn::Add(total[3], hn::PromoteTo(d32, hn::UpperHalf(hn::Half<U16>(), high)));
      low = high = hn::Zero(d16);
      count = 0;
    };
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto bytes = hn::LoadU(d, x + i * row_stride + j * column_stride + c);
        low = hn::Add(low, hn::PromoteTo(d16, hn::LowerHalf(bytes)));
        high = hn::Add(high, hn::PromoteTo(d16, hn::UpperHalf(hn::Half<U8>(), bytes)));
        if (++count == 256) flush();
      }
    }
    flush();
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) hn::StoreU(total[v], d32, sums + c + 4 * v);
  }
  for (; c < channels; ++c) {
    int32_t total = base;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) total += x[i * row_stride + j * column_stride + c];
    sums[c] = total;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(add_range);
HWY_EXPORT(mul_range);
HWY_EXPORT(prelu_range);
HWY_EXPORT(convert_range);
HWY_EXPORT(finish_sums);
HWY_EXPORT(max_rows);
HWY_EXPORT(interleave_3);
HWY_EXPORT(interleave_16);
HWY_EXPORT(sum_pixels);
HWY_EXPORT(map_bytes);
HWY_EXPORT(sum_rounded);

// Elements below which waking threads costs more than it gains, and of which the parts are that threads share out:
// parts of four times as many left threads of EfficientNet with unequal work, which took a tenth longer on WebAssembly.
constexpr int64_t kSerialElements = int64_t{1} << 14;
int64_t rows_a_task(int64_t n) { return std::max<int64_t>(1, kSerialElements / std::max<int64_t>(n, 1)); }

// The operand from element `begin` of its only row on.
RealRows from_element(const RealRows& x, int64_t begin) {
  RealRows part = x;
  part.data = x.data + begin * (x.is_float ? 4 : 1);
  return part;
}

// Operands that repeat nothing are one long row: no ends of rows between vectors.
bool joins(const RealRows& a, const RealRows& b, int64_t n) { return a.row_stride == n && b.row_stride == n; }

// A kernel for rows [begin, end) of two operands; `out` is that of row 0.
using RowRange =
    std::function<void(const RealRows& a, const RealRows& b, int64_t begin, int64_t end, int64_t n, std::byte* out)>;

// Divides joined operands into rows for threads. The last one may be shorter, so the count of elements comes along.
void for_rows_of(const RealRows& a, const RealRows& b, int64_t rows, int64_t n, int64_t out_bytes, std::byte* out,
                 const RowRange& run) {
  if (!joins(a, b, n)) {
    parallel_for(rows, rows_a_task(n), [&](int64_t begin, int64_t end) { run(a, b, begin, end, n, out); });
    return;
  }
  parallel_for(rows * n, kSerialElements, [&](int64_t begin, int64_t end) {
    run(from_element(a, begin), from_element(b, begin), 0, 1, end - begin, out + begin * out_bytes);
  });
}

// The same, with as many short rows together as make a long one, where one operand is repeated: that is written side
// by side. Rows of 8 channels took 20 times as long one by one.
void for_ranges(RealRows a, RealRows b, int64_t rows, int64_t n, bool out_is_float, void* out, const RowRange& run) {
  constexpr int64_t kShort = 64, kLong = 256;
  const int64_t out_bytes = out_is_float ? 4 : 1, together = kLong / std::max<int64_t>(n, 1);
  auto* const to = static_cast<std::byte*>(out);
  const bool repeats_a = a.row_stride == 0 && b.row_stride == n, repeats_b = b.row_stride == 0 && a.row_stride == n;
  if (n >= kShort || n == 0 || repeats_a == repeats_b || rows < 2 * together)
    return for_rows_of(a, b, rows, n, out_bytes, to, run);
  RealRows &once = repeats_a ? a : b, &other = repeats_a ? b : a;
  const auto row_bytes = static_cast<size_t>(n * (once.is_float ? 4 : 1));
  std::vector<std::byte> row(row_bytes * static_cast<size_t>(together));
  for (size_t i = 0; i < static_cast<size_t>(together); ++i)
    std::memcpy(row.data() + i * row_bytes, once.data, row_bytes);
  once.data = row.data();
  const int64_t whole = rows / together * together;
  const RealRows rest = from_element(other, whole * n);
  other.row_stride = n * together;
  for_rows_of(a, b, rows / together, n * together, out_bytes, to, run);
  if (whole == rows) return;
  other = rest;
  run(a, b, 0, 1, n * (rows - whole), to + whole * n * out_bytes);
}

}  // namespace

void add_rows(const RealRows& a, float a_multiplier, const RealRows& b, float b_multiplier, int64_t rows, int64_t n,
              const Requantize& to, void* out) {
  for_ranges(a, b, rows, n, to.out_is_float, out,
             [&](const RealRows& x, const RealRows& y, int64_t begin, int64_t end, int64_t count, std::byte* at) {
               HWY_DYNAMIC_DISPATCH(add_range)(x, a_multiplier, y, b_multiplier, begin, end, count, to, at);
             });
}

void mul_rows(const RealRows& a, const RealRows& b, float multiplier, int64_t rows, int64_t n, const Requantize& to,
              void* out) {
  // factors of the channels: once instead of in every row
  if (a.is_float && a.row_stride == 0 && rows > 1 && multiplier != 1.0f) {
    std::vector<float> scaled(static_cast<size_t>(n));
    for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = reinterpret_cast<const float*>(a.data)[i] * multiplier;
    return mul_rows({reinterpret_cast<const std::byte*>(scaled.data()), true, 0, 0}, b, 1.0f, rows, n, to, out);
  }
  for_ranges(a, b, rows, n, to.out_is_float, out,
             [&](const RealRows& x, const RealRows& y, int64_t begin, int64_t end, int64_t count, std::byte* at) {
               HWY_DYNAMIC_DISPATCH(mul_range)(x, y, multiplier, begin, end, count, to, at);
             });
}

void prelu_rows(const RealRows& x, float multiplier, const float* slopes, int64_t rows, int64_t n, const Requantize& to,
                void* out) {
  const RealRows factors{reinterpret_cast<const std::byte*>(slopes), true, 0, 0};
  for_ranges(x, factors, rows, n, to.out_is_float, out,
             [&](const RealRows& values, const RealRows& by, int64_t begin, int64_t end, int64_t count, std::byte* at) {
               HWY_DYNAMIC_DISPATCH(prelu_range)(values, by, multiplier, begin, end, count, to, at);
             });
}

void convert_row(const RealRows& x, float multiplier, int64_t n, const Requantize& to, void* out) {
  parallel_for(n, kSerialElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(convert_range)
    (from_element(x, begin), multiplier, end - begin, to,
     static_cast<std::byte*>(out) + begin * (to.out_is_float ? 4 : 1));
  });
}

ByteTable::ByteTable(const uint8_t* table) {
  std::copy_n(table, 256, whole.begin());
  while (low < 255 && table[low + 1] == table[0]) ++low;
  while (high > low && table[high - 1] == table[255]) --high;
  pieces = (high - low) / 16 + 1;
  for (size_t i = 0; i < 256; ++i) entries[i] = table[std::min<size_t>(low + i, high)];
}

void map_u8(const uint8_t* x, int64_t n, const ByteTable& table, uint8_t* out) {
  parallel_for(n, kSerialElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(map_bytes)(x + begin, end - begin, table, out + begin);
  });
}

void map_u8(const uint8_t* x, int64_t n, const float* table, float* out) {
  parallel_for(n, kSerialElements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = table[x[i]];
  });
}

void max_pool2d_u8(const uint8_t* x, int64_t batch, int64_t channels, const Pool2d& p, uint8_t* out) {
  parallel_for(batch * p.out_h, rows_a_task(p.out_w * channels * p.kernel_h * p.kernel_w),
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(max_rows)(x, p, channels, begin, end, out); });
}

void sum_pixels_u8(const uint8_t* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                   int64_t channels, int32_t zero_point, int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(sum_pixels)(x, rows, row_stride, columns, column_stride, channels, zero_point, sums);
}

void sum_pixels_f32(const float* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                    int64_t channels, float* sums) {
  std::fill(sums, sums + channels, 0.0f);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const float* at = x + i * row_stride + j * column_stride;
      for (int64_t c = 0; c < channels; ++c) sums[c] += at[c];
    }
  }
}

void sum_rounded_pixels_f32(const float* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                            int64_t channels, const Requantize& rounding, int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(sum_rounded)(x, rows, row_stride, columns, column_stride, channels, rounding, sums);
}

void requantize_sums(const int32_t* sums, int64_t n, float multiplier, const Requantize& to, void* out) {
  HWY_DYNAMIC_DISPATCH(finish_sums)(sums, n, multiplier, to, static_cast<std::byte*>(out));
}

void interleave_planes_u8(const uint8_t* x, int64_t channels, int64_t pixels, uint8_t* out) {
  if (channels == 3) return HWY_DYNAMIC_DISPATCH(interleave_3)(x, pixels, out);
  // A stretch of pixels at a time, whose channels share lines of the cache.
  constexpr int64_t kStretch = 256;
  for (int64_t begin = 0; begin < pixels; begin += kStretch) {
    const int64_t count = std::min(kStretch, pixels - begin);
    uint8_t* const to = out + begin * channels;
    int64_t c = 0;
    for (; c + 16 <= channels; c += 16)
      HWY_DYNAMIC_DISPATCH(interleave_16)(x + c * pixels + begin, pixels, count, channels, to + c);
    for (; c < channels; ++c)
      for (int64_t p = 0; p < count; ++p) to[p * channels + c] = x[c * pixels + begin + p];
  }
}

template <class T> void map_to_planes_u8(const uint8_t* x, int64_t channels, int64_t pixels, const T* table, T* out) {
  // Pixels in the outer loop of a stretch: the bytes of a few of them share lines of the cache.
  constexpr int64_t kStretch = 64;
  for (int64_t begin = 0; begin < pixels; begin += kStretch) {
    const int64_t end = std::min(begin + kStretch, pixels);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = begin; p < end; ++p) out[c * pixels + p] = table[x[p * channels + c]];
  }
}
template void map_to_planes_u8(const uint8_t*, int64_t, int64_t, const uint8_t*, uint8_t*);
template void map_to_planes_u8(const uint8_t*, int64_t, int64_t, const float*, float*);

}  // namespace qdq::kernel
#endif
