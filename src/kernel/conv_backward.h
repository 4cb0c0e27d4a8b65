// Gradients of the float convolutions of kernel/conv.h over NCHW, bit for bit reproducible like them.
#pragma once

#include <cstdint>

#include "kernel/conv.h"

namespace qdq::kernel {

// A convolution and the extents of one call of it: x[batch, in_channels, in_h, in_w] -> out[batch, out_channels, out_h,
// out_w].
struct Conv2dCall {
  Conv2d conv;
  int64_t batch = 0, in_h = 0, in_w = 0, out_h = 0, out_w = 0;
};

// grad_x[n, ic, h, w] = the sum of grad[n, oc, oh, ow] * weight[oc, ic, kh, kw] over all that x[n, ic, h, w] went into:
// for (kh, kw) ascending the sum over oc in blocks of kSumBlock (kernel/gemm.h). Overwrites grad_x, which aliases
// nothing. Takes memory for one image's taps.
void conv2d_backward_input_f32(const float* grad, const float* weight, const Conv2dCall& call, float* grad_x);

// grad_weight[oc, ic, kh, kw] = the sum of grad[n, oc, oh, ow] * x[n, ic, ...] over n ascending, and there over (oh,
// ow) in blocks of kSumBlock; for one channel a group over rows oh, each in eight strands added pairwise, in double.
// Overwrites grad_weight, which aliases nothing.
void conv2d_backward_weight_f32(const float* grad, const float* x, const Conv2dCall& call, float* grad_weight);

}  // namespace qdq::kernel
