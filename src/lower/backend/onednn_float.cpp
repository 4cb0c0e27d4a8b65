#include "lower/backend/onednn_float.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace qdq::onednn {
namespace {

using dnnl::memory;
using Dims = memory::dims;

constexpr memory::data_type kF32 = memory::data_type::f32;

// Why a step with f32 weights cannot be one primitive; empty if it can.
std::string obstacle(const Plan& plan, const PlanStep& step) {
  const DType in = plan.buffers[step.inputs[0]].dtype, out = plan.buffers[step.output].dtype;
  if (in == DType::kU8 || out == DType::kU8) return "integers beside float weights";
  if (in == DType::kF32 && out != DType::kF32) return "a bfloat16 result of float32";
  if (step.inputs.size() > 1 && plan.buffers[step.inputs[1]].dtype != out)
    return "a residual of another dtype than the result";
  return {};
}

dnnl::primitive_attr attributes(const PlanStep& step) {
  dnnl::primitive_attr attr = plain_attr();
  dnnl::post_ops ops;
  if (step.inputs.size() > 1) ops.append_sum(1);
  append_activation(ops, step.activation);
  attr.set_post_ops(ops);
  return attr;
}

void bind(PrimitiveStep& compiled, const Plan& plan, const PlanStep& step, const memory::desc& x,
          const memory::desc& bias, const memory::desc& y) {
  compiled.bind_input(DNNL_ARG_SRC, 0, x);
  compiled.bind_output(y);
  if (const Tensor& given = step.weights()->bias; given.defined()) {
    memory values(bias, engine());
    std::memcpy(values.get_data_handle(), given.raw(), static_cast<size_t>(given.numel()) * sizeof(float));
    compiled.bind(DNNL_ARG_BIAS, values);
  }
  if (step.inputs.size() > 1) compiled.set_accumulated_input(1, static_cast<size_t>(plan.buffers[step.output].bytes()));
}

// Three primitives, the weights of the values between them in the scratch memory.
class AttentionStep : public CompiledStep {
 public:
  AttentionStep(std::unique_ptr<PrimitiveStep> scores, std::unique_ptr<PrimitiveStep> softmax,
                std::unique_ptr<PrimitiveStep> values, size_t score_bytes, size_t weight_bytes)
      : scores_(std::move(scores)), softmax_(std::move(softmax)), values_(std::move(values)),
        score_bytes_(aligned(score_bytes)), weight_bytes_(weight_bytes == score_bytes ? 0 : aligned(weight_bytes)) {}
  size_t scratch_bytes() const override {
    return score_bytes_ + weight_bytes_ +
           std::max({scores_->scratch_bytes(), softmax_->scratch_bytes(), values_->scratch_bytes()});
  }
  std::string description() const override {
    return scores_->description() + " + " + softmax_->description() + " + " + values_->description();
  }
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
    // Weights of the scores' dtype are written over these.
    std::byte *weights = weight_bytes_ == 0 ? scratch : scratch + score_bytes_,
              *rest = scratch + score_bytes_ + weight_bytes_;
    const std::byte* const from_scores[] = {scratch};
    const std::byte* const weighted[] = {weights, inputs[2]};
    scores_->run(inputs, scratch, rest);
    softmax_->run(from_scores, weights, rest);
    values_->run(weighted, output, rest);
  }

 private:
  std::unique_ptr<PrimitiveStep> scores_, softmax_, values_;
  size_t score_bytes_, weight_bytes_;
};

// A primitive between two reorders: its own images lie in the scratch memory, in layouts that it has chosen.
class ReorderedStep : public CompiledStep {
 public:
  ReorderedStep(std::unique_ptr<PrimitiveStep> before, std::unique_ptr<PrimitiveStep> inner,
                std::unique_ptr<PrimitiveStep> behind, size_t in_bytes, size_t out_bytes)
      : before_(std::move(before)), inner_(std::move(inner)), behind_(std::move(behind)), in_bytes_(aligned(in_bytes)),
        out_bytes_(aligned(out_bytes)) {}
  size_t scratch_bytes() const override {
    return in_bytes_ + out_bytes_ +
           std::max({before_->scratch_bytes(), inner_->scratch_bytes(), behind_->scratch_bytes()});
  }
  std::string description() const override { return inner_->description() + " between reorders"; }
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
    std::byte *result = scratch + in_bytes_, *rest = result + out_bytes_;
    const std::byte *const in[] = {scratch}, *const out[] = {result};
    before_->run(inputs, scratch, rest);
    inner_->run(in, result, rest);
    behind_->run(out, output, rest);
  }

 private:
  std::unique_ptr<PrimitiveStep> before_, inner_, behind_;
  size_t in_bytes_, out_bytes_;
};

