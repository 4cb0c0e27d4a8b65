// Operators of ONNX Runtime (com.microsoft) that its optimizers write: layers with what stands behind them, and
// functions of several elements at once.

#include "io/onnx/import.h"
#include "io/onnx/chains.h"
#include "io/onnx/window.h"

namespace qdq {
namespace {

// The activation behind a layer, by its name; `params` are its numbers in ONNX's order.
Node* activated(OnnxCall& call, Node* x, const std::string& name, const std::vector<double>& params) {
  const auto param = [&](size_t i, double usual) { return i < params.size() ? params[i] : usual; };
  if (name.empty()) return x;
  if (name == "Relu") return call.call("relu.default", {x});
  if (name == "Sigmoid") return call.call("sigmoid.default", {x});
  if (name == "Tanh") return call.call("tanh.default", {x});
  if (name == "LeakyRelu") return call.call("leaky_relu.default", {x, param(0, 0.01)});
  if (name == "Clip") return call.call("hardtanh.default", {x, param(0, -3.4e38), param(1, 3.4e38)});
  if (name == "Elu") return call.call("elu.default", {x, param(0, 1)});
  if (name == "ThresholdedRelu") return call.call("threshold.default", {x, param(0, 1), 0.0});
  if (name == "Softplus") return call.call("softplus.default", {x});
  if (name == "Softsign")
    return call.call("div.Tensor", {x, call.call("add.Tensor", {call.call("abs.default", {x}), 1})});
  if (name == "HardSigmoid") {
    Node* line = call.call("mul.Tensor", {x, param(0, 0.2)});
    return call.call("clamp.default", {call.call("add.Tensor", {line, param(1, 0.5)}), 0.0, 1.0});
  }
  call.refuse("has the activation ", name);
}

void fused_conv(OnnxCall& call) {
  Node* out = convolution(call, call.tensor(0), call.tensor(1), call.optional_tensor(2));
  if (call.has(3)) out = call.call("add.Tensor", {out, call.tensor(3)});
  std::vector<double> params;
  if (const auto* given = call.attribute("activation_params"))
    params.assign(given->floats.begin(), given->floats.end());
  call.set(activated(call, out, call.text("activation", ""), params));
}

// The importer of an operator of ONNX itself, which this one is an older copy of.
void as_onnx(OnnxCall& call) {
  const std::string_view name = call.op().name.substr(call.op().name.rfind('.') + 1);
  const OnnxOperator* same = find_onnx_operator(name);
  if (!same) call.refuse("is an operator that qdq does not read");
  same->import(call);
}

// [B, ..., M, K] with rows and columns exchanged, and the first axis behind the other axes of the batch.
Node* matrix_operand(OnnxCall& call, size_t i, const char* transposes, const char* transposes_batch) {
  Node* out = call.tensor(i);
  const auto rank = static_cast<int64_t>(call.rank(i));
  if (call.integer(transposes_batch, 0) != 0 && rank > 2) {
    std::vector<int64_t> order;
    for (int64_t axis = 1; axis < rank - 1; ++axis) order.push_back(axis);
    order.push_back(0);
    order.push_back(rank - 1);
    out = call.call("permute.default", {out, OnnxCall::list(order)});
  }
  if (call.integer(transposes, 0) == 0 || rank < 2) return out;
  return rank == 2 ? transposed(call, out) : call.call("transpose.int", {out, rank - 2, rank - 1});
}

void fused_matmul(OnnxCall& call) {
  Node* product = matrix_product(call, matrix_operand(call, 0, "transA", "transBatchA"),
                                 matrix_operand(call, 1, "transB", "transBatchB"));
  const double alpha = call.real("alpha", 1);
  call.set(alpha == 1 ? product : call.call("mul.Tensor", {product, alpha}));
}

void fused_gemm(OnnxCall& call) {
  Node* product = matrix_product(call, matrix_operand(call, 0, "transA", ""), matrix_operand(call, 1, "transB", ""));
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  if (alpha != 1) product = call.call("mul.Tensor", {product, alpha});
  if (call.has(2)) product = call.call("add.Tensor", {product, call.tensor(2)}, "alpha", beta);
  std::vector<double> params;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (call.attribute(name)) params.push_back(call.real(name, 0));
  call.set(activated(call, product, call.text("activation", ""), params));
}

Node* gelu(OnnxCall& call, Node* x, bool by_tanh) {
  return by_tanh ? call.call("gelu.default", {x}, "approximate", "tanh") : call.call("gelu.default", {x});
}

// The first input, and the others added as far as they are there.
Node* sum_of_inputs(OnnxCall& call, std::initializer_list<size_t> others) {
  Node* out = call.tensor(0);
  for (const size_t i : others)
    if (call.has(i)) out = call.call("add.Tensor", {out, call.tensor(i)});
  return out;
}

void erf_gelu(OnnxCall& call) { call.set(gelu(call, sum_of_inputs(call, {1}), false)); }
void fast_gelu(OnnxCall& call) { call.set(gelu(call, sum_of_inputs(call, {1}), true)); }

void quick_gelu(OnnxCall& call) {
  const double alpha = call.real("alpha", 1.702);
  if (alpha == 1) return call.set(call.call("silu.default", {call.tensor(0)}));
  Node* scaled = call.call("mul.Tensor", {call.tensor(0), alpha});
  call.set(call.call("mul.Tensor", {call.tensor(0), call.call("sigmoid.default", {scaled})}));
}

// The distances between the rows of two matrices, or their squares.
void row_distances(OnnxCall& call) {
  const std::string metric = call.text("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean")
    call.refuse("has the metric '", metric, "', ONNX Runtime knows 'euclidean' and 'sqeuclidean'");
  Node* out = call.call("cdist.default", {call.tensor(0), call.tensor(1)});
  call.set(metric == "euclidean" ? out : call.call("square.default", {out}));
}

void bias_add(OnnxCall& call) { call.set(sum_of_inputs(call, {1, 2})); }

void bias_split_gelu(OnnxCall& call) {
  Node* both = call.call_as_it_is("chunk.default", {sum_of_inputs(call, {1}), 2, -1});
  call.set(call.call("mul.Tensor", {item(call, both, 0), gelu(call, item(call, both, 1), false)}));
}

void bias_softmax(OnnxCall& call) {
  Node* sum = sum_of_inputs(call, {1});
  const auto rank = static_cast<int64_t>(call.rank(0));
  const int64_t axis = call.axis(call.integer("axis", 1), call.rank(0));
  if (axis == rank - 1) return call.set(call.call("softmax.int", {sum, axis}));
  Node* rows = call.call("flatten.using_ints", {sum, axis});
  call.set(call.call("reshape_as.default", {call.call("softmax.int", {rows, axis}), sum}));
}

// Sizes of the last axis, over which these normalize.
Argument last_size(OnnxCall& call, Node* x) {
  return call.list(std::vector<SymInt>{size_along(call, x, call.meta_of(x).sizes.size() - 1)});
}

void refuse_statistics(OnnxCall& call) {
  for (const size_t i : {size_t{1}, size_t{2}})
    if (call.has_output(i) && call.num_uses(i) > 0) call.refuse("gives mean or deviation, which only training reads");
}

void simplified_layer_norm(OnnxCall& call) {
  refuse_statistics(call);
  const int64_t axis = call.axis(call.integer("axis", -1), call.rank(0));
  const std::vector<SymInt> all = sizes_of(call, call.tensor(0));
  const std::vector<SymInt> sizes(all.begin() + axis, all.end());
  call.set(
      call.call("rms_norm.default", {call.tensor(0), call.list(sizes), call.tensor(1), call.real("epsilon", 1e-5)}));
}

void skip_layer_norm(OnnxCall& call) {
  refuse_statistics(call);
  Node* sum = sum_of_inputs(call, {1, 4});
  call.set(sum, 3);
  call.set(call.call("layer_norm.default", {sum, last_size(call, sum), call.tensor(2), call.optional_tensor(3),
                                            call.real("epsilon", 1e-12)}));
}

void skip_simplified_layer_norm(OnnxCall& call) {
  refuse_statistics(call);
  Node* sum = sum_of_inputs(call, {1, 3});
  call.set(sum, 3);
  call.set(call.call("rms_norm.default", {sum, last_size(call, sum), call.tensor(2), call.real("epsilon", 1e-12)}));
}

// Channels stand last but where they are said to stand first.
void group_norm_of(OnnxCall& call, Node* x) {
  const bool last = call.integer("channels_last", 1) != 0;
  Node* out = last ? call.call("movedim.int", {x, -1, 1}) : x;
  out = call.call("group_norm.default",
                  {out, call.integer("groups", 1), call.tensor(1), call.tensor(2), call.real("epsilon", 1e-5)});
  if (call.integer("activation", 0) != 0) out = call.call("silu.default", {out});
  call.set(last ? call.call("movedim.int", {out, 1, -1}) : out);
}
void group_norm_last(OnnxCall& call) { group_norm_of(call, call.tensor(0)); }
void skip_group_norm(OnnxCall& call) {
  Node* skip = call.tensor(3);
  if (call.meta_of(skip).sizes.size() == 2)
    skip = call.call("unsqueeze.default", {call.call("unsqueeze.default", {skip, 1}), 1});
  Node* sum = call.call("add.Tensor", {call.tensor(0), skip});
  if (call.has(4)) sum = call.call("add.Tensor", {sum, call.tensor(4)});
  call.set(sum, 1);
  group_norm_of(call, sum);
}

// Words, places and segments, each from its table, normalized.
void embed_layer_norm(OnnxCall& call) {
  const SymInt length = size_along(call, call.tensor(0), 1);
  Node* sum = call.call("embedding.default", {call.tensor(2), call.tensor(0)});
  Node* places = call.has(8) ? call.call("embedding.default", {call.tensor(3), call.tensor(8)})
                             : call.call("slice.Tensor", {call.tensor(3), 0, 0, call.import().size_argument(length)});
  sum = call.call("add.Tensor", {sum, places});
  if (call.has(4)) {
    if (!call.has(1)) call.refuse("has segments' values, but no segments");
    sum = call.call("add.Tensor", {sum, call.call("embedding.default", {call.tensor(4), call.tensor(1)})});
  }
  call.set(call.call("layer_norm.default", {sum, last_size(call, sum), call.tensor(5), call.optional_tensor(6),
                                            call.real("epsilon", 1e-12)}));
  call.set(sum, 2);
  if (!call.has_output(1) || call.num_uses(1) == 0) return;
  // How many words of each sample count.
  if (!call.has(7)) {
    const std::vector<SymInt> batch = {size_along(call, call.tensor(0), 0)};
    return call.set(call.call("full.default", {call.list(batch), 0}, "dtype", DType::kS32), 1);
  }
  Node* count = call.call("sum.dim_IntList", {call.tensor(7), OnnxCall::list(std::vector<int64_t>{1})});
  call.set(call.call("to.dtype", {count, DType::kS32}), 1);
}

constexpr OnnxOperator kMicrosoftOperators[] = {
    {"SimplifiedLayerNormalization", simplified_layer_norm, nullptr},
    {"com.microsoft.BiasAdd", bias_add, nullptr},
    {"com.microsoft.BiasGelu", erf_gelu, nullptr},
    {"com.microsoft.BiasSoftmax", bias_softmax, nullptr},
    {"com.microsoft.BiasSplitGelu", bias_split_gelu, nullptr},
    {"com.microsoft.CDist", row_distances, nullptr},
    {"com.microsoft.EmbedLayerNormalization", embed_layer_norm, nullptr},
    {"com.microsoft.FastGelu", fast_gelu, nullptr},
    {"com.microsoft.FusedConv", fused_conv, nullptr},
    {"com.microsoft.FusedGemm", fused_gemm, nullptr},
    {"com.microsoft.FusedMatMul", fused_matmul, nullptr},
    {"com.microsoft.GatherND", as_onnx, nullptr},
    {"com.microsoft.Gelu", erf_gelu, nullptr},
    {"com.microsoft.GridSample", as_onnx, nullptr},
    {"com.microsoft.GroupNorm", group_norm_last, nullptr},
    {"com.microsoft.Inverse", import_plain, "linalg_inv.default"},
    {"com.microsoft.Pad", as_onnx, nullptr},
    {"com.microsoft.QuickGelu", quick_gelu, nullptr},
    {"com.microsoft.Range", as_onnx, nullptr},
    {"com.microsoft.SimplifiedLayerNormalization", simplified_layer_norm, nullptr},
    {"com.microsoft.SkipGroupNorm", skip_group_norm, nullptr},
    {"com.microsoft.SkipLayerNormalization", skip_layer_norm, nullptr},
    {"com.microsoft.SkipSimplifiedLayerNormalization", skip_simplified_layer_norm, nullptr},
    {"com.microsoft.TransposeMatMul", fused_matmul, nullptr},
    {"com.microsoft.Trilu", as_onnx, nullptr},
    {"com.microsoft.Unique", as_onnx, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_microsoft_operators() { return kMicrosoftOperators; }

}  // namespace qdq
