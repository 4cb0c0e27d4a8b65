// What is written of an ONNX file that was read, and in which versions.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/cli.h"
#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/model.h"
#include "io/onnx.h"
#include "io/onnx/export.h"
#include "io/pt2.h"
#include "lower/lower.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/cli/memory_host.h"
#include "unit/format/expect_error.h"

namespace qdq::onnx_save_test {
namespace {

using format::OnnxAttribute;
using format::OnnxKind;

format::OnnxNode node_of(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                         std::vector<std::string> outputs) {
  format::OnnxNode out;
  out.name = name;
  out.op_type = op;
  out.inputs = std::move(inputs);
  out.outputs = std::move(outputs);
  return out;
}

OnnxAttribute integer(const std::string& name, int64_t value) {
  OnnxAttribute out;
  out.name = name;
  out.kind = OnnxKind::kInt;
  out.i = value;
  return out;
}

using OnnxDims = std::vector<format::OnnxDimension>;

format::OnnxValueInfo info(const std::string& name, DType dtype, OnnxDims dims) {
  format::OnnxValueInfo out;
  out.name = name;
  out.dtype = dtype;
  out.dims = std::move(dims);
  return out;
}

Tensor ramp(const Shape& sizes, DType dtype = DType::kF32) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i % 7) / 4 - 0.5F;
  return out.to(dtype);
}

// input.1 [batch, 3, length] -> Conv -> Relu, Split of it -> logits and parts.
format::OnnxFile network(DType dtype = DType::kF32) {
  format::OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}};
  out.metadata = {{"author", "somebody"}, {"labels", "a,b"}};
  out.inputs = {info("input.1", dtype, {{{}, "batch"}, {3, ""}, {{}, "length"}})};
  out.initializers = {{"onnx::Conv_12", ramp({4, 3, 3}, dtype)}, {"block.bias", ramp({4}, dtype)}};
  out.nodes = {node_of("Conv_0", "Conv", {"input.1", "onnx::Conv_12", "block.bias"}, {"block/conv:0"}),
               node_of("Relu_1", "Relu", {"block/conv:0"}, {"logits"})};
  out.outputs = {info("logits", dtype, {{{}, "batch"}, {4, ""}, {}})};
  return out;
}

format::OnnxFile saved(const Program& program, const OnnxOptions& options = {}) {
  return format::read_onnx_file(save_onnx(program, options));
}

Program read(const format::OnnxFile& file) { return load_onnx(format::write_onnx_file(file)); }

Program quantized(const format::OnnxFile& file, const Tensor& input) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  Prepared prepared = prepare_pt2e(read(file), quantizer);
  prepared.run(std::vector<Tensor>{input});
  return convert_pt2e(prepared);
}

TEST(OnnxNames, ComeBack) {
  const format::OnnxFile file = network(), again = saved(read(file));
  EXPECT_EQ(again.inputs[0].name, "input.1");
  EXPECT_EQ((*again.inputs[0].dims)[0].param, "batch");
  EXPECT_EQ((*again.inputs[0].dims)[2].param, "length");
  EXPECT_EQ(again.outputs[0].name, "logits");
  EXPECT_EQ((*again.outputs[0].dims)[0].param, "batch");
  EXPECT_EQ((*again.outputs[0].dims)[2].param, "length - 2");
  EXPECT_EQ(again.metadata, file.metadata);
  ASSERT_EQ(again.nodes.size(), 2u);
  EXPECT_EQ(again.nodes[0].name, "Conv_0");
  EXPECT_EQ(again.nodes[0].inputs, file.nodes[0].inputs);
  EXPECT_EQ(again.nodes[0].outputs, file.nodes[0].outputs);
  EXPECT_EQ(again.nodes[1].name, "Relu_1");
}

