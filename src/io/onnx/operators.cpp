// Every ONNX operator that qdq reads, by its name.
#include <unordered_map>

#include "io/onnx/import.h"

namespace qdq {
namespace {

std::unordered_map<std::string_view, const OnnxOperator*> joined() {
  std::unordered_map<std::string_view, const OnnxOperator*> out;
  for (const auto operators :
       {onnx_attention_operators, onnx_block_operators, onnx_control_operators, onnx_element_operators,
        onnx_image_operators, onnx_layer_operators, onnx_microsoft_operators, onnx_ml_operators, onnx_place_operators,
        onnx_quantized_operators, onnx_recurrent_operators, onnx_reduction_operators, onnx_resize_operators,
        onnx_signal_operators, onnx_string_operators, onnx_tree_operators, onnx_view_operators})
    for (const OnnxOperator& op : operators())
      QDQ_CHECK(out.emplace(op.name, &op).second, kInternal, "two importers of the ONNX operator ", op.name);
  return out;
}

const std::unordered_map<std::string_view, const OnnxOperator*>& all() {
  static const auto operators = joined();
  return operators;
}

}  // namespace

const OnnxOperator* find_onnx_operator(std::string_view name) {
  const auto found = all().find(name);
  return found == all().end() ? nullptr : found->second;
}

const OnnxOperator* find_onnx_operator_of(std::string_view aten) {
  static const auto plain = [] {
    std::unordered_map<std::string_view, const OnnxOperator*> out;
    for (const auto& [name, op] : all())
      if (op->import == import_plain) out.emplace(op->aten, op);
    return out;
  }();
  const auto found = plain.find(aten);
  return found == plain.end() ? nullptr : found->second;
}

void import_plain(OnnxCall& call) {
  std::vector<Argument> args;
  for (size_t i = 0; i < call.num_inputs(); ++i) args.emplace_back(call.tensor(i));
  call.set(call.call(call.op().aten, args));
}

}  // namespace qdq
