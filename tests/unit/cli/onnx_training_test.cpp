// ONNX models that were exported in training mode: read as PyTorch's operators in that mode, refused where they are
// quantized, and moved to their inference form on request.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "io/pt2.h"
#include "op/infer.h"
#include "unit/cli/cli_fixture.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_training_test {
namespace {

// x [batch, 4] -> MatMul -> BatchNormalization -> Dropout -> y, the last two training.
std::vector<std::byte> trained_model() {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  format::OnnxNode norm{"norm", "BatchNormalization", "", {"m", "one", "zero", "zero", "one"}, {"n", "mean", "var"}, {},
                        {}};
  norm.attributes = {onnx_integer("training_mode", 1)};
  file.nodes = {{"product", "MatMul", "", {"x", "weight"}, {"m"}, {}, {}},
                norm,
                {"drop", "Dropout", "", {"n", "", "training"}, {"y"}, {}, {}}};
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{std::nullopt, "batch"}, {4, ""}}});
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  file.initializers.emplace_back("weight", noise({4, 4}, 5));
  file.initializers.emplace_back("one", Tensor::full({4}, DType::kF32, 1));
  file.initializers.emplace_back("zero", Tensor::full({4}, DType::kF32, 0));
  file.initializers.emplace_back("training", Tensor::full({}, DType::kBool, 1));
  return format::write_onnx_file(file);
}

TEST_F(CliTest, AnOnnxModelInTrainingModeIsRefusedUnlessItIsAllowed) {
  host.contents["training.onnx"] = trained_model();
  const std::vector<format::NamedTensor> samples{{"x", noise({6, 4}, 9)}};
  host.contents["x.npz"] = format::write_npz(samples);
  for (const char* out : {"out.onnx", "out.pt2"}) {
    EXPECT_EQ(run({"quantize", "training.onnx", "--calibrate", "x.npz", "-o", out}), 1);
    EXPECT_NE(host.err.find("exported in training mode: batch_norm uses the statistics of each batch"),
              std::string::npos)
        << host.err;
    EXPECT_FALSE(host.contents.contains(out));
    EXPECT_EQ(run({"quantize", "training.onnx", "--calibrate", "x.npz", "-o", out, "--allow-training-mode"}), 0)
        << host.err;
    EXPECT_EQ(host.err.find("does nothing"), std::string::npos) << host.err;
    EXPECT_NE(host.out.find("layers quantized  1 of 1"), std::string::npos) << host.out;
  }
}

// Networks with standardized weights (NFNet, BiT) compute them by a batch norm in training mode without running
// statistics, which has those of what it is given in inference, too.
TEST_F(CliTest, ABatchNormWithoutRunningStatisticsIsNoTrainingMode) {
  Program program;
  Graph& graph = *program.graph;
  const auto parameter = [&](const std::string& name, Tensor tensor) {
    Node* node = graph.get_attr(name, name);
    node->meta.val.value = meta_of(tensor);
    Attribute attribute;
    attribute.name = name;
    attribute.tensor = std::move(tensor);
    program.add_attribute(std::move(attribute));
    return node;
  };
  const auto list = [](std::initializer_list<int64_t> values) { return Argument::List(values.begin(), values.end()); };
  Node* weight = parameter("weight", noise({4, 3, 3, 3}, 5));
  Node* gain = parameter("gain", noise({4}, 6));
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 3, 6, 6}, {}, false};
  Node* rows = graph.call("torch.ops.aten.reshape.default", {weight, list({1, 4, -1})});
  const auto norm = [&](Node* of, const Argument& scale) {
    return graph.call("torch.ops.aten.batch_norm.default", {of, scale, {}, {}, {}, true, 0.0, 1e-6, true});
  };
  Node* standard = graph.call("torch.ops.aten.reshape.default", {norm(rows, gain), list({4, 3, 3, 3})});
  Node* y = norm(graph.call("torch.ops.aten.conv2d.default", {x, standard}), {});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})});
  infer_shapes(program);
  const std::vector<Tensor> inputs = {noise({2, 3, 6, 6}, 9)};
  const Tensor wanted = Interpreter(program, {}).run(inputs).at(0).contiguous(),
               found = Interpreter(load_onnx(save_onnx(program)), {}).run(inputs).at(0).contiguous();
  ASSERT_EQ(found.sizes(), wanted.sizes());
  for (int64_t i = 0; i < found.numel(); ++i) EXPECT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-4);
  host.contents["standard.pt2"] = save_pt2(program);
  host.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", inputs[0]}});
  EXPECT_EQ(run({"quantize", "standard.pt2", "--calibrate", "x.npz", "-o", "out.onnx"}), 0) << host.err;
  EXPECT_NE(host.out.find("layers quantized  1 of 1"), std::string::npos) << host.out;
  EXPECT_EQ(run({"quantize", "standard.pt2", "--calibrate", "x.npz", "-o", "out.onnx", "--allow-training-mode"}), 0);
  EXPECT_NE(host.err.find("--allow-training-mode does nothing"), std::string::npos) << host.err;
}