TEST(OnnxNames, OfAQuantizedModelAreThoseOfTheFile) {
  format::OnnxFile file = network();
  file.name = "a network";
  file.doc_string = "what it is";
  file.model_doc_string = "what it is for";
  file.domain = "com.example";
  file.model_version = 7;
  file.inputs[0].doc_string = "sound";
  file.outputs[0].doc_string = "words";
  const format::OnnxFile again = saved(quantized(file, ramp({2, 3, 9})));
  EXPECT_EQ(again.name, "a network");
  EXPECT_EQ(again.doc_string, "what it is");
  EXPECT_EQ(again.model_doc_string, "what it is for");
  EXPECT_EQ(again.domain, "com.example");
  EXPECT_EQ(again.model_version, 7);
  EXPECT_EQ(again.inputs[0].doc_string, "sound");
  EXPECT_EQ(again.outputs[0].doc_string, "words");
  EXPECT_EQ((*again.inputs[0].dims)[0].param, "batch");
  EXPECT_EQ((*again.outputs[0].dims)[0].param, "batch");
  EXPECT_EQ(again.inputs[0].name, "input.1");
  EXPECT_EQ(again.outputs[0].name, "logits");
  EXPECT_EQ(again.metadata.size(), 2u);
  for (const char* name : {"Conv_0", "Relu_1"})
    EXPECT_TRUE(std::any_of(again.nodes.begin(), again.nodes.end(), [&](const auto& n) { return n.name == name; }))
        << name;
  // What makes the output is the dequantization of it.
  EXPECT_EQ(again.nodes.back().outputs[0], "logits");
  EXPECT_EQ(again.nodes.back().op_type, "DequantizeLinear");
}

TEST(OnnxNames, OfNodesAreModulesInRecipes) {
  const auto count = [](const std::vector<std::string>& excluded) {
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
    for (const std::string& name : excluded) quantizer.set_module_name(name, std::nullopt);
    Prepared prepared = prepare_pt2e(read(network()), quantizer);
    prepared.run(std::vector<Tensor>{ramp({2, 3, 9})});
    int64_t out = 0;
    for (const format::OnnxNode& node : saved(convert_pt2e(prepared)).nodes) out += node.op_type == "QuantizeLinear";
    return out;
  };
  EXPECT_EQ(count({}), 2);
  EXPECT_EQ(count({"Conv_0", "Relu_1"}), 0);
}

TEST(OnnxNames, OfOthersAreAsBefore) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0"), 8}, {}, false};
  Node* y = graph.call("torch.ops.aten.relu.default", {x}, {}, "relu");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y, x, y})}, {}, "output");
  const format::OnnxFile again = saved(program);
  ASSERT_EQ(again.outputs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(again.outputs[i].name, concat("output_", i));
  EXPECT_EQ((*again.inputs[0].dims)[0].param, "s0");
}

// Before opset 19 ONNX quantizes float32 alone.
TEST(OnnxQuantized, ConvertsOtherFloatsOnTheWay) {
  const DType dtype = DType::kF16;
  const Program program = quantized(network(dtype), ramp({2, 3, 9}, dtype));
  const format::OnnxFile again = saved(program);
  std::map<std::string, DType> dtypes = {{"input.1", dtype}};
  for (const auto& [name, tensor] : again.initializers) dtypes[name] = tensor.dtype();
  int64_t quantizers = 0;
  for (const format::OnnxNode& node : again.nodes) {
    if (node.op_type == "QuantizeLinear") {
      ++quantizers;
      EXPECT_EQ(dtypes.at(node.inputs[0]), DType::kF32) << node.name;
      dtypes[node.outputs[0]] = dtypes.at(node.inputs[2]);
    } else if (node.op_type == "DequantizeLinear") {
      dtypes[node.outputs[0]] = DType::kF32;
    } else if (node.op_type == "Cast") {
      dtypes[node.outputs[0]] = *format::onnx_dtype(node.attributes[0].i);
    } else {
      for (const std::string& input : node.inputs) EXPECT_EQ(dtypes.at(input), dtype) << node.name;
      dtypes[node.outputs[0]] = dtype;
    }
  }
  EXPECT_EQ(quantizers, 2);
  EXPECT_EQ(dtypes.at("logits"), dtype);
}

// The network with a constant behind it that is added, as integers beside those of an activation.
format::OnnxFile with_offset() {
  format::OnnxFile out = network();
  out.nodes[1].outputs = {"relu"};
  out.nodes.push_back(node_of("Add_2", "Add", {"relu", "offset"}, {"logits"}));
  out.initializers.emplace_back("offset", ramp({1, 4, 1}));
  return out;
}

// The data types of zero points by the tensor that the quantize or dequantize node reads: "weight", "bias" and
// "constant" of those that lie in the file, by their sizes, else its name.
std::map<std::string, DType> zero_points(const format::OnnxFile& file, const std::string& op) {
  std::map<std::string, Tensor> stored;
  for (const auto& [name, tensor] : file.initializers) stored[name] = tensor;
  std::map<std::string, DType> out;
  for (const format::OnnxNode& node : file.nodes) {
    if (node.op_type != op) continue;
    const auto found = stored.find(node.inputs[0]);
    const std::string name = found == stored.end()                     ? node.inputs[0]
                             : found->second.dim() == 1                ? "bias"
                             : found->second.sizes() == Shape{4, 3, 3} ? "weight"
                                                                       : "constant";
    out[name] = stored.at(node.inputs[2]).dtype();
  }
  return out;
}

