// Layers with their biases, as integer kernels add them and as float ones do.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "io/onnx/integer_layers.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

// The bias of a layer between a dequantized input and a dequantized weight of symmetric integers is int32 with the
// product of the scales, as integer kernels add it to their sums; elsewhere it is what it is. None where it does not
// fit, as in a channel of tiny weights.
std::optional<std::string> bias_within(AtenCall& call, const Node* input, size_t output_axis) {
  if (call.is_none(2)) return std::string();
  const Node* node = call.arg(2).node();
  const Tensor values = stored_tensor(call, node);
  const StoredWeight weight = stored_weight(call, call.arg(1).node());
  const bool fits_input = input && input->is(op::kDequantize) && input->arg(1).number();
  if (!values.defined() || values.dtype() != DType::kF32 || !weight.integers.defined() || !fits_input)
    return call.tensor(2);
  if (weight.scales.numel() != 1 &&
      (weight.axis != static_cast<int64_t>(output_axis) || weight.scales.numel() != values.numel()))
    return call.tensor(2);
  const Tensor floats = values.contiguous();
  const Tensor scales = Tensor::empty({values.numel()}, DType::kF32),
               integers = Tensor::empty({values.numel()}, DType::kS32);
  for (int64_t k = 0; k < values.numel(); ++k) {
    const float scale =
        static_cast<float>(*input->arg(1).number()) * weight.scales.data<float>()[weight.scales.numel() == 1 ? 0 : k];
    const double integer = std::nearbyint(static_cast<double>(floats.data<float>()[k]) / static_cast<double>(scale));
    if (!(std::fabs(integer) < 1 << 30)) return std::nullopt;
    scales.data<float>()[k] = scale;
    integers.data<int32_t>()[k] = static_cast<int32_t>(integer);
  }
  const std::string name = node->target();
  const std::string zeros = call.file().constant(Tensor::full({values.numel()}, DType::kS32, 0), name + "_zero_point");
  return call.emit(
      "DequantizeLinear",
      {call.file().constant(integers, name + "_quantized"), call.file().constant(scales, name + "_scale"), zeros},
      {"axis", 0});
}

// Whether ONNX Runtime would round a weight that is to stay float: since 1.21 it does, by one scale, between a
// DequantizeLinear and a QuantizeLinear, unless it finds a bias that is no float initializer
// (weight_bias_quantization.cc).
bool would_be_rounded(AtenCall& call, const Node* input) {
  const Tensor weight = stored_tensor(call, call.arg(1).node());
  const bool has_floats = weight.defined() && weight.dtype() == DType::kF32;
  const bool has_bias = !call.is_none(2);
  if (!has_floats || input == nullptr || !input->is(op::kDequantize) || !is_read_rounded(call.node())) return false;
  return !has_bias || stored_tensor(call, call.arg(2).node()).defined();
}

// The bias, or zeros, as int32. With a power of two as the scale the products are the floats, but for bits below 2^-30
// of the largest.
std::string bias_of_integers(AtenCall& call, int64_t channels) {
  const Tensor values =
      call.is_none(2) ? Tensor::full({channels}, DType::kF32, 0) : stored_tensor(call, call.arg(2).node()).contiguous();
  float largest = 0;
  for (const float value : values.span<float>()) largest = std::max(largest, std::fabs(value));
  int exponent = 0;
  std::frexp(largest, &exponent);
  const float scale = std::max(std::ldexp(1.0F, exponent - 30), std::numeric_limits<float>::min());
  const Tensor integers = Tensor::empty({values.numel()}, DType::kS32);
  for (int64_t k = 0; k < values.numel(); ++k)
    integers.data<int32_t>()[k] = static_cast<int32_t>(std::nearbyint(values.data<float>()[k] / scale));
  const std::string name = call.is_none(2) ? call.node().name() + "_bias" : call.arg(2).node()->target();
  OnnxExport& file = call.file();
  return call.emit("DequantizeLinear",
                   {file.constant(integers, name + "_quantized"), file.scalar(static_cast<double>(scale), DType::kF32),
                    file.constant(Tensor::full({}, DType::kS32, 0), name + "_zero_point")});
}

}  // namespace

bool is_read_rounded(const Node& node) {
  const std::vector<Node*>& readers = node.users();
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [](const Node* reader) {
    if (is_a(*reader, Family::kQuantize)) return true;
    return activation_function(*reader).has_value() && is_read_rounded(*reader);
  });
}

void finish_layer(AtenCall& call, const char* op, const OnnxAttributes& attributes, size_t axis, int64_t groups,
                  const Node* input) {
  if (input == nullptr) input = call.arg(0).node();
  const std::string x = input ? call.file().value(input) : call.tensor(0), weight = call.tensor(1);
  if (would_be_rounded(call, input)) {
    const int64_t channels = stored_tensor(call, call.arg(1).node()).size(static_cast<int64_t>(axis)) * groups;
    return call.finish(op, {x, weight, bias_of_integers(call, channels)}, attributes);
  }
  if (const std::optional<std::string> within = bias_within(call, input, axis))
    return call.finish(op, {x, weight, *within}, attributes);
  const Node* node = call.arg(2).node();
  const Tensor values = stored_tensor(call, node).contiguous();
  Shape column(call.rank(0) - 1, 1);
  column[0] = values.numel();
  const std::string sums = call.emit(op, {x, weight}, attributes);
  call.finish("Add", {sums, call.file().constant(values.reshape(column), node->target() + "_behind")});
}

}  // namespace qdq
