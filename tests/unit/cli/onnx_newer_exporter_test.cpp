// What torch.onnx.export(dynamo=True) writes otherwise than PyTorch's older exporter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_newer_exporter_test {
namespace {

using Dims = std::vector<format::OnnxDimension>;

format::OnnxFile file_of(std::vector<format::OnnxNode> nodes) {
  format::OnnxFile file;
  file.ir_version = 10;
  file.opsets = {{"", 18}};
  file.nodes = std::move(nodes);
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return file;
}

const SymShape& sizes_of_output(const Program& program) {
  return program.graph->output_node()->arg(0).list()[0].node()->meta.val.tensor()->sizes;
}

Tensor numbers(const Shape& sizes, int64_t step) {
  Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>((i * step) % 11) / 4 - 1;
  return out;
}

// expand(batch, -1, 4), as a class token is put in front of patches: -1 is made 1 by Abs.
TEST(OnnxNewerExporter, SizesOfAnExpandAreKnown) {
  format::OnnxFile file =
      file_of({onnx_node("Shape", {"x"}, "shape"), onnx_node("Gather", {"shape", "first"}, "batch"),
               onnx_node("Concat", {"batch", "rest"}, "sizes"), onnx_node("Abs", {"sizes"}, "all"),
               onnx_node("Expand", {"token", "all"}, "tokens"), onnx_node("Concat", {"tokens", "x"}, "y")});
  file.nodes[2].attributes = {onnx_integer("axis", 0)};
  file.nodes[5].attributes = {onnx_integer("axis", 1)};
  file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "batch"}, {2, ""}, {4, ""}}});
  file.initializers = {{"first", Tensor::of<int64_t>({1}, {0})},
                       {"rest", Tensor::of<int64_t>({2}, {-1, -1})},
                       {"token", numbers({1, 1, 4}, 3)}};
  const Program program = load_onnx(format::write_onnx_file(file));
  const SymInt batch = program.graph->find("x")->meta.val.tensor()->sizes[0];
  EXPECT_EQ(sizes_of_output(program), (SymShape{batch, 3, 4}));
  for (const std::string& call : calls_of(program)) EXPECT_EQ(call.find("item"), std::string::npos) << call;
}

// Attention over q, k, v [batch, 2, 3, 4]: the keys are turned in a tensor of three axes.
TEST(OnnxNewerExporter, AttentionIsOneOperator) {
  format::OnnxFile file = file_of(
      {onnx_node("Reshape", {"k", "rows"}, "k_rows"), onnx_node("Transpose", {"k_rows"}, "turned"),
       onnx_node("Reshape", {"turned", "heads"}, "k_turned"), onnx_node("Mul", {"q", "root"}, "q_scaled"),
       onnx_node("Mul", {"k_turned", "root"}, "k_scaled"), onnx_node("MatMul", {"q_scaled", "k_scaled"}, "scores"),
       onnx_node("Softmax", {"scores"}, "chances"), onnx_node("MatMul", {"chances", "v"}, "y")});
  file.nodes[1].attributes = {onnx_integers("perm", {0, 2, 1})};
  file.nodes[6].attributes = {onnx_integer("axis", -1)};
  for (const char* name : {"q", "k", "v"})
    file.inputs.push_back({name, DType::kF32, Dims{{std::nullopt, "batch"}, {2, ""}, {3, ""}, {4, ""}}});
  file.initializers = {{"rows", Tensor::of<int64_t>({3}, {-1, 3, 4})},
                       {"heads", Tensor::of<int64_t>({4}, {-1, 2, 4, 3})},
                       {"root", Tensor::full({}, DType::kF32, std::sqrt(0.5))}};
  const std::string attention = "torch.ops.aten.scaled_dot_product_attention.default";
  const Program program = load_onnx(format::write_onnx_file(file));
  EXPECT_EQ(calls_of(program), std::vector<std::string>{attention});
  const std::vector<Tensor> inputs = {numbers({5, 2, 3, 4}, 3), numbers({5, 2, 3, 4}, 5), numbers({5, 2, 3, 4}, 7)};
  const Tensor y = Interpreter(program, {}).run(inputs).at(0);
  EXPECT_TRUE(bitwise_equal(Interpreter(load_onnx(save_onnx(program)), {}).run(inputs).at(0), y));
  // Keys that change places between heads are no turned keys.
  file.initializers[1].second = Tensor::of<int64_t>({4}, {2, -1, 4, 3});
  file.inputs[0].dims = file.inputs[2].dims = Dims{{2, ""}, {std::nullopt, "batch"}, {3, ""}, {4, ""}};
  const std::vector<std::string> other = calls_of(load_onnx(format::write_onnx_file(file)));
  EXPECT_EQ(std::count(other.begin(), other.end(), attention), 0);
}

// The first of the three matrices in the weight of a multi-head attention whose query is another tensor than its keys.
TEST(OnnxNewerExporter, PartsOfAWeightAreWeights) {
  format::OnnxFile file =
      file_of({onnx_node("Split", {"weight", "thirds"}, "w_q"), onnx_node("Split", {"bias", "thirds"}, "b_q"),
               onnx_node("Transpose", {"w_q"}, "turned"), onnx_node("MatMul", {"x", "turned"}, "product"),
               onnx_node("Add", {"product", "b_q"}, "y")});
  for (size_t i : {0, 1})
    for (const char* part : {"_k", "_v"}) file.nodes[i].outputs.push_back(file.nodes[i].outputs[0] + part);
  file.nodes[2].attributes = {onnx_integers("perm", {1, 0})};
  file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "length"}, {2, ""}, {4, ""}}});
  file.initializers = {
      {"weight", numbers({12, 4}, 3)}, {"bias", numbers({12}, 5)}, {"thirds", Tensor::of<int64_t>({3}, {4, 4, 4})}};
  const Program program = load_onnx(format::write_onnx_file(file));
  EXPECT_EQ(calls_of(program), std::vector<std::string>{"torch.ops.aten.linear.default"});
  // Parts that do not fill the axis are still refused.
  file.initializers[2].second = Tensor::of<int64_t>({3}, {4, 4, 5});
  EXPECT_THROW(load_onnx(format::write_onnx_file(file)), Error);
}

}  // namespace
}  // namespace qdq::onnx_newer_exporter_test
