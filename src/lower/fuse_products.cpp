// Convolutions and linear layers of a graph as steps of a plan.
#include "lower/fuse_products.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "lower/fuser.h"
#include "lower/volumes_as_images.h"
#include "op/targets.h"

namespace qdq {
namespace {

// A conv3d between images and volumes with these weights; or why it is no step.
std::variant<PlanStep::Form, std::string> form_of_volumes(const Node& node, ProductWeights weights) {
  if (weights.is_float()) return "steps take three axes in integers alone";
  const auto stride = int_triple(node, 3, {1, 1, 1}), padding = int_triple(node, 4, {0, 0, 0}),
             dilation = int_triple(node, 5, {1, 1, 1});
  const int64_t groups = node.arg(6).integer().value_or(1);
  const SymInt in = node.arg(0).node()->meta.val.tensor()->sizes.at(2), out = float_meta(node)->sizes.at(2);
  if (!convolution_of_frames(node) || weights.values.dim() != 5 || !stride || !padding || !dilation || groups < 1 ||
      !in.constant() || !out.constant())
    return "its extents are not those of a 3-d convolution with constant settings";
  const Shape& kernel = weights.values.sizes();
  const Window2d window{kernel[3],     kernel[4],     (*stride)[1],   (*stride)[2],
                        (*padding)[1], (*padding)[2], (*dilation)[1], (*dilation)[2]};
  const kernel::FrameWindow frames{*in.constant(), *out.constant(), kernel[2],
                                   (*stride)[0],   (*padding)[0],   (*dilation)[0]};
  return PlanStep::Convolution{std::move(weights), groups, window, frames};
}

// A convolution or linear node with these weights; or why it is no step.
std::variant<PlanStep::Form, std::string> form_of(const Node& node, ProductWeights weights) {
  const TensorMeta* in = node.arg(0).is_node() ? node.arg(0).node()->meta.val.tensor() : nullptr;
  if (in == nullptr) return "its input's shape is not known";
  if (weights.values.numel() == 0) return "its weight is empty";
  const int64_t dim = weights.values.dim();
  if (node.is(op::kLinear)) {
    if (dim != 2) return "the weight is not a matrix";
    return PlanStep::Linear{std::move(weights)};
  }
  if (node.is(op::kConv3d)) return form_of_volumes(node, std::move(weights));
  const auto stride = int_pair(node, 3, {1, 1}), padding = int_pair(node, 4, {0, 0}),
             dilation = int_pair(node, 5, {1, 1});
  const int64_t groups = node.arg(6).integer().value_or(1);
  if (!stride || !padding || !dilation || in->sizes.size() != 4 || dim != 4 || groups < 1)
    return "its extents are not those of a 2-d convolution with constant settings";
  const Window2d window{weights.values.size(2), weights.values.size(3), (*stride)[0],   (*stride)[1],
                        (*padding)[0],          (*padding)[1],          (*dilation)[0], (*dilation)[1]};
  return PlanStep::Convolution{std::move(weights), groups, window, {}};
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

// Folds the batch norm into the weights; false if it is not one with constant statistics.
bool fold_into(ProductWeights& weights, const Program& program, const Node& norm) {
  if (!norm.is(op::kBatchNorm) || norm.arg(5).integer().value_or(1) != 0 || float_meta(norm) == nullptr) return false;
  const auto gamma = constant_floats(program, norm.arg(1)), beta = constant_floats(program, norm.arg(2));
  const auto mean = constant_floats(program, norm.arg(3)), variance = constant_floats(program, norm.arg(4));
  if (!gamma || !beta || !mean || !variance || !mean->defined() || !variance->defined()) return false;
  const double epsilon = norm.arg(7).number().value_or(1e-5);
  const int64_t channels = weights.channels(), depth = weights.depth();
  for (const Tensor& one : {*gamma, *beta, *mean, *variance, weights.bias})
    if (one.defined() && one.numel() != channels) return false;
  const auto value = [](const Tensor& tensor, int64_t c, double if_none) {
    return tensor.defined() ? static_cast<double>(tensor.data<float>()[c]) : if_none;
  };
  const Tensor weight = Tensor::empty(weights.values.sizes(), DType::kF32),
               bias = Tensor::empty({channels}, DType::kF32);
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = value(*gamma, c, 1) / std::sqrt(value(*variance, c, 1) + epsilon);
    const float* from = weights.values.data<float>() + c * depth;
    std::transform(from, from + depth, weight.data<float>() + c * depth,
                   [&](float w) { return static_cast<float>(static_cast<double>(w) * scale); });
    bias.data<float>()[c] =
        static_cast<float>((value(weights.bias, c, 0) - value(*mean, c, 0)) * scale + value(*beta, c, 0));
  }
  weights.values = weight;
  weights.bias = bias;
  return true;
}

// The step of a conv2d or linear node with its weight in s8, as the graph has it quantized; or why there is none.
std::variant<PlanStep::Form, std::string> quantized_product(const Program& program, const Node& node) {
  auto weight = quantized_weight(program, node.arg(1));
  if (const std::string* reason = std::get_if<std::string>(&weight)) return *reason;
  auto bias = constant_bias(program, node.arg(2));
  if (const std::string* reason = std::get_if<std::string>(&bias)) return *reason;
  const QuantizedWeight& found = *std::get_if<QuantizedWeight>(&weight);
  return form_of(node, {found.values, found.scales, *std::get_if<Tensor>(&bias)});
}

// The same in f32, for a weight that is a constant or a dequantized one. A batch norm in evaluation mode that alone
// reads a convolution is folded into weight and bias, computed in double and rounded once:
//   weight' = weight * s,  bias' = (bias - running_mean) * s + beta,  s = gamma / sqrt(running_var + epsilon)
struct FloatProduct {
  PlanStep::Form form;
  Node* last = nullptr;  // the node itself or the batch norm
};
std::variant<FloatProduct, std::string> float_product(const Program& program, Node& node) {
  ProductWeights weights;
  auto bias = constant_bias(program, node.arg(2));
  if (const std::string* reason = std::get_if<std::string>(&bias)) return *reason;
  weights.bias = *std::get_if<Tensor>(&bias);
  if (const std::optional<Tensor> weight = constant_floats(program, node.arg(1)); weight && weight->defined()) {
    weights.values = *weight;
  } else {
    auto quantized = quantized_weight(program, node.arg(1));
    const QuantizedWeight* found = std::get_if<QuantizedWeight>(&quantized);
    if (found == nullptr) return "the weight is neither a float32 constant nor a dequantized one";
    weights.values = dequantized(*found);
  }
  auto form = form_of(node, std::move(weights));
  if (const std::string* reason = std::get_if<std::string>(&form)) return *reason;
  FloatProduct found{std::move(*std::get_if<PlanStep::Form>(&form)), &node};
  PlanStep::Convolution* convolution = std::get_if<PlanStep::Convolution>(&found.form);
  Node* norm = single_user(node);
  if (convolution != nullptr && norm != nullptr && norm->arg(0).node() == &node &&
      fold_into(convolution->weights, program, *norm))
    found.last = norm;
  return found;
}

void emit_product(Fuser& fuser, Node& node, const PlanStep::Form& form, Node* x, const Epilogue& epilogue) {
  fuser.emit(node, epilogue, [&fuser, form, x](PlanStep& step, Fuser::Order order) {
    step.form = form;
    const bool reads_floats = has_float_weight(step) || step.range() != nullptr;
    const size_t at = fuser.read(x, order);
    step.inputs = {reads_floats ? fuser.plans.in_floats(at) : at};
  });
}

}  // namespace

std::string int8_product_obstacle(const Program& program, const Node& node) {
  const auto found = quantized_product(program, node);
  const std::string* reason = std::get_if<std::string>(&found);
  return reason != nullptr ? *reason : "";
}

std::string fuse_product(Fuser& fuser, Node& node) {
  const Program& program = fuser.plans.program();
  const auto of_frames = convolution_of_frames(node);
  Node *x = of_frames ? of_frames->images : node.arg(0).node(), *result = of_frames ? of_frames->result : &node;
  if (node.is(op::kLinear) && node.arg(1).is_node() && node.arg(1).node()->is(op::kDequantizeGroups))
    return fuse_group_linear(fuser, node);
  const auto dynamic = fuser.dynamic.find(x);
  std::string refusal = "its input is not quantized";
  if (dynamic != fuser.dynamic.end() || fuser.plans.is_held_u8(x)) {
    auto found = quantized_product(program, node);
    const PlanStep::Form* form = std::get_if<PlanStep::Form>(&found);
    if (form == nullptr) refusal = *std::get_if<std::string>(&found);
    if (dynamic != fuser.dynamic.end()) {
      if (form == nullptr) return refusal;
      const DynamicInput& input = dynamic->second;
      fuser.add_companions(node, input.nodes);
      const PlanStep::Convolution* convolution = std::get_if<PlanStep::Convolution>(form);
      const PlanStep::Form with_range =
          convolution != nullptr
              ? PlanStep::Form(PlanStep::DynamicConvolution{*convolution, input.range})
              : PlanStep::Form(PlanStep::DynamicLinear{std::get_if<PlanStep::Linear>(form)->weights, input.range});
      emit_product(fuser, node, with_range, input.x, fuser.epilogue_of(node, true, false));
      return {};
    }
    if (form != nullptr) {
      emit_product(fuser, node, *form, x, fuser.epilogue_of(*result, true));
      return {};
    }
  }
  if (!fuser.options.floats || !fuser.plans.is_readable(x)) return refusal;
  auto found = float_product(program, node);
  if (const std::string* reason = std::get_if<std::string>(&found)) return *reason;
  const FloatProduct& product = *std::get_if<FloatProduct>(&found);
  emit_product(fuser, node, product.form, x, fuser.epilogue_of(*product.last, true, false));
  return {};
}

// A batch norm in evaluation mode behind something else than a convolution, an activation as a rule, is a convolution
// of each channel by one weight.
std::string fuse_batch_norm(Fuser& fuser, Node& node) {
  if (!fuser.options.floats) return "no step normalizes float32 here";
  if (fuser.options.bf16) return "bfloat16 would round its factors";
  Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x) || float_meta(node)->sizes.size() != 4) return "its input is not an image of a plan";
  const std::optional<int64_t> channels = float_meta(node)->sizes[1].constant();
  if (!channels || *channels < 1) return "its channels are not constant";
  ProductWeights weights{Tensor::full({*channels, 1, 1, 1}, DType::kF32, 1), {}, {}};
  if (!fold_into(weights, fuser.plans.program(), node)) return "its statistics are not constant";
  emit_product(fuser, node, PlanStep::Convolution{std::move(weights), *channels, {}, {}}, x,
               fuser.epilogue_of(node, true, false));
  return {};
}

void fold_norms_into_weights(Program& program) {
  Graph& graph = *program.graph;
  if (!fusion_obstacle(graph).empty()) return;
  for (Node* node : graph.nodes()) {
    if (!node->is(op::kConv2d) || single_user(*node) == nullptr) continue;
    auto form = float_product(program, *node);
    const FloatProduct* found = std::get_if<FloatProduct>(&form);
    if (found == nullptr || found->last == node) continue;
    const auto point = graph.insert_before(node);
    const auto constant = [&](const char* what, const Tensor& value) {
      const std::string name = program.unique_attribute_name(concat("_folded_", node->name(), what));
      program.add_attribute({name, value, Attribute::Kind::kBuffer});
      return graph.get_attr(name);
    };
    const ProductWeights& weights = std::get_if<PlanStep::Convolution>(&found->form)->weights;
    node->set_arg(1, constant("_weight", weights.values));
    node->set_arg(2, constant("_bias", weights.bias));
    found->last->replace_all_uses_with(node);  // which leaves it to the elimination: the walk comes by
  }
  graph.eliminate_dead_code();
  program.erase_unused_attributes();
}

}  // namespace qdq
