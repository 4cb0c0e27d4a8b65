#include "op/widen_halves.h"

#include <algorithm>
#include <vector>

#include "op/facts.h"
#include "op/targets.h"
#include "op/written_attributes.h"

namespace qdq {
namespace {

bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

DType dtype_of(const Node& node) {
  const TensorMeta* meta = node.meta.val.tensor();
  return meta != nullptr ? meta->dtype : DType::kBool;
}

Argument widened(const Argument& argument) {
  return argument.is<DType>() && is_half(argument.as<DType>()) ? Argument(DType::kF32) : argument;
}

void widen(ValueMeta& meta) {
  if (auto* tensor = std::get_if<TensorMeta>(&meta.value)) {
    if (is_half(tensor->dtype)) tensor->dtype = DType::kF32;
  } else if (auto* list = std::get_if<std::vector<ValueMeta>>(&meta.value)) {
    for (ValueMeta& each : *list) widen(each);
  }
}

bool can_widen(const Program& program) {
  if (!written_attributes(program).empty()) return false;
  const std::vector<Node*> nodes = program.graph->nodes();
  return std::none_of(nodes.begin(), nodes.end(), [](const Node* node) {
    if (node->op() != Node::Op::kCallFunction) return false;
    const bool runs = std::any_of(node->args().begin(), node->args().end(),
                                  [](const Argument& each) { return each.is<Subprogram>(); });
    return runs || op_of(*node) == nullptr || node->is(op::aten("view.dtype"));
  });
}

class Widening {
 public:
  explicit Widening(Program& program) : program_(program), graph_(*program.graph) {}

  void run() {
    const std::vector<Node*> nodes = graph_.nodes();
    if (std::none_of(nodes.begin(), nodes.end(), [](const Node* node) { return is_half(dtype_of(*node)); })) return;
    std::vector<DType> types;  // of the results
    for (const Argument& result : graph_.output_node()->arg(0).list())
      types.push_back(result.is_node() ? dtype_of(*result.node()) : DType::kBool);
    for (Node* node : nodes) {
      switch (node->op()) {
        case Node::Op::kPlaceholder: take(*node); break;
        case Node::Op::kGetAttr: read(*node); break;
        case Node::Op::kCallFunction: compute(*node); break;
        default: break;
      }
    }
    give(types);
  }

 private:
  void take(Node& input) {
    if (!is_half(dtype_of(input)) || input.users().empty()) return;
    const auto point = graph_.insert_after(graph_.placeholders().back());
    Node* cast = graph_.call(std::string(op::kToDtype), {&input, DType::kF32});
    cast->meta.val = input.meta.val;
    widen(cast->meta.val);
    input.replace_all_uses_with(cast, [&](const Node* user) { return user != cast; });
  }

  void read(Node& node) {
    Attribute* attribute = program_.find_attribute(node.target());
    if (attribute != nullptr && is_half(attribute->tensor.dtype()))
      attribute->tensor = attribute->tensor.to(DType::kF32);
    widen(node.meta.val);
  }

  void compute(Node& node) {
    for (size_t i = 0; i < node.args().size(); ++i) node.set_arg(i, widened(node.arg(i)));
    Node::Kwargs kwargs = node.kwargs();
    for (auto& [name, value] : kwargs) value = widened(value);
    if (is_a(node, Family::kDequantize))  // float32 without it
      std::erase_if(kwargs, [](const auto& each) { return each.first == "out_dtype"; });
    node.set_kwargs(std::move(kwargs));
    widen(node.meta.val);
    const Node* input = is_a(node, Family::kCast) ? input_of(node) : nullptr;
    if (input == nullptr || !node.is(op::kToDtype) || dtype_of(*input) != dtype_of(node)) return;
    node.replace_all_uses_with(node.arg(0).node());
    graph_.erase(&node);
  }

  void give(const std::vector<DType>& types) {
    Node* output = graph_.output_node();
    Argument::List results = output->arg(0).list();
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_half(types[i]) || is_half(dtype_of(*results[i].node()))) continue;
      const auto point = graph_.insert_before(output);
      Node* cast = graph_.call(std::string(op::kToDtype), {results[i].node(), types[i]});
      cast->meta.val = results[i].node()->meta.val;
      if (auto* meta = std::get_if<TensorMeta>(&cast->meta.val.value)) meta->dtype = types[i];
      results[i] = cast;
    }
    output->set_arg(0, Argument(std::move(results)));
  }

  Program& program_;
  Graph& graph_;
};

}  // namespace

void widen_halves(Program& program) {
  if (can_widen(program)) Widening(program).run();
}

void widen_quantized_halves(Program& program) {
  const std::vector<Node*> nodes = program.graph->nodes();
  const bool dequantizes_to_half = std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
    if (!is_a(*node, Family::kDequantize)) return false;
    return is_half(dtype_of(*node)) || std::any_of(node->users().begin(), node->users().end(), [](const Node* user) {
             return user->is(op::kToDtype) && dtype_of(*user) == DType::kF16;
           });
  });
  if (dequantizes_to_half) widen_halves(program);
}

}  // namespace qdq
