#include "quant/unknown_operators.h"

#include <algorithm>

#include "op/op.h"

namespace qdq {
namespace {

// Whether an observer has to see values that only a run brings.
bool needs_data(const QSpec& spec, const Node* input) {
  if (std::holds_alternative<std::monostate>(spec)) return false;
  if (input != nullptr && input->op() == Node::Op::kGetAttr) return false;
  const auto* own = std::get_if<QuantizationSpec>(&spec);
  return own == nullptr || !own->is_dynamic;
}

bool needs_data(const QuantizationAnnotation& annotation) {
  return needs_data(annotation.output_qspec, nullptr) ||
         std::any_of(annotation.input_qspec_map.begin(), annotation.input_qspec_map.end(),
                     [](const auto& entry) { return needs_data(entry.second, entry.first); });
}

bool is_unknown(const Node& node) { return node.op() == Node::Op::kCallFunction && find_op(node.target()) == nullptr; }

}  // namespace

std::unordered_set<const Node*> nodes_without_data(const Graph& graph) {
  std::unordered_set<const Node*> out;
  for (const Node* node : graph.nodes()) {
    if (node->op() == Node::Op::kOutput) continue;
    const std::vector<Node*> inputs = node->input_nodes();
    const bool is_behind =
        std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) { return out.count(input) != 0; });
    if (is_behind || is_unknown(*node)) out.insert(node);
  }
  return out;
}

void leave_unknown_in_float(const Program& program, Annotations& annotations) {
  for (const Node* node : nodes_without_data(*program.graph)) {
    const auto found = annotations.find(node);
    if (found == annotations.end() || !needs_data(found->second)) continue;
    annotations.erase(found);
    annotations.note(
        node,
        {"prepare_pt2e", {}, false, "it stands behind an operator that qdq does not have, so that no data reaches it"});
  }
}

void erase_without_data(Program& program) {
  Graph& graph = *program.graph;
  const std::unordered_set<const Node*> lost = nodes_without_data(graph);
  if (lost.empty()) return;
  Node* output = graph.output_node();
  Argument::List kept;
  for (const Argument& result : output->arg(0).list())
    if (result.node() == nullptr || lost.count(result.node()) == 0) kept.push_back(result);
  output->set_args({Argument(std::move(kept))});
  std::erase_if(program.buffer_mutations,
                [&](const BufferMutation& mutation) { return lost.count(graph.find(mutation.node)) != 0; });
  const std::vector<Node*> nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (lost.count(*node) != 0) graph.erase(*node);
}

}  // namespace qdq
