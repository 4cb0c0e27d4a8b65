#include "lower/fuser.h"
#include "op/facts.h"
#include "op/targets.h"

#include <utility>

namespace qdq {
namespace {

// Who alone uses the epilogue's value; dropouts that do nothing are taken along.
Node* user_of(Epilogue& epilogue) {
  Node* next = single_user(*epilogue.last);
  for (; next != nullptr && is_idle_dropout(*next); next = single_user(*next)) epilogue.last = next;
  return next;
}

}  // namespace

Epilogue Fuser::epilogue_of(Node& head, bool may_add, bool may_round) const {
  Epilogue epilogue;
  epilogue.last = &head;
  if (may_add) take_residual(epilogue);
  Node* next = user_of(epilogue);
  if (next != nullptr && next->arg(0).node() == epilogue.last)
    if (const std::optional<Activation> found = activation_function(*next); found && float_meta(*next) != nullptr) {
      epilogue.activation = *found;
      epilogue.last = next;
      next = user_of(epilogue);
    }
  // The quantize node may have several users, the value before it only this one.
  if (may_round && next != nullptr && is_fusable_quantize(*next)) epilogue.last = epilogue.quantize = next;
  // A u8 residual asks for a u8 result, so that one can be written over the other.
  if (epilogue.residual != nullptr && epilogue.quantize == nullptr && dequantizes_tensor(*epilogue.residual))
    return epilogue_of(head, false, may_round);
  return epilogue;
}

void Fuser::take_residual(Epilogue& epilogue) const {
  Node* add = user_of(epilogue);
  if (add == nullptr || !is_form_of(*add, op::kAdd)) return;
  if (!add->kwargs().empty() || add->args().size() != 2 || is_taken(add)) return;
  Node* other = add->arg(0).node() == epilogue.last ? add->arg(1).node() : add->arg(0).node();
  if (other == nullptr || other->op() == Node::Op::kGetAttr || float_meta(*other) == nullptr ||
      float_meta(*add) == nullptr)
    return;
  if (other->op() == Node::Op::kCallFunction && PlanBuilder::is_constant(*other)) return;
  const SymShape& sizes = epilogue.last->meta.val.tensor()->sizes;
  if (other->meta.val.tensor()->sizes != sizes || add->meta.val.tensor()->sizes != sizes) return;
  epilogue.residual = other;
  epilogue.last = add;
}

void Fuser::emit(Node& head, const Epilogue& epilogue, std::function<void(PlanStep&)> fill) {
  std::vector<Node*> nodes{&head};
  while (nodes.back() != epilogue.last) nodes.push_back(single_user(*nodes.back()));
  taken_.insert(nodes.begin(), nodes.end());
  const auto make = [this, epilogue, nodes, fill = std::move(fill)] {
    PlanStep step;
    step.name = epilogue.last->name();
    step.activation = epilogue.activation;
    fill(step);
    if (epilogue.residual != nullptr) {
      step.inputs.push_back(has_float_weight(step) ? plans.read_floats(epilogue.residual)
                                                   : plans.read(epilogue.residual));
      step.in_place_input = 1;
    }
    const bool rounds = epilogue.quantize != nullptr;
    PlanBuffer out = PlanBuilder::buffer_like(*epilogue.last, rounds ? DType::kU8 : DType::kF32,
                                              rounds ? plan_qparams(*epilogue.quantize) : PlanQParams{});
    plans.add_step(std::move(step), std::move(out), *epilogue.last, nodes);
    for (const Node* part : companions_[nodes.front()]) plans.share_step(*part, *epilogue.last);
  };
  if (epilogue.last == &head) make();
  else pending_.emplace(epilogue.last, make);
}

bool Fuser::make_pending(const Node& node) {
  const auto pending = pending_.find(&node);
  if (pending == pending_.end()) return false;
  pending->second();
  return true;
}

}  // namespace qdq
