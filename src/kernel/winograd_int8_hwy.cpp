// The transforms around the products of Winograd's convolution.
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

using D16 = hn::CappedTag<int16_t, kWinogradChannels>;
using V16 = hn::Vec<D16>;
using D32 = hn::CappedTag<int32_t, kDotPanel>;
using V32 = hn::Vec<D32>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D32));
// Two channels each of some output channels.
using DW = hn::CappedTag<int16_t, 2 * kDotPanel>;
using VW = hn::Vec<DW>;
static_assert(HWY_MAX_LANES_D(D16) == kWinogradChannels);

HWY_INLINE void winograd_tile(const int16_t* from, int64_t row_stride, int64_t pixel_stride, int64_t tap_stride,
                              int16_t* out) {
  const D16 d;
  V16 t[4][4];  // B^T d
#pragma GCC unroll 4
  for (int column = 0; column < 4; ++column) {
    V16 x[4];
#pragma GCC unroll 4
    for (int row = 0; row < 4; ++row) x[row] = hn::LoadU(d, from + row * row_stride + column * pixel_stride);
    t[0][column] = hn::Sub(x[0], x[2]);
    t[1][column] = hn::Add(x[1], x[2]);
    t[2][column] = hn::Sub(x[2], x[1]);
    t[3][column] = hn::Sub(x[1], x[3]);
  }
#pragma GCC unroll 4
  for (int row = 0; row < 4; ++row, out += 4 * tap_stride) {
    hn::StoreU(hn::Sub(t[row][0], t[row][2]), d, out);
    hn::StoreU(hn::Add(t[row][1], t[row][2]), d, out + tap_stride);
    hn::StoreU(hn::Sub(t[row][2], t[row][1]), d, out + 2 * tap_stride);
    hn::StoreU(hn::Sub(t[row][1], t[row][3]), d, out + 3 * tap_stride);
  }
}

void winograd_inputs(const int16_t* rows, int64_t row_stride, int64_t channels, int64_t tiles, int64_t tap_stride,
                     int16_t* out) {
  for (int64_t tile = 0; tile < tiles; ++tile, rows += 2 * channels, out += channels)
    for (int64_t c = 0; c < channels; c += kWinogradChannels)
      winograd_tile(rows + c, row_stride, channels, tap_stride, out + c);
}

// 2 G x of three vectors.
HWY_INLINE void weights_of(const VW (&x)[3], VW (&out)[4]) {
  const VW ends = hn::Add(x[0], x[2]);
  out[0] = hn::Add(x[0], x[0]);
  out[1] = hn::Add(ends, x[1]);
  out[2] = hn::Sub(ends, x[1]);
  out[3] = hn::Add(x[2], x[2]);
}

void winograd_weights(const int8_t* weights, int64_t channels, int64_t tap_stride, int16_t* out) {
  const DW d;
  const int64_t count = channels * kDotPanel;
  for (int64_t at = 0; at < count; at += static_cast<int64_t>(HWY_MAX_LANES_D(DW))) {
    VW t[3][4];  // the columns of 2 G g
#pragma GCC unroll 3
    for (int column = 0; column < 3; ++column) {
      VW x[3];
#pragma GCC unroll 3
      for (int row = 0; row < 3; ++row)
        x[row] = hn::PromoteTo(d, hn::LoadU(hn::Rebind<int8_t, DW>(), weights + (row * 3 + column) * count + at));
      weights_of(x, t[column]);
    }
    int16_t* to = out + at;
#pragma GCC unroll 4
    for (int row = 0; row < 4; ++row) {
      const VW x[3] = {t[0][row], t[1][row], t[2][row]};
      VW y[4];
      weights_of(x, y);
#pragma GCC unroll 4
      for (int column = 0; column < 4; ++column, to += tap_stride) hn::StoreU(y[column], d, to);
    }
  }
}

void winograd_outputs(const int32_t* products, int64_t width, int32_t* out) {
  const D32 d;
  for (int64_t column = 0; column < width; column += 2, products += kWinogradTaps * kDotPanel) {
    for (int64_t lane = 0; lane < kDotPanel; lane += kLanes) {
      V32 t[2][4];  // A^T m
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const int32_t* m = products + i * kDotPanel + lane;
        const V32 second = hn::LoadU(d, m + 4 * kDotPanel), third = hn::LoadU(d, m + 8 * kDotPanel);
        t[0][i] = hn::Add(hn::LoadU(d, m), hn::Add(second, third));
        t[1][i] = hn::Sub(hn::Sub(second, third), hn::LoadU(d, m + 12 * kDotPanel));
      }
#pragma GCC unroll 2
      for (int row = 0; row < 2; ++row) {
        int32_t* to = out + (row * width + column) * kDotPanel + lane;
        const V32 left = hn::Add(t[row][0], hn::Add(t[row][1], t[row][2]));
        hn::StoreU(hn::ShiftRight<2>(left), d, to);
        if (column + 1 < width) {
          const V32 right = hn::Sub(hn::Sub(t[row][1], t[row][2]), t[row][3]);
          hn::StoreU(hn::ShiftRight<2>(right), d, to + kDotPanel);
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(winograd_weights);
HWY_EXPORT(winograd_inputs);
HWY_EXPORT(winograd_outputs);

void winograd_weights(const int8_t* weights, int64_t channels, int64_t tap_stride, int16_t* out) {
  HWY_DYNAMIC_DISPATCH(winograd_weights)(weights, channels, tap_stride, out);
}

void winograd_inputs(const int16_t* rows, int64_t row_stride, int64_t channels, int64_t tiles, int64_t tap_stride,
                     int16_t* out) {
  HWY_DYNAMIC_DISPATCH(winograd_inputs)(rows, row_stride, channels, tiles, tap_stride, out);
}

void winograd_outputs(const int32_t* products, int64_t width, int32_t* out) {
  HWY_DYNAMIC_DISPATCH(winograd_outputs)(products, width, out);
}

}  // namespace qdq::kernel
#endif