TEST(OnnxActivations, OfInt8AreWrittenAsUint8OfTheSameNumbers) {
  const Tensor input = ramp({2, 3, 9});
  const Program program = quantized(with_offset(), input);
  const format::OnnxFile as_unsigned = saved(program), as_signed = saved(program, {.signed_activations = true});
  for (const auto& [file, wanted] : {std::pair(&as_unsigned, DType::kU8), std::pair(&as_signed, DType::kS8)}) {
    const auto quantizers = zero_points(*file, "QuantizeLinear"), dequantizers = zero_points(*file, "DequantizeLinear");
    EXPECT_EQ(quantizers.size(), 3u);  // the input, what the Relu and what the Add gives
    for (const auto& [name, dtype] : quantizers) EXPECT_EQ(dtype, wanted) << name;
    EXPECT_EQ(dequantizers.size(), 6u);  // those, the weight, the bias and the constant
    EXPECT_TRUE(dequantizers.contains("weight") && dequantizers.contains("bias") && dequantizers.contains("constant"));
    for (const auto& [name, dtype] : dequantizers)
      EXPECT_EQ(dtype, name == "bias" ? DType::kS32 : name == "weight" ? DType::kS8 : wanted) << name;
  }
  const std::vector<Tensor> inputs = {input};
  const Program first = read(as_unsigned), second = read(as_signed);
  const Tensor wanted = Interpreter(second, {}).run(inputs)[0];
  EXPECT_TRUE(bitwise_equal(Interpreter(first, {}).run(inputs)[0], wanted));
  EXPECT_TRUE(bitwise_equal(lower(first).run(inputs)[0], lower(second).run(inputs)[0]));
  // The program that was saved is as it was.
  EXPECT_EQ(zero_points(saved(program, {.signed_activations = true}), "QuantizeLinear"),
            zero_points(as_signed, "QuantizeLinear"));
}

TEST(OnnxActivations, NarrowRangesStayClipped) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true, .act_qmin = -60, .act_qmax = 50}));
  Prepared prepared = prepare_pt2e(read(network()), quantizer);
  prepared.run(std::vector<Tensor>{ramp({2, 3, 9})});
  const Program program = convert_pt2e(prepared);
  const Tensor wide = ramp({2, 3, 9});
  for (int64_t i = 0; i < wide.numel(); ++i) wide.data<float>()[i] *= 3;
  const std::vector<Tensor> inputs = {wide};
  const Program first = read(saved(program)), second = read(saved(program, {.signed_activations = true}));
  EXPECT_TRUE(bitwise_equal(Interpreter(first, {}).run(inputs)[0], Interpreter(second, {}).run(inputs)[0]));
}

// Weights that are quantized while the model runs stay int8, and so do integers that leave the program.
TEST(OnnxActivations, WeightsAndIntegersThatLeaveStayInt8) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({}));
  Prepared prepared = prepare_pt2e(read(network()), quantizer);
  prepared.run(std::vector<Tensor>{ramp({2, 3, 9})});
  Program program = convert_pt2e(prepared, {.fold_quantize = false});
  const auto dtype_of = [](const format::OnnxFile& file, const std::string& name) {
    return zero_points(file, "QuantizeLinear").at(name);
  };
  EXPECT_EQ(dtype_of(saved(program), "quantize_per_tensor_default_part"), DType::kS8);  // clipped
  EXPECT_EQ(dtype_of(saved(program), "input.1"), DType::kU8);
  Node* output = program.graph->output_node();
  Node* integers = output->arg(0).list()[0].node()->arg(0).node();
  ASSERT_TRUE(integers->target().find(".quantize_per_tensor") != std::string::npos);
  output->set_arg(0, Argument(Argument::List{output->arg(0).list()[0], integers}));
  program.output_names.clear();
  const format::OnnxFile file = saved(program);
  EXPECT_EQ(*file.outputs[1].dtype, DType::kS8);
  EXPECT_EQ(dtype_of(file, "input.1"), DType::kU8);
}

