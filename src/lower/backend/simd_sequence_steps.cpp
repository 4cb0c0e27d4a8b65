// The steps of sequence models on the portable kernels, and dynamic layers in integers.
#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"
#include "kernel/attention.h"
#include "kernel/conv_int8.h"
#include "kernel/gemm.h"
#include "kernel/math.h"
#include "kernel/observe.h"
#include "kernel/pointwise.h"
#include "kernel/pointwise_int8.h"
#include "kernel/quantize.h"
#include "lower/backend/simd_steps.h"

namespace qdq::simd {
namespace {

Compiled dynamic_product(const Plan& plan, const PlanStep& step) {
  const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
  if (out.dtype != DType::kF32) return "a result that is not f32";
  if (step.inputs.size() > 1 && plan.buffers[step.inputs[1]].dtype != DType::kF32) return "a residual that is not f32";
  const auto found = int8_product_of(plan, step);
  if (const std::string* reason = std::get_if<std::string>(&found)) return *reason;
  const Int8Product& product = *std::get_if<Int8Product>(&found);
  const ProductWeights& weights = *step.weights();
  const int64_t oc = weights.channels(), count = numel_of(in.sizes);
  Requantization numbers = requantization(plan, step);
  kernel::Requantize requantize = requantize_of(numbers, out);
  requantize.has_residual = requantize.residual_is_float = step.inputs.size() > 1;
  kernel::PackedConvInt8 packed = kernel::pack_conv2d_int8(product.conv, weights.values.contiguous().data<int8_t>(), 0,
                                                           std::move(requantize), product.images);
  const std::string description = "quantize, then " + packed.description();
  const auto run = [=, images = product.images, range = *step.range(), weight_scales = std::move(numbers.multiplier),
                    multiplier = std::vector<float>(static_cast<size_t>(oc))](auto inputs, std::byte* output,
                                                                              std::byte* scratch) mutable {
    const kernel::MinMax least_and_most = kernel::min_max_f32(f32(inputs[0]), count);
    const PlanQParams qparams = dynamic_qparams(range, least_and_most.min, least_and_most.max);
    kernel::quantize_f32(f32(inputs[0]), count, {qparams.scale, qparams.zero_point, qparams.qmin, qparams.qmax},
                         u8(scratch));
    for (size_t c = 0; c < multiplier.size(); ++c)
      multiplier[c] = static_cast<float>(qparams.scale * static_cast<double>(weight_scales[c]));
    kernel::set_input_qparams(packed, qparams.zero_point, multiplier.data());
    kernel::ConvInt8Images call = images;
    call.x = u8(scratch);
    if (inputs.size() > 1) call.residual = inputs[1];
    call.out = output;
    kernel::conv2d_int8(packed, call);
  };
  return made(description, run, static_cast<size_t>(count));
}

Compiled group_linear(const Plan& plan, const PlanStep& step) {
  const PlanStep::GroupLinear& linear = step.as<PlanStep::GroupLinear>();
  const int64_t depth = linear.weights.depth, count = numel_of(plan.buffers[step.output].sizes),
                rows = linear.weights.channels == 0 ? 0 : count / linear.weights.channels;
  const auto tokens_bytes = static_cast<size_t>(rows) * sizeof(kernel::TokenQParams);
  const std::string description =
      concat(linear.per_token ? "quantize by token, then " : "", linear.weights.description());
  return made(
      description,
      [=, weights = linear.weights, bias = linear.bias, per_token = linear.per_token, activation = step.activation](
          auto inputs, std::byte* output, std::byte* scratch) {
        const float* added = bias.defined() ? bias.template data<float>() : nullptr;
        if (per_token) {
          auto* tokens = reinterpret_cast<kernel::TokenQParams*>(scratch);
          auto* integers = reinterpret_cast<int8_t*>(scratch + tokens_bytes);
          kernel::quantize_tokens_s8(f32(inputs[0]), rows, depth, integers, tokens);
          kernel::linear_groups_s8(integers, tokens, rows, weights, added, f32(output));
        } else {
          kernel::linear_groups_f32(f32(inputs[0]), rows, weights, added, f32(output));
        }
        if (activation.kind != Activation::Kind::kNone)
          kernel::activate_f32(activation, f32(output), count, f32(output));
      },
      linear.per_token ? tokens_bytes + static_cast<size_t>(rows * depth) : 0);
}

Compiled dynamic_round(const Plan& plan, const PlanStep& step) {
  const int64_t count = numel_of(plan.buffers[step.inputs[0]].sizes);
  const auto run = [count, range = *step.range()](auto inputs, std::byte* output, std::byte* scratch) {
    const kernel::MinMax found = kernel::min_max_f32(f32(inputs[0]), count);
    const PlanQParams qparams = dynamic_qparams(range, found.min, found.max);
    kernel::quantize_f32(f32(inputs[0]), count, {qparams.scale, qparams.zero_point, qparams.qmin, qparams.qmax},
                         u8(scratch));
    std::array<float, 256> table;
    for (int i = 0; i < 256; ++i)
      table[static_cast<size_t>(i)] = static_cast<float>(i - qparams.zero_point) * static_cast<float>(qparams.scale);
    kernel::map_u8(u8(scratch), count, table.data(), f32(output));
  };
  return made("round to the range of the run", run, static_cast<size_t>(count));
}

Compiled rounded_layer_norm(const Plan& plan, const PlanStep& step) {
  const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
  const PlanStep::LayerNorm& form = step.as<PlanStep::LayerNorm>();
  const int64_t columns = out.sizes.back(), count = numel_of(out.sizes), rows = count / std::max<int64_t>(columns, 1);
  std::array<float, 256> table{};
  for (int q = 0; q < 256; ++q)
    table[static_cast<size_t>(q)] =
        static_cast<float>(q - in.qparams.zero_point) * static_cast<float>(in.qparams.scale);
  const bool reads_u8 = in.dtype == DType::kU8, writes_u8 = out.dtype == DType::kU8;
  return made(
      "layer norm with roundings",
      [=, to = requantize_of(rounding_to(out.qparams), out)](auto inputs, std::byte* output, std::byte* scratch) {
        float* const reals = writes_u8 ? f32(scratch) : f32(output);
        if (reads_u8) kernel::map_u8(u8(inputs[0]), count, table.data(), reals);
        kernel::rounded_layer_norm_f32(reads_u8 ? reals : f32(inputs[0]), rows, columns, rounded_norm_of(form), reals);
        if (writes_u8)
          kernel::convert_row({reinterpret_cast<const std::byte*>(reals), true, 0, 0}, 1.0f, count, to, output);
      },
      writes_u8 ? static_cast<size_t>(count) * sizeof(float) : 0);
}

Compiled layer_norm(const Plan& plan, const PlanStep& step) {
  const PlanStep::LayerNorm& norm = step.as<PlanStep::LayerNorm>();
  if (norm.roundings.any()) return rounded_layer_norm(plan, step);
  const Shape& sizes = plan.buffers[step.output].sizes;
  const int64_t columns = sizes.back(), rows = numel_of(sizes) / std::max<int64_t>(columns, 1);
  return made(norm.is_rms ? "rms norm" : "layer norm", [=, gamma = norm.gamma, beta = norm.beta, is_rms = norm.is_rms,
                                                        epsilon = static_cast<float>(norm.epsilon)](
                                                           auto inputs, std::byte* output, std::byte*) {
    const auto data_of = [](const Tensor& tensor) { return tensor.defined() ? tensor.data<float>() : nullptr; };
    if (is_rms) kernel::rms_norm_f32(f32(inputs[0]), rows, columns, data_of(gamma), epsilon, f32(output));
    else
      kernel::layer_norm_f32(f32(inputs[0]), rows, columns, data_of(gamma), data_of(beta), epsilon, f32(output),
                             nullptr, nullptr);
  });
}

// Strides of a buffer whose axes of one element stand for any number.
Shape broadcast_strides(const PlanBuffer& buffer) {
  Shape strides = buffer.strides();
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (buffer.sizes[axis] == 1) strides[axis] = 0;
  return strides;
}

Compiled rotary(const Plan& plan, const PlanStep& step) {
  std::array<Shape, 3> strides;
  for (size_t i = 0; i < 3; ++i) strides[i] = broadcast_strides(plan.buffers[step.inputs[i]]);
  const PlanBuffer& out = plan.buffers[step.output];
  const Shape sizes = out.sizes, to = out.strides();
  return made("rotary", [=](auto inputs, std::byte* output, std::byte*) {
    const auto row = [&](size_t operand, int64_t n, int64_t h, int64_t l) {
      const Shape& by = strides[operand];
      return f32(inputs[operand]) + n * by[0] + h * by[1] + l * by[2];
    };
    for (int64_t n = 0; n < sizes[0]; ++n)
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t l = 0; l < sizes[2]; ++l)
          kernel::rotate_halves_f32(row(0, n, h, l), row(1, n, h, l), row(2, n, h, l), sizes[3],
                                    f32(output) + n * to[0] + h * to[1] + l * to[2]);
  });
}

// With a mask or shared keys, as decoders have them, each query goes over the rows of its keys.
Compiled attention_by_rows(const Plan& plan, const PlanStep& step) {
  std::array<Shape, 4> strides;
  const bool has_mask = step.inputs.size() > 3;
  for (size_t i = 0; i < step.inputs.size(); ++i) strides[i] = plan.buffers[step.inputs[i]].strides();
  if (has_mask) strides[3] = broadcast_strides(plan.buffers[step.inputs[3]]);
  const PlanBuffer &q = plan.buffers[step.inputs[0]], &v = plan.buffers[step.inputs[2]];
  const int64_t images = q.sizes[0], heads = q.sizes[1], queries = q.sizes[2], depth = q.sizes[3], keys = v.sizes[2],
                width = v.sizes[3], shared = v.sizes[1] == 0 ? 1 : heads / v.sizes[1];
  if (has_mask && keys > 1 && strides[3][3] != 1) return "a mask that is not dense";
  const float factor = static_cast<float>(step.as<PlanStep::Attention>().factor);
  return made("attention, row by row", [=](auto inputs, std::byte* output, std::byte*) {
    parallel_for(images * heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scores(static_cast<size_t>(keys));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / heads, h = i % heads;
        const auto at = [&](size_t operand, int64_t head) {
          return f32(inputs[operand]) + n * strides[operand][0] + head * strides[operand][1];
        };
        const kernel::CacheRows rows{
            at(1, h / shared), strides[1][2], at(2, h / shared), strides[2][2], keys, depth, width};
        for (int64_t l = 0; l < queries; ++l)
          kernel::attend_f32(at(0, h) + l * strides[0][2], rows, factor,
                             has_mask ? at(3, h) + l * strides[3][2] : nullptr, scores.data(),
                             f32(output) + ((n * queries + l) * heads + h) * width);
      }
    });
  });
}

