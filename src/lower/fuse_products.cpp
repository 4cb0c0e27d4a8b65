#include "lower/fuse_products.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lower/fuse_nodes.h"

namespace qdq {
namespace {

using Kind = PlanStep::Kind;

// Kind and extents; or why not.
std::string set_extents(const Node& node, PlanStep& step) {
  const TensorMeta* in = node.arg(0).is_node() ? node.arg(0).node()->meta.val.tensor() : nullptr;
  if (in == nullptr) return "its input's shape is not known";
  if (node.is("torch.ops.aten.linear.default")) {
    step.kind = Kind::kLinear;
    if (step.weight.dim() != 2) return "the weight is not a matrix";
    return in->sizes.size() == 4 ? "its input is an image" : "";
  }
  step.kind = Kind::kConvolution;
  const auto stride = int_pair(node, 3, {1, 1}), padding = int_pair(node, 4, {0, 0}), dilation = int_pair(node, 5, {1, 1});
  step.groups = node.arg(6).integer().value_or(1);
  if (!stride || !padding || !dilation || in->sizes.size() != 4 || step.weight.dim() != 4 || step.groups < 1)
    return "its extents are not those of a 2-d convolution with constant settings";
  step.window = {step.weight.size(2), step.weight.size(3), (*stride)[0], (*stride)[1], (*padding)[0], (*padding)[1], (*dilation)[0], (*dilation)[1]};
  return {};
}

std::optional<Tensor> constant_floats(const Program& program, const Argument& argument) {
  auto found = constant_bias(program, argument);
  if (Tensor* tensor = std::get_if<Tensor>(&found)) return *tensor;
  return std::nullopt;
}

// s8 values times the scale of their channel.
Tensor dequantized(const QuantizedWeight& weight) {
  Tensor out = Tensor::empty(weight.values.sizes(), DType::kF32);
  const int64_t channels = out.size(0), depth = channels > 0 ? out.numel() / channels : 0;
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<float>()[i] = static_cast<float>(weight.values.data<int8_t>()[i]) * weight.scales.data<float>()[i / depth];
  return out;
}

// Folds the batch norm into the step; false if it is not one with constant statistics.
bool fold_batch_norm(const Program& program, const Node& norm, PlanStep& step) {
  if (!norm.is("torch.ops.aten.batch_norm.default") || norm.arg(5).integer().value_or(1) != 0 || float_meta(norm) == nullptr) return false;
  const auto gamma = constant_floats(program, norm.arg(1)), beta = constant_floats(program, norm.arg(2));
  const auto mean = constant_floats(program, norm.arg(3)), variance = constant_floats(program, norm.arg(4));
  if (!gamma || !beta || !mean || !variance || !mean->defined() || !variance->defined()) return false;
  const double epsilon = norm.arg(7).number().value_or(1e-5);
  const int64_t channels = step.weight.size(0), depth = channels > 0 ? step.weight.numel() / channels : 0;
  for (const Tensor& one : {*gamma, *beta, *mean, *variance, step.bias})
    if (one.defined() && one.numel() != channels) return false;
  const auto value = [](const Tensor& tensor, int64_t c, double if_none) {
    return tensor.defined() ? static_cast<double>(tensor.data<float>()[c]) : if_none;
  };
  const Tensor weight = Tensor::empty(step.weight.sizes(), DType::kF32), bias = Tensor::empty({channels}, DType::kF32);
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = value(*gamma, c, 1) / std::sqrt(value(*variance, c, 1) + epsilon);
    const float* from = step.weight.data<float>() + c * depth;
    std::transform(from, from + depth, weight.data<float>() + c * depth, [&](float w) { return static_cast<float>(static_cast<double>(w) * scale); });
    bias.data<float>()[c] = static_cast<float>((value(step.bias, c, 0) - value(*mean, c, 0)) * scale + value(*beta, c, 0));
  }
  step.weight = weight;
  step.bias = bias;
  return true;
}

}  // namespace

std::variant<PlanStep, std::string> quantized_product(const Program& program, const Node& node) {
  auto weight = quantized_weight(program, node.arg(1));
  if (const std::string* reason = std::get_if<std::string>(&weight)) return *reason;
  auto bias = constant_bias(program, node.arg(2));
  if (const std::string* reason = std::get_if<std::string>(&bias)) return *reason;
  PlanStep step;
  step.weight = std::get<QuantizedWeight>(weight).values;
  step.weight_scales = std::get<QuantizedWeight>(weight).scales;
  step.bias = std::get<Tensor>(bias);
  std::string reason = set_extents(node, step);
  if (!reason.empty()) return reason;
  return step;
}

std::variant<FloatProduct, std::string> float_product(const Program& program, Node& node) {
  FloatProduct found{{}, &node};
  auto bias = constant_bias(program, node.arg(2));
  if (const std::string* reason = std::get_if<std::string>(&bias)) return *reason;
  found.step.bias = std::get<Tensor>(bias);
  if (const std::optional<Tensor> weight = constant_floats(program, node.arg(1)); weight && weight->defined()) {
    found.step.weight = *weight;
  } else {
    auto quantized = quantized_weight(program, node.arg(1));
    if (std::holds_alternative<std::string>(quantized)) return "the weight is neither a float32 constant nor a dequantized one";
    found.step.weight = dequantized(std::get<QuantizedWeight>(quantized));
  }
  std::string reason = set_extents(node, found.step);
  if (!reason.empty()) return reason;
  if (Node* norm = single_user(node); found.step.kind == Kind::kConvolution && norm != nullptr && norm->arg(0).node() == &node)
    if (fold_batch_norm(program, *norm, found.step)) found.last = norm;
  return found;
}

void fold_batch_norms(Program& program) {
  Graph& graph = *program.graph;
  if (!fusion_obstacle(graph).empty()) return;
  for (Node* node : graph.nodes()) {
    if (!node->is("torch.ops.aten.conv2d.default") || single_user(*node) == nullptr) continue;
    auto form = float_product(program, *node);
    const FloatProduct* found = std::get_if<FloatProduct>(&form);
    if (found == nullptr || found->last == node) continue;
    const auto point = graph.insert_before(node);
    const auto constant = [&](const char* what, const Tensor& value) {
      const std::string name = program.unique_attribute_name(concat("_folded_", node->name(), what));
      program.add_attribute({name, value, Attribute::Kind::kBuffer});
      return graph.get_attr(name);
    };
    node->set_arg(1, constant("_weight", found->step.weight));
    node->set_arg(2, constant("_bias", found->step.bias));
    found->last->replace_all_uses_with(node);  // which leaves it to the elimination: the walk comes by
  }
  graph.eliminate_dead_code();
  program.erase_unused_attributes();
}

}  // namespace qdq
