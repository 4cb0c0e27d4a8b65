// What load_onnx refuses, and what it says then.
#include <gtest/gtest.h>

#include <cmath>

#include "base/memory.h"
#include "base/undo.h"
#include "format/onnx_file.h"
#include "io/model.h"
#include "io/onnx.h"
#include "io/pt2.h"
#include "op/custom.h"
#include "op/op.h"
#include "unit/format/expect_error.h"

namespace qdq::onnx_refusals_test {
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

format::OnnxAttribute ints(const char* name, std::vector<int64_t> values) {
  format::OnnxAttribute out;
  out.name = name;
  out.kind = format::OnnxKind::kInts;
  out.ints = std::move(values);
  return out;
}

void refuse(ErrorCode code, const char* words, const format::OnnxFile& file) {
  expect_error(code, words, [&] { load_onnx(format::write_onnx_file(file)); });
}

// What opens, but does not run.
void refuse_to_run(const char* words, const format::OnnxFile& file) {
  const Program program = load_onnx(format::write_onnx_file(file));
  expect_error(ErrorCode::kUnsupported, words, [&] { check_ops(*program.graph); });
}

TEST(OnnxRefusals, AllUnknownOperatorsAtOnce) {
  refuse_to_run(
      "qdq does not have 2 operators of this program: torch.ops.com_example.Blur.default (node blur); "
      "torch.ops.onnx.Sharpen.default (nodes sharpen, sharpen_1)",
      model({node("Sharpen", {"x"}, {"a"}), node("Sharpen", {"x"}, {"b"}), node("Blur", {"x"}, {"y"}, "com.example")},
            {"a", "b", "y"}));
}

// A field of a protobuf message that is bytes.
std::string field(unsigned number, const std::string& content) {
  std::string out;
  for (const size_t first : {size_t{number << 3 | 2}, content.size()}) {
    size_t value = first;
    for (; value >= 128; value >>= 7) out += static_cast<char>(value % 128 + 128);
    out += static_cast<char>(value);
  }
  return out + content;
}

// FunctionProto of the domain "l" that calls another operator on its input, and once more on the result.
std::string twice(const std::string& name, const std::string& op, const std::string& domain) {
  const auto call = [&](const char* input, const char* output) {
    return field(7, field(1, input) + field(2, output) + field(4, op) + field(7, domain));
  };
  return field(1, name) + field(4, "a") + field(5, "b") + call("a", "c") + call("c", "b") +
         field(9, field(1, "") + std::string("\x10\x11")) + field(9, field(1, "l") + std::string("\x10\x01")) +
         field(10, "l");
}

std::vector<std::byte> with_functions(int levels) {
  format::OnnxFile file = model({node(("F" + std::to_string(levels)).c_str(), {"x"}, {"y"}, "l")});
  file.opsets.emplace_back("l", 1);
  std::vector<std::byte> bytes = format::write_onnx_file(file);
  std::string functions = field(25, twice("F0", "Abs", ""));
  for (int i = 1; i <= levels; ++i)
    functions += field(25, twice("F" + std::to_string(i), "F" + std::to_string(i - 1), "l"));
  const format::ByteSpan more = format::bytes_of(functions);
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

TEST(OnnxRefusals, FunctionsThatGrowWithoutEnd) {
  const Program small = load_onnx(with_functions(2));
  EXPECT_EQ(small.graph->nodes().size(), 1u + 8u + 1u);
  expect_error(ErrorCode::kBadFile, "functions of more than", [] { load_onnx(with_functions(24)); });
}

TEST(OnnxRefusals, SequencesBeyondTheMemory) {
  const format::OnnxFile file = model({node("SequenceConstruct", std::vector<std::string>(100000, "x"), {"all"}),
                                       node("SequenceAt", {"all", "first"}, {"y"})});
  set_memory_limit(MemoryLimit(4000000, "that the test allows"));
  const Undo no_limit([] { set_memory_limit(std::nullopt); });
  refuse(ErrorCode::kOutOfMemory, "reading the sequences of the ONNX model", file);
}

// A loop of 64 turns around the given nodes, which make w of v.
format::OnnxNode loop(std::vector<format::OnnxNode> nodes, const char* output) {
  format::OnnxGraph body;
  body.inputs = {{"turn", DType::kS64, std::vector<format::OnnxDimension>{}},
                 {"goes_on", DType::kBool, std::vector<format::OnnxDimension>{}},
                 {"v", DType::kF32, std::vector<format::OnnxDimension>{{std::nullopt, "batch"}, {4, ""}}}};
  nodes.push_back(node("Identity", {"goes_on"}, {"still"}));
  body.nodes = std::move(nodes);
  for (const char* name : {"still", "w"}) body.outputs.push_back({name, std::nullopt, std::nullopt});
  format::OnnxAttribute attribute;
  attribute.name = "body";
  attribute.kind = format::OnnxKind::kGraph;
  attribute.graphs.push_back(std::make_shared<const format::OnnxGraph>(std::move(body)));
  format::OnnxNode out = node("Loop", {"turns", "yes", output[0] == 'y' ? "x" : "v"}, {output});
  out.attributes.push_back(std::move(attribute));
  return out;
}

// Written out, they would be 64^5 nodes.
TEST(OnnxRefusals, LoopsInLoopsStayLoops) {
  format::OnnxNode inner = node("Abs", {"v"}, {"w"});
  for (int depth = 0; depth < 5; ++depth) inner = loop({std::move(inner)}, depth == 4 ? "y" : "w");
  format::OnnxFile file = model({std::move(inner)});
  file.initializers.emplace_back("turns", Tensor::of<int64_t>({}, {64}));
  file.initializers.emplace_back("yes", Tensor::full({}, DType::kBool, 1));
  const Program program = load_onnx(format::write_onnx_file(file));
  EXPECT_LT(program.graph->nodes().size(), 100'000u);
}

TEST(OnnxRefusals, BrokenGraphs) {
  refuse(ErrorCode::kBadFile, "uses the value nothing", model({node("Relu", {"nothing"}, {"y"})}));
  refuse(ErrorCode::kBadFile, "is made twice", model({node("Relu", {"x"}, {"y"}), node("Relu", {"x"}, {"y"})}));
  refuse(ErrorCode::kBadFile, "lacks its input 1", model({node("Add", {"x"}, {"y"})}));
  refuse(ErrorCode::kBadFile, "lacks its input 0", model({node("BiasGelu", {""}, {"y"}, "com.microsoft")}));
  refuse(ErrorCode::kBadFile, "no outputs", model({node("Relu", {"x"}, {"y"})}, {}));
  format::OnnxFile twice = model({node("Relu", {"x"}, {"y"})});
  twice.initializers = {{"w", Tensor::scalar(1.0f)}, {"w", Tensor::scalar(2.0f)}};
  refuse(ErrorCode::kBadFile, "two initializers w", twice);
}

// What the fuzzing found: numbers whose sums or negatives do not fit into 64 bits.
TEST(OnnxRefusals, SizesBeyondAllCounting) {
  format::OnnxNode pool = node("AveragePool", {"x"}, {"y"});
  pool.attributes = {ints("kernel_shape", {9}), ints("dilations", {9}), ints("strides", {9})};
  format::OnnxAttribute rounds_up;
  rounds_up.name = "ceil_mode";
  rounds_up.kind = format::OnnxKind::kInt;
  rounds_up.i = 1;
  pool.attributes.push_back(rounds_up);
  format::OnnxFile file = model({pool});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{1, ""}, {1, ""}, {INT64_MAX, ""}};
  refuse(ErrorCode::kBadFile,
         "the input x of the ONNX model cannot be: the shape [1, 1, 9223372036854775807] has too many elements", file);
  format::OnnxNode expand = node("Expand", {"x", "sizes"}, {"y"});
  file = model({expand});
  file.initializers.emplace_back("sizes", Tensor::of<int64_t>({3}, {INT64_MAX / 8, 1, 1}));
  refuse(ErrorCode::kInvalidArgument,
         "the ONNX node the_y (Expand): the shape [1152921504606846975, 4] has too many elements", file);
}

// Cuts more than there is, and says so: the axis is empty then.
TEST(OnnxRefusals, PadsThatCutEverything) {
  format::OnnxNode pad = node("Pad", {"x", "pads"}, {"y"});
  format::OnnxAttribute mode;
  mode.name = "mode";
  mode.kind = format::OnnxKind::kString;
  mode.s = "reflect";
  pad.attributes = {mode};
  format::OnnxFile file = model({pad});
  file.initializers.emplace_back("pads", Tensor::of<int64_t>({4}, {0, INT64_MIN, 0, 0}));
  const Program program = load_onnx(format::write_onnx_file(file));
  const Node* out = program.graph->output_node()->arg(0).list()[0].node();
  EXPECT_EQ(out->meta.val.tensor()->sizes.back(), SymInt(0));
}

TEST(OnnxRefusals, WhatHasNoAxes) {
  format::OnnxFile file = model({node("QuantizeLinear", {"x", "scale", "zero_point"}, {"y"})});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{};
  file.inputs.push_back({"scale", DType::kF32, std::vector<format::OnnxDimension>{{3, ""}}});
  file.initializers.emplace_back("zero_point", Tensor::of<uint8_t>({3}, {1, 2, 3}));
  EXPECT_THROW(load_onnx(format::write_onnx_file(file)), Error);
  file = model({node("STFT", {"x", "step", "window"}, {"y"})});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{2, ""}, {4, ""}};
  file.initializers.emplace_back("step", Tensor::scalar<int64_t>(1));
  file.initializers.emplace_back("window", Tensor::scalar(1.0f));
  refuse_to_run("has a window of 0 axes, wanted 1", file);
}

TEST(OnnxRefusals, WindowsAndPlacesBeyondAllCounting) {
  format::OnnxNode norm = node("LRN", {"x"}, {"y"});
  norm.attributes = {ints("size", {})};
  norm.attributes[0].kind = format::OnnxKind::kInt;
  norm.attributes[0].i = INT64_MIN;
  format::OnnxFile file = model({norm});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{1, ""}, {2, ""}, {4, ""}};
  refuse_to_run("has the size -9223372036854775808", file);

