// The transforms around the products of Winograd's float convolution; vectors run along channels.
#include "kernel/winograd_f32.h"

#include "kernel/panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/winograd_f32_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D));

HWY_INLINE V times(V x, float factor) { return hn::Mul(x, hn::Set(D(), factor)); }

// Weights are transformed in f64, in half as many lanes.
using Wide = hn::CappedTag<double, 16>;
using W = hn::Vec<Wide>;
using Narrow = hn::Rebind<float, Wide>;
constexpr int64_t kWideLanes = static_cast<int64_t>(HWY_MAX_LANES_D(Wide));

HWY_INLINE W times(W x, double factor) { return hn::Mul(x, hn::Set(Wide(), factor)); }

// G g: three vectors to six.
HWY_INLINE void transform_weights(W g0, W g1, W g2, W* u) {
  const W near = hn::Add(g0, times(g2, 0.5625)), near_odd = times(g1, 0.75);
  const W far = hn::Add(g0, times(g2, 2.25)), far_odd = times(g1, 1.5);
  u[0] = times(g0, 64.0 / 81.0);
  u[1] = times(hn::Add(near, near_odd), -128.0 / 243.0);
  u[2] = times(hn::Sub(near, near_odd), -128.0 / 243.0);
  u[3] = times(hn::Add(far, far_odd), 32.0 / 243.0);
  u[4] = times(hn::Sub(far, far_odd), 32.0 / 243.0);
  u[5] = g2;
}

void winograd_weights_f32(const float* weight, int64_t channels, int64_t product_stride, float* out) {
  const Wide d;
  const auto load = [&](int64_t tap) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(Narrow(), weight + tap * kPanel)); };
  for (int64_t c = 0; c < channels; ++c, weight += kTaps * kPanel - kPanel, out += kPanel)
    for (int64_t lane = 0; lane < kPanel; lane += kWideLanes, weight += kWideLanes) {
      W half[3][kTileInputs], u[kTileInputs];
      for (int64_t column = 0; column < 3; ++column)
        transform_weights(load(column), load(3 + column), load(6 + column), half[column]);
      for (int64_t row = 0; row < kTileInputs; ++row) {
        transform_weights(half[0][row], half[1][row], half[2][row], u);
        for (int64_t column = 0; column < kTileInputs; ++column)
          hn::StoreU(hn::DemoteTo(Narrow(), u[column]), Narrow(),
                     out + (row * kTileInputs + column) * product_stride + lane);
      }
    }
}

// B^T d: six vectors, `from_stride` apart, to six, `to_stride` apart.
HWY_INLINE void transform_inputs(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  const D d;
  const V d0 = hn::LoadU(d, from), d1 = hn::LoadU(d, from + from_stride), d2 = hn::LoadU(d, from + 2 * from_stride);
  const V d3 = hn::LoadU(d, from + 3 * from_stride), d4 = hn::LoadU(d, from + 4 * from_stride);
  const V d5 = hn::LoadU(d, from + 5 * from_stride);
  const V p = hn::Sub(d4, times(d2, 2.25f)), q = times(hn::Sub(d3, times(d1, 2.25f)), 0.75f);
  const V r = hn::Sub(d4, times(d2, 0.5625f)), s = times(hn::Sub(d3, times(d1, 0.5625f)), 1.5f);
  hn::StoreU(hn::Add(hn::Sub(times(d0, 1.265625f), times(d2, 2.8125f)), d4), d, to);
  hn::StoreU(hn::Add(p, q), d, to + to_stride);
  hn::StoreU(hn::Sub(p, q), d, to + 2 * to_stride);
  hn::StoreU(hn::Add(r, s), d, to + 3 * to_stride);
  hn::StoreU(hn::Sub(r, s), d, to + 4 * to_stride);
  hn::StoreU(hn::Add(hn::Sub(times(d1, 1.265625f), times(d3, 2.8125f)), d5), d, to + 5 * to_stride);
}