TEST(OnnxOpset, IsWhatIsAskedFor) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 8}, {}, false};
  Node* y = graph.call("torch.ops.aten.amax.default", {Argument(x), Argument(Argument::List{1})}, {}, "y");
  Node* z = graph.call("torch.ops.aten.mish.default", {y}, {}, "z");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{z})}, {}, "output");
  for (const int64_t opset : {17, 18, 19, 20, 21}) {
    const format::OnnxFile file = saved(program, {.opset = opset});
    EXPECT_EQ(file.opsets, (format::OnnxOpsets{{"", opset}}));
    EXPECT_EQ(file.ir_version, opset >= 21 ? 10 : opset >= 19 ? 9 : 8);
    EXPECT_EQ(file.nodes[0].inputs.size(), opset >= 18 ? 2u : 1u);
    EXPECT_EQ(file.nodes[0].attributes.size(), opset >= 18 ? 1u : 2u);
    EXPECT_EQ(file.nodes.back().op_type, opset >= 18 ? "Mish" : "Mul");
  }
  for (const int64_t opset : {16, 22}) EXPECT_THROW(save_onnx(program, {.opset = opset}), Error) << opset;
}

TEST(OnnxOpset, IsTheFirstThatHasAllOperatorsIfNoneIsAskedFor) {
  format::OnnxFile file;
  file.ir_version = 10;
  file.opsets = {{"", 21}};
  const OnnxDims dims = {{2, ""}, {3, ""}};
  file.inputs = {info("x", DType::kS32, dims), info("s", DType::kString, {{1, ""}})};
  file.nodes = {node_of("n", "Neg", {"x"}, {"y"})};
  file.outputs = {info("y", DType::kS32, dims)};
  EXPECT_EQ(saved(read(file)).opsets, (format::OnnxOpsets{{"", 17}}));
  file.nodes.push_back(node_of("b", "BitwiseAnd", {"x", "y"}, {"z"}));
  file.outputs.push_back(info("z", DType::kS32, dims));
  EXPECT_EQ(saved(read(file)).opsets, (format::OnnxOpsets{{"", 18}}));
  expect_error(ErrorCode::kUnsupported, "BitwiseAnd before opset 18, found 17",
               [&] { save_onnx(read(file), {.opset = 17}); });
  file.nodes.push_back(node_of("c", "StringConcat", {"s", "s"}, {"t"}));
  file.outputs.push_back(info("t", DType::kString, {{1, ""}}));
  const format::OnnxFile again = saved(read(file));
  EXPECT_EQ(again.opsets, (format::OnnxOpsets{{"", 20}}));
  EXPECT_EQ(again.nodes[1].op_type, "BitwiseAnd");
  EXPECT_EQ(again.nodes[2].op_type, "StringConcat");
}

// Cast saturates unless it is told otherwise, PyTorch's conversion does not.
// Two products of a byte and a weight that do not fit 16 bits.
TEST(OnnxSaturation, IsToldUnlessTheRangeIsReduced) {
  const auto note = [](const SymmetricConfigOptions& options) {
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config(options));
    Prepared prepared = prepare_pt2e(read(network()), quantizer);
    prepared.run(std::vector<Tensor>{ramp({2, 3, 9})});
    return save_program(convert_pt2e(prepared), "x.onnx").note;
  };
  EXPECT_NE(note({}).find("ONNX Runtime can lose accuracy in 1 layer on x86 processors without VNNI"),
            std::string::npos);
  EXPECT_EQ(note({.reduce_range = true}), "");
  EXPECT_EQ(note({.act_qmin = 0}), "");
  EXPECT_EQ(save_program(read(network()), "x.onnx").note, "");
}

// The largest skip means that any two elements make a gram.
TEST(OnnxStrings, GramsOfAnySkipAreCounted) {
  const auto integers = [](const char* name, std::vector<int64_t> values) {
    OnnxAttribute out = integer(name, 0);
    out.kind = OnnxKind::kInts;
    out.ints = std::move(values);
    return out;
  };
  OnnxAttribute mode;
  mode.name = "mode";
  mode.kind = OnnxKind::kString;
  mode.s = "TF";
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs = {info("x", DType::kS64, {{4, ""}})};
  file.nodes = {node_of("count", "TfIdfVectorizer", {"x"}, {"y"})};
  file.nodes[0].attributes = {integer("min_gram_length", 2),
                              integer("max_gram_length", 2),
                              integer("max_skip_count", INT64_MAX),
                              integers("ngram_counts", {0, 0}),
                              integers("ngram_indexes", {0}),
                              integers("pool_int64s", {1, 4}),
                              mode};
  file.outputs = {info("y", DType::kF32, {{1, ""}})};
  const Program program = read(file);
  const auto backend = make_simd_ops();
  Interpreter interpreter(program, {backend.get()});
  EXPECT_EQ(interpreter.run(std::vector<Tensor>{Tensor::of<int64_t>({4}, {1, 2, 3, 4})})[0].item(), 1);
}