  format::OnnxNode resize = node("Resize", {"x", "roi", "scales"}, {"y"});
  for (const auto& [name, text] :
       {std::pair("mode", "cubic"), std::pair("coordinate_transformation_mode", "tf_crop_and_resize")}) {
    format::OnnxAttribute attribute;
    attribute.name = name;
    attribute.kind = format::OnnxKind::kString;
    attribute.s = text;
    resize.attributes.push_back(attribute);
  }
  file.nodes = {resize};
  file.initializers.emplace_back("roi", Tensor::of<float>({6}, {0, 0, -1e30F, 1, 1, 1e30F}));
  file.initializers.emplace_back("scales", Tensor::of<float>({3}, {1, 1, 2}));
  refuse_to_run("resizes from the place", file);
}

TEST(OnnxRefusals, ResizesBeyondAllCounting) {
  format::OnnxNode resize = node("Resize", {"x", "", "", "sizes"}, {"y"});
  format::OnnxAttribute policy;
  policy.name = "keep_aspect_ratio_policy";
  policy.kind = format::OnnxKind::kString;
  policy.s = "not_smaller";
  resize.attributes = {policy};
  format::OnnxFile file = model({resize});
  file.opsets = {{"", 18}};
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{1, ""}, {2, ""}};
  file.initializers.emplace_back("sizes", Tensor::of<int64_t>({2}, {INT64_MAX, 2}));
  refuse_to_run("makes an axis of 9.22", file);
}