std::unique_ptr<PrimitiveStep> reorder_step(const memory::desc& from, const memory::desc& to) {
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, plain_attr());
  auto compiled = step_of<dnnl::reorder>(desc);
  compiled->bind_input(DNNL_ARG_FROM, 0, from);
  compiled->bind_output(to);
  return compiled;
}

bool is_plain_loop(const dnnl::convolution_forward::primitive_desc& desc) {
  return std::string_view(desc.impl_info_str()).starts_with("ref");
}

}  // namespace

Compiled float_convolution(const Plan& plan, const PlanStep& step, PackedWeights& weights) {
  if (std::string reason = obstacle(plan, step); !reason.empty()) return reason;
  const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
  const PlanStep::Convolution& conv = step.as<PlanStep::Convolution>();
  if (has_wrong_sums(plan, step, conv)) return kWrongSums;
  const Window2d& w = conv.window;
  const int64_t oc = conv.weights.channels();
  const Dims kernel = weight_dims(conv);
  const memory::desc x = desc_of(in), y = desc_of(out), any(kernel, x.get_data_type(), memory::format_tag::any);
  const memory::desc bias =
      conv.weights.bias.defined() ? memory::desc({oc}, kF32, memory::format_tag::a) : memory::desc();
  const auto desc_for = [&](const memory::desc& from, const memory::desc& to) {
    dnnl::convolution_forward::primitive_desc desc(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, from, any, bias, to,
        {w.stride_h, w.stride_w}, {w.dilation_h - 1, w.dilation_w - 1}, {w.pad_h, w.pad_w},
        padding_behind(w, in.sizes, out.sizes), attributes(step));
    avoid_wrong_tiles(desc);
    return desc;
  };
  const auto step_for = [&](const dnnl::convolution_forward::primitive_desc& desc) {
    auto compiled = step_of<dnnl::convolution_forward>(desc);
    bind(*compiled, plan, step, desc.src_desc(), bias, desc.dst_desc());
    compiled->bind(DNNL_ARG_WEIGHTS,
                   weights.get(conv.weights.values, {kernel, kF32, contiguous_strides(kernel)}, desc.weights_desc()));
    return compiled;
  };
  const auto desc = desc_for(x, y);
  if (!is_plain_loop(desc) || step.inputs.size() > 1) return step_for(desc);
  // Images in another layout may have a kernel.
  const auto free = [](const memory::desc& given) {
    return memory::desc(given.get_dims(), given.get_data_type(), memory::format_tag::any);
  };
  const auto other = desc_for(free(x), free(y));
  if (is_plain_loop(other)) return step_for(desc);
  return std::make_unique<ReorderedStep>(reorder_step(x, other.src_desc()), step_for(other),
                                         reorder_step(other.dst_desc(), y), other.src_desc().get_size(),
                                         other.dst_desc().get_size());
}

Compiled float_linear(const Plan& plan, const PlanStep& step, PackedWeights& weights) {
  if (std::string reason = obstacle(plan, step); !reason.empty()) return reason;
  const ProductWeights& linear = *step.weights();
  const int64_t oc = linear.channels(), depth = linear.depth(),
                rows = numel_of(plan.buffers[step.inputs[0]].sizes) / depth;
  const memory::data_type from = data_type(plan.buffers[step.inputs[0]].dtype),
                          to = data_type(plan.buffers[step.output].dtype);
  const memory::desc x({rows, depth}, from, memory::format_tag::ab), y({rows, oc}, to, memory::format_tag::ab);
  const memory::desc bias =
      linear.bias.defined() ? memory::desc({1, oc}, kF32, memory::format_tag::ab) : memory::desc();
  const dnnl::matmul::primitive_desc desc(engine(), x, {{depth, oc}, from, memory::format_tag::any}, bias, y,
                                          attributes(step));
  auto compiled = step_of<dnnl::matmul>(desc);
  bind(*compiled, plan, step, x, bias, y);
  compiled->bind(DNNL_ARG_WEIGHTS,
                 weights.get(linear.values, {{depth, oc}, kF32, Dims{1, depth}}, desc.weights_desc()));
  return compiled;
}