// Else heads one after the other, or on several threads: softmax(q k' * factor) v with the sums of kernel/gemm.h.
Compiled attention(const Plan& plan, const PlanStep& step) {
  if (step.inputs.size() > 3 || plan.buffers[step.inputs[0]].sizes[1] != plan.buffers[step.inputs[1]].sizes[1])
    return attention_by_rows(plan, step);
  std::array<Shape, 3> strides;
  for (size_t i = 0; i < 3; ++i) strides[i] = plan.buffers[step.inputs[i]].strides();
  const Shape &q = plan.buffers[step.inputs[0]].sizes, &v = plan.buffers[step.inputs[2]].sizes;
  const int64_t heads = q[1], queries = q[2], depth = q[3], keys = v[2], width = v[3], images = q[0];
  const float factor = static_cast<float>(step.as<PlanStep::Attention>().factor);
  return made("attention, head by head", [=](auto inputs, std::byte* output, std::byte*) {
    parallel_for(images * heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> weights(static_cast<size_t>(queries * keys));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / heads, h = i % heads;
        const auto at = [&](size_t operand) {
          return f32(inputs[operand]) + n * strides[operand][0] + h * strides[operand][1];
        };
        kernel::gemm_f32(queries, keys, depth, {at(0), strides[0][2], strides[0][3]},
                         {at(1), strides[1][3], strides[1][2]}, nullptr, kernel::BiasAxis::kNone, weights.data(), keys);
        kernel::mul_scalar_f32(weights.data(), factor, queries * keys, weights.data());
        kernel::softmax_f32(weights.data(), queries, keys, weights.data());
        kernel::gemm_f32(queries, width, keys, {weights.data(), keys, 1}, {at(2), strides[2][2], strides[2][3]},
                         nullptr, kernel::BiasAxis::kNone, f32(output) + (n * queries * heads + h) * width,
                         heads * width);
      }
    });
  });
}

}  // namespace

