// Linear layers whose weights stay packed: 4 or 8 bits with a scale for each group of a row.

#include "lower/fuser.h"
#include "op/targets.h"

namespace qdq {
namespace {

bool has_group_weights(const Node& node) {
  return node.is(op::kLinear) && node.arg(1).is_node() && node.arg(1).node()->is(op::kDequantizeGroups);
}

}  // namespace

bool take_tokens(Fuser& fuser, Node& choose) {
  std::optional<TokenInput> found = token_input(choose);
  if (!found || !fuser.plans.is_readable(found->x) || float_meta(*found->x) == nullptr) return false;
  const Program& program = fuser.plans.program();
  for (const Node* linear : found->dequantize->users()) {
    if (!has_group_weights(*linear) || linear->arg(0).node() != found->dequantize || float_meta(*linear) == nullptr ||
        !fuser.group_weights_of(*linear->arg(1).node()) ||
        std::holds_alternative<std::string>(constant_bias(program, linear->arg(2))))
      return false;
  }
  for (const Node* node : found->nodes) fuser.take(node);
  fuser.tokens.emplace(found->dequantize, std::move(*found));
  return true;
}

std::string fuse_group_linear(Fuser& fuser, Node& node) {
  Node* x = node.arg(0).node();
  const auto bias = constant_bias(fuser.plans.program(), node.arg(2));
  if (const std::string* reason = std::get_if<std::string>(&bias)) return *reason;
  const auto token = fuser.tokens.find(x);
  const bool per_token = token != fuser.tokens.end();
  if (per_token) x = token->second.x;
  else if (!fuser.plans.is_readable(x) || float_meta(*x) == nullptr) return "its input is not a float32 value";
  std::string refusal;
  const kernel::GroupWeights* weights = fuser.group_weights_of(*node.arg(1).node(), &refusal);
  if (weights == nullptr) return refusal;
  if (per_token) fuser.add_companions(node, token->second.nodes);
  fuser.emit(node, fuser.epilogue_of(node, false, false),
             [&fuser, x, form = PlanStep::GroupLinear{*weights, *std::get_if<Tensor>(&bias), per_token}](
                 PlanStep& step, Fuser::Order order) {
               step.form = form;
               step.inputs = {fuser.plans.in_floats(fuser.read(x, order))};
             });
  return {};
}

}  // namespace qdq
