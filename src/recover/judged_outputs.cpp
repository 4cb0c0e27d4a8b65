#include "recover/judged_outputs.h"

#include <algorithm>
#include <unordered_set>

#include "op/size_symbols.h"

namespace qdq {

namespace {

const TensorMeta* meta_of(const Argument& output) {
  return output.node() == nullptr ? nullptr : output.node()->meta.val.tensor();
}

bool has_known_sizes(const TensorMeta& meta) {
  return std::all_of(meta.sizes.begin(), meta.sizes.end(), is_known_outside);
}

bool compares(const TensorMeta* meta) { return meta != nullptr && is_floating(meta->dtype) && has_known_sizes(*meta); }

bool has_open_sizes(const Argument& output) {
  const TensorMeta* meta = meta_of(output);
  return meta != nullptr && !has_known_sizes(*meta);
}

// The value that observers hand on.
Node* observed(Node* node) {
  while (node->op() == Node::Op::kCallModule) node = node->arg(0).node();
  return node;
}

// Appends the nearest floats of known sizes that a value is made of, as observers let them through.
void add_floats_behind(Node* last, std::unordered_set<const Node*>& seen, Argument::List& out) {
  std::vector<Node*> rest = {last};
  while (!rest.empty()) {
    Node *node = rest.back(), *value = observed(node);
    rest.pop_back();
    if (value->op() == Node::Op::kPlaceholder || value->op() == Node::Op::kGetAttr || !seen.insert(value).second)
      continue;
    if (compares(value->meta.val.tensor())) {
      out.emplace_back(node);
    } else {
      const std::vector<Node*> inputs = value->input_nodes();
      rest.insert(rest.end(), inputs.rbegin(), inputs.rend());
    }
  }
}

}  // namespace

void add_judged_outputs(Program& program) {
  Node* output = program.graph->output_node();
  Argument::List all = output->arg(0).list();
  const Argument::List own = all;
  std::unordered_set<const Node*> seen;
  for (const Argument& one : own)
    if (compares(meta_of(one))) seen.insert(observed(one.node()));
  const bool needs_integers = seen.empty();
  for (const Argument& one : own)
    if (one.node() != nullptr && !compares(meta_of(one)) && (needs_integers || has_open_sizes(one)))
      add_floats_behind(one.node(), seen, all);
  if (all.size() > own.size()) output->set_arg(0, Argument(std::move(all)));
}

std::vector<Tensor> judged_outputs(const Program& program, std::vector<Tensor> outputs) {
  const Argument::List& own = program.graph->output_node()->arg(0).list();
  for (size_t i = 0; i < std::min(own.size(), outputs.size()); ++i)
    if (has_open_sizes(own[i])) outputs[i] = Tensor::empty({0}, DType::kF32);
  return outputs;
}

}  // namespace qdq