Compiled bf16_binary(const Plan& plan, const PlanStep& step) {
  const PlanBuffer &a = plan.buffers[step.inputs[0]], &b = plan.buffers[step.inputs[1]],
                   &out = plan.buffers[step.output];
  if (b.dtype != DType::kBF16 || out.dtype != DType::kBF16) return "bfloat16 beside another dtype";
  // The primitive broadcasts its second source only.
  const size_t whole = a.sizes == out.sizes ? 0 : 1, other = 1 - whole;
  const memory::desc x = desc_of(whole == 0 ? a : b), y = desc_of(whole == 0 ? b : a);
  if ((whole == 0 ? a : b).sizes != out.sizes) return "both operands are broadcast";
  if ((whole == 0 ? b : a).sizes.size() != out.sizes.size()) return "an operand of lower rank";
  dnnl::primitive_attr attr = plain_attr();
  dnnl::post_ops ops;
  append_activation(ops, step.activation);
  attr.set_post_ops(ops);
  const bool is_add = step.kind() == PlanStep::Kind::kAdd;
  const dnnl::binary::primitive_desc desc(engine(), is_add ? dnnl::algorithm::binary_add : dnnl::algorithm::binary_mul,
                                          x, y, desc_of(out), attr);
  auto compiled = step_of<dnnl::binary>(desc);
  compiled->bind_input(DNNL_ARG_SRC_0, whole, x);
  compiled->bind_input(DNNL_ARG_SRC_1, other, y);
  compiled->bind_output(desc_of(out));
  return compiled;
}

Compiled bf16_activation(const Plan& plan, const PlanStep& step) {
  const memory::desc x = desc_of(plan.buffers[step.inputs[0]]), y = desc_of(plan.buffers[step.output]);
  if (x != y) return "a change of dtype or order with an activation";
  dnnl::post_ops ops;
  append_activation(ops, step.activation);
  dnnl::algorithm function;
  float alpha, beta;
  ops.get_params_eltwise(0, function, alpha, beta);
  const dnnl::eltwise_forward::primitive_desc desc(engine(), dnnl::prop_kind::forward_inference, function, x, y, alpha,
                                                   beta, plain_attr());
  auto compiled = step_of<dnnl::eltwise_forward>(desc);
  compiled->bind_input(DNNL_ARG_SRC, 0, x);
  compiled->bind_output(y);
  return compiled;
}

Compiled bf16_quantize(const Plan& plan, const PlanStep& step) {
  const Requantization to = requantization(plan, step);
  if (step.activation.kind != Activation::Kind::kNone) return "an activation";
  if (to.low != 0 || to.high != 255) return "a range within that of u8";
  const memory::desc x = desc_of(plan.buffers[step.inputs[0]]), y = desc_of(plan.buffers[step.output]);
  dnnl::primitive_attr attr = plain_attr();
  attr.set_scales_mask(DNNL_ARG_SRC, 0);
  if (to.zero_point != 0) attr.set_zero_points_mask(DNNL_ARG_DST, 0);
  auto compiled = step_of<dnnl::reorder>(dnnl::reorder::primitive_desc(engine(), x, engine(), y, attr));
  compiled->bind_input(DNNL_ARG_SRC, 0, x);
  compiled->bind_output(y);
  compiled->bind(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, constants({to.multiplier[0]}));
  if (to.zero_point != 0) compiled->bind(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, constant(to.zero_point));
  return compiled;
}

