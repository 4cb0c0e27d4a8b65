#include "op/shared_storage.h"

#include <string_view>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

Node* source_of(const Node& node) {
  if (node.op() == Node::Op::kCallModule || node.is(op::kGetItem) || is_view(node)) return node.arg(0).node();
  const OpDef* op = op_of(node);
  if (op == nullptr || op->schema->arguments.empty()) return nullptr;
  return op->schema->arguments[0].is_mutated || op->family == Family::kDropout ? node.arg(0).node() : nullptr;
}

std::vector<Node*> written_by(const Node& node) {
  std::vector<Node*> out;
  if (node.op() != Node::Op::kCallFunction) return out;
  const OpDef* op = op_of(node);
  if (op == nullptr && node.arg(0).is_node()) out.push_back(node.arg(0).node());
  if (op == nullptr) return out;
  for (size_t i = 0; i < op->schema->arguments.size(); ++i)
    if (Node* written = op->schema->arguments[i].is_mutated ? argument_of(node, i).node() : nullptr)
      out.push_back(written);
  return out;
}

SharedStorage::SharedStorage(const Graph& graph) {
  std::unordered_map<std::string_view, const Node*> attributes;
  for (const Node* node : graph.nodes()) {
    const Node* source = source_of(*node);
    if (source != nullptr) roots_.emplace(node, roots_.at(source));
    else if (node->op() == Node::Op::kGetAttr)
      roots_.emplace(node, attributes.emplace(node->target(), node).first->second);
    else roots_.emplace(node, node);
  }
}

}  // namespace qdq
