// Norms that ONNX models spell out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "unit/cli/cli_fixture.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_norms_test {
namespace {

using Dims = std::vector<format::OnnxDimension>;

format::OnnxAttribute integer(const char* name, int64_t value) {
  format::OnnxAttribute out;
  out.name = name;
  out.kind = format::OnnxKind::kInt;
  out.i = value;
  return out;
}

format::OnnxNode mean(const std::string& input, const std::string& output, std::vector<int64_t> axes) {
  format::OnnxNode out = onnx_node("ReduceMean", {input}, output);
  format::OnnxAttribute attribute;
  attribute.name = "axes";
  attribute.kind = format::OnnxKind::kInts;
  attribute.ints = std::move(axes);
  out.attributes = {attribute};
  return out;
}

// What torch.onnx.export writes for nn.LayerNorm in opsets below 17.
format::OnnxFile layer_norm(std::vector<int64_t> axes, const Tensor& weight, const Tensor& bias) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 13}};
  file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "batch"}, {2, ""}, {4, ""}}});
  file.initializers = {{"two", Tensor::full({}, DType::kF32, 2)},
                       {"epsilon", Tensor::full({}, DType::kF32, 0.25)},
                       {"weight", weight},
                       {"bias", bias}};
  file.nodes = {mean("x", "mean", axes),
                onnx_node("Sub", {"x", "mean"}, "centered"),
                onnx_node("Pow", {"centered", "two"}, "square"),
                mean("square", "variance", axes),
                onnx_node("Add", {"variance", "epsilon"}, "more"),
                onnx_node("Sqrt", {"more"}, "root"),
                onnx_node("Div", {"centered", "root"}, "normal"),
                onnx_node("Mul", {"weight", "normal"}, "scaled"),
                onnx_node("Add", {"scaled", "bias"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return file;
}

std::vector<std::string> calls_of(const Program& program) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out.emplace_back(node->target());
  return out;
}

bool has(const Program& program, const std::string& name) {
  const std::vector<std::string> calls = calls_of(program);
  return std::find(calls.begin(), calls.end(), "torch.ops.aten." + name + ".default") != calls.end();
}

Tensor numbers(const Shape& sizes, int64_t step = 7) {
  Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>((i * step) % 11) / 4 - 1;
  return out;
}

std::vector<Tensor> run(const Program& program, const Tensor& x) {
  const std::vector<Tensor> inputs = {x};
  return Interpreter(program, {}).run(inputs);
}

// The norm in doubles, over groups of `length` elements in a row; an element's weight is that of its place / `each`.
void expect_norm(const Tensor& y, const Tensor& x, int64_t length, const Tensor& weight, const Tensor& bias,
                 int64_t each) {
  ASSERT_EQ(y.sizes(), x.sizes());
  for (int64_t row = 0; row < x.numel() / length; ++row) {
    const float* values = x.data<float>() + row * length;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < length; ++i) sum += values[i];
    for (int64_t i = 0; i < length; ++i) squares += (values[i] - sum / length) * (values[i] - sum / length);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t k = (row * length + i) / each % weight.numel();
      const double normal = (values[i] - sum / length) / std::sqrt(squares / length + 0.25);
      EXPECT_NEAR(y.data<float>()[row * length + i], normal * weight.data<float>()[k] + bias.data<float>()[k], 1e-5);
    }
  }
}

TEST(OnnxNorms, OfLastAxesAreLayerNorms) {
  const Tensor x = numbers({3, 2, 4});
  for (const Shape& sizes : {Shape{4}, Shape{2, 4}}) {
    const std::vector<int64_t> axes = sizes.size() == 1 ? std::vector<int64_t>{-1} : std::vector<int64_t>{1, 2};
    const Tensor weight = numbers(sizes), bias = numbers(sizes, 3);
    const Program program = load_onnx(format::write_onnx_file(layer_norm(axes, weight, bias)));
    EXPECT_EQ(calls_of(program), std::vector<std::string>{"torch.ops.aten.layer_norm.default"});
    expect_norm(run(program, x).at(0), x, weight.numel(), weight, bias, 1);
  }
}

TEST(OnnxNorms, OfOtherAxesWeightsAndReadersStayAsTheyAre) {
  const Tensor four = numbers({4}), one = numbers({1});
  const auto has_norm = [](const format::OnnxFile& file) {
    return has(load_onnx(format::write_onnx_file(file)), "layer_norm");
  };
  EXPECT_FALSE(has_norm(layer_norm({1}, four, four)));
  format::OnnxFile file = layer_norm({-1}, four, four);
  file.outputs.push_back({"centered", std::nullopt, std::nullopt});
  EXPECT_FALSE(has_norm(file));
  // A weight for all elements stays behind the norm.
  const std::vector<std::string> calls = calls_of(load_onnx(format::write_onnx_file(layer_norm({-1}, one, four))));
  EXPECT_EQ(calls, (std::vector<std::string>{"torch.ops.aten.layer_norm.default", "torch.ops.aten.mul.Tensor",
                                             "torch.ops.aten.add.Tensor"}));
}

// What torch.onnx.export writes for nn.GroupNorm.
TEST(OnnxNorms, OfGroupsAreGroupNorms) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 13}};
  file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "batch"}, {4, ""}, {3, ""}, {2, ""}}});
  const Tensor weight = numbers({4, 1, 1}), bias = numbers({4, 1, 1}, 3);
  file.initializers = {{"groups", Tensor::of<int64_t>({3}, {0, 2, -1})},
                       {"ones", Tensor::full({2}, DType::kF32, 1)},
                       {"zeros", Tensor::full({2}, DType::kF32, 0)},
                       {"weight", weight},
                       {"bias", bias}};
  format::OnnxNode norm = onnx_node("InstanceNormalization", {"rows", "ones", "zeros"}, "normal");
  norm.attributes = {integer("epsilon", 0)};
  norm.attributes[0].kind = format::OnnxKind::kFloat;
  norm.attributes[0].f = 0.25F;
  file.nodes = {onnx_node("Reshape", {"x", "groups"}, "rows"),
                norm,
                onnx_node("Shape", {"x"}, "shape"),
                onnx_node("Reshape", {"normal", "shape"}, "back"),
                onnx_node("Mul", {"back", "weight"}, "scaled"),
                onnx_node("Add", {"scaled", "bias"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  EXPECT_EQ(calls_of(program), std::vector<std::string>{"torch.ops.aten.group_norm.default"});
  const Tensor x = numbers({2, 4, 3, 2});
  expect_norm(run(program, x).at(0), x, 12, weight, bias, 6);
  // Statistics with a weight of their own are no group norm.
  file.initializers[1].second = Tensor::full({2}, DType::kF32, 2);
  EXPECT_FALSE(has(load_onnx(format::write_onnx_file(file)), "group_norm"));
}

}  // namespace
}  // namespace qdq::onnx_norms_test
