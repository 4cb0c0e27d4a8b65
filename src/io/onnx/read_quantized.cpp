// ONNX operators that quantize and dequantize.
#include <algorithm>

#include "io/onnx/import.h"
#include "op/targets.h"

namespace qdq {
namespace {

// {quantize,dequantize}_per_{tensor,channel}
void linear_quantization(OnnxCall& call, bool quantizes, DType dtype) {
  if (call.integer("block_size", 0) != 0) call.refuse("quantizes in blocks, which qdq does not read");
  const Tensor scales = call.wanted_constant(1);
  const Tensor zero_points = call.has(2) ? call.wanted_constant(2) : Tensor::full(scales.sizes(), DType::kS32, 0);
  if (scales.dim() > 1 || zero_points.numel() != scales.numel())
    call.refuse("has scales and zero points of different or unknown shapes");
  const Argument low = min_of(dtype), high = max_of(dtype);
  if (scales.numel() == 1 && (scales.dim() == 0 || call.rank(0) != 1)) {
    call.set(call.call_as_it_is(std::string(quantizes ? op::kQuantize : op::kDequantize),
                                {call.tensor(0), scales.item(), zero_points.item_int(), low, high, dtype}));
    return;
  }
  const std::string base = call.tensor(0)->name();
  Node* scale = call.import().constant(scales.to(DType::kF32), base + "_scale", Attribute::Kind::kBuffer);
  Node* zero_point =
      call.import().constant(zero_points.to(DType::kS64), base + "_zero_point", Attribute::Kind::kBuffer);
  call.set(call.call_as_it_is(
      std::string(quantizes ? op::kQuantizeChannels : op::kDequantizeChannels),
      {call.tensor(0), scale, zero_point, call.axis(call.integer("axis", 1), call.rank(0)), low, high, dtype}));
}

void quantize_linear(OnnxCall& call) {
  DType dtype = DType::kU8;
  if (call.has(2)) dtype = call.meta(2).dtype;
  else if (const int64_t wanted = call.integer("output_dtype", 2); wanted == 3) dtype = DType::kS8;
  else if (wanted != 2 && wanted != 0) call.refuse("has the output data type ", wanted, ", wanted int8 or uint8");
  linear_quantization(call, true, dtype);
}

void dequantize_linear(OnnxCall& call) {
  const DType dtype = call.meta(0).dtype;
  const Tensor integers = call.constant(0);
  if (dtype != DType::kS32 && !call.is_constant(1)) {
    // By the scale and zero point that DynamicQuantizeLinear gave.
    const auto before_casts = [](Node* node) {
      while (node->is(op::kToDtype) || node->is(op::kReshape)) node = node->arg(0).node();
      return node;
    };
    Node *scale = before_casts(call.tensor(1)), *zero_point = call.has(2) ? before_casts(call.tensor(2)) : nullptr;
    if (!zero_point || !scale->is(op::kGetItem) || !zero_point->is(op::kGetItem))
      call.refuse("has a scale that is computed");
    return call.set(call.call_as_it_is(std::string(op::kDequantizeByTensors),
                                       {call.tensor(0), scale, zero_point, min_of(dtype), max_of(dtype), dtype}));
  }
  if (dtype != DType::kS32) return linear_quantization(call, false, dtype);
  // A bias: PT2E keeps it in float.
  if (!integers.defined()) call.refuse("dequantizes int32 values that are computed, which qdq does not read");
  const Tensor scales = call.wanted_constant(1);
  Tensor bias = integers.to(DType::kF32).clone();
  const Tensor factors = scales.to(DType::kF32).contiguous();
  const bool is_zero = !call.has(2) || [&] {
    const Tensor zeros = call.wanted_constant(2).to(DType::kS64).contiguous();
    return std::all_of(zeros.data<int64_t>(), zeros.data<int64_t>() + zeros.numel(), [](int64_t z) { return z == 0; });
  }();
  if (bias.dim() > 1 || (factors.numel() != 1 && factors.numel() != bias.numel()) || !is_zero)
    call.refuse("dequantizes int32 with a zero point or along an axis of several, which qdq does not read");
  for (int64_t i = 0; i < bias.numel(); ++i)
    bias.data<float>()[i] *= factors.data<float>()[factors.numel() == 1 ? 0 : i];
  call.set(std::move(bias));
}

void dynamic_quantize_linear(OnnxCall& call) {
  Node* both =
      call.call_as_it_is(std::string(op::kChooseQParams), {call.tensor(0), 0, 255, 1.1920928955078125e-07, DType::kU8});
  Node* scale = call.call_as_it_is(std::string(op::kGetItem), {both, 0});
  Node* zero_point = call.call_as_it_is(std::string(op::kGetItem), {both, 1});
  call.set(
      call.call_as_it_is(std::string(op::kQuantizeByTensors), {call.tensor(0), scale, zero_point, 0, 255, DType::kU8}));
  // ONNX gives them as a float and a byte, without axes.
  const std::pair<Node*, DType> others[] = {{scale, DType::kF32}, {zero_point, DType::kU8}};
  for (size_t i = 0; i < 2; ++i) {
    if (!call.has_output(i + 1)) continue;
    Node* scalar = call.call("reshape.default", {Argument(others[i].first), Argument(Argument::List{})});
    call.set(call.call("to.dtype", {scalar, others[i].second}), i + 1);
  }
}

constexpr OnnxOperator kOperators[] = {
    {"DequantizeLinear", dequantize_linear, nullptr},
    {"DynamicQuantizeLinear", dynamic_quantize_linear, nullptr},
    {"QuantizeLinear", quantize_linear, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_quantized_operators() { return kOperators; }

}  // namespace qdq
