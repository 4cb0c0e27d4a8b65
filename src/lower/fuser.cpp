#include "lower/fuser.h"
#include "lower/join_operators.h"
#include "op/facts.h"
#include "op/targets.h"

#include <utility>

namespace qdq {
namespace {

// Who alone uses the epilogue's value; dropouts that do nothing are taken along. Null for what no plan may take.
Node* user_of(Epilogue& epilogue, const PlanBuilder& plans) {
  Node* next = single_user(*epilogue.last);
  for (; next != nullptr && is_idle_dropout(*next); next = single_user(*next)) epilogue.last = next;
  return next == nullptr || plans.writer_beside(*next) != nullptr ? nullptr : next;
}

}  // namespace

Epilogue Fuser::epilogue_of(Node& head, bool may_add, bool may_round) const {
  Epilogue epilogue;
  epilogue.last = &head;
  if (may_add) take_residual(epilogue);
  Node* next = user_of(epilogue, plans);
  if (next != nullptr && next->arg(0).node() == epilogue.last)
    if (const std::optional<Activation> found = activation_function(*next); found && float_meta(*next) != nullptr) {
      epilogue.activation = *found;
      epilogue.last = next;
      next = user_of(epilogue, plans);
    }
  // The quantize node may have several users, the value before it only this one.
  if (may_round && next != nullptr && is_fusable_quantize(*next)) epilogue.last = epilogue.quantize = next;
  // A u8 residual asks for a u8 result, so that one can be written over the other.
  if (epilogue.residual != nullptr && epilogue.quantize == nullptr && dequantizes_tensor(*epilogue.residual))
    return epilogue_of(head, false, may_round);
  return epilogue;
}

void Fuser::take_residual(Epilogue& epilogue) const {
  Node* add = user_of(epilogue, plans);
  if (add == nullptr || !is_form_of(*add, op::kAdd)) return;
  if (!add->kwargs().empty() || add->args().size() != 2 || is_taken(add)) return;
  Node* other = add->arg(0).node() == epilogue.last ? add->arg(1).node() : add->arg(0).node();
  if (!plans.is_readable(other) || float_meta(*other) == nullptr || float_meta(*add) == nullptr) return;
  const SymShape& sizes = epilogue.last->meta.val.tensor()->sizes;
  if (other->meta.val.tensor()->sizes != sizes || add->meta.val.tensor()->sizes != sizes) return;
  epilogue.residual = other;
  epilogue.last = add;
}

Fuser::Order Fuser::order_of(const Node& head) const {
  const TensorMeta* meta = head.meta.val.tensor();
  if (meta == nullptr || meta->sizes.size() != 4) return Order::kImages;
  if (head.is(op::kLinear) || head.is(op::kLayerNorm) || head.is(kRmsNorm)) return Order::kSequence;
  if (!quantizes_tensor(head) && !activation_function(head) && !is_form_of(head, op::kAdd) &&
      !is_form_of(head, op::kMul))
    return Order::kImages;
  bool any = false;
  for (const Node* operand : head.input_nodes()) {
    const TensorMeta* read = operand->meta.val.tensor();
    if (read == nullptr || read->sizes.size() <= 1) continue;
    if (read->sizes != meta->sizes || !plans.is_sequence(operand)) return Order::kImages;
    any = true;
  }
  return any ? Order::kSequence : Order::kImages;
}

void Fuser::emit(Node& head, const Epilogue& epilogue, std::function<void(PlanStep&, Order)> fill) {
  std::vector<Node*> nodes{&head};
  while (nodes.back() != epilogue.last) nodes.push_back(single_user(*nodes.back()));
  taken_.insert(nodes.begin(), nodes.end());
  const auto make = [this, epilogue, nodes, order = order_of(head), fill = std::move(fill)] {
    PlanStep step;
    step.name = epilogue.last->name();
    step.activation = epilogue.activation;
    fill(step, order);
    if (epilogue.residual != nullptr) {
      const size_t residual = read(epilogue.residual, order);
      step.inputs.push_back(has_float_weight(step) ? plans.in_floats(residual) : residual);
      step.in_place_input = 1;
    }
    const bool rounds = epilogue.quantize != nullptr;
    PlanBuffer out = PlanBuilder::buffer_like(*epilogue.last, rounds ? DType::kU8 : DType::kF32,
                                              rounds ? plan_qparams(*epilogue.quantize) : PlanQParams{});
    if (order == Order::kSequence) plans.add_sequence_step(std::move(step), std::move(out), *epilogue.last, nodes);
    else plans.add_step(std::move(step), std::move(out), *epilogue.last, nodes);
    for (const Node* part : companions_[nodes.front()]) plans.share_step(*part, *epilogue.last);
  };
  if (epilogue.last == &head) make();
  else pending_.emplace(epilogue.last, make);
}

const kernel::GroupWeights* Fuser::group_weights_of(const Node& dequantize, std::string* refusal) {
  auto known = group_weights_.find(&dequantize);
  if (known == group_weights_.end())
    known =
        group_weights_.emplace(&dequantize, group_weights(plans.program(), Argument(const_cast<Node*>(&dequantize))))
            .first;
  if (const std::string* reason = std::get_if<std::string>(&known->second); reason != nullptr && refusal != nullptr)
    *refusal = *reason;
  return std::get_if<kernel::GroupWeights>(&known->second);
}

bool Fuser::make_pending(const Node& node) {
  const auto pending = pending_.find(&node);
  if (pending == pending_.end()) return false;
  pending->second();
  return true;
}

}  // namespace qdq