Compiled layer_norm(const Plan& plan, const PlanStep& step) {
  const PlanStep::LayerNorm& norm = step.as<PlanStep::LayerNorm>();
  if (norm.is_rms) return "a norm by the mean square";
  const Shape& sizes = plan.buffers[step.output].sizes;
  const memory::desc x({numel_of(sizes) / sizes.back(), sizes.back()}, data_type(plan.buffers[step.output].dtype),
                       memory::format_tag::ab);
  dnnl::normalization_flags flags = dnnl::normalization_flags::none;
  if (norm.gamma.defined()) flags |= dnnl::normalization_flags::use_scale;
  if (norm.beta.defined()) flags |= dnnl::normalization_flags::use_shift;
  const dnnl::layer_normalization_forward::primitive_desc desc(engine(), dnnl::prop_kind::forward_inference, x, x,
                                                               static_cast<float>(norm.epsilon), flags, plain_attr());
  auto compiled = step_of<dnnl::layer_normalization_forward>(desc);
  const auto values = [](const Tensor& tensor) {
    return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.numel());
  };
  compiled->bind_input(DNNL_ARG_SRC, 0, x);
  compiled->bind_output(x);
  if (norm.gamma.defined()) compiled->bind(DNNL_ARG_SCALE, constants(values(norm.gamma)));
  if (norm.beta.defined()) compiled->bind(DNNL_ARG_SHIFT, constants(values(norm.beta)));
  return compiled;
}

Compiled attention(const Plan& plan, const PlanStep& step) {
  if (step.inputs.size() > 3) return "a mask";
  if (plan.buffers[step.inputs[0]].sizes[1] != plan.buffers[step.inputs[1]].sizes[1]) return "grouped queries";
  const auto strided = [&](size_t i, bool transposed) {
    const PlanBuffer& buffer = plan.buffers[step.inputs[i]];
    Shape sizes = buffer.sizes, strides = buffer.strides();
    // oneDNN's matmul errs where one batch has a shorter stride than the rows in it.
    if (sizes[0] == 1) strides[0] = numel_of(sizes);
    if (transposed) {
      std::swap(sizes[2], sizes[3]);
      std::swap(strides[2], strides[3]);
    }
    return memory::desc(sizes, data_type(buffer.dtype), strides);
  };
  const memory::desc q = strided(0, false), k = strided(1, true), v = strided(2, false);
  const Shape out = plan.buffers[step.output].strides();  // [N, L, H, E]
  const Dims rows = q.get_dims();                         // N H L D
  const memory::desc y({rows[0], rows[1], rows[2], v.get_dims()[3]}, data_type(plan.buffers[step.output].dtype),
                       Dims{out[0], out[2], out[1], out[3]});
  const Dims pairs{rows[0], rows[1], rows[2], k.get_dims()[3]};
  const memory::desc scores_desc(pairs, kF32, memory::format_tag::abcd),
      weights(pairs, v.get_data_type(), memory::format_tag::abcd);
  dnnl::primitive_attr scaled = plain_attr();
  dnnl::post_ops ops;
  ops.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(step.as<PlanStep::Attention>().factor), 0);
  scaled.set_post_ops(ops);
  const dnnl::matmul::primitive_desc scores(engine(), q, k, scores_desc, scaled);
  const dnnl::softmax_forward::primitive_desc softmax(engine(), dnnl::prop_kind::forward_inference,
                                                      dnnl::algorithm::softmax_accurate, scores_desc, weights, 3,
                                                      plain_attr());
  const dnnl::matmul::primitive_desc values(engine(), weights, v, y, plain_attr());
  auto first = step_of<dnnl::matmul>(scores);
  first->bind_input(DNNL_ARG_SRC, 0, q);
  first->bind_input(DNNL_ARG_WEIGHTS, 1, k);
  first->bind_output(scores_desc);
  auto second = step_of<dnnl::softmax_forward>(softmax);
  second->bind_input(DNNL_ARG_SRC, 0, scores_desc);
  second->bind_output(weights);
  auto third = step_of<dnnl::matmul>(values);
  third->bind_input(DNNL_ARG_SRC, 0, weights);
  third->bind_input(DNNL_ARG_WEIGHTS, 1, v);
  third->bind_output(y);
  return std::make_unique<AttentionStep>(std::move(first), std::move(second), std::move(third), scores_desc.get_size(),
                                         weights.get_size());
}

}  // namespace qdq::onednn
