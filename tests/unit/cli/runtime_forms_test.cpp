// What profiles make of forms that exporters write: zeros on one side, joined results, transposed convolutions, tables,
// float16, masks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cli/cli.h"
#include "format/json.h"
#include "format/npz.h"
#include "format/onnx_file.h"
#include "io/model.h"
#include "op/facts.h"
#include "profile/runtime_verdicts.h"
#include "unit/cli/memory_host.h"
#include "unit/cli/onnx_node.h"

namespace qdq::runtime_forms_test {
namespace {

using format::NamedTensor;
using format::OnnxFile;
using format::OnnxNode;

Tensor ramp(const Shape& sizes) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i * 7 % 23) / 8 - 1;
  return out;
}

format::OnnxValueInfo info(const std::string& name, const Shape& sizes, DType dtype = DType::kF32) {
  format::OnnxValueInfo out;
  out.name = name;
  out.dtype = dtype;
  out.dims.emplace();
  for (const int64_t size : sizes) out.dims->push_back({size, ""});
  return out;
}

OnnxNode with(OnnxNode node, std::vector<format::OnnxAttribute> attributes) {
  node.attributes = std::move(attributes);
  return node;
}

// x [1, 3, 8, 8] to y.
OnnxFile network(std::vector<OnnxNode> nodes, std::vector<std::pair<std::string, Tensor>> initializers,
                 const Shape& result) {
  OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}};
  out.inputs = {info("x", {1, 3, 8, 8})};
  out.outputs = {info("y", result)};
  out.nodes = std::move(nodes);
  out.initializers = std::move(initializers);
  return out;
}

class RuntimeForms : public testing::Test {
 protected:
  int run(std::vector<std::string> words) {
    host.out.clear();
    host.err.clear();
    return run_cli(words, host);
  }
  // The file that `quantize --for` makes of this one; without a profile PyTorch's recipe for XNNPACK.
  OnnxFile quantized(const OnnxFile& file, const std::string& profile, std::vector<std::string> more = {}) {
    host.contents["m.onnx"] = format::write_onnx_file(file);
    if (!host.contents.contains("x.npz"))
      host.contents["x.npz"] = format::write_npz(std::vector<NamedTensor>{{"x", ramp({1, 3, 8, 8})}});
    std::vector<std::string> words = {"quantize", "m.onnx", "-o", "q.onnx"};
    if (!profile.empty()) words.insert(words.end(), {"--for", profile});
    if (profile.empty() || !runtime_profile(profile).is_dynamic) words.insert(words.end(), {"--calibrate", "x.npz"});
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words), 0) << host.err;
    return format::read_onnx_file(host.contents["q.onnx"]);
  }
  // Of the file written last: how many products the runtime computes in integers.
  int64_t in_integers(const std::string& profile) {
    EXPECT_EQ(run({"inspect", "q.onnx", "--for", profile, "--json"}), 0) << host.err;
    return format::parse_json(host.out, "inspect")["products"]["in_integers"].get<int64_t>();
  }
  MemoryHost host;
};

const OnnxNode* find(const OnnxFile& file, const std::string& op) {
  const auto found =
      std::find_if(file.nodes.begin(), file.nodes.end(), [&](const OnnxNode& node) { return node.op_type == op; });
  return found == file.nodes.end() ? nullptr : &*found;
}
const Tensor* stored(const OnnxFile& file, const std::string& name) {
  for (const auto& [key, tensor] : file.initializers)
    if (key == name) return &tensor;
  return nullptr;
}
// What gives a value.
const OnnxNode* source(const OnnxFile& file, const std::string& value) {
  for (const OnnxNode& node : file.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end()) return &node;
  return nullptr;
}

