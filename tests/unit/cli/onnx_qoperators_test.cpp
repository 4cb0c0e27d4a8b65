// Operators of integers in ONNX files, in place of float ones between DequantizeLinear and QuantizeLinear.
#include <gtest/gtest.h>

#include "format/json.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "profile/runtime_profile.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recipe/recipe.h"
#include "unit/cli/integer_files.h"
#include "unit/format/expect_error.h"
#include "unit/quant/program_builder.h"

namespace qdq::onnx_qoperators_test {
namespace {

using format::OnnxFile;
using integer_files::count;
using integer_files::ramp;
using integer_files::run;

// conv -> relu -> max pool, beside conv, and their sum, behind which a mean and a linear layer.
Program a_residual_network() {
  ProgramBuilder b;
  const auto conv = [&](Node* x, const char* name, const Shape& sizes) {
    const Argument one = Argument::List{1, 1};
    return b.call("conv2d.default",
                  {x, b.weight(name, sizes), b.weight(std::string(name) + "_bias", {sizes[0]}), one, one});
  };
  Node* x = b.input("x", {1, 3, 8, 8});
  Node* first =
      b.call("max_pool2d.default", {b.call("relu.default", {conv(x, "first", {8, 3, 3, 3})}), Argument::List{2, 2}});
  Node* sum = b.call("add.Tensor", {conv(first, "second", {8, 8, 3, 3}), first});
  Node* flat =
      b.call("flatten.using_ints",
             {b.call("adaptive_avg_pool2d.default", {b.call("relu.default", {sum}), Argument::List{1, 1}}), 1});
  return b.finish({b.call("linear.default", {flat, b.weight("fc", {5, 8}), b.weight("fc_bias", {5})})});
}

TEST(OnnxQOperators, StandBetweenIntegersOnRequest) {
  for (const bool is_per_channel : {false, true}) {
    SCOPED_TRACE(is_per_channel);
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = is_per_channel}));
    Prepared prepared = prepare_pt2e(a_residual_network(), quantizer);
    const Tensor input = ramp({1, 3, 8, 8});
    prepared.run({input});
    const Program converted = convert_pt2e(prepared);
    const std::vector<std::byte> bytes = save_onnx(converted, {.format = OnnxFormat::kQOperator}),
                                 qdq = save_onnx(converted);
    const OnnxFile file = format::read_onnx_file(bytes);
    EXPECT_EQ(count(file, "QLinearConv"), 2);
    EXPECT_EQ(count(file, "QGemm"), 1);
    EXPECT_EQ(count(file, "QLinearAdd"), 1);
    EXPECT_EQ(count(file, "MaxPool"), 1);
    for (const char* op : {"Conv", "Gemm", "Add", "Relu"}) EXPECT_EQ(count(file, op), 0) << op;
    EXPECT_LT(count(file, "DequantizeLinear"), count(format::read_onnx_file(qdq), "DequantizeLinear") / 3);
    EXPECT_TRUE(bitwise_equal(run(load_onnx(bytes), input), run(load_onnx(qdq), input)));
  }
  expect_error(ErrorCode::kInvalidArgument, "none has quantized inputs",
               [] { save_onnx(a_residual_network(), {.format = OnnxFormat::kQOperator}); });
  expect_error(ErrorCode::kInvalidArgument, "wanted qdq or qoperator", [] { onnx_format_of("QOperator"); });
}

// x [2, 3, 8] -> linear; its products with itself; -> linear of their last rows. The profile leaves all results float.
Program products() {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 3, 8});
  Node* first = b.call("linear.default", {x, b.weight("first", {8, 8}), b.weight("first_bias", {8})});
  Node* scores = b.call("softmax.int", {b.call("matmul.default", {first, b.call("transpose.int", {first, 1, 2})}), -1});
  Node* row = b.call("select.int", {b.call("matmul.default", {scores, first}), 1, 2});
  return b.finish({b.call("linear.default", {row, b.weight("last", {5, 8}), b.weight("last_bias", {5})})});
}

TEST(OnnxQOperators, ProductsMayGiveFloats) {
  Prepared prepared = prepare_pt2e(products(), *parse_recipe(recipe_of(runtime_profile("ort")), "ort"));
  const Tensor input = ramp({2, 3, 8});
  prepared.run({input});
  const Program converted = convert_pt2e(prepared);
  const std::vector<std::byte> bytes = save_onnx(converted, {.format = OnnxFormat::kQOperator});
  const OnnxFile file = format::read_onnx_file(bytes);
  EXPECT_EQ(count(file, "MatMulIntegerToFloat"), 3);
  EXPECT_EQ(count(file, "QGemm"), 1);
  for (const char* op : {"MatMul", "Gemm", "DequantizeLinear"}) EXPECT_EQ(count(file, op), 0) << op;
  for (const auto& node : file.nodes) {
    if (node.op_type != "QGemm" && node.op_type != "MatMulIntegerToFloat") continue;
    EXPECT_EQ(node.inputs.size(), node.op_type == "QGemm" ? 7u : 6u) << "the result has no scale";
  }
  EXPECT_TRUE(bitwise_equal(run(load_onnx(bytes), input), run(load_onnx(save_onnx(converted)), input)));
}

}  // namespace
}  // namespace qdq::onnx_qoperators_test
