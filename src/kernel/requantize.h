// How exact integer sums become the next layer's integers: the one formula that every int8 kernel follows.
//
// With acc = the exact sum of (x - zero_point(x)) * weight as s32, for output channel c, every operation rounded to
// f32:
//   t = f32(acc) * multiplier[c] + offset[c]
//   t = t + f32(r - residual_zero_point) * residual_multiplier    where there is a residual r in u8
//   t = t + r * residual_multiplier                               where there is one in f32
//   y = activation(t)                                             where there is one
//   u8:   clamp(half_even(y * inverse_scale) + zero_point, low, high); NaN gives low
//   f32:  y
// Activations are u8 everywhere in the room's integer kernels: an s8 tensor is the u8 tensor of q + 128 with its zero
// point moved likewise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernel/activation.h"

namespace qdq::kernel {

// Functions that the integer kernels compute in registers, to the same bits as kernel/math.h and kernel/pointwise.h.
inline constexpr float kNearSiluBound = 12.0f;  // of near_silu_f32's x, beyond which it is x or 0

struct Requantize {
  // One an output channel; an empty offset is 0. Only of sums of products.
  std::vector<float> multiplier, offset;
  // Of the residual, which has the layout of the output.
  bool has_residual = false;
  bool residual_is_float = false;  // else u8
  float residual_multiplier = 1.0f;
  int32_t residual_zero_point = 0;
  // A function of n contiguous elements, such as those of kernel/math.h; out may be x. It is called on a few elements
  // at a time, from several threads.
  std::function<void(const float* x, int64_t n, float* out)> activation;
  // Which function `activation` is, so that it need not be called where registers do; kNone: none that has a name.
  Activation curve;
  bool out_is_float = false;
  float inverse_scale = 1.0f;
  int32_t zero_point = 0, low = 0, high = 255;  // 0 <= low <= high <= 255
};

// A kernel's channel arrays are padded to a multiple of this many channels.
inline constexpr int64_t kFinishChannels = 64;

// Where the sums of a range of pixels go: the formula, its padded channel arrays, and the places of residual and
// output, all for channel 0 of pixel 0. Strides between pixels are in elements. Seen only inside the room.
struct Finish {
  const Requantize* requantize = nullptr;
  const float* multiplier = nullptr;
  const float* offset = nullptr;
  const std::byte* residual = nullptr;
  int64_t residual_stride = 0;
  std::byte* out = nullptr;  // u8 or f32
  int64_t out_stride = 0;
};

}  // namespace qdq::kernel