TEST(OnnxFloat8, IsWrittenFromOpset19On) {
  format::OnnxFile file;
  file.ir_version = 10;
  file.opsets = {{"", 21}};
  file.inputs = {info("x", DType::kF32, {{3, ""}})};
  file.nodes = {node_of("a", "Cast", {"x"}, {"eight"}), node_of("b", "Cast", {"x"}, {"beyond"})};
  const int64_t number = format::onnx_number(DType::kF8E4M3FN);
  file.nodes[0].attributes = {integer("to", number)};
  file.nodes[1].attributes = {integer("to", number), integer("saturate", 0)};
  file.outputs = {info("eight", DType::kF8E4M3FN, {{3, ""}}), info("beyond", DType::kF8E4M3FN, {{3, ""}})};
  const Program program = read(file), again = read(saved(program, {.opset = 21}));
  const std::vector<Tensor> input = {Tensor::of<float>({3}, {1, -500, 0.07F})};
  for (const Program* each : {&program, &again}) {
    const std::vector<Tensor> found = Interpreter(*each, {}).run(input);
    const auto *eight = reinterpret_cast<const uint8_t*>(found.at(0).raw()),
               *beyond = reinterpret_cast<const uint8_t*>(found.at(1).raw());
    EXPECT_EQ(std::vector<int>(eight, eight + 3), (std::vector<int>{0x38, 0xFE, 0x19}));
    EXPECT_EQ(std::vector<int>(beyond, beyond + 3), (std::vector<int>{0x38, 0xFF, 0x19}));
  }
  expect_error(ErrorCode::kUnsupported, "which ONNX can from opset 19 on", [&] { save_onnx(program, {.opset = 18}); });
  EXPECT_EQ(saved(program).opsets, (format::OnnxOpsets{{"", 19}}));
  expect_error(ErrorCode::kUnsupported, "has no number for the dtype float8_e4m3fn", [&] { save_pt2(program); });
}

TEST(OnnxFourBits, AreBytesOfTheirValues) {
  format::OnnxFile file;
  file.ir_version = 10;
  file.opsets = {{"", 21}};
  file.inputs = {info("x", DType::kF32, {{6, ""}}), info("scale", DType::kF32, {})};
  file.nodes = {node_of("a", "Cast", {"x"}, {"four"}), node_of("b", "Identity", {"four"}, {"same"}),
                node_of("c", "CastLike", {"x", "same"}, {"like"}),
                node_of("d", "QuantizeLinear", {"x", "scale"}, {"quantized"})};
  file.nodes[0].attributes = {integer("to", format::kOnnxS4)};
  file.nodes[3].attributes = {integer("output_dtype", format::kOnnxU4)};
  file.outputs = {info("like", DType::kS8, {{6, ""}}), info("quantized", DType::kU8, {{6, ""}})};
  const std::vector<Tensor> inputs = {Tensor::of<float>({6}, {-20, -1.5F, 0.5F, 2.5F, 7.4F, 99}), Tensor::scalar(2.0F)};
  const std::vector<Tensor> found = Interpreter(read(file), {}).run(inputs);
  EXPECT_TRUE(bitwise_equal(found.at(0), Tensor::of<int8_t>({6}, {-8, -2, 0, 2, 7, 7})));
  EXPECT_TRUE(bitwise_equal(found.at(1), Tensor::of<uint8_t>({6}, {0, 0, 0, 1, 4, 15})));
}

// The states' shapes in a .pt2 are not always true, nor those of slices that end beyond an open size.
TEST(OnnxSizes, OfOutputsHold) {
  format::OnnxFile file = network();
  file.nodes.push_back(node_of("Slice_2", "Slice", {"input.1", "zero", "many", "zero"}, {"first"}));
  file.initializers.emplace_back("zero", Tensor::of<int64_t>({1}, std::vector<int64_t>{0}));
  file.initializers.emplace_back("many", Tensor::of<int64_t>({1}, std::vector<int64_t>{64}));
  file.outputs.push_back(info("first", DType::kF32, {{}, {3, ""}, {}}));
  EXPECT_FALSE((*saved(read(file)).outputs[1].dims)[0].value);
}

