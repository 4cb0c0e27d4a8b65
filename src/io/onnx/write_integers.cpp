// Linear layers as products of integers.
#include "io/onnx/integer_layers.h"

#include <algorithm>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

Tensor stored_tensor(AtenCall& call, const Node* node) {
  return node && node->op() == Node::Op::kGetAttr ? call.file().program().attribute_of(*node) : Tensor();
}

StoredWeight stored_weight(AtenCall& call, const Node* node) {
  StoredWeight out;
  if (node == nullptr) return out;
  if (node->is(op::kDequantize)) {
    out.integers = stored_tensor(call, node->arg(0).node());
    out.scales = Tensor::full({}, DType::kF32, node->arg(1).number().value_or(0));
    if (node->arg(2).integer() != 0) out.integers = Tensor();
  } else if (node->is(op::kDequantizeChannels)) {
    const Tensor scales = stored_tensor(call, node->arg(1).node()),
                 zero_points = stored_tensor(call, node->arg(2).node());
    if (!scales.defined() || !zero_points.defined()) return out;
    const Tensor zeros = zero_points.to(DType::kS64).contiguous();
    if (std::any_of(zeros.data<int64_t>(), zeros.data<int64_t>() + zeros.numel(), [](int64_t z) { return z != 0; }))
      return out;
    out.integers = stored_tensor(call, node->arg(0).node());
    out.scales = scales.to(DType::kF32).contiguous();
    out.axis = *node->arg(3).integer();
  }
  return out;
}

namespace {

// What a layer gives, with the bias that it has.
void finish_with_bias(AtenCall& call, const std::string& op, const OnnxNames& inputs,
                      const OnnxAttributes& attributes = {}) {
  if (call.is_none(2)) return call.finish(op, inputs, attributes);
  call.finish("Add", {call.emit(op, inputs, attributes), call.tensor(2)});
}

// The choose_qparams whose scale and zero point both the dequantize node and its quantize node have; null if none.
const Node* choice_of(const Node& dequantize) {
  const Node *integers = dequantize.arg(0).node(), *scale = dequantize.arg(1).node();
  const Node* choice = scale && scale->is(op::kGetItem) ? scale->arg(0).node() : nullptr;
  if (!choice || !choice->is(op::kChooseQParams) || !integers || !integers->is(op::kQuantizeByTensors)) return nullptr;
  return integers->arg(1).node() == scale && integers->arg(0) == choice->arg(0) ? choice : nullptr;
}

constexpr int64_t kBits = 4, kMiddle = 8;  // of the integers without sign

// Integers from `low` on as halves of bytes, the first of two in the lower one. The last of an odd row stands alone.
Tensor halves_of(const Tensor& integers, int64_t rows, int64_t low) {
  const Tensor flat = integers.to(DType::kS32).contiguous();
  const int64_t count = flat.numel() / rows, bytes = (count + 1) / 2;
  const Tensor out = Tensor::full({rows, bytes}, DType::kU8, 0);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < count; ++i) {
      const int32_t value = flat.data<int32_t>()[row * count + i] - static_cast<int32_t>(low);
      out.data<uint8_t>()[row * bytes + i / 2] |= static_cast<uint8_t>(value << (i % 2 * kBits));
    }
  return out;
}

bool lies_within(const Tensor& integers, int64_t low, int64_t high) {
  const Tensor wide = integers.to(DType::kS64).contiguous();
  const std::span<const int64_t> values = wide.span<int64_t>();
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value >= low && value <= high; });
}

}  // namespace

bool write_dynamic_linear(AtenCall& call) {
  const Node* input = call.arg(0).node();
  if (input == nullptr || !input->is(op::kDequantizeByTensors) || call.meta(0).dtype != DType::kF32) return false;
  const Node *choice = choice_of(*input), *weight = call.arg(1).node();
  const StoredWeight stored = stored_weight(call, weight);
  if (!choice || !stored.integers.defined() || stored.integers.dtype() != DType::kS8 ||
      (stored.scales.numel() != 1 && stored.axis != 0))
    return false;
  OnnxExport& file = call.file();
  const std::string name = weight->arg(0).node()->target();
  const std::string scales =
      file.constant(stored.scales.numel() == 1 ? stored.scales.reshape({}) : stored.scales, name + "_scale");
  const std::string product =
      call.emit("MatMulInteger",
                {file.value(input->arg(0).node()),
                 file.constant(stored.integers.transpose(0, 1).contiguous(), name + "_t"), file.item(choice, 1)});
  const std::string floats = call.cast(product, DType::kS32, DType::kF32);
  finish_with_bias(call, "Mul", {floats, call.emit("Mul", {file.item(choice, 0), scales})});
  return true;
}

bool write_linear_of_blocks(AtenCall& call) {
  const Node* weight = call.arg(1).node();
  if (!weight || weight->op() != Node::Op::kCallFunction || call.meta(0).dtype != DType::kF32 ||
      local_name(weight->target()) != "dequantize_per_channel_group.default")
    return false;
  // (input, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype)
  const Tensor integers = stored_tensor(call, weight->arg(0).node()),
               scales = stored_tensor(call, weight->arg(1).node());
  const bool has_zeros = !weight->arg(2).is_none();
  const Tensor zeros = has_zeros ? stored_tensor(call, weight->arg(2).node()) : Tensor();
  const int64_t low = weight->arg(3).integer().value_or(1), high = weight->arg(4).integer().value_or(0),
                block = weight->arg(6).integer().value_or(0);
  const bool is_power = block >= 16 && block <= 256 && (block & (block - 1)) == 0;
  if (!integers.defined() || !scales.defined() || (has_zeros && !zeros.defined()) || integers.dim() != 2 ||
      high - low != 15 || (low != 0 && low != -kMiddle) || !is_power || integers.size(1) % block != 0)
    return false;
  const int64_t rows = integers.size(0), depth = integers.size(1), blocks = depth / block;
  if (rows == 0 || scales.numel() != rows * blocks || (has_zeros && zeros.numel() != rows * blocks) ||
      !lies_within(integers, low, high) || (has_zeros && !lies_within(zeros, low, high)))
    return false;
  OnnxExport& file = call.file();
  const std::string name = weight->arg(0).node()->target();
  OnnxNames inputs = {call.tensor(0),
                      file.constant(halves_of(integers, rows, low).reshape({rows, blocks, block / 2}), name + "_4bit"),
                      file.constant(scales.to(DType::kF32).reshape({rows * blocks}).contiguous(), name + "_scale")};
  // Without zero points they are the middle.
  const bool is_middle = has_zeros ? lies_within(zeros, low + kMiddle, low + kMiddle) : low == -kMiddle;
  if (!is_middle) {
    const Tensor given = has_zeros ? zeros : Tensor::full({rows * blocks}, DType::kS64, 0);
    inputs.list.push_back(
        file.constant(halves_of(given, rows, low).reshape({rows * ((blocks + 1) / 2)}), name + "_zero_point"));
  }
  finish_with_bias(call, "com.microsoft.MatMulNBits", inputs,
                   {"K", depth, "N", rows, "bits", kBits, "block_size", block});
  return true;
}

}  // namespace qdq