// A stride of 2 with SAME_UPPER, as TensorFlow's exporters write it.
TEST_F(RuntimeForms, ZerosOnOneSideAreTheConvolutions) {
  const OnnxFile file =
      network({with(onnx_node("Conv", {"x", "w0", "b0"}, "c0"),
                    {onnx_integers("strides", {2, 2}), onnx_integers("pads", {0, 0, 1, 1})}),
               onnx_node("Relu", {"c0"}, "r0"),
               with(onnx_node("Conv", {"r0", "w1", "b0"}, "y"),
                    {onnx_integers("strides", {2, 2}), onnx_integers("pads", {0, 1, 1, 1})})},
              {{"w0", ramp({4, 3, 3, 3})}, {"b0", ramp({4})}, {"w1", ramp({4, 4, 3, 3})}}, {1, 4, 2, 2});
  const OnnxFile made = quantized(file, "ort");
  EXPECT_EQ(find(made, "Pad"), nullptr);
  std::vector<std::vector<int64_t>> pads;
  for (const OnnxNode& node : made.nodes)
    for (const format::OnnxAttribute& each : node.attributes)
      if (each.name == "pads") pads.push_back(each.ints);
  EXPECT_EQ(pads, (std::vector<std::vector<int64_t>>{{0, 0, 1, 1}, {0, 1, 1, 1}}));
  // It is read back as it was written, and gives the numbers of the program that it was made of.
  EXPECT_EQ(in_integers("ort"), 2);
  ASSERT_EQ(run({"run", "q.onnx", "--inputs", "x.npz", "-o", "first.npz"}), 0) << host.err;
  ASSERT_EQ(run({"convert", "q.onnx", "q.pt2"}), 0) << host.err;
  ASSERT_EQ(run({"run", "q.pt2", "--inputs", "x.npz", "-o", "second.npz"}), 0) << host.err;
  EXPECT_EQ(host.contents["first.npz"], host.contents["second.npz"]);
}

// The skip of a U-Net: what has a ReLU keeps its range beside what has none.
TEST_F(RuntimeForms, JoinedResultsHaveScalesOfTheirOwn) {
  const OnnxFile file =
      network({onnx_node("Conv", {"x", "w0", "b0"}, "c0"), onnx_node("Relu", {"c0"}, "r0"),
               onnx_node("Conv", {"r0", "w1", "b0"}, "c1"),
               with(onnx_node("Concat", {"c1", "r0"}, "j"), {onnx_integer("axis", 1)}),
               onnx_node("Conv", {"j", "w2", "b0"}, "y")},
              {{"w0", ramp({4, 3, 1, 1})}, {"b0", ramp({4})}, {"w1", ramp({4, 4, 1, 1})}, {"w2", ramp({4, 8, 1, 1})}},
              {1, 4, 8, 8});
  quantized(file, "ort");
  EXPECT_EQ(in_integers("ort"), 3);
}

OnnxFile transposed(int64_t groups = 1) {
  return network({onnx_node("Conv", {"x", "w0", "b0"}, "c0"), onnx_node("Relu", {"c0"}, "r0"),
                  with(onnx_node("ConvTranspose", {"r0", "w1", "b1"}, "t0"),
                       {onnx_integers("strides", {2, 2}), onnx_integer("group", groups)}),
                  onnx_node("Relu", {"t0"}, "r1"), onnx_node("Conv", {"r1", "w2", "b0"}, "y")},
                 {{"w0", ramp({4, 3, 1, 1})},
                  {"b0", ramp({4})},
                  {"w1", ramp({4, 6 / groups, 2, 2})},
                  {"b1", ramp({6})},
                  {"w2", ramp({4, 6, 1, 1})}},
                 {1, 4, 16, 16});
}

TEST_F(RuntimeForms, TransposedConvolutionsAreQuantizedByTheirSecondAxis) {
  for (const std::string profile : {"qnn", "openvino"}) {
    const OnnxFile made = quantized(transposed(), profile);
    EXPECT_EQ(in_integers(profile), 3) << profile;
    const OnnxNode* layer = find(made, "ConvTranspose");
    ASSERT_NE(layer, nullptr);
    const OnnxNode* weight = source(made, layer->inputs[1]);
    ASSERT_EQ(weight->op_type, "DequantizeLinear");
    EXPECT_EQ(stored(made, weight->inputs[1])->numel(), 6);
    EXPECT_EQ(weight->attributes.at(0).i, 1);
    const OnnxNode* bias = source(made, layer->inputs[2]);
    ASSERT_NE(bias, nullptr);
    EXPECT_EQ(stored(made, bias->inputs[0])->dtype(), DType::kS32);
  }
  quantized(transposed(2), "qnn");
  EXPECT_EQ(in_integers("qnn"), 3);
}

