#include "lower/backend/onednn_float.h"

#include <cstring>

namespace qdq::onednn {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Compiled = std::variant<std::unique_ptr<CompiledStep>, std::string>;

constexpr memory::data_type kF32 = memory::data_type::f32;

// Why a step with f32 weights cannot be one primitive; empty if it can.
std::string obstacle(const Plan& plan, const PlanStep& step) {
  if (plan.buffers[step.output].dtype != DType::kF32) return "an integer result of float weights";
  for (const size_t input : step.inputs)
    if (plan.buffers[input].dtype != DType::kF32) return "an integer input of float weights";
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

void bind(PrimitiveStep& compiled, const Plan& plan, const PlanStep& step, const memory::desc& x, const memory::desc& bias, const memory::desc& y) {
  compiled.bind_input(DNNL_ARG_SRC, 0, x);
  compiled.bind_output(y);
  if (step.bias.defined()) {
    memory values(bias, engine());
    std::memcpy(values.get_data_handle(), step.bias.raw(), static_cast<size_t>(step.bias.numel()) * sizeof(float));
    compiled.bind(DNNL_ARG_BIAS, values);
  }
  if (step.inputs.size() > 1) compiled.set_accumulated_input(1, static_cast<size_t>(plan.buffers[step.output].bytes()));
}

}  // namespace

Compiled float_convolution(const Plan& plan, const PlanStep& step, PackedWeights& weights) {
  if (std::string reason = obstacle(plan, step); !reason.empty()) return reason;
  const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
  const Window2d& w = step.window;
  const int64_t g = step.groups, oc = step.weight.size(0);
  const Dims kernel = g > 1 ? Dims{g, oc / g, step.weight.size(1), w.kernel_h, w.kernel_w} : Dims{oc, step.weight.size(1), w.kernel_h, w.kernel_w};
  const memory::desc x = desc_of(in), y = desc_of(out);
  const memory::desc bias = step.bias.defined() ? memory::desc({oc}, kF32, memory::format_tag::a) : memory::desc();
  const dnnl::convolution_forward::primitive_desc desc(engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x,
                                                       {kernel, kF32, memory::format_tag::any}, bias, y, {w.stride_h, w.stride_w},
                                                       {w.dilation_h - 1, w.dilation_w - 1}, {w.pad_h, w.pad_w},
                                                       padding_behind(w, in.sizes, out.sizes), attributes(step));
  auto compiled = step_of<dnnl::convolution_forward>(desc);
  bind(*compiled, plan, step, x, bias, y);
  compiled->bind(DNNL_ARG_WEIGHTS, weights.get(step.weight, {kernel, kF32, contiguous_strides(kernel)}, desc.weights_desc()));
  return compiled;
}

Compiled float_linear(const Plan& plan, const PlanStep& step, PackedWeights& weights) {
  if (std::string reason = obstacle(plan, step); !reason.empty()) return reason;
  const int64_t oc = step.weight.size(0), depth = step.weight.size(1), rows = numel_of(plan.buffers[step.inputs[0]].sizes) / depth;
  const memory::desc x({rows, depth}, kF32, memory::format_tag::ab), y({rows, oc}, kF32, memory::format_tag::ab);
  const memory::desc bias = step.bias.defined() ? memory::desc({1, oc}, kF32, memory::format_tag::ab) : memory::desc();
  const dnnl::matmul::primitive_desc desc(engine(), x, {{depth, oc}, kF32, memory::format_tag::any}, bias, y, attributes(step));
  auto compiled = step_of<dnnl::matmul>(desc);
  bind(*compiled, plan, step, x, bias, y);
  compiled->bind(DNNL_ARG_WEIGHTS, weights.get(step.weight, {{depth, oc}, kF32, Dims{1, depth}}, desc.weights_desc()));
  return compiled;
}

}  // namespace qdq::onednn
