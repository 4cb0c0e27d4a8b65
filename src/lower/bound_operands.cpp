#include "lower/bound_operands.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "lower/fuse_nodes.h"
#include "op/targets.h"

namespace qdq {
namespace {

bool is_constant(const Program& program, const Node* operand) {
  if (operand == nullptr || operand->op() != Node::Op::kGetAttr) return false;
  const auto writes = [&](const BufferMutation& one) { return one.buffer == operand->target(); };
  return std::none_of(program.buffer_mutations.begin(), program.buffer_mutations.end(), writes);
}

// A branch whose inputs at these places are the given constants.
Subprogram bound(const Program& branch, const std::vector<const Tensor*>& constants) {
  Program copy = branch.clone();
  const std::vector<Node*> placeholders = copy.graph->placeholders();
  for (size_t i = 0; i < constants.size(); ++i) {
    if (constants[i] == nullptr) continue;
    const std::string name = copy.unique_attribute_name(concat("_bound_", placeholders[i]->name()));
    copy.add_attribute({name, *constants[i], Attribute::Kind::kBuffer});
    // Behind the placeholders, which stand together.
    const auto point = copy.graph->insert_after(placeholders.back());
    Node* constant = copy.graph->get_attr(name);
    constant->meta = placeholders[i]->meta;
    placeholders[i]->replace_all_uses_with(constant);
  }
  for (size_t i = 0; i < constants.size(); ++i)
    if (constants[i] != nullptr) copy.graph->erase(placeholders[i]);
  return std::make_shared<const Program>(std::move(copy));
}

bool may_be_bound(const Program& branch, size_t operands) {
  return branch.graph->placeholders().size() == operands && branch.buffer_mutations.empty() &&
         fusion_obstacle(*branch.graph).empty();
}

}  // namespace

void bind_constant_operands(Program& program) {
  for (Node* node : program.graph->nodes()) {
    if (!node->is(op::kCond) || node->args().size() != 4 || !node->arg(3).is_list() || !node->arg(1).is<Subprogram>() ||
        !node->arg(2).is<Subprogram>())
      continue;
    const Argument::List& operands = node->arg(3).list();
    std::vector<const Tensor*> constants;
    Argument::List others;
    for (const Argument& operand : operands) {
      const bool is_bound = is_constant(program, operand.node());
      constants.push_back(is_bound ? &program.attribute_of(*operand.node()) : nullptr);
      if (!is_bound) others.push_back(operand);
    }
    const Subprogram yes = node->arg(1).as<Subprogram>(), no = node->arg(2).as<Subprogram>();
    if (others.size() == operands.size() || !may_be_bound(*yes, operands.size()) || !may_be_bound(*no, operands.size()))
      continue;
    node->set_args({node->arg(0), bound(*yes, constants), bound(*no, constants), std::move(others)});
  }
  program.graph->eliminate_dead_code();
  program.erase_unused_attributes();
}

}  // namespace qdq
