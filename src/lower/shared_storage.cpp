#include "lower/shared_storage.h"

#include <string_view>

#include "op/facts.h"
#include "op/op.h"
#include "op/targets.h"

namespace qdq {
namespace {

// The argument whose elements the result may be; null if it has its own.
const Node* source_of(const Node& node) {
  if (node.is(op::kGetItem)) return node.arg(0).node();
  const OpDef* op = node.op() == Node::Op::kCallFunction ? find_op(node.target()) : nullptr;
  if (op == nullptr || op->schema->arguments.empty()) return nullptr;
  return is_view(*op) || op->schema->arguments[0].is_mutated || op->family == Family::kDropout ? node.arg(0).node()
                                                                                               : nullptr;
}

}  // namespace

std::vector<Node*> written_by(const Node& node) {
  std::vector<Node*> out;
  const OpDef* op = node.op() == Node::Op::kCallFunction ? find_op(node.target()) : nullptr;
  if (op == nullptr) return out;
  for (size_t i = 0; i < op->schema->arguments.size(); ++i)
    if (Node* written = op->schema->arguments[i].is_mutated ? node.arg(i).node() : nullptr) out.push_back(written);
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
