#include "io/onnx/unsigned_activations.h"

#include <algorithm>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr int64_t kShift = 128;

// {quantize,dequantize}_per_tensor.default: (input, scale, zero_point, quant_min, quant_max, dtype)
bool is_of_int8(const Node& node, std::string_view target) {
  if (!node.is(target) || node.args().size() < 6 || node.arg(5) != Argument(DType::kS8)) return false;
  const auto fits = [&](size_t i) {
    const auto value = node.arg(i).integer();
    return value && *value >= -kShift && *value < kShift;
  };
  return fits(2) && fits(3) && fits(4);
}

void shift(Node& node) {
  for (const size_t i : {size_t{2}, size_t{3}, size_t{4}}) node.set_arg(i, *node.arg(i).integer() + kShift);
  node.set_arg(5, DType::kU8);
}

// Whether a dequantized constant is read as one of several activations, or as that of a layer, and never as a
// weight.
bool is_beside_activations(const Node& dequantize) {
  return std::all_of(dequantize.users().begin(), dequantize.users().end(), [&](const Node* user) {
    const bool is_layer = is_a(*user, Family::kConvolution) || is_a(*user, Family::kTransposedConvolution) ||
                          is_a(*user, Family::kLinear);
    if (is_layer) return input_of(*user) == &dequantize && weight_of(*user) != &dequantize;
    return is_a(*user, Family::kAdd) || is_a(*user, Family::kSubtract) || is_a(*user, Family::kMultiply) ||
           is_a(*user, Family::kDivide) || is_a(*user, Family::kConcat);
  });
}

// Whether these integers are nothing but activations that dequantize nodes read.
bool are_activations(const Node& integers) {
  const bool is_stored = integers.op() == Node::Op::kGetAttr;
  const Node* quantized = is_stored ? &integers : integers.arg(0).node();
  const bool is_constant = quantized && quantized->op() == Node::Op::kGetAttr;
  return !integers.users().empty() &&
         std::all_of(integers.users().begin(), integers.users().end(), [&](const Node* user) {
           if (!is_of_int8(*user, op::kDequantize)) return false;
           if (is_constant && !is_beside_activations(*user)) return false;
           return std::none_of(user->users().begin(), user->users().end(),
                               [&](const Node* reader) { return weight_of(*reader) == user; });
         });
}

Tensor shifted(const Tensor& integers) {
  const Tensor signed_ones = integers.contiguous(), out = Tensor::empty(integers.sizes(), DType::kU8);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<uint8_t>()[i] = static_cast<uint8_t>(signed_ones.data<int8_t>()[i] + kShift);
  return out;
}

// The stored integers as uint8, in an attribute of their own: others may read the same one.
Node* unsigned_copy(Program& program, Node* stored) {
  const Tensor& integers = program.attribute_of(*stored);
  const std::string name = program.unique_attribute_name(stored->target() + "_uint8");
  program.add_attribute({name, shifted(integers), Attribute::Kind::kBuffer});
  const auto point = program.graph->insert_after(stored);
  Node* out = program.graph->get_attr(name);
  out->meta.val = stored->meta.val;
  return out;
}

bool is_int8_activation(const Program& program, const Node& node) {
  const bool is_stored = node.op() == Node::Op::kGetAttr && program.attribute_of(node).dtype() == DType::kS8;
  return (is_stored || is_of_int8(node, op::kQuantize)) && are_activations(node);
}

}  // namespace

bool has_int8_activations(const Program& program) {
  return std::ranges::any_of(program.graph->nodes(), [&](const Node* node) {
    return is_int8_activation(program, *node) || std::ranges::any_of(node->args(), [](const Argument& arg) {
             return arg.is<Subprogram>() && has_int8_activations(*arg.as<Subprogram>());
           });
  });
}

void make_activations_unsigned(Program& program) {
  for (Node* node : program.graph->nodes()) {
    for (size_t i = 0; i < node->args().size(); ++i) {
      if (!node->arg(i).is<Subprogram>()) continue;
      Program inner = node->arg(i).as<Subprogram>()->clone();
      make_activations_unsigned(inner);
      node->set_arg(i, Subprogram(std::make_shared<const Program>(std::move(inner))));
    }
    if (!is_int8_activation(program, *node)) continue;
    const bool is_stored = node->op() == Node::Op::kGetAttr;
    const std::vector<Node*> readers = node->users();
    for (Node* reader : readers) shift(*reader);
    Node* integers = node;
    if (is_stored) {
      integers = unsigned_copy(program, node);
      for (Node* reader : readers) reader->set_arg(0, integers);
    } else {
      shift(*node);
    }
    if (auto* meta = std::get_if<TensorMeta>(&integers->meta.val.value)) meta->dtype = DType::kU8;
  }
}

}  // namespace qdq
