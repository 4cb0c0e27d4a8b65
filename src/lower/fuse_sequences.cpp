// Layer norms, attention, and values that are quantized by the range of their run.
#include <algorithm>
#include <cmath>

#include "lower/fuse_products.h"
#include "lower/fuser.h"
#include "op/targets.h"

namespace qdq {

bool take_dynamic(Fuser& fuser, Node& choose) {
  if (!choose.is(op::kChooseQParams)) return false;
  const std::optional<DynamicInput> found = dynamic_input(choose);
  if (!found || !fuser.plans.is_readable(found->x) || float_meta(*found->x) == nullptr) return false;
  const std::vector<Node*>& users = found->dequantize->users();
  const bool all_are_products = std::all_of(users.begin(), users.end(), [&](const Node* product) {
    return (product->is(op::kLinear) || product->is(op::kConv2d)) && product->arg(0).node() == found->dequantize &&
           float_meta(*product) != nullptr && int8_product_obstacle(fuser.plans.program(), *product).empty();
  });
  DynamicInput input = *found;
  if (!all_are_products) {
    if (float_meta(*input.dequantize) == nullptr) return false;
    PlanStep step;
    step.form = PlanStep::DynamicRound{input.range};
    step.name = input.dequantize->name();
    step.inputs = {fuser.plans.read_floats(input.x)};
    fuser.plans.add_step(std::move(step), PlanBuilder::buffer_like(*input.dequantize, DType::kF32), *input.dequantize,
                         {input.dequantize});
    for (const Node* node : input.nodes) fuser.plans.share_step(*node, *input.dequantize);
    input.nodes.clear();
  }
  for (const Node* node : found->nodes) fuser.take(node);
  fuser.dynamic.emplace(input.dequantize, std::move(input));
  return true;
}

std::string fuse_layer_norm(Fuser& fuser, Node& node) {
  PlanBuilder& plans = fuser.plans;
  Node* x = node.arg(0).node();
  if (!plans.is_held(x) || plans.is_held_u8(x)) return "its input is not a float32 value of a plan";
  if (!node.arg(1).is_list() || node.arg(1).list().size() != 1) return "it normalizes over several axes";
  const auto gamma = constant_bias(plans.program(), node.arg(2)), beta = constant_bias(plans.program(), node.arg(3));
  if (std::holds_alternative<std::string>(gamma) || std::holds_alternative<std::string>(beta))
    return "its weight or bias is not constant";
  PlanStep step;
  step.form = PlanStep::LayerNorm{*std::get_if<Tensor>(&gamma), *std::get_if<Tensor>(&beta),
                                  node.arg(4).number().value_or(1e-5)};
  step.name = node.name();
  step.inputs = {plans.read_sequence(x)};
  step.in_place_input = 0;
  plans.add_sequence_step(std::move(step), PlanBuilder::buffer_like(node, DType::kF32), node, {&node});
  return {};
}

bool take_rounded_norm(Fuser& fuser, Node& node) {
  const auto found = fuser.norms.find(&node);
  if (found == fuser.norms.end()) return false;
  const LayerNormPattern& norm = *found->second;
  PlanBuilder& plans = fuser.plans;
  if (!plans.is_readable(norm.x)) return false;
  const auto constant = [&](Node* from) {
    return from == nullptr ? Tensor() : *constant_operand(plans.program(), Argument(from));
  };
  PlanStep step;
  step.form = PlanStep::LayerNorm{constant(norm.gamma), constant(norm.beta), norm.epsilon, norm.roundings};
  Node* last = norm.last;
  std::vector<Node*> nodes = norm.nodes;
  Node* quantize = single_user(*last);
  if (quantize != nullptr && is_fusable_quantize(*quantize)) nodes.push_back(last = quantize);
  else quantize = nullptr;
  step.name = last->name();
  step.inputs = {plans.read_sequence(norm.x)};
  PlanBuffer out = PlanBuilder::buffer_like(*last, quantize != nullptr ? DType::kU8 : DType::kF32,
                                            quantize != nullptr ? plan_qparams(*quantize) : PlanQParams{});
  plans.add_sequence_step(std::move(step), std::move(out), *last, nodes);
  for (const Node* one : nodes) fuser.take(one);
  return true;
}

std::string fuse_rms_norm(Fuser& fuser, Node& node) {
  PlanBuilder& plans = fuser.plans;
  Node* x = node.arg(0).node();
  if (!plans.is_readable(x) || plans.is_held_u8(x)) return "its input is not a float32 value";
  if (!node.arg(1).is_list() || node.arg(1).list().size() != 1) return "it normalizes over several axes";
  const auto gamma = constant_bias(plans.program(), node.arg(2));
  if (std::holds_alternative<std::string>(gamma)) return "its weight is not constant";
  PlanStep step;
  step.form = PlanStep::LayerNorm{*std::get_if<Tensor>(&gamma), {}, node.arg(3).number().value_or(0x1p-23), {}, true};
  step.name = node.name();
  step.inputs = {plans.read_sequence(x)};
  step.in_place_input = 0;
  plans.add_sequence_step(std::move(step), PlanBuilder::buffer_like(node, DType::kF32), node, {&node});
  return {};
}

std::string fuse_rotary(Fuser& fuser, Node& node) {
  PlanBuilder& plans = fuser.plans;
  PlanStep step;
  step.form = PlanStep::Rotary{};
  step.name = node.name();
  for (size_t i = 0; i < 3; ++i) {
    Node* operand = node.arg(i).node();
    if (!plans.is_readable(operand) || plans.is_held_u8(operand)) return "an operand is not a float32 value";
  }
  for (size_t i = 0; i < 3; ++i) step.inputs.push_back(plans.read_rows(node.arg(i).node()));
  PlanBuffer out = PlanBuilder::buffer_like(node, DType::kF32);
  out.channels_last = false;
  plans.add_step(std::move(step), std::move(out), node, {&node});
  return {};
}

namespace {
// Why attention with this mask goes into no plan; empty: it may.
std::string mask_obstacle(const PlanBuilder& plans, const Node* mask, const SymShape& q, const SymShape& k) {
  if (mask == nullptr) return {};
  if (!plans.is_readable(mask) || plans.is_held_u8(mask) || float_meta(*mask)->sizes.size() != 4)
    return "its mask is not a float32 value of four axes";
  const SymShape& sizes = float_meta(*mask)->sizes;
  const SymShape scores{q[0], q[1], q[2], k[2]};
  for (size_t axis = 0; axis < 4; ++axis)
    if (sizes[axis] != scores[axis] && (axis == 3 || sizes[axis] != SymInt(1))) return "its mask is of another shape";
  return {};
}

// How many heads of q share one of k and v; 0 if they do not go together.
int64_t shared_heads(const Node& node, const SymShape& q, const SymShape& k, const SymShape& v) {
  if (q[1] == k[1] && q[1] == v[1]) return 1;
  const Argument* grouped = node.kwarg("enable_gqa");
  const std::optional<int64_t> heads = q[1].constant(), shared = k[1].constant();
  if (grouped == nullptr || grouped->integer().value_or(0) == 0 || !heads || !shared || *shared < 1 ||
      *heads % *shared != 0 || !(k[1] == v[1]))
    return 0;
  return *heads / *shared;
}
}  // namespace

std::string fuse_attention(Fuser& fuser, Node& node) {
  PlanBuilder& plans = fuser.plans;
  std::vector<Node*> values;
  for (size_t i = 0; i < 3; ++i) {
    Node* value = node.arg(i).node();
    if (!plans.is_readable(value) || value->meta.val.tensor()->sizes.size() != 4)
      return "an input is not a float32 value of four axes";
    values.push_back(value);
  }
  const SymShape &q = values[0]->meta.val.tensor()->sizes, &k = values[1]->meta.val.tensor()->sizes,
                 &v = values[2]->meta.val.tensor()->sizes;
  Node* mask = node.arg(3).node();
  if (node.arg(4).number().value_or(0) != 0 || node.arg(5).integer().value_or(0) != 0) return "dropout, or is_causal";
  if (std::string obstacle = mask_obstacle(plans, mask, q, k); !obstacle.empty()) return obstacle;
  if (shared_heads(node, q, k, v) == 0 || !(q[0] == k[0]) || !(q[0] == v[0]) || !q[3].is_constant())
    return "its operands are broadcast";
  if (mask != nullptr) values.push_back(mask);
  PlanStep step;
  const Argument* scale = node.kwarg("scale");
  step.form = PlanStep::Attention{
      scale != nullptr && scale->number() ? *scale->number() : 1 / std::sqrt(static_cast<double>(*q[3].constant()))};
  step.name = node.name();
  for (Node* value : values) step.inputs.push_back(plans.read_float_rows(value));
  // Stored [N, L, H, E], so that the transpose and reshape behind it move nothing.
  PlanBuffer out = PlanBuilder::buffer_like(node, DType::kF32);
  out.channels_last = false;
  std::swap(out.symbolic_sizes[1], out.symbolic_sizes[2]);
  const SymShape strides = c_order(out.symbolic_sizes);
  plans.add_step(std::move(step), std::move(out), node, {&node});
  plans.add_view(node, plans.read_as_is(&node), 0, {strides[0], strides[2], strides[1], strides[3]});
  return {};
}

}  // namespace qdq
