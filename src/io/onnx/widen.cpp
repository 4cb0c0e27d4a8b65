#include "io/onnx/widen.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/onnx/export.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Operators that take float32 alone, or that and float64.
constexpr std::string_view kWithoutF16[] = {"CDist", "Celu", "IsInf", "NonMaxSuppression", "Range"};
constexpr std::string_view kWithoutF64[] = {"Celu", "NonMaxSuppression"};

template <size_t N> bool has(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool takes(const format::OnnxNode& node, DType dtype) {
  if (dtype == DType::kBF16) return node.op_type == "Cast";
  // The mean and the deviation that it gives are float32.
  if (node.op_type == "LayerNormalization" && node.outputs.size() > 1) return false;
  if (dtype == DType::kF64) return !has(kWithoutF64, node.op_type);
  const bool reduces = std::any_of(node.attributes.begin(), node.attributes.end(),
                                   [](const auto& each) { return each.name == "reduction" && each.s != "none"; });
  // ONNX Runtime has no such reductions of float16.
  if (reduces && (node.op_type == "ScatterElements" || node.op_type == "ScatterND")) return false;
  return !has(kWithoutF16, node.op_type);
}

bool is_other_float(const TensorMeta* meta) {
  return meta && (meta->dtype == DType::kF16 || meta->dtype == DType::kBF16 || meta->dtype == DType::kF64);
}

class Widening {
 public:
  Widening(Program& program, const std::unordered_set<const Node*>& calls) : graph_(*program.graph), calls_(calls) {}

  void run() {
    std::vector<Node*> nodes;
    for (Node* node : graph_.nodes()) nodes.push_back(node);
    for (Node* node : nodes) {
      if (calls_.contains(node)) widen(*node);
      for (size_t i = 0; i < node->args().size(); ++i)
        if (node->arg(i).is<Subprogram>()) node->set_arg(i, widened(*node->arg(i).as<Subprogram>()));
    }
  }

 private:
  // The program within, whose nodes are found again by their places.
  Subprogram widened(const Program& program) const {
    auto copy = std::make_shared<Program>(program.clone());
    std::unordered_set<const Node*> found;
    const std::vector<Node*> nodes = program.graph->nodes(), twins = copy->graph->nodes();
    for (size_t i = 0; i < nodes.size(); ++i)
      if (calls_.contains(nodes[i])) found.insert(twins[i]);
    compute_in_float32(*copy, found);
    return copy;
  }

  void widen(Node& node) {
    // The scales that a run finds stay what quantize and dequantize know them by.
    const bool quantizes = is_a(node, Family::kQuantize) || is_a(node, Family::kDequantize);
    for (Node* input : node.input_nodes())
      if (is_other_float(input->meta.val.tensor()) && (!quantizes || input == node.arg(0).node()))
        node.replace_input_with(input, wide_of(*input));
    const auto wide = [](const Argument& argument) {
      const bool is_dtype = argument.is<DType>() && is_floating(argument.as<DType>());
      return is_dtype ? Argument(DType::kF32) : argument;
    };
    for (size_t i = 0; i < node.args().size(); ++i) node.set_arg(i, wide(node.arg(i)));
    Node::Kwargs kwargs = node.kwargs();
    for (auto& [name, value] : kwargs) value = wide(value);
    node.set_kwargs(std::move(kwargs));
    narrow_result(node);
    std::vector<Node*> items;
    for (Node* user : node.users())
      if (user->is(op::kGetItem)) items.push_back(user);
    for (Node* item : items) narrow_result(*item);
  }

  // The type that a result had, for those who read it.
  void narrow_result(Node& node) {
    const TensorMeta* before = node.meta.val.tensor();
    const DType dtype = before ? before->dtype : DType::kF32;
    const bool is_narrow = is_other_float(before);
    infer_anew(node);
    const TensorMeta* meta = node.meta.val.tensor();
    if (!is_narrow || !meta || meta->dtype == dtype) return;
    const auto point = graph_.insert_after(&node);
    Node* narrow = graph_.call(std::string(op::kToDtype), {&node, dtype});
    node.replace_all_uses_with(narrow, [&](const Node* user) { return user != narrow; });
    infer_value(*narrow);
    made_narrow_[narrow] = &node;
  }

  Node* wide_of(Node& node) {
    const auto made = made_narrow_.find(&node);
    if (made != made_narrow_.end()) return made->second;
    Node*& wide = wide_[&node];
    if (wide) return wide;
    const bool is_input = node.op() == Node::Op::kPlaceholder;
    const auto point = graph_.insert_after(is_input ? graph_.placeholders().back() : &node);
    wide = graph_.call(std::string(op::kToDtype), {&node, DType::kF32});
    infer_value(*wide);
    return wide;
  }

  Graph& graph_;
  const std::unordered_set<const Node*>& calls_;
  std::unordered_map<const Node*, Node*> wide_;         // casts to float32
  std::unordered_map<const Node*, Node*> made_narrow_;  // casts back, and what they cast
};

}  // namespace

bool take_floats_of(std::span<const format::OnnxNode> nodes, const Node& call) {
  const std::vector<Argument>& args = call.args();
  if (op_of(call) == nullptr || call.is(op::kGetItem) ||
      std::any_of(args.begin(), args.end(), [](const Argument& each) { return each.is<Subprogram>(); }))
    return true;
  std::vector<DType> floats;
  const auto note = [&](const ValueMeta& value) {
    if (is_other_float(value.tensor())) floats.push_back(value.tensor()->dtype);
  };
  note(call.meta.val);
  if (const auto* several = std::get_if<std::vector<ValueMeta>>(&call.meta.val.value))
    for (const ValueMeta& each : *several) note(each);
  for (const Node* input : call.input_nodes()) note(input->meta.val);
  return std::all_of(floats.begin(), floats.end(), [&](DType dtype) {
    // A call that became no node hands its input on, float32 too.
    if (nodes.empty()) return dtype != DType::kBF16;
    return std::all_of(nodes.begin(), nodes.end(), [&](const format::OnnxNode& node) { return takes(node, dtype); });
  });
}

void compute_in_float32(Program& program, const std::unordered_set<const Node*>& calls) {
  Widening(program, calls).run();
  program.graph->eliminate_dead_code();
}

}  // namespace qdq