TEST(OnnxUnknownOperators, AreWrittenAsTheyWere) {
  format::OnnxFile file = network();
  file.opsets.emplace_back("com.acme_labs", 3);
  format::OnnxNode node = node_of("Frob_2", "Frobnicate", {"logits", "", "block.bias"}, {"frobbed", "rest"});
  node.domain = "com.acme_labs";
  OnnxAttribute floats, strings, tensor;
  floats.name = "weights";
  floats.kind = OnnxKind::kFloats;
  floats.floats = {0.5F, 2};
  strings.name = "names";
  strings.kind = OnnxKind::kStrings;
  strings.strings = {"a", "b"};
  tensor.name = "table";
  tensor.kind = OnnxKind::kTensor;
  tensor.t = ramp({2, 2});
  node.attributes = {integer("axis", 1), floats, strings, tensor};
  file.nodes.push_back(node);
  file.outputs.push_back(info("frobbed", DType::kF32, {{{}, "batch"}, {4, ""}}));
  const format::OnnxFile again = saved(read(file));
  const format::OnnxNode& found = again.nodes.back();
  EXPECT_EQ(found.name, "Frob_2");
  EXPECT_EQ(found.op_type, "Frobnicate");
  EXPECT_EQ(found.domain, "com.acme_labs");
  EXPECT_EQ(again.opsets, file.opsets);
  EXPECT_EQ(found.inputs, node.inputs);
  EXPECT_EQ(found.outputs[0], "frobbed");
  EXPECT_EQ(found.outputs.size(), 2u);
  ASSERT_EQ(found.attributes.size(), 4u);
  EXPECT_EQ(found.attributes[0].i, 1);
  EXPECT_EQ(found.attributes[1].floats, floats.floats);
  EXPECT_EQ(found.attributes[2].strings, strings.strings);
  EXPECT_EQ(found.attributes[3].t.numel(), 4);
}

// Upsample went with opset 10.
TEST(OnnxUnknownOperators, UpsampleIsWrittenAsResize) {
  for (const int64_t opset : {7, 9}) {
    format::OnnxFile file;
    file.ir_version = 8;
    file.opsets = {{"", opset}};
    file.inputs = {info("x", DType::kF32, {{1, ""}, {2, ""}, {{}, "h"}, {{}, "w"}})};
    format::OnnxNode node = node_of("up", "Upsample", {"x"}, {"y"});
    const Tensor scales = Tensor::of<float>({4}, {1, 1, 1.5F, 3});
    if (opset < 9) {
      OnnxAttribute list;
      list.name = "scales";
      list.kind = OnnxKind::kFloats;
      list.floats = {1, 1, 1.5F, 3};
      node.attributes = {list};
    } else {
      file.initializers = {{"scales", scales}};
      node.inputs.emplace_back("scales");
    }
    file.nodes = {node};
    file.outputs = {info("y", DType::kF32, {{1, ""}, {2, ""}, {}, {}})};
    const Program program = read(file);
    const format::OnnxFile again = saved(program);
    EXPECT_EQ(again.nodes.back().op_type, "Resize");
    const std::vector<Tensor> inputs = {ramp({1, 2, 3, 4})};
    const Tensor wanted = Interpreter(program, {}).run(inputs)[0].contiguous();
    EXPECT_EQ(wanted.sizes(), (Shape{1, 2, 4, 12}));
    EXPECT_TRUE(bitwise_equal(Interpreter(read(again), {}).run(inputs)[0].contiguous(), wanted));
  }
}

// Of an open size, in a mode that is read when it runs. Opset 13 took nothing from Resize but a way to find places.
TEST(OnnxUnknownOperators, ResizeOfOpset11IsWrittenInLaterOnes) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 11}};
  file.inputs = {info("x", DType::kF32, {{1, ""}, {2, ""}, {{}, "h"}, {{}, "w"}})};
  format::OnnxNode node = node_of("resize", "Resize", {"x", "none", "scales"}, {"y"});
  const auto text = [](const std::string& name, const std::string& value) {
    OnnxAttribute out;
    out.name = name;
    out.kind = OnnxKind::kString;
    out.s = value;
    return out;
  };
  node.attributes = {text("mode", "cubic"), integer("exclude_outside", 1)};
  file.initializers = {{"none", Tensor::empty({0}, DType::kF32)}, {"scales", Tensor::of<float>({4}, {1, 1, 1.5F, 2})}};
  file.nodes = {node};
  file.outputs = {info("y", DType::kF32, {{1, ""}, {2, ""}, {}, {}})};
  const Program program = read(file);
  const std::vector<Tensor> inputs = {ramp({1, 2, 3, 4})};
  const Tensor wanted = Interpreter(program, {}).run(inputs)[0].contiguous();
  EXPECT_EQ(wanted.sizes(), (Shape{1, 2, 4, 8}));
  EXPECT_TRUE(bitwise_equal(Interpreter(read(saved(program)), {}).run(inputs)[0].contiguous(), wanted));
  file.nodes[0].attributes = {text("mode", "cubic"), integer("exclude_outside", 1),
                              text("coordinate_transformation_mode", "tf_half_pixel_for_nn")};
  EXPECT_THROW(saved(read(file)), Error);
}