// As PyTorch counts its momentum, and as a model that is meant so is written.
TEST_F(CliTest, ABatchNormInTrainingModeIsReadAndWrittenSo) {
  const Program once = load_onnx(trained_model()), twice = load_onnx(save_onnx(once));
  for (const Program* program : {&once, &twice}) {
    const Node* norm = program->graph->find("batch_norm");
    ASSERT_NE(norm, nullptr);
    EXPECT_TRUE(norm->arg(5).as<bool>());
    EXPECT_NEAR(norm->arg(6).as<double>(), 0.1, 1e-6);
    const Node* dropout = program->graph->find("dropout");
    ASSERT_NE(dropout, nullptr);
    EXPECT_EQ(dropout->arg(1).as<double>(), 0.5);
    EXPECT_TRUE(dropout->arg(2).as<bool>());
  }
}

// x [2, 1] -> BatchNormalization in training mode -> y. The scale is the running variance too, the bias the mean.
format::OnnxFile norm_of_shared_tensors() {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  format::OnnxNode norm{"norm", "BatchNormalization", "", {"x", "one", "zero", "zero", "one"}, {"y", "mean", "var"}, {},
                        {}};
  norm.attributes = {onnx_integer("training_mode", 1)};
  file.nodes = {norm};
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{2, ""}, {1, ""}}});
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return file;
}

void expect_normal(const format::OnnxFile& file, const std::vector<Tensor>& inputs) {
  const Tensor y = Interpreter(load_onnx(format::write_onnx_file(file)), {}).run(inputs).at(0);
  EXPECT_NEAR(y.data<float>()[0], -1, 1e-6);
  EXPECT_NEAR(y.data<float>()[1], 1, 1e-6);
}

// Exporters write equal tensors once; a run must not change the scale with the running variance.
TEST(OnnxTraining, WhatABatchNormKeepsIsNobodyElses) {
  format::OnnxFile file = norm_of_shared_tensors();
  file.initializers.emplace_back("one", Tensor::full({1}, DType::kF32, 1));
  file.initializers.emplace_back("zero", Tensor::full({1}, DType::kF32, 0));
  expect_normal(file, {Tensor::of<float>({2, 1}, {10, 30})});
}

// Graphs that compute both by one operator, as Keras's layer norm does, have one tensor for scale and variance.
TEST(OnnxTraining, WhatABatchNormIsGivenIsNotWrittenTo) {
  format::OnnxFile file = norm_of_shared_tensors();
  for (const char* name : {"one", "zero"})
    file.inputs.push_back({name, DType::kF32, std::vector<format::OnnxDimension>{{1, ""}}});
  const Tensor one = Tensor::of<float>({1}, {1}), zero = Tensor::of<float>({1}, {0});
  expect_normal(file, {Tensor::of<float>({2, 1}, {10, 30}), one, zero});
  EXPECT_EQ(one.data<float>()[0], 1);
  EXPECT_EQ(zero.data<float>()[0], 0);
}

}  // namespace
}  // namespace qdq::onnx_training_test
