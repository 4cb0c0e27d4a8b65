// What the quantizers can do, pattern by pattern.
#include "quant/composable_quantizer.h"
#include "quant/x86_inductor_quantizer.h"
#include "quant/xnnpack_quantizer.h"

namespace qdq {

namespace {

using Operators = std::vector<std::string>;

// "relu.default" and its like, in the names of reports.
Operators aten(std::initializer_list<const char*> names) {
  Operators out;
  for (const char* name : names) out.push_back(concat("aten.", name));
  return out;
}

}  // namespace

QuantizationCapabilities XNNPACKQuantizer::quantization_capabilities() const {
  const Operators conv = aten({"conv1d.default", "conv2d.default"}), linear = aten({"linear.default"});
  const Operators transposed = aten({"conv_transpose1d.default", "conv_transpose2d.input"});
  const Operators relu = aten({"relu.default", "relu_.default"}), norm = aten({"batch_norm.default"});
  const Operators add = aten({"add.Tensor", "add_.Tensor"}), mul = aten({"mul.Tensor", "mul_.Tensor"});
  const Operators keep = aten({"relu.default", "hardtanh.default", "hardtanh_.default", "max_pool2d.default", "mean.default", "mean.dim",
                               "permute.default", "permute_copy.default", "squeeze.dim", "squeeze_copy.dim", "adaptive_avg_pool2d.default",
                               "view_copy.default", "view.default", "slice_copy.Tensor", "flatten.using_ints"});
  Operators any_conv = conv;
  any_conv.insert(any_conv.end(), transposed.begin(), transposed.end());
  return {std::string(name()),
          {
              {"conv_bn", {any_conv, norm, relu}, false, false, true, "the relu may be missing; without QAT batch norms are folded before"},
              {"linear_relu", {linear, relu}, true, false, true, "nobody else reads the linear"},
              {"linear", {linear}, true, true, true, ""},
              {"conv_relu", {conv, relu}, true, false, true, "nobody else reads the convolution"},
              {"conv", {conv}, true, false, true, ""},
              {"conv_transpose_relu", {transposed, relu}, true, false, true, "nobody else reads the convolution"},
              {"adaptive_avg_pool2d", {aten({"adaptive_avg_pool2d.default"})}, true, false, true, "output in terms of its input"},
              {"gru_io_only", {{"torch.nn.GRU"}}, true, false, true, "a module by its recorded source; its inside stays in float"},
              {"add_relu", {add, relu}, true, false, true, "float32 operands"},
              {"add", {add}, true, false, true, "float32 operands"},
              {"mul_relu", {mul, relu}, true, false, true, "float32 operands"},
              {"mul", {mul}, true, false, true, "float32 operands"},
              {"cat", {aten({"cat.default"})}, true, false, true, "all inputs and the output in the same terms"},
              {"propagation", {keep}, true, false, true, "behind an operator whose output is quantized, in the same terms"},
          },
          {}};
}

QuantizationCapabilities X86InductorQuantizer::quantization_capabilities() const {
  const Operators conv = aten({"conv2d.default"}), linear = aten({"linear.default"}), add = aten({"add.Tensor", "add_.Tensor"});
  const Operators relu = aten({"relu.default", "relu_.default"}), norm = aten({"batch_norm.default"});
  const Operators behind_conv = aten({"relu.default", "relu_.default", "hardtanh.default", "hardtanh_.default", "hardswish.default",
                                      "hardswish_.default", "relu6.default", "relu6_.default", "silu.default", "silu_.default"});
  const Operators behind_linear =
      aten({"relu.default", "relu_.default", "leaky_relu.default", "leaky_relu_.default", "tanh.default", "tanh_.default", "gelu.default"});
  const Operators pools = aten({"max_pool2d.default", "cat.default", "avg_pool2d.default", "adaptive_avg_pool2d.default", "flatten.using_ints"});
  const std::string alone = "nobody else reads what is in front";
  Operators ends = behind_conv;
  ends.insert(ends.end(), add.begin(), add.end());
  return {std::string(name()),
          {
              {"conv2d_bn", {conv, norm, ends}, false, false, true, "the last may be missing, or be an addition and a relu"},
              {"conv2d_binary_unary", {conv, add, relu}, true, true, true, alone},
              {"conv2d_binary", {conv, add}, true, true, true, alone},
              {"conv2d_unary", {conv, behind_conv}, true, true, true, alone},
              {"conv2d", {conv}, true, true, true, ""},
              {"linear_binary_unary", {linear, add, relu}, true, true, true, alone},
              {"linear_binary", {linear, add}, true, true, true, alone},
              {"linear_unary", {linear, behind_linear}, true, true, true, alone},
              {"linear", {linear}, true, true, true, ""},
              {"matmul", {aten({"matmul.default"})}, true, true, true, "only on request, by the function type torch.matmul"},
              {"propagation", {pools}, true, true, true, "behind a quantized operator; flatten only in front of one"},
          },
          {}};
}

QuantizationCapabilities EmbeddingQuantizer::quantization_capabilities() const {
  return {std::string(name()), {{"embedding", {aten({"embedding.default"})}, true, false, false, "the table alone, by rows, as uint8"}}, {}};
}

QuantizationCapabilities ComposableQuantizer::quantization_capabilities() const {
  QuantizationCapabilities out{std::string(name()), {}, {}};
  for (const auto& quantizer : quantizers_) out.parts.push_back(quantizer->quantization_capabilities());
  return out;
}

}  // namespace qdq
