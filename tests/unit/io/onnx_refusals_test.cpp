// What load_onnx refuses, and what it says then.
#include <gtest/gtest.h>

#include "format/onnx_file.h"
#include "io/onnx.h"
#include "unit/format/expect_error.h"

namespace qdq {
namespace {

format::OnnxFile model(std::vector<format::OnnxNode> nodes, std::vector<std::string> outputs = {"y"}) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.nodes = std::move(nodes);
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{std::nullopt, "batch"}, {4, ""}}});
  for (std::string& name : outputs) file.outputs.push_back({std::move(name), std::nullopt, std::nullopt});
  return file;
}

format::OnnxNode node(const char* op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                      const char* domain = "") {
  return {"the_" + outputs[0], op, domain, std::move(inputs), std::move(outputs), {}, {}};
}

void refuse(ErrorCode code, const char* words, const format::OnnxFile& file) {
  expect_error(code, words, [&] { load_onnx(format::write_onnx_file(file)); });
}

TEST(OnnxRefusals, AllUnknownOperatorsAtOnce) {
  refuse(
      ErrorCode::kUnsupported,
      "qdq cannot read 2 operators of this ONNX model: NonZero (nodes the_a, the_b); com.microsoft.Gelu (node the_y)",
      model({node("NonZero", {"x"}, {"a"}), node("NonZero", {"a"}, {"b"}), node("Relu", {"b"}, {"c"}),
             node("Gelu", {"c"}, {"y"}, "com.microsoft")}));
}

TEST(OnnxRefusals, Versions) {
  format::OnnxFile old = model({node("Relu", {"x"}, {"y"})});
  old.opsets = {{"", 12}};
  refuse(ErrorCode::kUnsupported, "of opset 12, qdq reads 13 and later", old);
}

TEST(OnnxRefusals, BrokenGraphs) {
  refuse(ErrorCode::kBadFile, "uses the value nothing", model({node("Relu", {"nothing"}, {"y"})}));
  refuse(ErrorCode::kBadFile, "is made twice", model({node("Relu", {"x"}, {"y"}), node("Relu", {"x"}, {"y"})}));
  refuse(ErrorCode::kBadFile, "lacks its input 1", model({node("Add", {"x"}, {"y"})}));
  refuse(ErrorCode::kBadFile, "no outputs", model({node("Relu", {"x"}, {"y"})}, {}));
  format::OnnxFile twice = model({node("Relu", {"x"}, {"y"})});
  twice.initializers = {{"w", Tensor::scalar(1.0f)}, {"w", Tensor::scalar(2.0f)}};
  refuse(ErrorCode::kBadFile, "two initializers w", twice);
}

TEST(OnnxRefusals, SettingsNameTheNode) {
  refuse(ErrorCode::kUnsupported,
         "the ONNX node the_y (Tile) wants a constant as its input 1, found a, which is computed",
         model({node("Relu", {"x"}, {"a"}), node("Tile", {"x", "a"}, {"y"})}));
}

// As torch.onnx.export(dynamo=True) of PyTorch 2.6 writes them, of strict and of other exports.
TEST(OnnxLoad, ModulesInMetadata) {
  format::OnnxFile file = model({node("Relu", {"x"}, {"y"})});
  for (const char* scopes : {"['', 'layer1', 'layer1.0', 'relu']",
                             "[\"L['self']\", \"L['self'].layer1\", \"L['self'].layer1.0\", 'relu']"}) {
    file.nodes[0].metadata = {{"namespace", "whatever"},
                              {"pkg.torch.onnx.class_hierarchy",
                               "['net.Net', 'torch.nn.modules.container.Sequential', "
                               "'torch.nn.modules.activation.ReLU', 'aten.relu.default']"},
                              {"pkg.torch.onnx.name_scopes", scopes}};
    const Program program = load_onnx(format::write_onnx_file(file));
    const std::vector<ModuleStackEntry> wanted = {
        {"L__self__", "", "net.Net"},
        {"L__self___layer1", "layer1", "torch.nn.modules.container.Sequential"},
        {"L__self___layer1_0", "layer1.0", "torch.nn.modules.activation.ReLU"}};
    EXPECT_EQ(program.graph->find("relu")->meta.nn_module_stack, wanted);
  }
}

// An initializer takes the place of an input of the same name, as files before ONNX 1.4 have them.
TEST(OnnxLoad, InitializersAmongTheInputs) {
  format::OnnxFile file = model({node("Add", {"x", "w"}, {"y"})});
  file.inputs.push_back({"w", DType::kF32, std::vector<format::OnnxDimension>{{4, ""}}});
  file.initializers.emplace_back("w", Tensor::of<float>({4}, {1, 2, 3, 4}));
  const Program program = load_onnx(format::write_onnx_file(file));
  EXPECT_EQ(program.graph->placeholders().size(), 1u);
  ASSERT_EQ(program.attributes.size(), 1u);
  EXPECT_EQ(program.attributes[0].name, "w");
  EXPECT_EQ(program.attributes[0].kind, Attribute::Kind::kParameter);
}

}  // namespace
}  // namespace qdq