// PyTorch's scatter may have more values than places, of ONNX sizes that are told apart only by a run.
TEST(OnnxSave, ValuesAreScatteredAsFarAsThereArePlaces) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs = {info("x", DType::kF32, {{2, ""}, {5, ""}}), info("places", DType::kS64, {{2, ""}, {{}, "n"}}),
                 info("values", DType::kF32, {{2, ""}, {{}, "m"}})};
  file.nodes = {node_of("scatter", "ScatterElements", {"x", "places", "values"}, {"y"})};
  file.nodes[0].attributes = {integer("axis", 1)};
  file.outputs = {info("y", DType::kF32, {{2, ""}, {5, ""}})};
  const Program program = read(file);
  const std::vector<Tensor> inputs = {ramp({2, 5}), Tensor::of<int64_t>({2, 2}, {4, 0, 1, 3}), ramp({2, 2})};
  const Tensor wanted = Interpreter(program, {}).run(inputs)[0].contiguous();
  EXPECT_TRUE(bitwise_equal(Interpreter(read(saved(program)), {}).run(inputs)[0].contiguous(), wanted));
}

TEST(OnnxExternalData, LiesBesideTheModelAlignedAndIsReadBack) {
  format::OnnxFile file = network();
  file.initializers[0].second = ramp({100, 3, 3});
  file.initializers[1].second = ramp({100});
  (*file.outputs[0].dims)[1].value = 100;
  MemoryHost host;
  host.contents["m/in.onnx"] = format::write_onnx_file(file);
  const std::vector<std::string> args = {"convert", "m/in.onnx", "m/out.onnx", "--onnx-data", "--onnx-opset", "21"};
  ASSERT_EQ(run_cli(args, host), 0) << host.err;
  ASSERT_EQ(host.contents.count("m/out.onnx.data"), 1u);
  EXPECT_EQ(host.contents["m/out.onnx.data"].size(), 3600u);  // the bias stays in the model
  const Model model = load_model("m/out.onnx", host.files);
  const std::vector<Tensor> x = {ramp({2, 3, 9})};
  const auto wanted = Interpreter(read(file), {}).run(x), found = Interpreter(model.program, {}).run(x);
  ASSERT_EQ(found[0].numel(), wanted[0].numel());
  EXPECT_TRUE(std::equal(found[0].data<float>(), found[0].data<float>() + found[0].numel(), wanted[0].data<float>()));
  EXPECT_THROW(load_onnx(host.contents["m/out.onnx"]), Error);
  EXPECT_EQ(run_cli(std::vector<std::string>{"convert", "m/in.onnx", "m/out.onnx", "--onnx-opset", "9"}, host), 2);
  EXPECT_NE(host.err.find("found 9, wanted a whole number from 17 to 21"), std::string::npos) << host.err;
}

// x[:, 1:3, ::2] = y as exporters write it, by the places of all elements; and twice the same place.
TEST(OnnxSave, PlacesAreKeptWhereTheyChange) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs = {info("x", DType::kF32, {{2, ""}, {4, ""}, {6, ""}}),
                 info("y", DType::kF32, {{2, ""}, {2, ""}, {3, ""}})};
  std::vector<int64_t> places, same;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 1; j < 3; ++j)
      for (int64_t k = 0; k < 6; k += 2) places.insert(places.end(), {i, j, k});
  for (int64_t i = 0; i < 2; ++i) same.insert(same.end(), {1, 3});
  file.initializers = {{"places", Tensor::of<int64_t>({2, 2, 3, 3}, std::span<const int64_t>(places))},
                       {"same", Tensor::of<int64_t>({2, 2}, std::span<const int64_t>(same))}};
  file.nodes = {node_of("put", "ScatterND", {"x", "places", "y"}, {"z"}),
                node_of("take", "GatherND", {"z", "same"}, {"picked"})};
  file.outputs = {info("z", DType::kF32, {{2, ""}, {4, ""}, {6, ""}}), info("picked", DType::kF32, {{2, ""}, {6, ""}})};
  const Program program = read(file);
  int64_t integers = 0;
  for (const Attribute& attribute : program.attributes)
    if (attribute.tensor.dtype() == DType::kS64) integers += attribute.tensor.numel();
  EXPECT_EQ(integers, 2 + 2 + 3 + 1 + 2);

  const Tensor x = ramp({2, 4, 6}), y = ramp({2, 2, 3});
  const Tensor wanted = x.clone();
  wanted.slice(1, 1, 3).slice(2, 0, 6, 2).copy_from(y);
  const Program onnx = load_onnx(save_onnx(program)), pt2 = load_pt2(save_pt2(program));
  for (const Program* again : {&program, &onnx, &pt2}) {
    const std::vector<Tensor> found = Interpreter(*again, {}).run(std::vector<Tensor>{x, y});
    EXPECT_TRUE(bitwise_equal(found[0], wanted));
    EXPECT_TRUE(bitwise_equal(found[1].select(0, 1).contiguous(), wanted.select(0, 1).select(0, 3).contiguous()));
    EXPECT_EQ(found[1].sizes(), (Shape{2, 6}));
  }
}

