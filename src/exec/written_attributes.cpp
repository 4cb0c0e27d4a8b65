#include "exec/written_attributes.h"

#include <unordered_map>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

bool may_write(const Node& node) {
  const OpDef* op = op_of(node);
  return (op ? op->is_in_place() : node.op() == Node::Op::kCallFunction) && node.arg(0).is_node();
}

bool shares_bytes(const Node& node) {
  if (!node.arg(0).is_node()) return false;
  if (node.op() == Node::Op::kCallModule) return true;
  const OpDef* op = op_of(node);
  return op != nullptr && (is_view(*op) || op->is_in_place() || node.is(op::kGetItem));
}

WrittenAttributes written_attributes(const Program& program) {
  WrittenAttributes out;
  for (const BufferMutation& mutation : program.buffer_mutations) out.insert(mutation.buffer);
  std::unordered_map<const Node*, const Node*> bases;  // the node whose bytes a result is in
  for (const Node* node : program.graph->nodes()) {
    const Node* base = shares_bytes(*node) ? bases.at(node->arg(0).node()) : node;
    bases.emplace(node, base);
    if (!may_write(*node)) continue;
    const Node* written = bases.at(node->arg(0).node());
    if (written->op() == Node::Op::kGetAttr) out.insert(written->target());
  }
  return out;
}

}  // namespace qdq
