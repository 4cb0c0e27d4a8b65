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
  norm.attributes = {onnx_integer("epsilon", 0)};
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

// What torch.onnx.export writes for x.var(1), of a known length or of one that a run tells; with `n` and `less`, which
// are constants of a known length alone.
format::OnnxFile variance(bool is_open, float n, float less) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back(
      {"x", DType::kF32,
       Dims{{2, ""}, is_open ? format::OnnxDimension{std::nullopt, "length"} : format::OnnxDimension{5, ""}}});
  format::OnnxNode middle = mean("x", "mean", {1}), average = mean("square", "average", {1}),
                   product = onnx_node("ReduceProd", {"along"}, "all"), cast = onnx_node("Cast", {"all"}, "count");
  average.attributes.push_back(onnx_integer("keepdims", 0));
  product.attributes = {onnx_integer("keepdims", 0)};
  cast.attributes = {onnx_integer("to", 1)};
  file.initializers = {{"axes", Tensor::of<int64_t>({1}, {1})}, {"one", Tensor::full({}, DType::kF32, 1)}};
  file.nodes = {middle, onnx_node("Sub", {"x", "mean"}, "apart"), onnx_node("Mul", {"apart", "apart"}, "square"),
                average};
  if (is_open) {
    for (const format::OnnxNode& node :
         {onnx_node("Shape", {"x"}, "shape"), onnx_node("Gather", {"shape", "axes"}, "along"), product, cast,
          onnx_node("Sub", {"count", "one"}, "less")})
      file.nodes.push_back(node);
  } else {
    file.initializers.emplace_back("count", Tensor::full({}, DType::kF32, n));
    file.initializers.emplace_back("less", Tensor::full({}, DType::kF32, less));
  }
  file.nodes.push_back(onnx_node("Mul", {"average", "count"}, "sum"));
  file.nodes.push_back(onnx_node("Div", {"sum", "less"}, "y"));
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return file;
}

TEST(OnnxNorms, VariancesAreOneOperator) {
  const Tensor x = Tensor::of<float>({2, 5}, {1, 2, 3, 4, 5, 0, 0, 0, 0, 10});
  const std::string operator_name = "torch.ops.aten.var.correction";
  for (const bool is_open : {false, true}) {
    const Program program = load_onnx(format::write_onnx_file(variance(is_open, 5, 4)));
    const std::vector<std::string> calls = calls_of(program);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), operator_name), 1);
    for (const char* part : {"sub.Tensor", "mul.Tensor", "div.Tensor"})
      EXPECT_EQ(std::count(calls.begin(), calls.end(), std::string("torch.ops.aten.") + part), 0) << part;
    EXPECT_TRUE(bitwise_equal(run(program, x).at(0), Tensor::of<float>({2}, {2.5F, 20})));
    EXPECT_TRUE(bitwise_equal(run(load_onnx(save_onnx(program)), x).at(0), Tensor::of<float>({2}, {2.5F, 20})));
  }
  // Another factor stays behind it.
  const Program other = load_onnx(format::write_onnx_file(variance(false, 6, 4)));
  EXPECT_EQ(calls_of(other),
            (std::vector<std::string>{operator_name, "torch.ops.aten.mul.Tensor", "torch.ops.aten.div.Tensor"}));
  EXPECT_TRUE(bitwise_equal(run(other, x).at(0), Tensor::of<float>({2}, {3, 24})));
}

// ONNX Runtime refuses LayerNormalization over a single element.
TEST(OnnxNorms, OfOneElementAreWrittenAsTheirBias) {
  for (const bool has_bias : {false, true}) {
    format::OnnxFile file;
    file.ir_version = 8;
    file.opsets = {{"", 17}};
    file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "batch"}, {3, ""}, {1, ""}}});
    file.initializers = {{"weight", Tensor::full({1}, DType::kF32, 2)}, {"bias", Tensor::full({1}, DType::kF32, 0.5)}};
    file.nodes = {onnx_node("LayerNormalization", {"x", "weight"}, "y")};
    if (has_bias) file.nodes[0].inputs.emplace_back("bias");
    file.outputs.push_back({"y", std::nullopt, std::nullopt});
    const std::vector<std::byte> saved = save_onnx(load_onnx(format::write_onnx_file(file)));
    for (const format::OnnxNode& node : format::read_onnx_file(saved).nodes)
      EXPECT_NE(node.op_type, "LayerNormalization");
    const Tensor x = Tensor::of<float>({2, 3, 1}, {1, -2, 3, 4, 5, 6});
    EXPECT_TRUE(bitwise_equal(Interpreter(load_onnx(saved), {}).run({{x}})[0].contiguous(),
                              Tensor::full({2, 3, 1}, DType::kF32, has_bias ? 0.5 : 0)));
  }
}

}  // namespace
}  // namespace qdq::onnx_norms_test
