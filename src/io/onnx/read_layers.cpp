// ONNX operators with weights: convolutions, matrix products, normalization.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "io/onnx/import.h"
#include "io/onnx/window.h"
#include "op/einsum.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

namespace {

// A weight in groups along the first of two axes, which the groups of PyTorch's operator do not have.
bool is_turned_groups(const Node& weight) {
  const Node* rows = local_name(weight.target()) == "t.default" ? weight.arg(0).node() : nullptr;
  return rows != nullptr && rows->is(op::kDequantizeGroups);
}

}  // namespace

Node* transposed(OnnxCall& call, Node* weight) {
  if (is_turned_groups(*weight)) return weight->arg(0).node();
  const bool per_channel = weight->is(op::kDequantizeChannels);
  Node* integers = per_channel || weight->is(op::kDequantize) ? weight->arg(0).node() : nullptr;
  if (integers == nullptr || !call.import().is_constant(integers)) return call.call("t.default", {weight});
  std::vector<Argument> args = weight->args();
  args[0] = call.call("t.default", {integers});
  if (per_channel) args[3] = 1 - *args[3].integer();
  return call.call_as_it_is(weight->target(), args);
}

namespace {

// Whether the node is a matrix that does not change from run to run.
bool is_weight(OnnxCall& call, Node* node) {
  const auto is_known = [&](const Node* n) { return call.import().is_constant(n); };
  const bool is_dequantized = is_a(*node, Family::kDequantize) && node->arg(0).node() && is_known(node->arg(0).node());
  return (is_known(node) || is_dequantized || is_turned_groups(*node)) && call.meta_of(node).sizes.size() == 2;
}

}  // namespace

Node* convolution(OnnxCall& call, Node* input, Node* weight, const Argument& bias) {
  OnnxWindow window = window_of(call, input, spatial_sizes(call, weight));
  input = padded_where_uneven(call, input, window, 0);
  return call.call(with_axes("conv", window.axes()),
                   {input, weight, bias, call.list(window.strides), OnnxCall::list(window.padding()),
                    call.list(window.dilations), call.integer("group", 1)});
}

Node* matrix_product(OnnxCall& call, Node* a, Node* b, const Argument& bias) {
  if (is_weight(call, b) && call.meta_of(a).sizes.size() > 1 && !call.import().is_constant(a))
    return call.call("linear.default", {a, Argument(transposed(call, b)), bias});
  Node* product = call.call("matmul.default", {a, b});
  return bias.node() ? call.call("add.Tensor", {product, bias}) : product;
}

