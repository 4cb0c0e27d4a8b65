// Quantize, dequantize and fake-quantize loops; the semantics of torch/ao/quantization/fx/_decomposed.py.
//
//   q = clamp(nearbyint(x * (float)(1.0 / scale)) + zero_point, qmin, qmax)     f32, half to even, clamp before the
//   conversion x = ((float)q - zero_point) * (float)scale                                  f32
// Scaling::kDivide replaces the product by x / (float)scale, which is what ONNX's QuantizeLinear does; the two differ
// in rare ties.
// +-inf saturates. NaN gives 0 clamped to [qmin, qmax]. Results that s32 cannot hold saturate.
#pragma once

#include <cstdint>

namespace qdq::kernel {

enum class Scaling { kMultiply, kDivide };

// The affine map of a tensor or of one channel, and the range of its integers. scale > 0.
struct Affine {
  double scale = 1.0;
  int64_t zero_point = 0;
  int64_t qmin = 0;
  int64_t qmax = 255;
  Scaling scaling = Scaling::kMultiply;
};

// The same with a scale and zero point a channel: tensors are [outer, channels, inner]. zero_points may be null: all 0.
struct ChannelAffine {
  const float* scales = nullptr;
  const int64_t* zero_points = nullptr;
  int64_t outer = 1, channels = 1, inner = 1;
  int64_t qmin = -128;
  int64_t qmax = 127;
  Scaling scaling = Scaling::kMultiply;
};

// T is one of uint8_t, int8_t, uint16_t, int16_t, int32_t; [qmin, qmax] lies within T.
template <class T> void quantize_f32(const float* x, int64_t n, const Affine& affine, T* out);
template <class T> void dequantize_f32(const T* q, int64_t n, const Affine& affine, float* out);
template <class T> void quantize_channels_f32(const float* x, const ChannelAffine& affine, T* out);
template <class T> void dequantize_channels_f32(const T* q, const ChannelAffine& affine, float* out);

// quantize followed by dequantize, without leaving f32 (out may be x). mask, if not null, gets 1 where the integer
// before clamping lies in [qmin, qmax] and 0 elsewhere (torch.fake_quantize_per_tensor_affine and its gradient).
void fake_quantize_f32(const float* x, int64_t n, const Affine& affine, float* out, uint8_t* mask);
void fake_quantize_channels_f32(const float* x, const ChannelAffine& affine, float* out, uint8_t* mask);

}  // namespace qdq::kernel
