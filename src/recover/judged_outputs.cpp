#include "recover/judged_outputs.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <unordered_set>

#include "op/facts.h"
#include "op/size_symbols.h"

namespace qdq {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The symbols of a size that only a run tells: u0, u1, ...
std::vector<std::string> symbols_of_run(const SymInt& size) {
  std::vector<std::string> out;
  if (is_known_outside(size)) return out;
  const std::string text = size.to_string();
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if ((text[i] != 'u' && text[i] != 'v') || !is_digit(text[i + 1])) continue;
    size_t end = i + 1;
    while (end < text.size() && is_digit(text[end])) ++end;
    out.push_back(text.substr(i, end - i));
  }
  return out;
}

// What programs that differ in their observers alone have in common, as far as the graph tells: the sizes that follow
// from those of the inputs, and the order of what is selected.
class InCommon {
 public:
  explicit InCommon(const Program& program) {
    for (const Node* node : program.graph->nodes()) add(*node);
  }
  bool has_same_sizes(const TensorMeta& meta) const {
    return std::all_of(meta.sizes.begin(), meta.sizes.end(), [&](const SymInt& size) { return is_same(size); });
  }
  bool compares(const Node* node) const {
    const TensorMeta* meta = node == nullptr ? nullptr : node->meta.val.tensor();
    return meta != nullptr && is_floating(meta->dtype) && has_same_sizes(*meta);
  }
  // Whether it depends on more than the sizes of inputs.
  bool is_from_values(const Node* node) const { return from_values_.count(node) != 0; }
  // Whether floats chose which of a tensor's elements it has, and in which order: two programs may choose others.
  bool is_selected(const Node* node) const { return selected_.count(node) != 0; }

 private:
  static bool is_integral_tensor(const Node& node) {
    const TensorMeta* meta = node.meta.val.tensor();
    return meta != nullptr && !is_floating(meta->dtype);
  }
  bool is_same(const SymInt& size) const {
    const std::vector<std::string> symbols = symbols_of_run(size);
    return std::all_of(symbols.begin(), symbols.end(), [&](const auto& symbol) { return symbols_.count(symbol) != 0; });
  }

  void add(const Node& node) {
    if (node.op() == Node::Op::kPlaceholder) from_values_.insert(&node);
    if (node.op() != Node::Op::kCallFunction && node.op() != Node::Op::kCallModule) return;
    const std::vector<Node*> inputs = node.input_nodes();
    const auto any_in = [&](const std::unordered_set<const Node*>& set) {
      return std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) { return set.count(input) != 0; });
    };
    const auto* number = std::get_if<SymInt>(&node.meta.val.value);
    const bool is_from_values =
        is_a(node, Family::kSize) ? number == nullptr || !is_same(*number) : any_in(from_values_);
    if (is_from_values) from_values_.insert(&node);
    else learn_symbols(node);

    const bool reads_floats = std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) {
      return from_values_.count(input) != 0 && !is_integral_tensor(*input);
    });
    if (any_in(places_) || (reads_floats && is_integral_tensor(node))) places_.insert(&node);
    const std::string_view name = base_name(node.target());
    const bool selects = name == "topk" || name == "sort" || (is_a(node, Family::kIndex) && any_in(places_));
    if (selects || any_in(selected_)) selected_.insert(&node);
  }
  void learn_symbols(const Node& node) {
    if (const auto* number = std::get_if<SymInt>(&node.meta.val.value))
      for (std::string& symbol : symbols_of_run(*number)) symbols_.insert(std::move(symbol));
    if (const TensorMeta* meta = node.meta.val.tensor())
      for (const SymInt& size : meta->sizes)
        for (std::string& symbol : symbols_of_run(size)) symbols_.insert(std::move(symbol));
  }

  std::unordered_set<const Node*> from_values_;  // computed from more than the sizes of inputs
  std::unordered_set<const Node*> places_;       // integers that floats gave, and what is computed from them
  std::unordered_set<const Node*> selected_;
  std::unordered_set<std::string> symbols_;  // of sizes that follow from those of the inputs
};

// Appends the nearest floats of sizes in common that a value is made of, as observers let them through; not those that
// are selected, unless there are no others.
void add_floats_behind(Node* last, const InCommon& common, bool takes_selected, std::unordered_set<const Node*>& seen,
                       Argument::List& out) {
  std::vector<Node*> rest = {last};
  while (!rest.empty()) {
    Node *node = rest.back(), *value = observed(node);
    rest.pop_back();
    if (value->op() == Node::Op::kPlaceholder || !common.is_from_values(value) || !seen.insert(value).second) continue;
    if (common.compares(value) && (takes_selected || !common.is_selected(value))) {
      out.emplace_back(node);
    } else {
      const std::vector<Node*> inputs = value->input_nodes();
      rest.insert(rest.end(), inputs.rbegin(), inputs.rend());
    }
  }
}

bool has_open_sizes(const Argument& output, const InCommon& common) {
  const TensorMeta* meta = output.node() == nullptr ? nullptr : output.node()->meta.val.tensor();
  return meta != nullptr && !common.has_same_sizes(*meta);
}

}  // namespace

Node* observed(Node* node) {
  while (node->op() == Node::Op::kCallModule) node = node->arg(0).node();
  return node;
}

void add_judged_outputs(Program& program) {
  const InCommon common(program);
  Node* output = program.graph->output_node();
  const Argument::List own = output->arg(0).list();
  std::unordered_set<const Node*> comparing;
  for (const Argument& one : own)
    if (common.compares(one.node())) comparing.insert(observed(one.node()));
  for (const bool takes_selected : {false, true}) {
    Argument::List all = own;
    std::unordered_set<const Node*> seen = comparing;
    for (const Argument& one : own)
      if (one.node() != nullptr && !common.compares(one.node()) && (comparing.empty() || has_open_sizes(one, common)))
        add_floats_behind(one.node(), common, takes_selected, seen, all);
    if (all.size() == own.size()) continue;
    output->set_arg(0, Argument(std::move(all)));
    return;
  }
}

std::vector<bool> outputs_that_compare(const Program& program) {
  const InCommon common(program);
  std::vector<bool> out;
  for (const Argument& one : program.graph->output_node()->arg(0).list()) out.push_back(!has_open_sizes(one, common));
  return out;
}

std::vector<Tensor> judged_outputs(const std::vector<bool>& compare, std::vector<Tensor> outputs) {
  for (size_t i = 0; i < std::min(compare.size(), outputs.size()); ++i)
    if (!compare[i]) outputs[i] = Tensor::empty({0}, DType::kF32);
  return outputs;
}

}  // namespace qdq
