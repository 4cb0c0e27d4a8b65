// Convolution gradients as matrix products over unfolded images, and as plain loops where each channel is a group of
// its own.
#include "kernel/conv_backward.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"

namespace qdq::kernel {
namespace {

// The output positions o in [first, end) whose tap o * stride - pad + tap * dilation lies in [0, in).
struct Reach {
  int64_t first, end;
};
Reach reach_of(int64_t offset, int64_t stride, int64_t in, int64_t out) {
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t end = in - offset <= 0 ? 0 : (in - offset - 1) / stride + 1;
  return {std::min(first, out), std::max(std::min(first, out), std::min(end, out))};
}

bool is_pointwise(const Conv2dCall& call) {
  const Conv2d& c = call.conv;
  return c.kernel_h == 1 && c.kernel_w == 1 && c.stride_h == 1 && c.stride_w == 1 && c.pad_h == 0 && c.pad_w == 0 &&
         call.in_h == call.out_h && call.in_w == call.out_w;
}
// As depthwise convolutions are, and those of one channel.
bool has_channels_apart(const Conv2d& conv) {
  return conv.groups == conv.in_channels && conv.groups == conv.out_channels;
}

// Calls body(image row, out row, reach along a row, offset of the first tap in the image row) for each output row that
// a tap reaches.
template <class Body> void for_each_row(const Conv2dCall& call, int64_t kh, int64_t kw, Body&& body) {
  const Conv2d& c = call.conv;
  const int64_t down = kh * c.dilation_h - c.pad_h, right = kw * c.dilation_w - c.pad_w;
  const Reach rows = reach_of(down, c.stride_h, call.in_h, call.out_h),
              columns = reach_of(right, c.stride_w, call.in_w, call.out_w);
  for (int64_t oh = rows.first; oh < rows.end; ++oh) body(oh * c.stride_h + down, oh, columns, right);
}

// columns[channel, kh, kw][oh, ow] of the channels of one group of one image; taps outside of it are 0.
void unfold(const float* x, const Conv2dCall& call, int64_t channels, float* columns) {
  const Conv2d& c = call.conv;
  const int64_t taps = c.kernel_h * c.kernel_w, pixels = call.out_h * call.out_w;
  parallel_for(channels * taps, 4, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = columns + row * pixels;
      const float* from = x + row / taps * call.in_h * call.in_w;
      std::fill(to, to + pixels, 0.0f);
      for_each_row(call, row % taps / c.kernel_w, row % c.kernel_w,
                   [&](int64_t ih, int64_t oh, Reach reach, int64_t right) {
                     for (int64_t ow = reach.first; ow < reach.end; ++ow)
                       to[oh * call.out_w + ow] = from[ih * call.in_w + ow * c.stride_w + right];
                   });
    }
  });
}

// The other way: adds every tap to its pixel, (kh, kw) ascending.
void fold(const float* columns, const Conv2dCall& call, int64_t channels, float* x) {
  const Conv2d& c = call.conv;
  const int64_t taps = c.kernel_h * c.kernel_w, pixels = call.out_h * call.out_w, image = call.in_h * call.in_w;
  parallel_for(channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      float* to = x + channel * image;
      std::fill(to, to + image, 0.0f);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float* from = columns + (channel * taps + tap) * pixels;
        for_each_row(call, tap / c.kernel_w, tap % c.kernel_w, [&](int64_t ih, int64_t oh, Reach reach, int64_t right) {
          for (int64_t ow = reach.first; ow < reach.end; ++ow)
            to[ih * call.in_w + ow * c.stride_w + right] += from[oh * call.out_w + ow];
        });
      }
    }
  });
}

float row_product(const float* a, const float* b, int64_t b_step, int64_t n) {
  float strands[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t j = 0; j < 8; ++j) strands[j] += a[i + j] * b[(i + j) * b_step];
  for (int64_t j = 0; i < n; ++i, ++j) strands[j] += a[i] * b[i * b_step];
  return ((strands[0] + strands[4]) + (strands[2] + strands[6])) +
         ((strands[1] + strands[5]) + (strands[3] + strands[7]));
}

