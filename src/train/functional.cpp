#include "train/functional.h"

#include <algorithm>
#include <unordered_map>

#include "op/facts.h"
#include "op/targets.h"
#include "train/backward.h"

namespace qdq {

void make_functional(Program& program, const std::unordered_set<std::string>& parameters) {
  std::unordered_map<const Node*, size_t> order;
  std::unordered_set<const Node*> moved;  // by the parameters
  for (const Node* node : program.graph->nodes()) {
    order.emplace(node, order.size());
    const std::vector<Node*> inputs = node->input_nodes();
    bool reads = std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) { return moved.count(input) > 0; });
    if (const BackwardDef* def = find_backward(node->target()); def != nullptr && def->backward == nullptr)
      reads = false;
    if (const TensorMeta* meta = node->meta.val.tensor(); meta != nullptr && !is_floating(meta->dtype)) reads = false;
    if (reads || (node->op() == Node::Op::kGetAttr && parameters.count(node->target()))) moved.insert(node);
  }
  for (Node* node : program.graph->nodes()) {
    const OpDef* op = op_of(*node);
    if (op == nullptr || !op->is_in_place()) continue;
    Node* written = node->arg(0).node();
    if (written == nullptr || written->op() == Node::Op::kGetAttr || !moved.count(node)) continue;
    bool viewed = is_view(*written);
    for (const Node* user : written->users()) viewed = viewed || (user != node && is_view(*user));
    if (viewed || op->functional == nullptr)
      throw Error(ErrorCode::kUnsupported,
                  concat("training cannot do without the in-place operator ", node->name(), " (", node->target(),
                         "): ", viewed ? "views show what it writes" : "it has no functional form here",
                         "; use the functional form in the model"),
                  node->name(), node->target());
    node->set_target(op->functional->target);
    written->replace_all_uses_with(node, [&](Node* user) { return order.at(user) > order.at(node); });
  }
  for (Node* node : program.graph->nodes()) {
    if (node->is(op::kDropout)) node->set_arg(2, false);
    if (node->is(op::kAttention) && !node->arg(4).is_none()) node->set_arg(4, 0.0);
  }
}

}  // namespace qdq
