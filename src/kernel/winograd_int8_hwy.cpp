// The transforms around the products of Winograd's convolution: those of one axis, and what applies them to both.
#include "kernel/winograd_int8.h"

#include "kernel/gemm_int8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/winograd_int8_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<int32_t, kDotPanel>;
using V32 = hn::Vec<D32>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D32));
// Two channels each of some output channels.
using DW = hn::CappedTag<int16_t, 2 * kDotPanel>;
// Input channels.
using DI = hn::CappedTag<int16_t, 2 * kWinogradChannels>;

// B^T x.
template <class V> HWY_INLINE void inputs_of(const V (&x)[4], V (&out)[4]) {
  out[0] = hn::Sub(x[0], x[2]);
  out[1] = hn::Add(x[1], x[2]);
  out[2] = hn::Sub(x[2], x[1]);
  out[3] = hn::Sub(x[1], x[3]);
}

template <class V> HWY_INLINE void inputs_of(const V (&x)[6], V (&out)[6]) {
  const V even = hn::Sub(hn::ShiftLeft<2>(x[2]), x[4]), odd = hn::Sub(hn::ShiftLeft<2>(x[1]), x[3]);
  const V wide = hn::Sub(x[4], x[2]), narrow = hn::Sub(x[3], x[1]), twice = hn::Add(narrow, narrow);
  out[0] = hn::Sub(hn::ShiftLeft<2>(hn::Sub(x[0], x[2])), hn::Sub(x[2], x[4]));
  out[1] = hn::Add(even, odd);
  out[2] = hn::Sub(even, odd);
  out[3] = hn::Add(wide, twice);
  out[4] = hn::Sub(wide, twice);
  out[5] = hn::Sub(hn::ShiftLeft<2>(hn::Sub(x[1], x[3])), hn::Sub(x[3], x[5]));
}

// G x without denominators.
template <class V> HWY_INLINE void weights_of(const V (&x)[3], V (&out)[4]) {
  const V ends = hn::Add(x[0], x[2]);
  out[0] = hn::Add(x[0], x[0]);
  out[1] = hn::Add(ends, x[1]);
  out[2] = hn::Sub(ends, x[1]);
  out[3] = hn::Add(x[2], x[2]);
}

template <class V> HWY_INLINE void weights_of(const V (&x)[3], V (&out)[6]) {
  const V ends = hn::Add(x[0], x[2]), far = hn::Add(x[0], hn::ShiftLeft<2>(x[2])), twice = hn::Add(x[1], x[1]);
  out[0] = x[0];
  out[1] = hn::Add(ends, x[1]);
  out[2] = hn::Sub(ends, x[1]);
  out[3] = hn::Add(far, twice);
  out[4] = hn::Sub(far, twice);
  out[5] = x[2];
}

// A^T x, each row 2 times; or with the denominators, and 24, 12, 6 and 6 times.
template <class V> HWY_INLINE void outputs_of(const V (&x)[4], V (&out)[2]) {
  out[0] = hn::Add(x[0], hn::Add(x[1], x[2]));
  out[1] = hn::Sub(hn::Sub(x[1], x[2]), x[3]);
}

template <class V> HWY_INLINE void outputs_of(const V (&x)[6], V (&out)[4]) {
  const V sum = hn::Add(x[1], x[2]), difference = hn::Sub(x[1], x[2]);
  const V far_sum = hn::Add(x[3], x[4]), far_difference = hn::Sub(x[3], x[4]);
  const auto six = [](V v) HWY_ATTR { return hn::Add(hn::ShiftLeft<2>(v), hn::Add(v, v)); };
  out[0] = hn::Add(hn::Add(six(x[0]), hn::ShiftLeft<2>(sum)), far_sum);
  out[1] = hn::Add(hn::Add(difference, difference), far_difference);
  out[2] = hn::Add(sum, far_sum);
  out[3] = hn::Add(hn::Add(difference, hn::Add(far_difference, far_difference)), six(x[5]));
}