std::variant<Int8Product, std::string> int8_product_of(const Plan& plan, const PlanStep& step) {
  const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
  if (step.inputs.size() > 1 && plan.buffers[step.inputs[1]].channels_last != out.channels_last)
    return "a residual in another storage order";
  const ProductWeights& weights = *step.weights();
  const int64_t oc = weights.channels(), depth = weights.depth();
  Int8Product product;
  kernel::ConvInt8Images& images = product.images;
  if (const PlanStep::Convolution* convolution = step.convolution()) {
    if (in.sizes.size() != 4 || !in.channels_last || !out.channels_last)
      return "images that are not stored channels last";
    const Window2d& w = convolution->window;
    product.conv = {in.sizes[1], oc,      convolution->groups, w.kernel_h,  w.kernel_w, w.stride_h, w.stride_w,
                    w.pad_h,     w.pad_w, w.dilation_h,        w.dilation_w};
    images.frames = convolution->frames;
    images.x_stride = in.sizes[1];
    product.interleaves_frames = images.frames.kernel > 1 && !is_depthwise(product.conv);
    (product.interleaves_frames ? product.conv.in_channels : product.conv.kernel_h) *= images.frames.kernel;
    images.batch = out.sizes[0];
    images.in_h = in.sizes[2];
    images.in_w = in.sizes[3];
    images.out_h = out.sizes[2];
    images.out_w = out.sizes[3];
  } else {
    product.conv = kernel::linear_as_conv2d(weights.values.size(1), oc);
    images.x_stride = product.conv.in_channels;
    images.in_h = images.out_h = oc == 0 ? 0 : numel_of(out.sizes) / oc;
  }
  if (depth == 0 || depth > kernel::kMaxProducts) return concat("sums of ", depth, " products");
  images.out_stride = images.residual_stride = oc;
  return product;
}

Compiled compile_sequence_step(const Plan& plan, const PlanStep& step) {
  switch (step.kind()) {
    case PlanStep::Kind::kDynamicLinear:
    case PlanStep::Kind::kDynamicConvolution: return dynamic_product(plan, step);
    case PlanStep::Kind::kGroupLinear: return group_linear(plan, step);
    case PlanStep::Kind::kDynamicRound: return dynamic_round(plan, step);
    case PlanStep::Kind::kLayerNorm: return layer_norm(plan, step);
    case PlanStep::Kind::kAttention: return attention(plan, step);
    case PlanStep::Kind::kRotary: return rotary(plan, step);
    default: return concat("a step of another kind: ", to_string(step.kind()));
  }
}

}  // namespace qdq::simd