// ONNX Runtime rounds a float weight between integers by itself, if the bias is a float initializer or there is none.
TEST_F(RuntimeForms, LayersLeftInFloatAreNotRoundedByOnnxRuntime) {
  for (const int64_t groups : {1, 2}) {
    OnnxFile file = transposed(groups);
    for (const bool has_bias : {true, false}) {
      if (!has_bias) file.nodes[2].inputs.pop_back();
      const OnnxFile made = quantized(file, "qnn", {"--exclude", "t0"});
      const OnnxNode* layer = find(made, "ConvTranspose");
      ASSERT_NE(layer, nullptr);
      ASSERT_NE(stored(made, layer->inputs[1]), nullptr);  // a float weight
      ASSERT_EQ(layer->inputs.size(), 3u);
      const OnnxNode* bias = source(made, layer->inputs[2]);
      ASSERT_NE(bias, nullptr);
      EXPECT_EQ(bias->op_type, "DequantizeLinear");
      const Tensor* integers = stored(made, bias->inputs[0]);
      ASSERT_EQ(integers->numel(), 6);
      const double scale = stored(made, bias->inputs[1])->item();
      for (int64_t i = 0; i < 6; ++i)
        EXPECT_EQ(static_cast<double>(integers->data<int32_t>()[i]) * scale,
                  has_bias ? static_cast<double>(ramp({6}).data<float>()[i]) : 0);
    }
  }
}

TEST_F(RuntimeForms, ResultsOfLayersAreNeededRounded) {
  const Program program = load_onnx(format::write_onnx_file(
      network({onnx_node("Conv", {"x", "w0", "b0"}, "c0"), onnx_node("Relu", {"c0"}, "r0"),
               onnx_node("Add", {"r0", "x"}, "sum"), onnx_node("MatMul", {"sum", "w1"}, "y")},
              {{"w0", ramp({3, 3, 1, 1})}, {"b0", ramp({3})}, {"w1", ramp({8, 8})}}, {1, 3, 8, 8})));
  std::map<std::string, std::string> needs;
  for (const Node* node : program.graph->nodes())
    for (const std::string profile : {"ort", "qnn"})
      if (node->op() == Node::Op::kCallFunction && needs_rounding(*node, runtime_profile(profile)))
        needs[profile] += std::string(op_of(*node)->short_name()) + " ";
  EXPECT_EQ(needs["ort"], "aten.conv2d.default aten.relu.default ");
  EXPECT_EQ(needs["qnn"], "aten.conv2d.default aten.relu.default aten.linear.default ");
}

TEST_F(RuntimeForms, LimitsUseWhatTheRuntimeHas) {
  const OnnxFile file =
      network({with(onnx_node("Conv", {"x", "w0", "b0"}, "c0"), {onnx_integers("pads", {1, 1, 1, 1})}),
               onnx_node("Relu", {"c0"}, "r0"),
               with(onnx_node("Conv", {"r0", "w1", "b0"}, "y"), {onnx_integers("pads", {1, 1, 1, 1})})},
              {{"w0", ramp({32, 3, 3, 3})}, {"b0", ramp({32})}, {"w1", ramp({32, 32, 3, 3})}}, {1, 32, 8, 8});
  const OnnxFile made = quantized(file, "ort", {"--max-size", "20kB"});
  for (const OnnxNode& node : made.nodes)
    if (node.op_type == "QuantizeLinear") {
      EXPECT_EQ(stored(made, node.inputs[2])->dtype(), DType::kU8);
    }
}

// ONNX Runtime computes a convolution in float whose result is not rounded.
TEST_F(RuntimeForms, LayersInFloatDoNotSaturate) {
  const OnnxFile file = network({onnx_node("Conv", {"x", "w0", "b0"}, "y")},
                                {{"w0", ramp({4, 3, 1, 1})}, {"b0", ramp({4})}}, {1, 4, 8, 8});
  quantized(file, "ort");
  EXPECT_NE(host.out.find("can lose accuracy in 1 layer"), std::string::npos) << host.out;
  quantized(file, "", {"--quantizer", "x86-inductor"});
  EXPECT_EQ(host.out.find("can lose accuracy"), std::string::npos) << host.out;
}

