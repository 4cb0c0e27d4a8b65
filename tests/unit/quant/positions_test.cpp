// What is left in float because it says where things are.
#include "quant/quantizers/positions.h"

#include <gtest/gtest.h>

#include "program_builder.h"
#include "quant/explain.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/pt2e.h"
#include "quant/quantizers/pattern_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"

namespace qdq::positions_test {
namespace {

// Angles of places turn x; the last size of x by a scale, as a number to cast; and a mask of flags.
Program turned() {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 8});
  Node* ids = b.input("ids", {8}, DType::kS64);
  Node* scale = b.input("scale", {1});
  Node* frequencies = b.call("unsqueeze.default", {b.weight("frequencies", {8}), 0});
  Node* places = b.call("to.dtype", {ids, DType::kF32});
  Node* angles = b.call("mul.Tensor", {places, frequencies}, "angles");
  Node* turned = b.call("mul.Tensor", {x, b.call("cos.default", {angles})}, "turned");
  Node* size = b.call("mul.Tensor", {scale, b.weight("size", {1})}, "size");
  Node* count = b.call("to.dtype", {b.call("floor.default", {size}), DType::kS64});
  Node* features = b.call("embedding.default", {b.weight("table", {4, 8}), ids});
  Node* sum = b.call("add.Tensor", {features, b.weight("more", {8, 8})}, "sum");
  return b.finish({turned, count, sum});
}

// By the module that a node was given.
Explanation of_module(const Prepared& prepared, const std::string& module) {
  for (Explanation& each : explain(prepared))
    if (each.module == module) return each;
  ADD_FAILURE() << "no node of " << module;
  return {};
}

void expect_left(const Prepared& prepared) {
  const Explanation angles = of_module(prepared, "angles"), size = of_module(prepared, "size");
  EXPECT_NE(angles.reason.find("it computes positions, sizes or masks from integers"), std::string::npos)
      << angles.reason;
  EXPECT_NE(size.reason.find("only integers are taken of its result"), std::string::npos) << size.reason;
  EXPECT_EQ(to_string(of_module(prepared, "turned").outcome), "quantized");
  EXPECT_EQ(to_string(of_module(prepared, "sum").outcome), "quantized");
}

TEST(Positions, StayInFloat) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  expect_left(prepare_pt2e(turned(), quantizer));
}

TEST(Positions, StayInFloatInFxGraphMode) {
  QConfigMappingQuantizer quantizer(get_default_qconfig_mapping("qnnpack"));
  expect_left(prepare_pt2e(turned(), quantizer));
}

// y / (sum + small), with a sum that is a feature, too, in the second case.
Program divided(bool is_read_otherwise) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 8});
  Node* weight = b.call("linear.default", {x, b.weight("weight", {8, 8}), b.weight("bias", {8})}, "layer");
  Node* sum = b.call("add.Tensor", {b.call("slice.Tensor", {weight, 1, 0, 1}), b.weight("small", {1})}, "sum");
  Node* quotient = b.call("div.Tensor", {x, sum});
  return is_read_otherwise ? b.finish({quotient, sum}) : b.finish({quotient});
}

TEST(Positions, DivisorsStayInFloat) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  const Explanation alone = of_module(prepare_pt2e(divided(false), quantizer), "sum");
  EXPECT_EQ(to_string(alone.outcome), "float");
  EXPECT_NE(alone.reason.find("its result divides"), std::string::npos) << alone.reason;
  EXPECT_EQ(to_string(of_module(prepare_pt2e(divided(true), quantizer), "sum").outcome), "quantized");
  EXPECT_EQ(to_string(of_module(prepare_pt2e(divided(false), quantizer), "layer").outcome), "quantized");
}

TEST(Positions, DivisorsStayInFloatInFxGraphMode) {
  QConfigMappingQuantizer quantizer(get_default_qconfig_mapping("qnnpack"));
  EXPECT_EQ(to_string(of_module(prepare_pt2e(divided(false), quantizer), "sum").outcome), "float");
  EXPECT_EQ(to_string(of_module(prepare_pt2e(divided(true), quantizer), "sum").outcome), "quantized");
}

// Linear attention: the last column of the second product divides the others.
TEST(Positions, ProductsOfDivisorsStayInFloat) {
  ProgramBuilder b;
  Node* x = b.call("relu.default", {b.input("x", {4, 8})}, "features");
  Node* first = b.call("matmul.default", {b.call("t.default", {x}), x}, "first");
  Node* both = b.call("matmul.default", {x, b.call("t.default", {first})}, "second");
  Node* quotient = b.call("div.Tensor", {b.call("slice.Tensor", {both, 1, 0, 7}),
                                         b.call("add.Tensor", {b.call("slice.Tensor", {both, 1, 7, 8}), 1e-5})});
  Node* other = b.call("matmul.default", {b.call("t.default", {x}), quotient}, "other");
  PatternQuantizer quantizer("products", {{.name = "products", .places = {{{.operators = "aten.matmul aten.relu"}}}}});
  quantizer.set_global(get_symmetric_quantization_config());
  const Prepared prepared = prepare_pt2e(b.finish({other}), quantizer);
  for (const char* left : {"first", "second"}) EXPECT_EQ(to_string(of_module(prepared, left).outcome), "float") << left;
  for (const char* taken : {"features", "other"})
    EXPECT_EQ(to_string(of_module(prepared, taken).outcome), "quantized") << taken;
}

// Integers that are divided need divisors in integers.
TEST(Positions, DivisorsAreQuantizedWhereDivisionsAre) {
  PatternQuantizer quantizer("divides",
                             {{.name = "sums, quotients", .places = {{{.operators = "aten.add aten.div"}}}}});
  quantizer.set_global(get_symmetric_quantization_config());
  EXPECT_EQ(to_string(of_module(prepare_pt2e(divided(false), quantizer), "sum").outcome), "quantized");
}

TEST(Positions, AreQuantizedAsPyTorchDoesThatIfAsked) {
  XNNPACKQuantizer quantizer(Compat::kTorch26);
  quantizer.set_global(get_symmetric_quantization_config());
  const Prepared prepared = prepare_pt2e(turned(), quantizer);
  EXPECT_EQ(to_string(of_module(prepared, "angles").outcome), "quantized");
  EXPECT_EQ(to_string(of_module(prepared, "size").outcome), "quantized");
}

// A weight that is computed, as in modulated convolutions, has a range that samples tell, and there are none.
TEST(ComputedWeights, StayInFloatWhereNoSamplesAreNeeded) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 8});
  Node* weight = b.call("mul.Tensor", {b.weight("w", {4, 8}), b.input("style", {8})}, "modulated");
  Node* stored = b.call("transpose.int", {b.weight("v", {8, 4}), 0, 1});
  Node* first = b.call("linear.default", {x, weight}, "computed");
  const Program program = b.finish({first, b.call("linear.default", {x, stored}, "stored")});
  QuantizationConfig weights = get_symmetric_quantization_config();
  weights.input_activation.reset();
  weights.output_activation.reset();
  for (const QuantizationConfig& config : {weights, get_symmetric_quantization_config({.is_dynamic = true})}) {
    XNNPACKQuantizer quantizer;
    quantizer.set_global(config);
    const Prepared prepared = prepare_pt2e(program.clone(), quantizer);
    EXPECT_FALSE(prepared.needs_data());
    EXPECT_EQ(of_module(prepared, "computed").reason,
              "its weight mul is computed from inputs: only samples tell its range");
    EXPECT_EQ(to_string(of_module(prepared, "stored").outcome), "quantized");
  }
}

}  // namespace
}  // namespace qdq::positions_test