// What outputs_of gave times 1 / 9 modulo 2^32, and to be shifted by 2 and those of row and column.
constexpr int32_t kNinth = 0x38e38e39;
template <int kShift> HWY_INLINE V32 wanted_of(V32 sum, bool is_ninefold) {
  return hn::ShiftRight<kShift>(is_ninefold ? hn::Mul(sum, hn::Set(D32(), kNinth)) : sum);
}

template <int kTile, class D>
HWY_INLINE void inputs_of_tile(D d, const int16_t* from, int64_t row_stride, int64_t pixel_stride, int64_t tap_stride,
                               int16_t* out) {
  constexpr int kSide = kTile + 2;
  using V = hn::Vec<D>;
  V t[kSide][kSide];  // B^T d, column by column
#pragma GCC unroll 6
  for (int column = 0; column < kSide; ++column) {
    V x[kSide];
#pragma GCC unroll 6
    for (int row = 0; row < kSide; ++row) x[row] = hn::LoadU(d, from + row * row_stride + column * pixel_stride);
    inputs_of(x, t[column]);
  }
#pragma GCC unroll 6
  for (int row = 0; row < kSide; ++row) {
    V x[kSide], y[kSide];
#pragma GCC unroll 6
    for (int column = 0; column < kSide; ++column) x[column] = t[column][row];
    inputs_of(x, y);
#pragma GCC unroll 6
    for (int column = 0; column < kSide; ++column, out += tap_stride) hn::StoreU(y[column], d, out);
  }
}

template <int kTile>
HWY_NOINLINE void inputs_of_row(const int16_t* rows, int64_t row_stride, int64_t channels, int64_t tiles,
                                int64_t tap_stride, int16_t* out) {
  const DI wide;
  const hn::CappedTag<int16_t, kWinogradChannels> narrow;
  constexpr auto kWide = static_cast<int64_t>(HWY_MAX_LANES_D(DI));
  for (int64_t i = 0; i < tiles; ++i, rows += kTile * channels, out += channels) {
    int64_t c = 0;
    for (; c + kWide <= channels; c += kWide)
      inputs_of_tile<kTile>(wide, rows + c, row_stride, channels, tap_stride, out + c);
    if (c < channels) inputs_of_tile<kTile>(narrow, rows + c, row_stride, channels, tap_stride, out + c);
  }
}

void winograd_inputs(int64_t tile, const int16_t* rows, int64_t row_stride, int64_t channels, int64_t tiles,
                     int64_t tap_stride, int16_t* out) {
  (tile == 2 ? inputs_of_row<2> : inputs_of_row<4>)(rows, row_stride, channels, tiles, tap_stride, out);
}

template <int kTile>
HWY_NOINLINE void weights_of_panel(const int8_t* weights, int64_t channels, int64_t tap_stride, int16_t* out) {
  const DW d;
  constexpr int kSide = kTile + 2;
  using V = hn::Vec<DW>;
  const int64_t count = channels * kDotPanel;
  for (int64_t at = 0; at < count; at += static_cast<int64_t>(HWY_MAX_LANES_D(DW))) {
    V t[3][kSide];  // G g, column by column
#pragma GCC unroll 3
    for (int column = 0; column < 3; ++column) {
      V x[3];
#pragma GCC unroll 3
      for (int row = 0; row < 3; ++row)
        x[row] = hn::PromoteTo(d, hn::LoadU(hn::Rebind<int8_t, DW>(), weights + (row * 3 + column) * count + at));
      weights_of(x, t[column]);
    }
    int16_t* to = out + at;
#pragma GCC unroll 6
    for (int row = 0; row < kSide; ++row) {
      const V x[3] = {t[0][row], t[1][row], t[2][row]};
      V y[kSide];
      weights_of(x, y);
#pragma GCC unroll 6
      for (int column = 0; column < kSide; ++column, to += tap_stride) hn::StoreU(y[column], d, to);
    }
  }
}

