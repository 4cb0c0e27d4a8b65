// Every ATen operator as ONNX: the golden calls of tests/golden/op as programs of one call, written and read back.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "contract/op_golden.h"
#include "exec/interpreter.h"
#include "io/onnx.h"
#include "op/facts.h"

namespace qdq {
namespace {

struct OneCall {
  Program program;
  std::vector<Tensor> inputs, outputs;
};

// Tensors become inputs, everything else an argument.
Argument argument_of_value(OneCall& made, const Value& value) {
  Graph& graph = *made.program.graph;
  return std::visit(
      [&](const auto& held) -> Argument {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>) return {};
        else if constexpr (std::is_same_v<T, Tensor>) {
          const std::string name = concat("x", made.inputs.size());
          Node* node = graph.create(Node::Op::kPlaceholder, name, {}, {}, name);
          node->meta.val.value = meta_of(held);
          made.inputs.push_back(held.contiguous());
          return node;
        } else if constexpr (std::is_same_v<T, Value::List>) {
          Argument::List list;
          for (const Value& each : held) list.push_back(argument_of_value(made, each));
          return list;
        } else if constexpr (std::is_same_v<T, SymInt>) return *held.constant();
        else return held;
      },
      value.variant());
}

constexpr size_t kAll = SIZE_MAX;

// The call with the first of its results, or all. Nothing where a result is no tensor.
std::optional<OneCall> one_call(const Json& entry, const OpDef& op, size_t most) {
  OneCall made;
  const Arguments given(entry);
  std::vector<Argument> args;
  Node::Kwargs kwargs;
  for (const Value& value : given.args) args.push_back(argument_of_value(made, value));
  for (const auto& [name, value] : given.kwargs) kwargs.emplace_back(name, argument_of_value(made, value));
  Graph& graph = *made.program.graph;
  Node* node = graph.call(op.target, std::move(args), std::move(kwargs));
  infer_value(*node);
  const Value wanted = golden().value(entry["out"]);
  Argument::List results;
  if (const Tensor* tensor = wanted.get_if<Tensor>()) {
    results.emplace_back(node);
    made.outputs.push_back(*tensor);
  } else if (const auto* list = wanted.get_if<Value::List>()) {
    for (size_t i = 0; i < std::min(most, list->size()); ++i) {
      const Tensor* tensor = (*list)[i].get_if<Tensor>();
      if (tensor == nullptr) return std::nullopt;
      Node* item = graph.call("operator.getitem", {node, static_cast<int64_t>(i)});
      infer_value(*item);
      results.emplace_back(item);
      made.outputs.push_back(*tensor);
    }
  }
  if (results.empty()) return std::nullopt;
  graph.create(Node::Op::kOutput, "output", {Argument(std::move(results))});
  return made;
}

std::string difference(const Tensor& found, const Tensor& wanted) {
  if (found.dtype() != wanted.dtype())
    return concat("dtype ", to_string(found.dtype()), ", wanted ", to_string(wanted.dtype()));
  if (found.sizes() != wanted.sizes())
    return concat("shape ", to_string(found.sizes()), ", wanted ", to_string(wanted.sizes()));
  const bool is_half = found.dtype() == DType::kF16 || found.dtype() == DType::kBF16;
  const double tolerance = !is_floating(found.dtype()) ? 0 : is_half ? 1e-2 : 1e-5;
  const Tensor a = found.to(DType::kF64).contiguous(), b = wanted.to(DType::kF64).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::fabs(x - y) <= tolerance * (1 + std::fabs(y)))) return concat("element ", i, " is ", x, ", wanted ", y);
  }
  return "";
}

// These have forms in pairs, which other tests hold.
bool is_of_quantization(const OpDef& op) {
  return op.family == Family::kQuantize || op.family == Family::kDequantize || op.family == Family::kChooseQParams;
}