void winograd_inputs_f32(const float* rows, int64_t row_stride, int64_t tiles, int64_t tile_stride,
                         int64_t product_stride, float* scratch, float* out) {
  // A column of pixels belongs to two tiles where they meet, and is transformed once.
  const int64_t columns = tiles * kTileOutputs + 2, column = kTileInputs * kPanel;
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t lane = 0; lane < kPanel; lane += kLanes)
      transform_inputs(rows + c * kPanel + lane, row_stride, scratch + c * column + lane, kPanel);
  for (int64_t tile = 0; tile < tiles; ++tile)
    for (int64_t row = 0; row < kTileInputs; ++row)
      for (int64_t lane = 0; lane < kPanel; lane += kLanes)
        transform_inputs(scratch + tile * kTileOutputs * column + row * kPanel + lane, column,
                         out + row * kTileInputs * product_stride + tile * tile_stride + lane, product_stride);
}

// A^T m: six vectors, `from_stride` apart, to four.
HWY_INLINE void transform_outputs(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  const D d;
  const V m0 = hn::LoadU(d, from), m1 = hn::LoadU(d, from + from_stride), m2 = hn::LoadU(d, from + 2 * from_stride);
  const V m3 = hn::LoadU(d, from + 3 * from_stride), m4 = hn::LoadU(d, from + 4 * from_stride);
  const V m5 = hn::LoadU(d, from + 5 * from_stride);
  const V near = hn::Add(m1, m2), near_odd = hn::Sub(m1, m2), far = hn::Add(m3, m4), far_odd = hn::Sub(m3, m4);
  hn::StoreU(hn::Add(hn::Add(m0, near), far), d, to);
  hn::StoreU(hn::Add(times(near_odd, 0.75f), times(far_odd, 1.5f)), d, to + to_stride);
  hn::StoreU(hn::Add(times(near, 0.5625f), times(far, 2.25f)), d, to + 2 * to_stride);
  hn::StoreU(hn::Add(hn::Add(times(near_odd, 0.421875f), times(far_odd, 3.375f)), m5), d, to + 3 * to_stride);
}

void winograd_outputs_f32(const float* products, int64_t tile_stride, int64_t product_stride, int64_t tiles,
                          float* out) {
  HWY_ALIGN float half[kTileOutputs * kTileInputs * kLanes];
  const int64_t row = tiles * kTileOutputs * kPanel;
  for (int64_t tile = 0; tile < tiles; ++tile, products += tile_stride, out += kTileOutputs * kPanel)
    for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
      for (int64_t c = 0; c < kTileInputs; ++c)
        transform_outputs(products + c * product_stride + lane, kTileInputs * product_stride, half + c * kLanes,
                          kTileInputs * kLanes);
      for (int64_t r = 0; r < kTileOutputs; ++r)
        transform_outputs(half + r * kTileInputs * kLanes, kLanes, out + r * row + lane, kPanel);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(winograd_weights_f32);
HWY_EXPORT(winograd_inputs_f32);
HWY_EXPORT(winograd_outputs_f32);

void winograd_weights_f32(const float* weight, int64_t channels, int64_t product_stride, float* out) {
  HWY_DYNAMIC_DISPATCH(winograd_weights_f32)(weight, channels, product_stride, out);
}

void winograd_inputs_f32(const float* rows, int64_t row_stride, int64_t tiles, int64_t tile_stride,
                         int64_t product_stride, float* scratch, float* out) {
  HWY_DYNAMIC_DISPATCH(winograd_inputs_f32)(rows, row_stride, tiles, tile_stride, product_stride, scratch, out);
}

void winograd_outputs_f32(const float* products, int64_t tile_stride, int64_t product_stride, int64_t tiles,
                          float* out) {
  HWY_DYNAMIC_DISPATCH(winograd_outputs_f32)(products, tile_stride, product_stride, tiles, out);
}

}  // namespace qdq::kernel
#endif
