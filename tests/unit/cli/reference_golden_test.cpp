// The reference representation against PyTorch's, on programs that PyTorch quantized.
#include "quant/reference_representation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/interpreter.h"
#include "format/bytes.h"
#include "format/json.h"
#include "format/zip.h"
#include "golden_bytes.h"
#include "io/pt2.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"

namespace qdq::reference_golden_test {
namespace {

double largest_difference(const Program& a, const Program& b, const std::vector<Tensor>& inputs) {
  const Tensor x = Interpreter(a, {}).run(inputs)[0], y = Interpreter(b, {}).run(inputs)[0].to(DType::kF32);
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    largest = std::max(largest, std::fabs(static_cast<double>(x.data<float>()[i]) - y.data<float>()[i]));
  return largest;
}

// tests/golden/quant/reference*, made by make_reference.py: PyTorch's rewriting of the same programs.

format::Json facts() {
  const std::vector<std::byte> bytes = golden_bytes("quant/reference.json");
  return format::parse_json(format::text_of(bytes), "reference.json");
}

Tensor tensor_of(const format::Json& values, const Shape& shape) {
  const Tensor out = Tensor::empty(shape, DType::kF32);
  for (size_t i = 0; i < values.size(); ++i) out.data<float>()[i] = values[i].get<float>();
  return out;
}

std::vector<Tensor> inputs_of(const format::Json& golden) {
  std::vector<Tensor> out;
  for (const format::Json& input : golden["inputs"])
    out.push_back(tensor_of(input["values"], input["shape"].get<Shape>()));
  return out;
}

// A file names every result of a call; what nobody reads is gone when convert_pt2e comes to the rewriting.
Program quantized_program(const std::string& name) {
  Program program = load_pt2(golden_bytes("quant/reference_" + name + ".pt2"));
  program.graph->eliminate_dead_code();
  return program;
}

std::vector<std::string> targets_of(const Program& program) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction)
      out.push_back(node->target() == "torch.ops.aten.clamp" ? "torch.ops.aten.clamp.default" : node->target());
  return out;
}

Tensor flat_output(const Program& program, const std::vector<Tensor>& inputs) {
  const Tensor out = Interpreter(program, {}).run(inputs)[0].contiguous();
  return out.to(DType::kF32).reshape({out.numel()});
}

// Outputs are dequantized integers, so equal integers are equal floats.
TEST(ReferenceGolden, IsPyTorchsToTheOperatorAndTheBit) {
  const format::Json all = facts();
  for (const auto& [name, golden] : all.items()) {
    SCOPED_TRACE(name);
    Program program = quantized_program(name);
    rewrite_as_reference_representation(program, Compat::kTorch26);
    verify_program(program);
    auto found = targets_of(program), wanted = golden["targets"].get<std::vector<std::string>>();
    EXPECT_EQ(found, wanted);
    const Tensor expected = tensor_of(golden["output"], {static_cast<int64_t>(golden["output"].size())});
    EXPECT_TRUE(bitwise_equal(flat_output(program, inputs_of(golden)), expected));
  }
}

// out_dtype has no schema in PyTorch: its arguments have no names in a file, and the first one is an operator.
TEST(ReferenceGolden, IsWrittenAndReadAsPyTorchDoes) {
  const format::Json all = facts();
  const format::Json& golden = all["linear"];
  const std::vector<Tensor> inputs = inputs_of(golden);
  const Tensor expected = tensor_of(golden["output"], {static_cast<int64_t>(golden["output"].size())});
  const Program theirs = load_pt2(golden_bytes("quant/rewritten_linear.pt2"));
  EXPECT_TRUE(bitwise_equal(flat_output(theirs, inputs), expected));

  Program program = quantized_program("linear");
  rewrite_as_reference_representation(program, Compat::kTorch26);
  const std::vector<std::byte> bytes = save_pt2(program);
  EXPECT_TRUE(bitwise_equal(flat_output(load_pt2(bytes), inputs), expected));
  const format::ZipReader zip(bytes);
  const format::ByteData text = zip.read(*zip.find("serialized_exported_program.json"));
  const format::Json written = format::parse_json(text.text(), "the program");
  int64_t found = 0;
  for (const format::Json& node : written["graph_module"]["graph"]["nodes"]) {
    if (node["target"] != "torch.ops.higher_order.out_dtype") continue;
    ++found;
    for (const format::Json& input : node["inputs"]) EXPECT_EQ(input["name"], "");
    EXPECT_TRUE(node["inputs"][0]["arg"].contains("as_operator"));
    EXPECT_EQ(node["inputs"][1]["arg"]["as_scalar_type"], 4);  // int32
  }
  EXPECT_EQ(found, 6);
}

TEST(ReferenceGolden, IsNotQuantizedAgain) {
  for (const std::string name : {"linear", "conv2d"}) {
    Program program = quantized_program(name);
    rewrite_as_reference_representation(program, Compat::kTorch26);
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config());
    try {
      prepare_pt2e(program.clone(), quantizer);
      ADD_FAILURE() << name << " was quantized twice";
    } catch (const Error& error) {
      EXPECT_NE(error.message.find("the program is quantized already"), std::string::npos) << error.message;
    }
  }
}

// Convolutions and max pools as exported programs spell them become integers too, where PyTorch leaves them to their
// quantize operators.
TEST(ReferenceGolden, FindsConvolutionsByTheirExportedNames) {
  const format::Json golden = facts();
  for (const std::string name : {"conv2d", "conv2d_by_name", "padded_pool"}) {
    SCOPED_TRACE(name);
    Program program = quantized_program(name), quantized = program.clone();
    rewrite_as_reference_representation(program, Compat::kNone);
    verify_program(program);
    // Two convolutions with a bias take three products each; what remains of the quantize operators is that of the
    // input.
    const auto targets = targets_of(program);
    EXPECT_EQ(std::count(targets.begin(), targets.end(), "torch.ops.higher_order.out_dtype"), 6);
    EXPECT_EQ(std::count(targets.begin(), targets.end(), "torch.ops.aten.round.default"), 1);
    const std::vector<Tensor> inputs = inputs_of(golden[name]);
    double unit = 0;
    for (const Node* node : quantized.graph->nodes())
      if (node->target() == "torch.ops.quantized_decomposed.quantize_per_tensor.default") unit = *node->arg(1).number();
    EXPECT_LE(largest_difference(quantized, program, inputs), 3.001 * unit);
  }
}

}  // namespace
}  // namespace qdq::reference_golden_test
