#include "train/functional.h"

#include <algorithm>
#include <unordered_map>

#include "op/op.h"
#include "train/backward.h"

namespace qdq {
namespace {

// Whether the node's result may be a view of its first argument.
bool shows_argument(const Node& node) {
  if (node.is("operator.getitem")) return node.arg(0).node() != nullptr && shows_argument(*node.arg(0).node());
  for (const std::string_view name :
       {"view",  "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "expand",           "permute", "transpose", "t",
        "slice", "select",  "narrow",  "chunk",     "split",   "unbind",    "split_with_sizes", "alias",   "detach",    "contiguous"}) {
    const std::string target = concat("torch.ops.aten.", name, ".");
    if (node.target().starts_with(target)) return true;
  }
  return false;
}

// "torch.ops.aten.relu_.default" -> "torch.ops.aten.relu.default"
std::string functional_target(const std::string& target) {
  const size_t overload = target.rfind('.');
  return overload == std::string::npos || overload == 0 || target[overload - 1] != '_' ? target
                                                                                       : target.substr(0, overload - 1) + target.substr(overload);
}

}  // namespace

void make_functional(Program& program, const std::unordered_set<std::string>& parameters) {
  std::unordered_map<const Node*, size_t> order;
  std::unordered_set<const Node*> moved;  // by the parameters
  for (const Node* node : program.graph->nodes()) {
    order.emplace(node, order.size());
    const std::vector<Node*> inputs = node->input_nodes();
    bool reads = std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) { return moved.count(input) > 0; });
    if (const BackwardDef* def = find_backward(node->target()); def != nullptr && def->backward == nullptr) reads = false;
    if (const TensorMeta* meta = node->meta.val.tensor(); meta != nullptr && !is_floating(meta->dtype)) reads = false;
    if (reads || (node->op() == Node::Op::kGetAttr && parameters.count(node->target()))) moved.insert(node);
  }
  for (Node* node : program.graph->nodes()) {
    const OpDef* op = node->op() == Node::Op::kCallFunction ? find_op(node->target()) : nullptr;
    if (op == nullptr || op->schema.arguments.empty() || !op->schema.arguments[0].is_mutated) continue;
    Node* written = node->arg(0).node();
    if (written == nullptr || written->op() == Node::Op::kGetAttr || !moved.count(node)) continue;
    const std::string target = functional_target(node->target());
    bool viewed = shows_argument(*written);
    for (const Node* user : written->users()) viewed = viewed || (user != node && shows_argument(*user));
    if (viewed || target == node->target() || find_op(target) == nullptr)
      throw Error(ErrorCode::kUnsupported,
                  concat("training cannot do without the in-place operator ", node->name(), " (", node->target(),
                         "): ", viewed ? "views show what it writes" : "it has no functional form here", "; use the functional form in the model"),
                  node->name(), node->target());
    node->set_target(target);
    written->replace_all_uses_with(node, [&](Node* user) { return order.at(user) > order.at(node); });
  }
  for (Node* node : program.graph->nodes()) {
    if (node->is("torch.ops.aten.dropout.default")) node->set_arg(2, false);
    if (node->is("torch.ops.aten.scaled_dot_product_attention.default") && !node->arg(4).is_none()) node->set_arg(4, 0.0);
  }
}

}  // namespace qdq