namespace {

void conv(OnnxCall& call) { call.set(convolution(call, call.tensor(0), call.tensor(1), call.optional_tensor(2))); }

// The paddings of both sides are told, or follow from the sizes of the output.
void pad_to_output(OnnxCall& call, OnnxWindow& window, std::vector<int64_t>& output_padding) {
  const std::string automatic = call.text("auto_pad", "NOTSET");
  std::vector<int64_t> wanted = call.integers("output_shape", {});
  if (wanted.size() == window.axes() + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (wanted.empty() && !is_same) return;
  if (!wanted.empty() && wanted.size() != window.axes()) call.refuse("has an output_shape of ", wanted.size(), " axes");
  for (size_t i = 0; i < window.axes(); ++i) {
    int64_t total = window.reach(i) - window.strides[i] + output_padding[i];
    if (!wanted.empty()) {
      const auto size = call.extent(call.tensor(0), i + 2).constant();
      if (!size) call.refuse("has an output_shape for an axis whose size is open");
      if (wanted[i] < 1 || wanted[i] > INT32_MAX) call.refuse("has the output_shape ", wanted[i]);
      total += *size * window.strides[i] - wanted[i];
    }
    if (total < 0 && !wanted.empty()) output_padding[i] -= total;  // more than the convolution makes
    total = std::max<int64_t>(total, 0);
    const int64_t half = total / 2;
    window.begin[i] = automatic == "SAME_UPPER" ? half : total - half;
    window.end[i] = total - *window.begin[i].constant();
  }
}

void conv_transpose(OnnxCall& call) {
  Node *input = call.tensor(0), *weight = call.tensor(1);
  OnnxWindow window = window_of(call, input, spatial_sizes(call, weight));
  const size_t axes = window.axes();
  std::vector<int64_t> output_padding = call.integers("output_padding", std::vector<int64_t>(axes, 0));
  if (output_padding.size() != axes) call.refuse("has an output_padding of ", output_padding.size(), " axes");
  for (const int64_t pad : output_padding)
    if (pad < 0 || pad > INT32_MAX) call.refuse("has the output_padding ", pad);
  pad_to_output(call, window, output_padding);
  // What is padded on one side only is cut off behind.
  std::vector<int64_t> padding, beyond(2 * axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    const auto begin = window.begin[i].constant(), end = window.end[i].constant();
    if (!begin || !end || *begin < 0 || *end < 0) call.refuse("has paddings that are negative or open");
    padding.push_back(std::min(*begin, *end));
    // PyTorch pads its output by less than a stride.
    const int64_t most = std::max(window.strides[i], window.dilations[i]) - 1;
    if (output_padding[i] > most) {
      const int64_t less = std::min(padding[i], output_padding[i] - most);
      padding[i] -= less;
      output_padding[i] -= std::min(output_padding[i], less);
    }
    // More than that no input reaches: the bias is there.
    beyond[2 * (axes - 1 - i) + 1] = std::max<int64_t>(output_padding[i] - most, 0);
    output_padding[i] = std::min(output_padding[i], most);
  }
  const bool reaches_all = std::all_of(beyond.begin(), beyond.end(), [](int64_t pad) { return pad == 0; });
  Node* out = call.call(
      with_axes("conv_transpose", axes, axes == 1 ? "default" : "input"),
      {input, weight, reaches_all ? call.optional_tensor(2) : Argument(), call.list(window.strides),
       OnnxCall::list(padding), OnnxCall::list(output_padding), call.integer("group", 1), call.list(window.dilations)});
  if (!reaches_all) out = call.call("pad.default", {out, OnnxCall::list(beyond)});
  if (!reaches_all && call.has(2)) {
    std::vector<int64_t> column(axes + 1, 1);
    column[0] = -1;
    out = call.call("add.Tensor", {out, call.call("reshape.default", {call.tensor(2), OnnxCall::list(column)})});
  }
  for (size_t i = 0; i < axes; ++i) {
    const int64_t begin = *window.begin[i].constant() - padding[i], end = *window.end[i].constant() - padding[i];
    if (begin != 0 || end != 0)
      out = call.call("slice.Tensor", {out, static_cast<int64_t>(i) + 2, begin, end == 0 ? INT64_MAX : -end});
  }
  call.set(out);
}

void gemm(OnnxCall& call) {
  Node* a = call.integer("transA", 0) ? call.call("t.default", {call.tensor(0)}) : call.tensor(0);
  Node* b = call.tensor(1);
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  const bool is_transposed = call.integer("transB", 0) != 0;
  if (call.meta_of(b).sizes.size() != 2)
    call.refuse("multiplies by a tensor of ", call.meta_of(b).sizes.size(), " axes, wanted a matrix");
  const bool adds_vector = call.has(2) && beta == 1 && call.rank(2) == 1 &&
                           call.extent(call.tensor(2), 0) == call.extent(b, is_transposed ? 0 : 1);
  if (alpha == 1 && (!call.has(2) || adds_vector)) {
    call.set(
        call.call("linear.default", {a, Argument(is_transposed ? b : transposed(call, b)), call.optional_tensor(2)}));
    return;
  }
  // Integers stay integers.
  const auto factor = [&](double value) {
    return is_floating(call.meta_of(a).dtype) || value != std::floor(value) ? Argument(value)
                                                                            : Argument(static_cast<int64_t>(value));
  };
  Node* product = call.call("mm.default", {a, Argument(is_transposed ? call.call("t.default", {b}) : b)});
  if (alpha != 1) product = call.call("mul.Tensor", {product, factor(alpha)});
  if (call.has(2)) product = call.call("add.Tensor", {product, call.tensor(2)}, "alpha", factor(beta));
  call.set(product);
}

void matmul(OnnxCall& call) { call.set(matrix_product(call, call.tensor(0), call.tensor(1))); }

// The statistics are those of the batch; the running ones are mixed with them. Where nobody reads those, and they are
// constants, it is PyTorch's form in training mode.
void batch_norm_of_training(OnnxCall& call) {
  Node* input = call.tensor(0);
  const auto is_read = [&](size_t i) { return call.has_output(i) && call.num_uses(i) > 0; };
  if (!is_read(1) && !is_read(2) && call.is_constant(3) && call.is_constant(4)) {
    // PyTorch's form changes them, and files have equal tensors once: each gets its own.
    const auto own = [&](size_t i) { return call.import().constant(call.constant(i).clone(), "running"); };
    call.set(call.call("batch_norm.default", {input, call.tensor(1), call.tensor(2), own(3), own(4), true,
                                              1 - call.real("momentum", 0.9), call.real("epsilon", 1e-5), true}));
    return;
  }
  std::vector<int64_t> others;
  for (int64_t i = 0; i < static_cast<int64_t>(call.rank(0)); ++i)
    if (i != 1) others.push_back(i);
  const double momentum = call.real("momentum", 0.9);
  const auto mixed = [&](Node* running, Node* current) {
    Node* kept = call.call("mul.Tensor", {running, momentum});
    return call.call("add.Tensor", {kept, call.call("mul.Tensor", {current, 1 - momentum})});
  };
  Node* batch_mean = call.call("mean.dim", {input, OnnxCall::list(others)});
  Node* batch_variance = call.call("var.dim", {input, OnnxCall::list(others), false});
  call.set(call.call("batch_norm.default", {input, call.tensor(1), call.tensor(2), batch_mean, batch_variance, false,
                                            momentum, call.real("epsilon", 1e-5), true}));
  if (is_read(1)) call.set(mixed(call.tensor(3), batch_mean), 1);
  if (is_read(2)) call.set(mixed(call.tensor(4), batch_variance), 2);
}

void batch_norm(OnnxCall& call) {
  if (call.integer("spatial", 1) == 0) call.refuse("has statistics of every position (spatial = 0)");
  // Older files list running statistics as outputs, which nobody reads after training.
  for (size_t i = 1; i < call.num_outputs(); ++i)
    if (call.integer("training_mode", 0) == 0 && call.has_output(i) && call.num_uses(i) > 0)
      call.refuse("gives its statistics, which only training does");
  if (call.integer("training_mode", 0) != 0) return batch_norm_of_training(call);
  call.set(
      call.call("batch_norm.default", {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(4),
                                       false, call.real("momentum", 0.9), call.real("epsilon", 1e-5), true}));
}

void instance_norm(OnnxCall& call) {
  call.set(call.call("instance_norm.default", {call.tensor(0), call.tensor(1), call.tensor(2), Argument(), Argument(),
                                               true, 0.1, call.real("epsilon", 1e-5), true}));
}

void group_norm(OnnxCall& call) {
  const int64_t groups = call.integer("num_groups", 1);
  Node *scale = call.tensor(1), *bias = call.tensor(2);
  if (call.opset() < 21) {
    // One number for a group.
    const auto channels = call.extent(call.tensor(0), 1).constant();
    if (!channels || groups < 1 || *channels % groups != 0) call.refuse("has ", groups, " groups of unequal size");
    const auto spread = [&](Node* node) {
      return *channels == groups ? node : call.call("repeat_interleave.self_int", {node, *channels / groups, 0});
    };
    scale = spread(scale);
    bias = spread(bias);
  }
  call.set(call.call("group_norm.default", {call.tensor(0), groups, scale, bias, call.real("epsilon", 1e-5)}));
}

// What scale and bias have is broadcast to the sizes that are normalized, which PyTorch's operators want exactly.
bool fits(OnnxCall& call, Node* parameter, const SymShape& sizes) { return call.meta_of(parameter).sizes == sizes; }

void layer_norm(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", -1), call.rank(0));
  const SymShape sizes(call.meta(0).sizes.begin() + axis, call.meta(0).sizes.end());
  const std::vector<SymInt> all = sizes_of(call, call.tensor(0));
  Node *scale = call.tensor(1), *bias = call.has(2) ? call.tensor(2) : nullptr;
  const bool whole = fits(call, scale, sizes) && (!bias || fits(call, bias, sizes));
  const Argument weight = whole ? Argument(scale) : Argument(), offset = whole && bias ? Argument(bias) : Argument();
  const double epsilon = call.real("epsilon", 1e-5);
  Node* out = nullptr;
  if ((call.has_output(1) && call.num_uses(1) > 0) || (call.has_output(2) && call.num_uses(2) > 0)) {
    Node* results =
        call.call_as_it_is("native_layer_norm.default", {call.tensor(0), call.list(sizes), weight, offset, epsilon});
    out = item(call, results, 0);
    call.set(item(call, results, 1), 1);
    call.set(item(call, results, 2), 2);
  } else {
    out = call.call("layer_norm.default", {call.tensor(0), call.list(sizes), weight, offset, epsilon});
  }
  if (!whole) {
    out = call.call("mul.Tensor", {out, scale});
    if (bias) out = call.call("add.Tensor", {out, bias});
  }
  call.set(out);
}

void rms_norm(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", -1), call.rank(0));
  const SymShape sizes(call.meta(0).sizes.begin() + axis, call.meta(0).sizes.end());
  const std::vector<SymInt> all = sizes_of(call, call.tensor(0));
  Node* scale = call.tensor(1);
  const bool whole = fits(call, scale, sizes);
  Node* out = call.call("rms_norm.default", {call.tensor(0), call.list(sizes), whole ? Argument(scale) : Argument(),
                                             call.real("epsilon", 1e-5)});
  call.set(whole ? out : call.call("mul.Tensor", {out, scale}));
}

void lp_normalization(OnnxCall& call) {
  const Argument axes = Argument::List{call.axis(call.integer("axis", -1), call.rank(0))};
  Node* norm = call.call("linalg_vector_norm.default", {call.tensor(0), call.integer("p", 2), axes, true});
  // Zeros stay zeros.
  norm = call.call("clamp_min.default", {norm, 1e-37});
  call.set(call.call("div.Tensor", {call.tensor(0), norm}));
}

void mean_variance_normalization(OnnxCall& call) {
  const Argument axes = OnnxCall::list(call.integers("axes", {0, 2, 3}));
  Node* difference = call.call("sub.Tensor", {call.tensor(0), call.call("mean.dim", {call.tensor(0), axes, true})});
  Node* variance = call.call("var.dim", {call.tensor(0), axes, false, true});
  Node* deviation = call.call("add.Tensor", {call.call("sqrt.default", {variance}), 1e-9});
  call.set(call.call("div.Tensor", {difference, deviation}));
}

// Divides by a power of the squares' mean over neighbouring channels.
void local_response_norm(OnnxCall& call) {
  Node* input = call.tensor(0);
  const int64_t size = call.integer("size", 0);
  if (size < 1 || size > INT32_MAX || call.rank(0) < 3)
    call.refuse("has the size ", size, " for ", call.rank(0), " axes");
  const int64_t before = (size - 1) / 2;
  Node* squares = call.call("mul.Tensor", {input, input});
  Node* rows = call.call("unsqueeze.default", {call.call("flatten.using_ints", {squares, 2}), 1});
  rows = call.call("pad.default", {rows, OnnxCall::list(std::vector<int64_t>{0, 0, before, size - 1 - before})});
  Node* means = call.call("avg_pool2d.default", {rows, OnnxCall::list(std::vector<int64_t>{size, 1}),
                                                 OnnxCall::list(std::vector<int64_t>{1, 1})});
  means = call.call("reshape_as.default", {means, input});
  Node* base = call.call("mul.Tensor", {means, call.real("alpha", 1e-4)});
  base = call.call("add.Tensor", {base, call.real("bias", 1)});
  call.set(call.call("div.Tensor", {input, call.call("pow.Tensor_Scalar", {base, call.real("beta", 0.75)})}));
}

// The linear layer that the product with a constant is; null if it is none.
Node* linear_of_einsum(OnnxCall& call) {
  if (call.num_inputs() != 2 || call.is_constant(0) == call.is_constant(1)) return nullptr;
  const size_t weight = call.is_constant(0) ? 0 : 1;
  const std::optional<EinsumLayer> layer =
      layer_of_einsum(call.text("equation", ""), call.meta(1 - weight), call.meta(weight), weight);
  if (!layer) return nullptr;
  return linear_of_einsum(*layer, call.tensor(1 - weight), call.tensor(weight),
                          [&](std::string_view name, std::vector<Argument> args) {
                            Arguments all;
                            all.list = std::move(args);
                            return call.call(name, all);
                          });
}

void einsum(OnnxCall& call) {
  if (Node* layer = linear_of_einsum(call)) return call.set(layer);
  Argument::List all;
  for (size_t i = 0; i < call.num_inputs(); ++i) all.emplace_back(call.tensor(i));
  call.set(call.call("einsum.default", {call.text("equation", ""), Argument(std::move(all))}));
}

constexpr OnnxOperator kLayerOperators[] = {
    {"BatchNormalization", batch_norm, nullptr},
    {"Conv", conv, nullptr},
    {"ConvTranspose", conv_transpose, nullptr},
    {"Einsum", einsum, nullptr},
    {"Gemm", gemm, nullptr},
    {"GroupNormalization", group_norm, nullptr},
    {"InstanceNormalization", instance_norm, nullptr},
    {"LRN", local_response_norm, nullptr},
    {"LayerNormalization", layer_norm, nullptr},
    {"LpNormalization", lp_normalization, nullptr},
    {"MatMul", matmul, nullptr},
    {"MeanVarianceNormalization", mean_variance_normalization, nullptr},
    {"RMSNormalization", rms_norm, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_layer_operators() { return kLayerOperators; }

}  // namespace qdq
