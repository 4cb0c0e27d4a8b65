#include "quant/quantizers/positions.h"

#include <algorithm>
#include <vector>

#include "op/facts.h"

namespace qdq {
namespace {

// Images and quantized tensors have 8 bits.
bool counts(DType dtype) { return dtype == DType::kS64 || dtype == DType::kS32 || dtype == DType::kBool; }

bool is_counted(const Node& node) {
  const auto& value = node.meta.val.value;
  const TensorMeta* meta = node.meta.val.tensor();
  return meta != nullptr ? counts(meta->dtype) : std::holds_alternative<SymInt>(value);
}

// A product with a vector on one side, as that of places and frequencies, sums nothing.
bool is_outer_product(const Node& product) {
  const Node* first = input_of(product);
  const TensorMeta* meta = first == nullptr ? nullptr : first->meta.val.tensor();
  return meta != nullptr && !meta->sizes.empty() && meta->sizes.back() == SymInt(1);
}

// What makes features of its inputs, whatever they are. An index reads a table of features, or moves positions, which
// nothing quantizes anyway.
bool learns(const Node& node) {
  const OpDef* op = op_of(node);
  if (op == nullptr) return true;
  switch (op->family) {
    case Family::kConvolution:
    case Family::kTransposedConvolution:
    case Family::kLinear:
    case Family::kEmbedding:
    case Family::kIndex:
    case Family::kRecurrent:
    case Family::kAttention:
    case Family::kBatchNorm:
    case Family::kNorm:
    case Family::kControlFlow: return true;
    case Family::kMatmul: return !is_outer_product(node);
    default: return false;
  }
}

}  // namespace

Positions::Positions(const Graph& graph, bool divides) {
  find_those_of_integers(graph);
  find_those_for_integers(graph);
  if (!divides) find_divisors(graph);
}

void Positions::find_those_of_integers(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    if (node->op() == Node::Op::kGetAttr) constants_.insert(node);
    else if (is_counted(*node) || is_a(*node, Family::kCreation)) of_integers_.insert(node);
    if (node->op() != Node::Op::kCallFunction || is_counted(*node)) continue;
    const std::vector<Node*> inputs = node->input_nodes();
    const auto tells = [&](const Node* input) { return of_integers_.count(input) != 0; };
    if (inputs.empty() || !std::all_of(inputs.begin(), inputs.end(),
                                       [&](const Node* input) { return is_constant(*input) || tells(input); }))
      continue;
    if (std::none_of(inputs.begin(), inputs.end(), tells)) constants_.insert(node);
    else if (node->is("operator.getitem") || !learns(*node)) of_integers_.insert(node);
  }
}

void Positions::find_those_for_integers(const Graph& graph) {
  std::vector<Node*> nodes = graph.nodes();
  std::reverse(nodes.begin(), nodes.end());
  for (const Node* node : nodes) {
    const std::vector<Node*>& users = node->users();
    if (node->op() != Node::Op::kCallFunction || users.empty() || learns(*node)) continue;
    const bool is_read_for_them = std::all_of(users.begin(), users.end(), [&](const Node* user) {
      return (is_a(*user, Family::kCast) && is_counted(*user)) || for_integers_.count(user) != 0;
    });
    if (is_read_for_them) for_integers_.insert(node);
  }
}

void Positions::find_divisors(const Graph& graph) {
  std::unordered_set<const Node*> views;  // of what a product reads
  std::vector<Node*> nodes = graph.nodes();
  std::reverse(nodes.begin(), nodes.end());
  for (const Node* node : nodes) {
    const std::vector<Node*>& users = node->users();
    if (node->op() != Node::Op::kCallFunction || users.empty()) continue;
    const auto divides = [&](const Node* user) {
      return (is_a(*user, Family::kDivide) && user->arg(0).node() != node) || divisors_.count(user) != 0;
    };
    const auto leads = [&](const Node* user) { return products_.count(user) + views.count(user) != 0; };
    const bool leads_to_product = std::any_of(users.begin(), users.end(), leads);
    if (is_a(*node, Family::kMatmul) && (leads_to_product || std::any_of(users.begin(), users.end(), divides)))
      products_.insert(node);
    if (is_a(*node, Family::kView) && leads_to_product) views.insert(node);
    if (!learns(*node) && std::all_of(users.begin(), users.end(), divides)) divisors_.insert(node);
  }
}

std::string_view Positions::obstacle(const Node& node) const {
  if (is_counted(node)) return {};  // no floats
  if (of_integers_.count(&node) != 0)
    return "it computes positions, sizes or masks from integers, and rounding would move them";
  if (for_integers_.count(&node) != 0) return "only integers are taken of its result, and rounding would change them";
  if (divisors_.count(&node) + products_.count(&node) != 0)
    return "its result divides, and rounding a small divisor would multiply quotients";
  return {};
}

}  // namespace qdq