TEST(OnnxRefusals, FiltersUpToNoFrequency) {
  for (const float upper : {INFINITY, NAN, -1.0f}) {
    format::OnnxFile file = model({node("MelWeightMatrix", {"five", "five", "rate", "lower", "upper"}, {"y"})});
    file.initializers.emplace_back("five", Tensor::scalar<int64_t>(5));
    file.initializers.emplace_back("rate", Tensor::scalar<int64_t>(8000));
    file.initializers.emplace_back("lower", Tensor::scalar(0.0f));
    file.initializers.emplace_back("upper", Tensor::scalar(upper));
    refuse_to_run("hertz, wanted finite numbers from 0 on", file);
  }
}

// A mask of a byte each would pick as many as it has, which PyTorch's operator makes of it.
TEST(OnnxRefusals, PlacesOfOtherTypes) {
  for (const char* op : {"Gather", "GatherND"}) {
    format::OnnxFile file = model({node(op, {"table", "places"}, {"y"})});
    file.initializers.emplace_back("table", Tensor::of<float>({2}, {3, 4}));
    file.initializers.emplace_back("places", Tensor::of<uint8_t>({1, 1}, {0}));
    refuse_to_run("has indices of uint8, wanted int32 or int64", file);
  }
}

TEST(OnnxRefusals, AttentionOverNoAxes) {
  format::OnnxNode attention = node("GroupQueryAttention", {"x", "x", "x"}, {"y"}, "com.microsoft");
  for (const char* name : {"num_heads", "kv_num_heads"}) {
    attention.attributes.push_back(ints(name, {}));
    attention.attributes.back().kind = format::OnnxKind::kInt;
    attention.attributes.back().i = 1;
  }
  format::OnnxFile file = model({attention});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{};
  // Whether it can be read is left to a run, which knows no more axes.
  EXPECT_EQ(load_onnx(format::write_onnx_file(file)).graph->placeholders().size(), 1U);
}