void winograd_weights(int64_t tile, const int8_t* weights, int64_t channels, int64_t tap_stride, int16_t* out) {
  (tile == 2 ? weights_of_panel<2> : weights_of_panel<4>)(weights, channels, tap_stride, out);
}

// The sums of a row of a tile, whose multiples are 2^(kShift - 2) times as large as they are for the last row.
template <int kShift> HWY_INLINE void store_row(const V32 (&y)[2], int64_t columns, int32_t* out) {
  const D32 d;
  hn::StoreU(wanted_of<kShift>(y[0], false), d, out);
  if (columns > 1) hn::StoreU(wanted_of<kShift>(y[1], false), d, out + kDotPanel);
}

template <int kShift> HWY_INLINE void store_row(const V32 (&y)[4], int64_t columns, int32_t* out) {
  const D32 d;
  hn::StoreU(wanted_of<kShift + 2>(y[0], true), d, out);
  if (columns > 1) hn::StoreU(wanted_of<kShift + 1>(y[1], true), d, out + kDotPanel);
  if (columns > 2) hn::StoreU(wanted_of<kShift>(y[2], true), d, out + 2 * kDotPanel);
  if (columns > 3) hn::StoreU(wanted_of<kShift>(y[3], true), d, out + 3 * kDotPanel);
}

template <int kTile> HWY_NOINLINE void outputs_of_row(const int32_t* products, int64_t width, int32_t* out) {
  const D32 d;
  constexpr int kSide = kTile + 2;
  for (int64_t column = 0; column < width; column += kTile, products += winograd_taps(kTile) * kDotPanel) {
    for (int64_t lane = 0; lane < kDotPanel; lane += kLanes) {
      V32 t[kSide][kTile];  // A^T m, column by column
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) {
        V32 x[kSide];
#pragma GCC unroll 6
        for (int row = 0; row < kSide; ++row) x[row] = hn::LoadU(d, products + (row * kSide + i) * kDotPanel + lane);
        outputs_of(x, t[i]);
      }
      V32 y[kTile][kTile];
#pragma GCC unroll 4
      for (int row = 0; row < kTile; ++row) {
        V32 x[kSide];
#pragma GCC unroll 6
        for (int i = 0; i < kSide; ++i) x[i] = t[i][row];
        outputs_of(x, y[row]);
      }
      int32_t* to = out + column * kDotPanel + lane;
      const int64_t stride = width * kDotPanel, columns = width - column;
      if constexpr (kTile == 2) {
        store_row<2>(y[0], columns, to);
        store_row<2>(y[1], columns, to + stride);
      } else {
        store_row<4>(y[0], columns, to);
        store_row<3>(y[1], columns, to + stride);
        store_row<2>(y[2], columns, to + 2 * stride);
        store_row<2>(y[3], columns, to + 3 * stride);
      }
    }
  }
}

void winograd_outputs(int64_t tile, const int32_t* products, int64_t width, int32_t* out) {
  (tile == 2 ? outputs_of_row<2> : outputs_of_row<4>)(products, width, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(winograd_weights);
HWY_EXPORT(winograd_inputs);
HWY_EXPORT(winograd_outputs);

void winograd_weights(int64_t tile, const int8_t* weights, int64_t channels, int64_t tap_stride, int16_t* out) {
  HWY_DYNAMIC_DISPATCH(winograd_weights)(tile, weights, channels, tap_stride, out);
}

void winograd_inputs(int64_t tile, const int16_t* rows, int64_t row_stride, int64_t channels, int64_t tiles,
                     int64_t tap_stride, int16_t* out) {
  HWY_DYNAMIC_DISPATCH(winograd_inputs)(tile, rows, row_stride, channels, tiles, tap_stride, out);
}

void winograd_outputs(int64_t tile, const int32_t* products, int64_t width, int32_t* out) {
  HWY_DYNAMIC_DISPATCH(winograd_outputs)(tile, products, width, out);
}

}  // namespace qdq::kernel
#endif
