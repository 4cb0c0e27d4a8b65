// ONNX operators with weights: convolutions, matrix products, normalization.
#include <algorithm>
#include <cmath>

#include "io/onnx/import.h"
#include "io/onnx/window.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

// A weight with rows and columns exchanged; one behind a dequantize node stays behind one, as quantizers and fused
// kernels look for it.
Node* transposed(OnnxCall& call, Node* weight) {
  const bool per_channel = weight->is(op::kDequantizeChannels);
  Node* integers = per_channel || weight->is(op::kDequantize) ? weight->arg(0).node() : nullptr;
  if (integers == nullptr || !call.import().is_constant(integers)) return call.call("t.default", {weight});
  std::vector<Argument> args = weight->args();
  args[0] = call.call("t.default", {integers});
  if (per_channel) args[3] = 1 - *args[3].integer();
  return call.call_as_it_is(weight->target(), args);
}

// Whether the node is a matrix that does not change from run to run.
bool is_weight(OnnxCall& call, Node* node) {
  const auto is_known = [&](const Node* n) { return call.import().is_constant(n); };
  const bool is_dequantized = is_a(*node, Family::kDequantize) && node->arg(0).node() && is_known(node->arg(0).node());
  return (is_known(node) || is_dequantized) && call.meta_of(node).sizes.size() == 2;
}

void conv(OnnxCall& call) {
  Node* weight = call.tensor(1);
  OnnxWindow window = window_of(call, spatial_sizes(call, weight));
  Node* input = padded_input(call, window, 0);
  call.set(call.call(with_axes("conv", window.kernel.size()),
                     {input, weight, call.optional_tensor(2), call.list(window.strides), call.list(window.begin),
                      call.list(window.dilations), call.integer("group", 1)}));
}

void conv_transpose(OnnxCall& call) {
  Node* weight = call.tensor(1);
  const OnnxWindow window = window_of(call, spatial_sizes(call, weight));
  const size_t axes = window.kernel.size();
  if (!is_symmetric(window) || call.attribute("output_shape") || call.text("auto_pad", "NOTSET") != "NOTSET")
    call.refuse("pads both sides differently, or by the shape of its output, which aten.conv_transpose cannot");
  const std::vector<int64_t> output_padding = call.integers("output_padding", std::vector<int64_t>(axes, 0));
  call.set(
      call.call(with_axes("conv_transpose", axes, axes == 1 ? "default" : "input"),
                {call.tensor(0), weight, call.optional_tensor(2), call.list(window.strides), call.list(window.begin),
                 call.list(output_padding), call.integer("group", 1), call.list(window.dilations)}));
}

void gemm(OnnxCall& call) {
  Node* a = call.integer("transA", 0) ? call.call("t.default", {call.tensor(0)}) : call.tensor(0);
  Node* b = call.tensor(1);
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  const bool is_transposed = call.integer("transB", 0) != 0;
  if (call.meta_of(b).sizes.size() != 2)
    call.refuse("multiplies by a tensor of ", call.meta_of(b).sizes.size(), " axes, wanted a matrix");
  const bool adds_vector = call.has(2) && beta == 1 && call.rank(2) == 1 &&
                           call.meta(2).sizes[0] == call.meta_of(b).sizes[is_transposed ? 0 : 1];
  if (alpha == 1 && (!call.has(2) || adds_vector)) {
    call.set(
        call.call("linear.default", {a, Argument(is_transposed ? b : transposed(call, b)), call.optional_tensor(2)}));
    return;
  }
  Node* product = call.call("mm.default", {a, Argument(is_transposed ? call.call("t.default", {b}) : b)});
  if (alpha != 1) product = call.call("mul.Tensor", {product, alpha});
  if (call.has(2)) product = call.call("add.Tensor", {product, call.tensor(2)}, "alpha", beta);
  call.set(product);
}

void matmul(OnnxCall& call) {
  Node *a = call.tensor(0), *b = call.tensor(1);
  if (is_weight(call, b) && call.rank(0) > 1 && !call.import().is_constant(a))
    call.set(call.call("linear.default", {a, Argument(transposed(call, b))}));
  else call.set(call.call("matmul.default", {a, b}));
}

void batch_norm(OnnxCall& call) {
  if (call.integer("training_mode", 0) != 0) call.refuse("is in training mode; export the model in inference mode");
  call.set(
      call.call("batch_norm.default", {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(4),
                                       false, call.real("momentum", 0.9), call.real("epsilon", 1e-5), true}));
}

void instance_norm(OnnxCall& call) {
  call.set(call.call("instance_norm.default", {call.tensor(0), call.tensor(1), call.tensor(2), Argument(), Argument(),
                                               true, 0.1, call.real("epsilon", 1e-5), true}));
}

void group_norm(OnnxCall& call) {
  if (call.opset() < 21)
    call.refuse("is of opset ", call.opset(), ", whose scale is one for a group; qdq reads that of opset 21");
  call.set(call.call("group_norm.default", {call.tensor(0), call.integer("num_groups", 1), call.tensor(1),
                                            call.tensor(2), call.real("epsilon", 1e-5)}));
}

void layer_norm(OnnxCall& call) {
  if (call.has_output(1)) call.refuse("gives the mean too, which qdq does not read");
  const int64_t axis = call.axis(call.integer("axis", -1), call.rank(0));
  const SymShape sizes(call.meta(0).sizes.begin() + axis, call.meta(0).sizes.end());
  call.set(call.call("layer_norm.default", {call.tensor(0), call.list(sizes), call.tensor(1), call.optional_tensor(2),
                                            call.real("epsilon", 1e-5)}));
}

void einsum(OnnxCall& call) {
  Argument::List all;
  for (size_t i = 0; i < call.num_inputs(); ++i) all.emplace_back(call.tensor(i));
  call.set(call.call("einsum.default", {call.text("equation", ""), Argument(std::move(all))}));
}

constexpr OnnxOperator kOperators[] = {
    {"BatchNormalization", batch_norm, nullptr},
    {"Conv", conv, nullptr},
    {"ConvTranspose", conv_transpose, nullptr},
    {"Einsum", einsum, nullptr},
    {"Gemm", gemm, nullptr},
    {"GroupNormalization", group_norm, nullptr},
    {"InstanceNormalization", instance_norm, nullptr},
    {"LayerNormalization", layer_norm, nullptr},
    {"MatMul", matmul, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_layer_operators() { return kOperators; }

}  // namespace qdq
