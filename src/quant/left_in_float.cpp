// Why operators stayed in float.
#include <algorithm>

#include "quant/constant_fold.h"
#include "quant/prepared_impl.h"

namespace qdq {

namespace {

bool is_dequantized(const Argument& argument) {
  const Node* node = argument.node();
  return node && is_dequantize(*node);
}

bool is_sum_or_product(const Node& node) {
  for (const std::string_view target : {"torch.ops.aten.add.Tensor", "torch.ops.aten.add_.Tensor", "torch.ops.aten.mul.Tensor",
                                        "torch.ops.aten.mul_.Tensor", "torch.ops.aten.matmul.default", "torch.ops.aten.bmm.default"})
    if (node.is(target)) return true;
  return false;
}

const TensorMeta* tensor_meta(const Argument& argument) {
  const Node* node = argument.node();
  return node ? node->meta.val.tensor() : nullptr;
}

// Names without "torch.ops.".
std::string short_name(const std::string& target) { return target.rfind("torch.ops.", 0) == 0 ? target.substr(10) : target; }

std::string reason_for(const Prepared::Impl& prepared, const Node& node, const std::vector<size_t>& operands) {
  for (const size_t i : operands) {
    const TensorMeta* meta = tensor_meta(node.arg(i));
    if (meta && is_floating(meta->dtype) && meta->dtype != DType::kF32) return concat("it computes on ", to_string(meta->dtype));
  }
  const auto reason = prepared.reasons.find(node.name());
  if (reason != prepared.reasons.end() && !reason->second.empty()) return reason->second;
  return concat(prepared.quantizer, " did not annotate it");
}

// Whether the operator computes on integers, alone or fused with one in front of it.
bool is_quantized(const Prepared::Impl& prepared, const Node& node, const std::vector<size_t>& operands) {
  if (!is_sum_or_product(node)) {
    const Node* weight = node.arg(operands[1]).node();
    return is_dequantize(*weight) || weight->is("torch.ops.quantized_decomposed.convert_element_type.no_fuse");
  }
  if (std::any_of(operands.begin(), operands.end(), [&](size_t i) { return is_dequantized(node.arg(i)); })) return true;
  const auto annotation = prepared.annotations.find(prepared.program.graph->find(node.name()));
  return annotation != prepared.annotations.end() && annotation->second.in_pattern;
}

}  // namespace

std::vector<size_t> operands_to_quantize(const Node& node) {
  if (is_sum_or_product(node)) {
    const TensorMeta* result = node.meta.val.tensor();
    const bool is_arithmetic = node.arg(0).node() && node.arg(1).node() && (!result || is_floating(result->dtype));
    return is_arithmetic ? std::vector<size_t>{0, 1} : std::vector<size_t>{};
  }
  const OpDef* op = node.op() == Node::Op::kCallFunction ? find_op(node.target()) : nullptr;
  if (op == nullptr || op->roles.weight < 0 || op->roles.activation < 0) return {};
  const bool reads_weight = node.arg(static_cast<size_t>(op->roles.weight)).is_node();
  // Normalisations have a weight too, but nobody computes them on integers.
  if (!reads_weight || op->target.find("norm") != std::string::npos) return {};
  return {static_cast<size_t>(op->roles.activation), static_cast<size_t>(op->roles.weight)};
}

std::vector<LeftInFloat> left_in_float(const Prepared& prepared, const Program& converted) {
  const Prepared::Impl& impl = *prepared.impl_;
  std::vector<LeftInFloat> out;
  for (const Node* node : converted.graph->nodes()) {
    const std::vector<size_t> operands = operands_to_quantize(*node);
    if (operands.empty() || is_quantized(impl, *node, operands)) continue;
    out.push_back({node->name(), node->meta.module_path().value_or(""), short_name(node->target()), reason_for(impl, *node, operands)});
  }
  return out;
}

}  // namespace qdq