// Rows of a table, then a layer.
TEST_F(RuntimeForms, TablesAreInt8) {
  OnnxFile file = network({onnx_node("Gather", {"table", "x"}, "e"), onnx_node("MatMul", {"e", "w"}, "y")},
                          {{"table", ramp({50, 8})}, {"w", ramp({8, 4})}}, {1, 5, 4});
  file.inputs = {info("x", {1, 5}, DType::kS64)};
  const Tensor indices = Tensor::full({1, 5}, DType::kS64, 3);
  host.contents["x.npz"] = format::write_npz(std::vector<NamedTensor>{{"x", indices}});
  for (const std::string profile : {"ort", "ort-web", "x86"}) {
    const OnnxFile made = quantized(file, profile);
    const OnnxNode* gather = find(made, "Gather");
    ASSERT_NE(gather, nullptr);
    const Tensor* table = stored(made, gather->inputs[0]);
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->dtype(), DType::kS8);
    // Nothing sums its numbers, so that they keep 8 bits where sums would saturate.
    const std::span<const int8_t> integers = table->span<int8_t>();
    EXPECT_EQ(std::max(*std::max_element(integers.begin(), integers.end()),
                       static_cast<int8_t>(-*std::min_element(integers.begin(), integers.end()))),
              127)
        << profile;
  }
}

class RuntimeHalves : public RuntimeForms {
 protected:
  RuntimeHalves() {
    file.inputs[0].dtype = file.outputs[0].dtype = DType::kF16;
    host.contents["x.npz"] = format::write_npz(std::vector<NamedTensor>{{"x", ramp({1, 3, 8, 8}).to(DType::kF16)}});
  }

  OnnxFile file = network({onnx_node("Conv", {"x", "w0", "b0"}, "c0"), onnx_node("Relu", {"c0"}, "r0"),
                           onnx_node("Conv", {"r0", "w1", "b0"}, "y")},
                          {{"w0", ramp({4, 3, 1, 1}).to(DType::kF16)},
                           {"b0", ramp({4}).to(DType::kF16)},
                           {"w1", ramp({4, 4, 1, 1}).to(DType::kF16)}},
                          {1, 4, 8, 8});
};

TEST_F(RuntimeHalves, AreFloat32BetweenIntegers) {
  const OnnxFile made = quantized(file, "ort");
  EXPECT_EQ(host.out.find("in float here"), std::string::npos) << host.out;
  EXPECT_EQ(made.inputs[0].dtype, DType::kF16);
  EXPECT_EQ(made.outputs[0].dtype, DType::kF16);
  for (const auto& [name, tensor] : made.initializers) EXPECT_NE(tensor.dtype(), DType::kF16) << name;
  EXPECT_EQ(
      std::count_if(made.nodes.begin(), made.nodes.end(), [](const auto& each) { return each.op_type == "Cast"; }), 2);
  ASSERT_EQ(run({"run", "q.onnx", "--inputs", "x.npz", "-o", "y.npz"}), 0) << host.err;
}