TEST(OnnxRefusals, SupportVectorsBeyondAllCounting) {
  format::OnnxNode svm = node("SVMClassifier", {"x"}, {"y", "scores"}, "ai.onnx.ml");
  svm.attributes = {ints("vectors_per_class", {5, INT64_MAX}), ints("classlabels_ints", {0, 1})};
  for (const char* name : {"coefficients", "support_vectors", "rho"}) {
    format::OnnxAttribute attribute;
    attribute.name = name;
    attribute.kind = format::OnnxKind::kFloats;
    attribute.floats = {1, 2, 3, 4, 5, 6, 7, 8};
    svm.attributes.push_back(attribute);
  }
  format::OnnxFile file = model({svm});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{2, ""}, {4, ""}};
  refuse_to_run("has 9223372036854775807 support vectors of a class, and 8 numbers of all", file);
}

// What other readers refuse, and would run here as something else.
TEST(OnnxRefusals, WeightsAndWindowsThatDoNotFit) {
  const auto convolution = [](Tensor weight, std::vector<int64_t> kernel_shape) {
    format::OnnxNode conv = node("Conv", {"x", "w"}, {"y"});
    if (!kernel_shape.empty()) conv.attributes = {ints("kernel_shape", std::move(kernel_shape))};
    format::OnnxFile file = model({conv});
    file.inputs[0].dims = std::vector<format::OnnxDimension>{{1, ""}, {2, ""}, {8, ""}, {8, ""}};
    file.initializers.emplace_back("w", std::move(weight));
    return file;
  };
  const Tensor weight = Tensor::full({4, 2, 3, 3}, DType::kF32, 1);
  load_onnx(format::write_onnx_file(convolution(weight, {3, 3})));
  for (const DType dtype : {DType::kS64, DType::kBool, DType::kF64})
    refuse(ErrorCode::kInvalidArgument, "on float32 needs a weight of the same dtype",
           convolution(weight.to(dtype), {}));
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 5}, {-3, -3}, {3}})
    refuse_to_run("has the kernel_shape", convolution(weight, shape));
}

TEST(OnnxRefusals, AxesThatAreNotToBeAddedOrRemoved) {
  const auto with_axes = [](const char* op, std::vector<int64_t> axes) {
    format::OnnxFile file = model({node(op, {"x", "axes"}, {"y"})});
    file.inputs[0].dims = std::vector<format::OnnxDimension>{{1, ""}, {3, ""}};
    const auto count = static_cast<int64_t>(axes.size());
    file.initializers.emplace_back("axes", Tensor::of<int64_t>({count}, std::span<const int64_t>(axes)));
    return file;
  };
  load_onnx(format::write_onnx_file(with_axes("Squeeze", {0})));
  refuse_to_run("removes axis 1, whose size is 3, wanted 1", with_axes("Squeeze", {1}));
  load_onnx(format::write_onnx_file(with_axes("Unsqueeze", {1, 2})));
  refuse_to_run("adds axis 1 twice", with_axes("Unsqueeze", {1, 1}));
  refuse_to_run("adds axis 1 twice", with_axes("Unsqueeze", {1, -3}));
}

TEST(OnnxRefusals, NumbersThatAreNone) {
  format::OnnxNode norm = node("LayerNormalization", {"x", "w"}, {"y"});
  format::OnnxAttribute epsilon;
  epsilon.name = "epsilon";
  epsilon.kind = format::OnnxKind::kFloat;
  epsilon.f = std::nanf("");
  norm.attributes = {epsilon};
  format::OnnxFile file = model({norm});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{2, ""}, {4, ""}};
  file.initializers.emplace_back("w", Tensor::full({4}, DType::kF32, 1));
  refuse_to_run("has the epsilon nan", file);
}

