// Float convolutions over NCHW, bit for bit reproducible (see the order of a sum in kernel/gemm.h).
#pragma once

#include <cstdint>
#include <functional>

#include "kernel/gemm.h"

namespace qdq::kernel {

// A 2-d convolution. A 1-d one has height 1. Padding is what stands before the first row and column; the output extents
// are given, so that uneven padding (padding="same") needs nothing more: a tap outside the image reads zero on any
// side.
struct Conv2d {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;
};

// A convolution with its weight [out_channels, in_channels / groups, kernel_h, kernel_w] packed, a group after the
// other, as [channels / panel][in_channels / groups * kernel_h * kernel_w][panel]. Copies share the bytes.
struct PackedConv2d {
  Conv2d conv;
  int64_t panel = 16;
  Tensor data;
};

// Requires groups to divide both channel counts, and positive kernel, stride and dilation.
PackedConv2d pack_conv2d_f32(const Conv2d& conv, const float* weight);

// out[n, oc, oh, ow] = sum over (ic, kh, kw) ascending of x[n, ic, oh*stride - pad + kh*dilation, ...] * weight[oc, ic,
// kh, kw], in blocks of kSumBlock, + bias[oc]. Taps outside the image are products with +0. bias may be null. x and out
// are contiguous NCHW and do not alias. `written`, if there is one, is told each stretch of out, [begin, begin +
// count), as soon as it is complete and while the caches hold the most of it; the stretches cover out without overlap
// and come from any thread.
void conv2d_f32(const float* x, int64_t batch, int64_t in_h, int64_t in_w, const PackedConv2d& packed,
                const float* bias, int64_t out_h, int64_t out_w, float* out,
                const std::function<void(int64_t begin, int64_t count)>& written = {});

// Whether Winograd's F(4x4, 3x3) takes fewer operations: a kernel of 3x3, stride and dilation 1, 16 channels and more
// on both sides of a group, and an output that fills at least half of its tiles of 4x4. That depends on the sizes
// alone, never on the batch, the processor or the threads, for the bits depend on it.
bool takes_winograd(const Conv2d& conv, int64_t out_h, int64_t out_w);

// A convolution of kernel 3x3, stride and dilation 1, in the order of kernel/winograd_f32.h, with a contiguous weight
// [out_channels, in_channels / groups, 3, 3]; the rest is as of conv2d_f32. The weight is transformed a part at a time,
// whenever it is used: the whole takes four times the memory, and reading it costs more than making it again.
void winograd_conv2d_f32(const Conv2d& conv, const float* x, int64_t batch, int64_t in_h, int64_t in_w,
                         const float* weight, const float* bias, int64_t out_h, int64_t out_w, float* out,
                         const std::function<void(int64_t begin, int64_t count)>& written = {});

}  // namespace qdq::kernel