// Of these no golden call is written.
constexpr std::string_view kWithoutForm[] = {"aten._conj.default",
                                             "aten._conj_physical.default",
                                             "aten._fft_c2c.default",
                                             "aten._fft_c2r.default",
                                             "aten._fft_r2c.default",
                                             "aten._trilinear.default",
                                             "aten._unique.default",
                                             "aten._unsafe_masked_index.default",
                                             "aten._weight_norm.default",
                                             "aten._weight_norm_interface.default",
                                             "aten.as_strided.default",
                                             "aten.as_strided_copy.default",
                                             "aten.as_strided_scatter.default",
                                             "aten.atleast_1d.Sequence",
                                             "aten.atleast_2d.Sequence",
                                             "aten.atleast_3d.Sequence",
                                             "aten.bincount.default",
                                             "aten.block_diag.default",
                                             "aten.cartesian_prod.default",
                                             "aten.complex.default",
                                             "aten.conj.default",
                                             "aten.conj_physical.default",
                                             "aten.conv_tbc.default",
                                             "aten.diagflat.default",
                                             "aten.diagonal_scatter.default",
                                             "aten.digamma.default",
                                             "aten.erfinv.default",
                                             "aten.fft_fft.default",
                                             "aten.fft_fft2.default",
                                             "aten.fft_fftn.default",
                                             "aten.fft_fftshift.default",
                                             "aten.fft_hfft.default",
                                             "aten.fft_ifft.default",
                                             "aten.fft_ifft2.default",
                                             "aten.fft_ifftn.default",
                                             "aten.fft_ifftshift.default",
                                             "aten.fft_ihfft.default",
                                             "aten.fft_irfft.default",
                                             "aten.fft_irfft2.default",
                                             "aten.fft_irfftn.default",
                                             "aten.fft_rfft.default",
                                             "aten.fft_rfft2.default",
                                             "aten.fft_rfftn.default",
                                             "aten.gcd.default",
                                             "aten.i0.default",
                                             "aten.imag.default",
                                             "aten.index_reduce.default",
                                             "aten.inverse.default",
                                             "aten.istft.default",
                                             "aten.lcm.default",
                                             "aten.lgamma.default",
                                             "aten.linalg_inv_ex.default",
                                             "aten.linalg_solve.default",
                                             "aten.linspace.Scalar_Tensor",
                                             "aten.linspace.Tensor_Scalar",
                                             "aten.linspace.Tensor_Tensor",
                                             "aten.msort.default",
                                             "aten.new_empty_strided.default",
                                             "aten.nonzero_static.default",
                                             "aten.norm_except_dim.default",
                                             "aten.polar.default",
                                             "aten.put.default",
                                             "aten.real.default",
                                             "aten.resolve_conj.default",
                                             "aten.rrelu_with_noise.default",
                                             "aten.stft.center",
                                             "aten.unfold_backward.default",
                                             "aten.unique_consecutive.default",
                                             "aten.unique_dim_consecutive.default",
                                             "aten.view_as_complex.default",
                                             "aten.view_as_real.default",
                                             "higher_order.out_dtype",
                                             "quantized_decomposed.fake_quant_per_channel.default"};

TEST(OnnxFormContract, WhatIsWrittenComputesTheSame) {
  std::set<std::string> written, refused;
  for (const Json& entry : golden().json()["cases"]) {
    SCOPED_TRACE(entry.dump().substr(0, 300));
    const OpDef* op = find_op(entry["op"].get<std::string>());
    if (op == nullptr || op->is_in_place() || entry.contains("refused") || is_of_quantization(*op) ||
        op->target == "operator.getitem")
      continue;
    std::optional<OneCall> made = one_call(entry, *op, kAll);
    if (!made) continue;
    const std::string name(short_name(plain_form(*op).target));
    std::vector<std::byte> bytes;
    try {
      try {
        bytes = save_onnx(made->program);
      } catch (const Error&) {
        if (made->outputs.size() == 1) throw;
        made = one_call(entry, *op, 1);
        bytes = save_onnx(made->program);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kUnsupported) << error.message;
      refused.insert(name);
      continue;
    }
    written.insert(name);
    try {
      const std::vector<Tensor> found = Interpreter(load_onnx(bytes), {}).run(made->inputs);
      ASSERT_EQ(found.size(), made->outputs.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(difference(found[i], made->outputs[i]), "") << "output " << i;
    } catch (const Error& error) {
      ADD_FAILURE() << error.message;
    }
  }
  std::string without, wanted;
  for (const std::string& name : refused)
    if (!written.contains(name)) without += name + "\n";
  for (const std::string_view name : kWithoutForm) wanted += std::string(name) + "\n";
  EXPECT_EQ(without, wanted);
  EXPECT_EQ(written.size(), 586U);
  for (const char* name :
       {"aten.embedding_bag.default", "aten.embedding_bag.padding_idx", "aten._embedding_bag.default"})
    EXPECT_FALSE(refused.contains(name)) << name << " in one of its modes, or with a padding";
}

}  // namespace
}  // namespace qdq