TEST(OnnxLoad, AxesThatARunComputesWaitForIt) {
  format::OnnxFile file = model({node("ReduceSum", {"x", "axes"}, {"y"})});
  file.inputs.push_back({"axes", DType::kS64, std::vector<format::OnnxDimension>{{1, ""}}});
  const Program program = load_onnx(format::write_onnx_file(file));
  check_ops(*program.graph);
  EXPECT_EQ(program.graph->find("reduce_sum")->target(), "torch.ops.onnx.ReduceSum.v17");
}

// So they do in a .pt2 file, which a process may open that has seen no ONNX model.
TEST(OnnxLoad, AxesThatARunComputesWaitForItInAnArchiveToo) {
  format::OnnxFile file = model({node("ReduceMean", {"x", "axes"}, {"y"})});
  file.opsets = {{"", 18}};
  file.inputs.push_back({"axes", DType::kS64, std::vector<format::OnnxDimension>{{1, ""}}});
  file.outputs[0] = {"y", DType::kF32, std::vector<format::OnnxDimension>{{std::nullopt, "rows"}, {1, ""}}};
  const std::vector<std::byte> archive = save_pt2(load_onnx(format::write_onnx_file(file)));
  set_op_resolver(nullptr);
  const Program program = load_program(archive);
  EXPECT_EQ(program.graph->find("reduce_mean")->target(), "torch.ops.onnx.ReduceMean.v18");
  check_ops(*program.graph);
}

// A node without a name is named once.
TEST(OnnxRefusals, WhatANodeWithoutANameLacks) {
  format::OnnxNode relu = node("Relu", {""}, {"y"});
  relu.name = "";
  try {
    load_onnx(format::write_onnx_file(model({relu})));
    FAIL() << "a Relu of nothing opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.message, "the ONNX node y (Relu) lacks its input 0");
  }
}

// x + y by If on the input deep, which open sizes of both share.
format::OnnxFile branches() {
  format::OnnxFile file = model({node("If", {"deep"}, {"y"})});
  file.inputs.push_back({"deep", DType::kBool, std::vector<format::OnnxDimension>{}});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto graph = std::make_shared<format::OnnxGraph>();
    const std::string inner = concat("in_", name);
    graph->nodes = {node(name[0] == 't' ? "Relu" : "Neg", {"x"}, {inner})};
    graph->outputs.push_back({inner, std::nullopt, std::nullopt});
    format::OnnxAttribute attribute;
    attribute.name = name;
    attribute.kind = format::OnnxKind::kGraph;
    attribute.graphs = {std::move(graph)};
    file.nodes[0].attributes.push_back(std::move(attribute));
  }
  return file;
}

TEST(OnnxFixed, InputsAndSizesAreConstants) {
  const auto read = [](const OnnxFixed& fixed) { return load_onnx(format::write_onnx_file(branches()), {}, fixed); };
  EXPECT_EQ(read(OnnxFixed()).forward_arg_names.size(), 2u);
  for (const auto& [deep, target] : {std::pair(1, "torch.ops.aten.relu.default"), {0, "torch.ops.aten.neg.default"}}) {
    const Program program = read({.values = {{"deep", deep}, {"batch", 3}}, .shapes = {}});
    EXPECT_EQ(program.forward_arg_names, std::vector<std::string>{"x"});
    const Node* call = program.graph->output_node()->args()[0].list()[0].node();
    EXPECT_EQ(call->target(), target);
    EXPECT_EQ(call->meta.val.tensor()->sizes[0].constant(), 3);
  }
  const auto refuse = [&](const char* words, const OnnxFixed& fixed) {
    expect_error(ErrorCode::kInvalidArgument, words, [&] { read(fixed); });
  };
  refuse("no input and no open size depth that could be 1; its inputs are x, deep; its open sizes are batch",
         {.values = {{"depth", 1}}, .shapes = {}});
  refuse("no open size batch that could be -1", {.values = {{"batch", -1}}, .shapes = {}});
  refuse("no open size batch that could be 1.5", {.values = {{"batch", 1.5}}, .shapes = {}});
  refuse("has an open size and cannot be fixed; fix its size first: batch=1", {.values = {{"x", 0}}, .shapes = {}});
  refuse("the input deep of the ONNX model is bool, which cannot hold 7", {.values = {{"deep", 7}}, .shapes = {}});
  EXPECT_EQ(read({.values = {}, .shapes = {{"x", {5, 4}}}}).graph->find("x")->meta.val.tensor()->sizes,
            (SymShape{5, 4}));
  refuse("the size of axis 1 of the ONNX model's input x is 4 and cannot be 3",
         {.values = {}, .shapes = {{"x", {5, 3}}}});
  refuse("the input x of the ONNX model has 2 axes and cannot have the 1 sizes",
         {.values = {}, .shapes = {{"x", {5}}}});
  refuse("the ONNX model has no input z", {.values = {}, .shapes = {{"z", {5}}}});
}

