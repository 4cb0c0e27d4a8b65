// Exact integer convolutions over channels-last u8 images with prepacked s8 weights, requantized as kernel/requantize.h
// says. The same integers on every machine, in every build, with any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/conv.h"
#include "kernel/frames.h"
#include "kernel/gemm_int8.h"
#include "kernel/requantize.h"
#include "tensor/tensor.h"

namespace qdq::kernel {

// Whether every channel has a filter of its own.
inline bool is_depthwise(const Conv2d& c) {
  return c.groups == c.in_channels && c.groups == c.out_channels && c.groups > 1;
}

// A convolution of one input's zero point, made ready for this machine's best road (kernel/gemm_int8.h). Copies share
// the packed weights.
struct PackedConvInt8 {
  Conv2d conv;
  DotRoad road = DotRoad::kPairs;
  bool depthwise = false;
  int32_t x_zero_point = 0;
  // Taps of a pixel: runs of neighbouring elements, `run_length` of them in steps of dot_step(road).
  int64_t run_count = 0, run_length = 0, run_steps = 0;
  int64_t padded_channels = 0;  // of a group: those of the arrays below
  Tensor weights;               // s8
  // kMatchedBytes: what DotBand wants, of all groups.
  Tensor steps, first_steps;                            // s32 of [steps][2] and [groups * panels * run_count * 3 + 1]
  std::vector<int32_t> start, weight_sums, shift_sums;  // shift_sums: what kMatchedBytes takes out of the sums
  int64_t most_magnitudes = 0;                          // of an output channel's weights, added up
  Requantize requantize;                                // with padded arrays, [groups][padded_channels]

  // "conv 3x3 on the 8-bit dot product, unsigned by signed": for people.
  std::string description() const;
};

// Products of a sum at most: s32 holds every sum of these.
inline constexpr int64_t kMaxProducts = 65000;

// weight is [out_channels, in_channels / groups, kernel_h, kernel_w] in C order; requantize has one multiplier (and
// offset) an output channel. Takes `road` wherever it can, which is for tests; it must be one that this machine has.
// Requires groups to divide both channel counts, positive kernel, stride and dilation, a zero point in [0, 255], and at
// most kMaxProducts products a sum; throws Error{kUnsupported} if there are more.
PackedConvInt8 pack_conv2d_int8(const Conv2d& conv, const int8_t* weight, int32_t x_zero_point, Requantize requantize,
                                DotRoad road);
// Makes `packed` ready for an input of another zero point, whose sums have other multipliers: [out_channels].
void set_input_qparams(PackedConvInt8& packed, int32_t x_zero_point, const float* multiplier);

// A linear layer is a 1x1 convolution: weight [out_features, in_features], an image of `rows` x 1 pixels.
inline Conv2d linear_as_conv2d(int64_t in_features, int64_t out_features) {
  Conv2d conv;
  conv.in_channels = in_features;
  conv.out_channels = out_features;
  return conv;
}

// Images of the convolution: [batch, in_h, in_w, channels] with pixels `stride` elements apart, so that an image may be
// a slice of the channels of a wider one.
//
// A convolution over three axes is one of images whose pixels hold the channels of all frames under its kernel: each
// group of Conv2d::in_channels is [frames.kernel][channels / groups], and so are the weights' axis 1. A depthwise one
// is of images that hold those frames below each other: Conv2d::kernel_h counts the rows of the kernel in all of them.
// `batch` counts the frames that come out, frames.out a volume; x is [volumes, frames.in, in_h, in_w, channels].
struct ConvInt8Images {
  int64_t batch = 1, in_h = 1, in_w = 1, out_h = 1, out_w = 1;
  const uint8_t* x = nullptr;
  int64_t x_stride = 0;
  const void* residual = nullptr;  // [batch, out_h, out_w, out_channels], u8 or f32; null without
  int64_t residual_stride = 0;
  void* out = nullptr;  // u8 or f32
  int64_t out_stride = 0;
  FrameWindow frames{};
};

// pack_conv2d_int8 on the fastest road for these weights and images, of which only the sizes are read.
PackedConvInt8 pack_conv2d_int8(const Conv2d& conv, const int8_t* weight, int32_t x_zero_point, Requantize requantize,
                                const ConvInt8Images& images = {});

// The tile of the transform of kernel/winograd_int8.h that conv2d_int8 takes for this call, 0 if it takes none. Tiles
// are for 3x3 windows of stride 1 on the 16-bit road, with so many channels and pixels that they gain by them. The
// results are the same integers.
int64_t winograd_tile(const PackedConvInt8& packed, const ConvInt8Images& images);

// out[n, oh, ow, oc] = requantize(sum over (kh, kw, ic) of (x[n, oh*stride - pad + kh*dilation, ..., ic] - zero point)
// * weight[oc, ic, kh, kw]). Taps outside the image, and frames outside the volume, are the zero point. out may be the
// residual, if their elements have the same size; otherwise no aliasing.
void conv2d_int8(const PackedConvInt8& packed, const ConvInt8Images& images);

}  // namespace qdq::kernel