// Pools without a batch axis; what ONNX Runtime counts where a pool rounds up; a linear layer of one row.
TEST(OnnxSave, PoolsAndLinearLayersOfOtherShapesAreWritten) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 6, 7}, {}, false};
  Node* row = graph.create(Node::Op::kPlaceholder, "row", {}, {}, "row");
  row->meta.val.value = TensorMeta{DType::kF32, {7}, {}, false};
  const auto list = [](int64_t a, int64_t b) { return Argument::List{a, b}; };
  const auto call = [&](const std::string& name, std::vector<Argument> args) {
    return graph.call("torch.ops.aten." + name, std::move(args));
  };
  Node* places = call("max_pool2d_with_indices.default", {x, list(3, 2), list(2, 2), list(1, 1)});
  const Argument::List results = {call("max_pool2d.default", {x, list(2, 2)}),
                                  graph.call("operator.getitem", {places, 0}),
                                  graph.call("operator.getitem", {places, 1}),
                                  call("avg_pool2d.default", {x, list(2, 3), list(2, 2), list(0, 0), true, true}),
                                  call("avg_pool2d.default", {x, list(3, 3), list(2, 2), list(1, 1), true, true}),
                                  call("avg_pool2d.default", {x, list(3, 3), list(2, 3), list(1, 1), true, true}),
                                  call("linear.default", {x, row})};
  graph.create(Node::Op::kOutput, "output", {Argument(results)});
  infer_shapes(program);
  const std::vector<Tensor> in = {ramp({2, 6, 7}), ramp({7})};
  const std::vector<Tensor> wanted = Interpreter(program, {}).run(in);
  const std::vector<std::byte> bytes = save_onnx(program);
  const std::vector<Tensor> found = Interpreter(load_onnx(bytes), {}).run(in);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), wanted[i].sizes()) << i;
    const Tensor a = found[i].to(DType::kF64).contiguous(), b = wanted[i].to(DType::kF64).contiguous();
    for (int64_t k = 0; k < a.numel(); ++k) EXPECT_NEAR(a.data<double>()[k], b.data<double>()[k], 1e-5) << i;
  }
  for (const format::OnnxNode& node : saved(program).nodes)
    for (const OnnxAttribute& attribute : node.attributes) {
      const bool counts = attribute.name == "count_include_pad" && attribute.i != 0;
      EXPECT_FALSE(counts) << node.name;
    }
}

TEST(OnnxFixed, OnTheCommandLine) {
  MemoryHost host;
  host.contents["in.onnx"] = format::write_onnx_file(network());
  const auto convert = [&](const std::string& fixed) {
    return run_cli(std::vector<std::string>{"convert", "in.onnx", "out.pt2", "--fix", fixed}, host);
  };
  for (const char* fixed : {"batch=2", "input.1=2,3,9"}) {
    ASSERT_EQ(convert(fixed), 0) << host.err;
    EXPECT_EQ(
        load_model("out.pt2", host.files).program.graph->placeholders()[0]->meta.val.tensor()->sizes[0].constant(), 2)
        << fixed;
  }
  for (const auto& [fixed, status, words] : {std::tuple("batch", 2, "found batch, wanted NAME=NUMBER"),
                                             {"batch=2,", 1, "no input batch"},
                                             {"batch=two", 2, "found batch=two, wanted NAME=NUMBER"},
                                             {"y=2", 1, "has no input and no open size y that could be 2"}}) {
    EXPECT_EQ(convert(fixed), status) << fixed;
    EXPECT_NE(host.err.find(words), std::string::npos) << host.err;
  }
  EXPECT_EQ(run_cli(std::vector<std::string>{"convert", "out.pt2", "again.pt2", "--fix", "batch=1"}, host), 2);
  EXPECT_NE(host.err.find("out.pt2 is a .pt2 file; export the program again with batch fixed"), std::string::npos)
      << host.err;
}

}  // namespace
}  // namespace qdq::onnx_save_test
