// A program's floats with half of their bits.
#include "io/onnx/float16.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "io/onnx/export.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr double kLargestHalf = 65504, kSmallestHalf = 0x1p-24;

double half_number(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  return std::copysign(std::clamp(std::fabs(value), kSmallestHalf, kLargestHalf), value);
}

Tensor half_tensor(const Tensor& tensor) {
  const Tensor floats = tensor.clone();
  for (float& value : floats.span<float>()) {
    if (tensor.numel() == 1) value = static_cast<float>(half_number(static_cast<double>(value)));
    else if (std::isfinite(value))
      value = std::clamp(value, -static_cast<float>(kLargestHalf), static_cast<float>(kLargestHalf));
  }
  return floats.to(DType::kF16);
}

bool is_float(const Node& node) {
  const TensorMeta* meta = node.meta.val.tensor();
  return meta && meta->dtype == DType::kF32;
}

// Numbers and data types among an argument, for float16.
Argument half_argument(const Argument& argument) {
  if (argument.is<DType>() && argument.as<DType>() == DType::kF32) return DType::kF16;
  if (argument.is<double>()) return half_number(argument.as<double>());
  return argument;
}

class HalfFloats {
 public:
  explicit HalfFloats(Program& program) : program_(program), graph_(*program.graph) {}

  void run() {
    for (Node* node : graph_.nodes()) {
      if (node->op() == Node::Op::kOutput) give_floats(*node);
      if (node->op() != Node::Op::kCallFunction) continue;
      const bool was_float = is_float(*node);
      if (stays(*node) || !become_half(*node)) {
        give_floats(*node);
        if (op_of(*node)) infer_anew(*node);
      }
      const TensorMeta* meta = node->meta.val.tensor();
      if (was_float && meta && meta->dtype == DType::kF16) halved_.insert(node);
    }
    graph_.eliminate_dead_code();
    program_.erase_unused_attributes();
  }

 private:
  static bool stays(const Node& node) {
    if (op_of(node) == nullptr || !node.meta.extra_of(kOnnxVersion).empty()) return true;
    const std::vector<Argument>& args = node.args();
    if (std::any_of(args.begin(), args.end(), [](const Argument& each) { return each.is<Subprogram>(); })) return true;
    const std::string_view name = base_name(node.target());
    if (name == "arange" || name == "linspace") return true;
    return !node.is(op::kDequantizeGroups) &&
           (is_a(node, Family::kQuantize) || is_a(node, Family::kDequantize) || is_a(node, Family::kChooseQParams));
  }

  // Gives the node float16 to compute with; false, and nothing has changed, if its operator refuses that.
  bool become_half(Node& node) {
    const std::vector<Argument> args = node.args();
    const Node::Kwargs kwargs = node.kwargs();
    const ValueMeta before = node.meta.val;
    if (!node.is(op::kDequantizeGroups))  // whose scales stay as they are
      for (Node* input : node.input_nodes())
        if (is_float(*input)) node.replace_input_with(input, half_of(*input));
    for (size_t i = 0; i < node.args().size(); ++i) node.set_arg(i, half_argument(node.arg(i)));
    Node::Kwargs changed = node.kwargs();
    for (auto& [name, value] : changed) value = half_argument(value);
    node.set_kwargs(std::move(changed));
    try {
      infer_anew(node);
      return true;
    } catch (const Error&) {
      node.set_args(args);
      node.set_kwargs(kwargs);
      node.meta.val = before;
      return false;
    }
  }

  // The value of a float32 node as float16.
  Node* half_of(Node& node) {
    Node*& half = halves_[&node];
    if (half) return half;
    const bool is_input = node.op() == Node::Op::kPlaceholder;
    const auto point = graph_.insert_after(is_input ? graph_.placeholders().back() : &node);
    if (node.op() != Node::Op::kGetAttr) return half = cast(node, DType::kF16);
    Attribute attribute;
    attribute.name = program_.unique_attribute_name(node.target() + "_half");
    attribute.kind = Attribute::Kind::kBuffer;
    attribute.tensor = half_tensor(program_.attribute_of(node));
    half = graph_.get_attr(attribute.name, attribute.name);
    half->meta.val.value = meta_of(attribute.tensor);
    program_.add_attribute(std::move(attribute));
    return half;
  }

  // Gives the reader float32 in the place of what became float16.
  void give_floats(Node& reader) {
    for (Node* input : reader.input_nodes()) {
      if (!halved_.contains(input)) continue;
      Node*& full = fulls_[input];
      if (!full) {
        const auto point = graph_.insert_after(input);
        full = cast(*input, DType::kF32);
      }
      reader.replace_input_with(input, full);
    }
  }

  Node* cast(Node& node, DType dtype) {
    Node* out = graph_.call(std::string(op::kToDtype), {&node, dtype});
    infer_value(*out);
    return out;
  }

  Program& program_;
  Graph& graph_;
  std::unordered_set<const Node*> halved_;  // calls whose result was float32
  std::unordered_map<const Node*, Node*> halves_, fulls_;
};

}  // namespace

void make_floats_half(Program& program) { HalfFloats(program).run(); }

}  // namespace qdq