// A quantizer keeps them: qdq computes the layers in integers, ONNX Runtime none.
TEST_F(RuntimeHalves, OfAQuantizerAreIntegersHereAlone) {
  const OnnxFile made = quantized(file, "", {"--quantizer", "x86-inductor"});
  EXPECT_EQ(made.inputs[0].dtype, DType::kF16);
  EXPECT_EQ(host.out.find("in float here"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("computes 0 of 2 products of this file in integers; made with --for ort, at least 2"),
            std::string::npos)
      << host.out;
  EXPECT_EQ(in_integers("ort"), 0);
  ASSERT_EQ(run({"evaluate", "m.onnx", "q.onnx", "--data", "x.npz"}), 0) << host.err;
}

// int8 is no obstacle to operators of integers, whoever reads it.
TEST_F(RuntimeForms, OperatorsOfIntegersRunInIntegers) {
  const OnnxFile file =
      network({onnx_node("Conv", {"x", "w0", "b0"}, "c0"), onnx_node("Relu", {"c0"}, "r0"),
               onnx_node("Conv", {"r0", "w1", "b0"}, "c1"), onnx_node("Add", {"c1", "r0"}, "y")},
              {{"w0", ramp({4, 3, 1, 1})}, {"b0", ramp({4})}, {"w1", ramp({4, 4, 1, 1})}}, {1, 4, 8, 8});
  quantized(file, "", {"--onnx-format", "qoperator", "--onnx-signed-activations"});
  EXPECT_EQ(in_integers("ort"), 2);
}

// Twice the same layer: its integers are written once.
TEST_F(RuntimeForms, SharedLayersAreWrittenOnce) {
  const OnnxFile file =
      network({onnx_node("Conv", {"x", "w"}, "a"), onnx_node("Relu", {"a"}, "r"), onnx_node("Conv", {"r", "w"}, "y")},
              {{"w", ramp({3, 3, 1, 1})}}, {1, 3, 8, 8});
  const OnnxFile made = quantized(file, "transformers.js");
  EXPECT_EQ(std::count_if(made.initializers.begin(), made.initializers.end(),
                          [](const auto& each) { return each.second.numel() == 9; }),
            1);
}

// The layers of both files are compared by the names of their values.
TEST_F(RuntimeForms, SiluKeepsTheNameOfItsValue) {
  const OnnxFile file =
      network({onnx_node("Conv", {"x", "w0", "b0"}, "c0"), onnx_node("Sigmoid", {"c0"}, "gate"),
               onnx_node("Mul", {"c0", "gate"}, "silu"), onnx_node("Conv", {"silu", "w1", "b0"}, "y")},
              {{"w0", ramp({4, 3, 1, 1})}, {"b0", ramp({4})}, {"w1", ramp({4, 4, 1, 1})}}, {1, 4, 8, 8});
  const OnnxFile made = quantized(file, "ort");
  const OnnxNode *product = source(made, "silu"), *gate = find(made, "Sigmoid");
  ASSERT_NE(product, nullptr);
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(product->op_type, "Mul");
}

// Scores and a mask, which QNN's profile rounds, too: one that comes in, or a part of the file.
TEST_F(RuntimeForms, HiddenScoresDoNotTakeTheRange) {
  for (const float hidden : {-1e4F, -3.4028235e38F, -INFINITY}) {
    for (const bool is_constant : {false, true}) {
      const Tensor mask = Tensor::full({8}, DType::kF32, 0);
      for (int64_t i = 5; i < 8; ++i) mask.data<float>()[i] = hidden;
      OnnxFile file = network({onnx_node("MatMul", {"x", "w"}, "scores"), onnx_node("Add", {"scores", "mask"}, "sum"),
                               with(onnx_node("Softmax", {"sum"}, "y"), {onnx_integer("axis", -1)})},
                              {{"w", ramp({8, 8})}}, {1, 3, 8, 8});
      std::vector<NamedTensor> samples{{"x", ramp({1, 3, 8, 8})}};
      if (is_constant) file.initializers.emplace_back("mask", mask);
      else file.inputs.push_back(info("mask", {8})), samples.push_back({"mask", mask.reshape({1, 8})});
      host.contents["x.npz"] = format::write_npz(samples);
      const OnnxFile made = quantized(file, "qnn");
      EXPECT_EQ(host.err.find("warning"), std::string::npos) << host.err;
      ASSERT_NE(find(made, "Add"), nullptr);
      for (const OnnxNode& node : made.nodes) {
        if (node.op_type != "QuantizeLinear" && node.op_type != "DequantizeLinear") continue;
        EXPECT_LT(stored(made, node.inputs[1])->item(), 0.2) << node.inputs[0] << ", " << hidden << is_constant;
      }
    }
  }
}

// A generator begins with a constant, and computes its weights.
TEST_F(RuntimeForms, ConstantsThatLayersReadAreUnsigned) {
  const OnnxFile file = network(
      {onnx_node("Reshape", {"x", "flat"}, "style"), onnx_node("Mul", {"w", "style"}, "weights"),
       onnx_node("Conv", {"constant", "weights"}, "c"), onnx_node("Relu", {"c"}, "r"),
       onnx_node("Add", {"r", "r"}, "y")},
      {{"w", ramp({4, 3, 8, 8})}, {"constant", ramp({1, 3, 8, 8})}, {"flat", Tensor::of<int64_t>({4}, {1, 3, 8, 8})}},
      {1, 4, 1, 1});
  host.contents["x.npz"] = format::write_npz(std::vector<NamedTensor>{{"x", ramp({1, 3, 8, 8})}});
  const OnnxFile made = quantized(file, "");
  const auto constant = std::find_if(made.initializers.begin(), made.initializers.end(), [](const auto& each) {
    return each.second.sizes() == Shape{1, 3, 8, 8} && size_of(each.second.dtype()) == 1;
  });
  ASSERT_NE(constant, made.initializers.end());
  EXPECT_EQ(constant->second.dtype(), DType::kU8);
}

}  // namespace
}  // namespace qdq::runtime_forms_test
