// Gradients of what is a matrix product, and so are they: linear layers, convolutions, attention, resizing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/convolution.h"
#include "kernel/conv_backward.h"
#include "kernel/math.h"
#include "op/targets.h"
#include "train/backward.h"

namespace qdq {
namespace {

// op(a) op(b) for matrices in the last two axes, where op transposes if asked; the axes in front are equal.
Tensor product(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b) {
  const Tensor left = contiguous_f32(a), right = contiguous_f32(b);
  const int64_t rows = a.size(transpose_a ? -1 : -2), depth = a.size(transpose_a ? -2 : -1),
                columns = b.size(transpose_b ? -2 : -1);
  Shape sizes(a.sizes().begin(), a.sizes().end() - 2);
  const int64_t batch = numel_of(sizes);
  sizes.insert(sizes.end(), {rows, columns});
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  const kernel::MatrixView l{left.data<float>(), transpose_a ? 1 : depth, transpose_a ? rows : 1};
  const kernel::MatrixView r{right.data<float>(), transpose_b ? 1 : columns, transpose_b ? depth : 1};
  if (batch == 1)
    kernel::gemm_f32(rows, columns, depth, l, r, nullptr, kernel::BiasAxis::kNone, out.data<float>(), columns);
  else kernel::matmul_f32(batch, rows, columns, depth, l, rows * depth, r, depth * columns, out.data<float>());
  return out;
}

// out[..., n] = sum_k x[..., k] weight[n, k] + bias[n]
std::vector<Value> linear(const BackwardCall& c) {
  const Tensor &x = c.x(0), &weight = c.x(1);
  const int64_t count = x.numel() / std::max<int64_t>(1, x.size(-1));
  const Tensor rows = x.reshape({count, x.size(-1)}), g = c.g().reshape({count, weight.size(0)});
  std::vector<Value> out(3);
  if (c.wanted[0]) out[0] = product(g, false, weight, false).reshape(x.sizes());
  if (c.wanted[1]) out[1] = product(g, true, rows, false);
  if (c.wanted[2]) out[2] = sum_to_shape(g, {1, weight.size(0)}).reshape({weight.size(0)});
  return out;
}

// self @ other with PyTorch's rules for vectors and batches.
std::vector<Value> matmul_of(const BackwardCall& c, size_t first) {
  Tensor a = c.x(first), b = c.x(first + 1), g = c.g();
  const Shape a_sizes = a.sizes(), b_sizes = b.sizes();
  const bool a_vector = a.dim() == 1, b_vector = b.dim() == 1;
  if (b_vector) b = b.unsqueeze(1), g = g.unsqueeze(g.dim());
  if (a_vector) a = a.unsqueeze(0), g = g.unsqueeze(g.dim() - 1);
  const auto wide = [&](const Tensor& t) {
    Shape sizes(g.sizes().begin(), g.sizes().end() - 2);
    sizes.insert(sizes.end(), {t.size(-2), t.size(-1)});
    return t.expand(sizes);
  };
  std::vector<Value> out(first + 2);
  if (c.wanted[first]) out[first] = sum_to_shape(product(g, false, wide(b), true), a.sizes()).reshape(a_sizes);
  if (c.wanted[first + 1]) out[first + 1] = sum_to_shape(product(wide(a), true, g, false), b.sizes()).reshape(b_sizes);
  return out;
}
std::vector<Value> matmul(const BackwardCall& c) { return matmul_of(c, 0); }

// beta self + alpha mat1 @ mat2
std::vector<Value> addmm(const BackwardCall& c) {
  QDQ_CHECK(c.call.number(3) == 1 && c.call.number(4) == 1, kUnsupported, c.call.op().target,
            " has a gradient for alpha = beta = 1 only");
  std::vector<Value> out = matmul_of(c, 1);
  if (c.wanted[0]) out[0] = sum_to_shape(c.g(), c.x(0).sizes());
  return out;
}

Value bias_grad(const Tensor& g) {
  Shape channels(g.sizes().size(), 1);
  channels[1] = g.size(1);
  return sum_to_shape(g, channels).reshape({g.size(1)});
}

std::vector<Value> convolution(const BackwardCall& c) {
  const std::optional<FloatConvolution> conv =
      float_convolution(c.call, /*general=*/c.call.op().target == op::kConvolution);
  QDQ_CHECK(conv.has_value() && conv->axes < 3, kUnsupported, c.call.op().target,
            " has a gradient for float32 batches of one or two spatial axes only");
  const Tensor x = contiguous_f32(c.x(0)), weight = contiguous_f32(c.x(1)), g = contiguous_f32(c.g());
  const kernel::Conv2dCall call{
      {x.size(1), weight.size(0), conv->groups, conv->kernel[1], conv->kernel[2], conv->stride[1], conv->stride[2],
       conv->padding[1], conv->padding[2], conv->dilation[1], conv->dilation[2]},
      x.size(0),
      conv->in[1],
      conv->in[2],
      conv->out[1],
      conv->out[2]};
  std::vector<Value> out(3);
  if (c.wanted[0]) {
    const Tensor grad = Tensor::empty(x.sizes(), DType::kF32);
    kernel::conv2d_backward_input_f32(g.data<float>(), weight.data<float>(), call, grad.data<float>());
    out[0] = grad;
  }
  if (c.wanted[1]) {
    const Tensor grad = Tensor::empty(weight.sizes(), DType::kF32);
    kernel::conv2d_backward_weight_f32(g.data<float>(), x.data<float>(), call, grad.data<float>());
    out[1] = grad;
  }
  if (c.wanted[2]) out[2] = bias_grad(g);
  return out;
}

// A transposed convolution computes what the gradient of a convolution's input is, so its own gradients are those of
// that convolution with input and output exchanged.
std::vector<Value> conv_transpose(const BackwardCall& c) {
  const Tensor x = contiguous_f32(c.x(0)), weight = contiguous_f32(c.x(1)), g = contiguous_f32(c.g());
  const auto axes = static_cast<size_t>(weight.dim() - 2);
  QDQ_CHECK(axes >= 1 && axes <= 2 && x.dim() == weight.dim(), kUnsupported, c.call.op().target,
            " has a gradient for batches of one or two spatial axes only");
  const auto pair = [&](size_t i, int64_t of_height) {
    const std::vector<int64_t> values = c.call.integers(i, axes);
    return std::pair(axes == 1 ? of_height : values[0], values.back());
  };
  const auto [stride_h, stride_w] = pair(3, 1);
  const auto [pad_h, pad_w] = pair(4, 0);
  const auto [dilation_h, dilation_w] = pair(7, 1);
  const auto height = [&](const Tensor& t) { return axes == 1 ? 1 : t.size(2); };
  const kernel::Conv2dCall call{{g.size(1), x.size(1), c.call.integer(6), height(weight), weight.size(-1), stride_h,
                                 stride_w, pad_h, pad_w, dilation_h, dilation_w},
                                x.size(0),
                                height(g),
                                g.size(-1),
                                height(x),
                                x.size(-1)};
  std::vector<Value> out(3);
  if (c.wanted[0]) {
    const Tensor grad = Tensor::empty(x.sizes(), DType::kF32);
    kernel::conv2d_f32(g.data<float>(), call.batch, call.in_h, call.in_w,
                       kernel::pack_conv2d_f32(call.conv, weight.data<float>()), nullptr, call.out_h, call.out_w,
                       grad.data<float>());
    out[0] = grad;
  }
  if (c.wanted[1]) {
    const Tensor grad = Tensor::empty(weight.sizes(), DType::kF32);
    kernel::conv2d_backward_weight_f32(x.data<float>(), g.data<float>(), call, grad.data<float>());
    out[1] = grad;
  }
  if (c.wanted[2]) out[2] = bias_grad(g);
  return out;
}

// softmax(scale query key^T + mask) value, with the probabilities computed again.
std::vector<Value> attention(const BackwardCall& c) {
  QDQ_CHECK(c.call.number(4) == 0 && !c.call.boolean(7), kUnsupported, c.call.op().target,
            " has no gradient with dropout or grouped queries");
  const Shape batch(c.g().sizes().begin(), c.g().sizes().end() - 2);
  const auto wide = [&](const Tensor& x) {
    Shape sizes = batch;
    sizes.insert(sizes.end(), {x.size(-2), x.size(-1)});
    return x.expand(sizes);
  };
  const Tensor query = wide(c.x(0)), key = wide(c.x(1)), value = wide(c.x(2));
  const Tensor shares = product(query, false, key, true), slopes = product(c.g(), false, value, true);
  const auto scale =
      static_cast<float>(c.call.is_none(6) ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : c.call.number(6));
  const Tensor* mask = c.call.optional_tensor(3);
  const bool is_bool = mask != nullptr && mask->dtype() == DType::kBool;
  const Tensor added = mask == nullptr ? Tensor() : mask->expand(shares.sizes()).to(DType::kF32).contiguous();
  const int64_t L = shares.size(-2), S = shares.size(-1);
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  float *share = shares.data<float>(), *slope = slopes.data<float>();
  for (int64_t i = 0; i < shares.numel(); ++i) {
    share[i] *= scale;
    if (added.defined() && is_bool && added.data<float>()[i] == 0) share[i] = kHidden;
    if (added.defined() && !is_bool) share[i] += added.data<float>()[i];
    if (c.call.boolean(5) && i % S > i / S % L) share[i] = kHidden;
  }
  kernel::softmax_f32(share, shares.numel() / std::max<int64_t>(1, S), S, share);
  std::vector<Value> out(4);
  if (c.wanted[2]) out[2] = sum_to_shape(product(shares, true, c.g(), false), c.x(2).sizes());
  for (int64_t row = 0; row < shares.numel(); row += S) {
    double sum = 0;
    for (int64_t i = row; i < row + S; ++i) sum += static_cast<double>(share[i]) * slope[i];
    for (int64_t i = row; i < row + S; ++i) slope[i] = share[i] * (slope[i] - static_cast<float>(sum));
  }
  if (c.wanted[3]) out[3] = sum_to_shape(slopes, mask->sizes()).clone();  // slopes go on to change
  for (float& value : slopes.span<float>()) value *= scale;
  if (c.wanted[0]) out[0] = sum_to_shape(product(slopes, false, key, false), c.x(0).sizes());
  if (c.wanted[1]) out[1] = sum_to_shape(product(slopes, true, query, false), c.x(1).sizes());
  return out;
}

// A resize that treats rows and columns apart: out = A x B for matrices that follow from images with a single row or
// column of ones.
std::vector<Value> separable_resize(const BackwardCall& c) {
  const int64_t height = c.x(0).size(2), width = c.x(0).size(3);
  const auto resized = [&](int64_t axis, int64_t extent) {
    const Tensor ones = Tensor::empty({1, extent, height, width}, DType::kF32);
    for (int64_t i = 0; i < extent; ++i) ones.select(1, i).select(axis, i).copy_from(Tensor::scalar(1.0f));
    std::vector<Value> args{ones};
    for (size_t i = 1; i < c.call.size(); ++i) args.push_back(c.call[i]);
    const Value out = c.call.op().eval(Call<Tensor>(c.call.op(), std::move(args)));
    // [extent, out extent]: the other axis has the same everywhere
    return out.get_if<Tensor>()->select(0, 0).select(axis == 1 ? 2 : 1, 0);
  };
  const auto wide = [&](const Tensor& matrix) {
    return matrix.expand({c.g().size(0), c.g().size(1), matrix.size(0), matrix.size(1)});
  };
  const Tensor rows = wide(resized(1, height)), columns = wide(resized(2, width));
  return {Value(product(product(rows, false, c.g(), false), false, columns, true))};
}

}  // namespace

void add_product_backwards(std::vector<BackwardDef>& table) {
  const auto add = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  add("linear.default", linear);
  add("scaled_dot_product_attention.default", attention);
  for (const std::string_view target : {"upsample_bilinear2d.vec", "upsample_bilinear2d.default",
                                        "upsample_bicubic2d.vec", "upsample_bicubic2d.default"})
    table.push_back({target, separable_resize});
  add("addmm.default", addmm);
  for (const std::string_view target : {"mm.default", "bmm.default", "matmul.default"}) add(target, matmul);
  for (const std::string_view target : {"conv1d.default", "conv2d.default"}) add(target, convolution);
  add("convolution.default", convolution);
  for (const std::string_view target : {"conv_transpose1d.default", "conv_transpose2d.input"})
    add(target, conv_transpose);
}

}  // namespace qdq