void depthwise_input(const float* grad, const float* weight, const Conv2dCall& call, float* grad_x) {
  const Conv2d& c = call.conv;
  const int64_t taps = c.kernel_h * c.kernel_w;
  parallel_for(call.batch * c.in_channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const float* from = grad + plane * call.out_h * call.out_w;
      float* to = grad_x + plane * call.in_h * call.in_w;
      std::fill(to, to + call.in_h * call.in_w, 0.0f);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float w = weight[plane % c.in_channels * taps + tap];
        for_each_row(call, tap / c.kernel_w, tap % c.kernel_w, [&](int64_t ih, int64_t oh, Reach reach, int64_t right) {
          for (int64_t ow = reach.first; ow < reach.end; ++ow)
            to[ih * call.in_w + ow * c.stride_w + right] += from[oh * call.out_w + ow] * w;
        });
      }
    }
  });
}

void depthwise_weight(const float* grad, const float* x, const Conv2dCall& call, float* grad_weight) {
  const Conv2d& c = call.conv;
  const int64_t taps = c.kernel_h * c.kernel_w;
  parallel_for(c.in_channels * taps, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t n = 0; n < call.batch; ++n) {
        const int64_t plane = n * c.in_channels + i / taps;
        const float *g = grad + plane * call.out_h * call.out_w, *image = x + plane * call.in_h * call.in_w;
        for_each_row(call, i % taps / c.kernel_w, i % c.kernel_w,
                     [&](int64_t ih, int64_t oh, Reach reach, int64_t right) {
                       if (reach.end > reach.first)
                         sum += row_product(g + oh * call.out_w + reach.first,
                                            image + ih * call.in_w + reach.first * c.stride_w + right, c.stride_w,
                                            reach.end - reach.first);
                     });
      }
      grad_weight[i] = static_cast<float>(sum);
    }
  });
}

}  // namespace

void conv2d_backward_input_f32(const float* grad, const float* weight, const Conv2dCall& call, float* grad_x) {
  const Conv2d& c = call.conv;
  if (has_channels_apart(c)) return depthwise_input(grad, weight, call, grad_x);
  const int64_t ins = c.in_channels / c.groups, outs = c.out_channels / c.groups, depth = ins * c.kernel_h * c.kernel_w;
  const int64_t pixels = call.out_h * call.out_w, image = call.in_h * call.in_w;
  const bool direct = is_pointwise(call);
  std::vector<float> columns(direct ? 0 : static_cast<size_t>(depth * pixels));
  for (int64_t i = 0; i < call.batch * c.groups; ++i) {
    const float* w = weight + i % c.groups * outs * depth;
    float* to = grad_x + i * ins * image;
    gemm_f32(depth, pixels, outs, {w, 1, depth}, {grad + i * outs * pixels, pixels, 1}, nullptr, BiasAxis::kNone,
             direct ? to : columns.data(), pixels);
    if (!direct) fold(columns.data(), call, ins, to);
  }
}

void conv2d_backward_weight_f32(const float* grad, const float* x, const Conv2dCall& call, float* grad_weight) {
  const Conv2d& c = call.conv;
  if (has_channels_apart(c)) return depthwise_weight(grad, x, call, grad_weight);
  const int64_t ins = c.in_channels / c.groups, outs = c.out_channels / c.groups, depth = ins * c.kernel_h * c.kernel_w;
  const int64_t pixels = call.out_h * call.out_w;
  const bool direct = is_pointwise(call);
  std::vector<float> columns(direct ? 0 : static_cast<size_t>(depth * pixels)),
      product(static_cast<size_t>(outs * depth));
  std::fill(grad_weight, grad_weight + c.out_channels * depth, 0.0f);
  for (int64_t i = 0; i < call.batch * c.groups; ++i) {
    const float* image = x + i * ins * call.in_h * call.in_w;
    if (!direct) unfold(image, call, ins, columns.data());
    gemm_f32(outs, depth, pixels, {grad + i * outs * pixels, pixels, 1}, {direct ? image : columns.data(), 1, pixels},
             nullptr, BiasAxis::kNone, product.data(), depth);
    float* to = grad_weight + i % c.groups * outs * depth;
    for (int64_t k = 0; k < outs * depth; ++k) to[k] += product[static_cast<size_t>(k)];
  }
}

}  // namespace qdq::kernel
