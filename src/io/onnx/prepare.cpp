// Rewrites a program before it is written as ONNX, which knows no writing to tensors.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "io/onnx/export.h"
#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/functional_write.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr std::string_view kDetachTo = "torch.ops.aten.detach_.default";
constexpr int64_t kLargestFolded = int64_t{1} << 24;  // elements

// Where nodes stand in the graph. What replaces a node has its place.
using Places = std::unordered_map<const Node*, size_t>;

// Whether a node reads what it is given, itself or through views, behind another node.
bool is_read_behind(const Node& value, const Node& write, const Places& places) {
  std::vector<const Node*> values = {&value};
  while (!values.empty()) {
    const Node* read = values.back();
    values.pop_back();
    for (const Node* user : read->users()) {
      if (user == &write) continue;
      if (places.at(user) > places.at(&write)) return true;
      if (is_view(*user)) values.push_back(user);
    }
  }
  return false;
}

// The value and the views of it that a node writes through, innermost first. Empty where it cannot be rewritten.
std::vector<Node*> chain_of(const Node& write, const Places& places) {
  std::vector<Node*> chain = {write.arg(0).node()};
  while (chain.back() != nullptr && chain.back()->op() == Node::Op::kCallFunction && is_view(*chain.back())) {
    const Node& view = *chain.back();
    if (!takes_part(view)) return {};
    chain.push_back(view.arg(0).node());
  }
  if (chain.back() == nullptr || chain.back()->op() != Node::Op::kCallFunction) return {};
  // Other views of these, older than the write and read behind it, would have to see it.
  for (size_t i = 0; i < chain.size(); ++i)
    for (const Node* user : chain[i]->users())
      if (user != &write && (i == 0 || user != chain[i - 1]) && is_view(*user) && places.at(user) < places.at(&write) &&
          is_read_behind(*user, write, places))
        return {};
  return chain;
}

// Later readers of `old` read `made` instead.
void replace_behind(Node* old, Node* made, const Node& write, const Places& places) {
  old->replace_all_uses_with(made, [&](Node* user) { return places.at(user) > places.at(&write); });
}

// Erases a node whose users read another one. A later node may get its address.
void erase(Program& program, Node* node, Places& places) {
  places.erase(node);
  program.graph->erase(node);
}

void make_functional(Program& program, Node* write, Places& places) {
  const std::vector<Node*> chain = chain_of(*write, places);
  if (chain.empty() || !has_functional_form(*write)) return;
  const std::vector<Node*> made = make_written(*program.graph, *write, chain);
  for (const Node* node : made) places.emplace(node, places.at(write));
  write->replace_all_uses_with(made[0]);
  for (size_t i = 0; i < chain.size(); ++i) replace_behind(chain[i], made[i], *write, places);
  erase(program, write, places);
}

// What depends on constants alone, and is one tensor.
bool is_foldable(const Node& node) {
  const std::vector<Node*> inputs = node.input_nodes();
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr || has_onnx_form(node)) return false;
  if (!std::all_of(inputs.begin(), inputs.end(), [](const Node* n) { return n->op() == Node::Op::kGetAttr; }))
    return false;
  const bool is_known =
      std::all_of(meta->sizes.begin(), meta->sizes.end(), [](const SymInt& size) { return size.is_constant(); });
  return is_known && *numel_of(meta->sizes).constant() <= kLargestFolded;
}

void fold(Program& program, Node* node, Places& places) {
  Attribute attribute;
  try {
    attribute.tensor = eval_constant(program, *node).contiguous();
  } catch (const Error&) {
    return;  // it draws random numbers, say: whoever writes it tells
  }
  attribute.name = program.unique_attribute_name(node->name());
  attribute.kind = Attribute::Kind::kConstant;
  attribute.persistent = false;
  const auto point = program.graph->insert_before(program.graph->first());
  Node* constant = program.graph->get_attr(attribute.name, attribute.name);
  constant->meta.val.value = meta_of(attribute.tensor);
  program.add_attribute(std::move(attribute));
  node->replace_all_uses_with(constant);
  erase(program, node, places);
}

}  // namespace

bool writes_alone(const Node* input) {
  while (input && input->op() == Node::Op::kCallFunction && input->users().size() == 1) {
    const OpDef* op = op_of(*input);
    if (op == nullptr || !op->roles.shares_qparams) return true;
    input = input->arg(0).node();
  }
  return false;
}

void prepare_to_write(Program& program) {
  std::vector<Node*> calls;
  Places places;
  for (Node* node : program.graph->nodes()) places.emplace(node, places.size());
  for (Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction && op_of(*node) != nullptr) calls.push_back(node);
  for (Node* node : calls) {
    if (node->is(kDetachTo)) {
      node->replace_all_uses_with(node->arg(0).node());
      erase(program, node, places);
      continue;
    }
    const auto& arguments = op_of(*node)->schema->arguments;
    const bool writes = !arguments.empty() && arguments[0].is_mutated && node->arg(0).is_node();
    if (writes && !writes_alone(node->arg(0).node())) make_functional(program, node, places);
    else if (!writes && is_foldable(*node)) fold(program, node, places);
  }
  program.graph->eliminate_dead_code();
}

}  // namespace qdq