// As tf2onnx makes the states of a recurrent layer: a size goes through int32 and is known all the same.
TEST(OnnxSizes, AreKnownAsInt32) {
  const auto cast = [](const char* from, const char* to, DType dtype) {
    format::OnnxNode out = node("Cast", {from}, {to});
    format::OnnxAttribute& attribute = out.attributes.emplace_back();
    attribute.name = "to";
    attribute.kind = format::OnnxKind::kInt;
    attribute.i = format::onnx_number(dtype);
    return out;
  };
  format::OnnxFile file = model({node("Shape", {"x"}, {"shape"}), cast("shape", "small", DType::kS32),
                                 node("Gather", {"small", "zero"}, {"batch"}), node("Add", {"batch", "one"}, {"more"}),
                                 node("Concat", {"more", "five"}, {"sizes"}), cast("sizes", "wide", DType::kS64),
                                 node("Expand", {"number", "wide"}, {"y"})},
                                {"y", "sizes", "wide"});
  file.initializers = {{"zero", Tensor::of<int64_t>({1}, {0})},
                       {"one", Tensor::of<int32_t>({1}, {1})},
                       {"five", Tensor::of<int32_t>({1}, {5})},
                       {"number", Tensor::scalar(2.0f)}};
  const Program program = load_onnx(format::write_onnx_file(file));
  const Argument::List& outputs = program.graph->output_node()->arg(0).list();
  const auto meta = [&](size_t i) { return *outputs[i].node()->meta.val.tensor(); };
  const SymInt batch = program.graph->find("x")->meta.val.tensor()->sizes[0];
  EXPECT_EQ(meta(0).sizes, (SymShape{batch + 1, 5}));
  EXPECT_EQ(meta(1).dtype, DType::kS32);
  EXPECT_EQ(meta(2).dtype, DType::kS64);
}

TEST(OnnxRefusals, MapsOfNothing) {
  format::OnnxFile file = model({node("LabelEncoder", {"x"}, {"y"}, "ai.onnx.ml")});
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{2, ""}, {4, ""}};
  refuse_to_run("has no classes", file);
}

// Strings open; what computes is refused, and so is a file that cannot have them.
TEST(OnnxRefusals, Strings) {
  format::OnnxFile file = model({node("Equal", {"x", "x"}, {"y"})});
  file.inputs[0].dtype = DType::kString;
  file.opsets = {{"", 19}};
  const Program program = load_onnx(format::write_onnx_file(file));
  expect_error(ErrorCode::kUnsupported, "write an ONNX file", [&] { save_pt2(program); });
  expect_error(ErrorCode::kUnsupported, "compares strings, which ONNX does since opset 19",
               [&] { save_onnx(program, {.opset = 18}); });
  EXPECT_EQ(format::read_onnx_file(save_onnx(program)).opsets, (format::OnnxOpsets{{"", 19}}));
  file.inputs[0].dims = std::vector<format::OnnxDimension>{{2, ""}};
  file.nodes[0].op_type = "Add";
  refuse_to_run("computes with numbers, and its argument 'self' is of strings", file);
  file.nodes = {node("Relu", {"x"}, {"y"})};
  refuse_to_run("computes with numbers", file);
}

TEST(OnnxLoad, NodesInAnyOrder) {
  const Program program =
      load_onnx(format::write_onnx_file(model({node("Relu", {"a"}, {"y"}), node("Neg", {"x"}, {"a"})})));
  EXPECT_NE(program.graph->find("neg"), nullptr);
  refuse(ErrorCode::kBadFile, "reads a value that depends on its own result",
         model({node("Relu", {"a"}, {"y"}), node("Neg", {"y"}, {"a"})}));
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
}  // namespace qdq::onnx_refusals_test
