// The reference representation computes what the dq/q program computes, in integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/interpreter.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "program_builder.h"

namespace qdq::reference_representation_test {
namespace {

Program linear_add() {
  ProgramBuilder b;
  Node* weight = b.weight("fc.weight", {6, 8});
  Node* bias = b.weight("fc.bias", {6});
  Node* x = b.input("x", {4, 8});
  Node* y = b.input("y", {4, 6});
  Node* linear = b.call("linear.default", {x, weight, bias}, "fc");
  Node* sum = b.call("add.Tensor", {linear, y});
  Node* relu = b.call("relu.default", {sum});
  return b.finish({relu});
}

double largest_difference(const Program& a, const Program& b, const std::vector<Tensor>& inputs) {
  const Tensor x = Interpreter(a, {}).run(inputs)[0], y = Interpreter(b, {}).run(inputs)[0].to(DType::kF32);
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    largest = std::max(largest, std::fabs(static_cast<double>(x.data<float>()[i]) - y.data<float>()[i]));
  return largest;
}

double scale_behind(const Prepared& prepared, const std::string& node) {
  for (const ObserverGroup& group : prepared.observers())
    for (const EdgeOrNode& at : group.covers)
      if (to_string(at) == node) return group.observer->calculate_qparams().scale[0];
  return 0;
}

// Integers are truncated where the quantized program rounds: one unit of the linear; two of the sum of two rescaled
// operands, and half of one for the rounding there.
TEST(ReferenceRepresentation, StaysWithinTheUnitsThatTruncationCosts) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  Prepared prepared = prepare_pt2e(linear_add(), quantizer);
  for (uint32_t seed = 0; seed < 4; ++seed) prepared.run({sample({4, 8}, seed), sample({4, 6}, seed + 50)});
  const Program converted = convert_pt2e(prepared), reference = convert_pt2e(prepared, {true, true});
  verify_program(reference);
  bool has_integers = false;
  for (const Node* node : reference.graph->nodes()) {
    EXPECT_EQ(node->target().find("quantized_decomposed"), std::string::npos) << node->name();
    has_integers = has_integers || node->target() == "torch.ops.higher_order.out_dtype";
  }
  EXPECT_TRUE(has_integers);
  const double allowed = scale_behind(prepared, "linear") + 2.5 * scale_behind(prepared, "relu") + 1e-5;
  for (uint32_t seed = 9; seed < 19; ++seed)
    EXPECT_LE(largest_difference(converted, reference, {sample({4, 8}, seed), sample({4, 6}, seed + 1)}), allowed);
}

TEST(ReferenceRepresentation, OfADynamicLinear) {
  SymmetricConfigOptions options;
  options.is_dynamic = true;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  const Prepared prepared = prepare_pt2e(linear_add(), quantizer);
  const Program converted = convert_pt2e(prepared), reference = convert_pt2e(prepared, {true, true});
  // The bias is rounded to units of scale_x * scale_w, far below the outputs.
  EXPECT_LE(largest_difference(converted, reference, {sample({4, 8}, 9), sample({4, 6}, 10)}), 1e-3);
}

// PyTorch's pattern takes it, with None for the bias, and what it writes cannot run.
TEST(ReferenceRepresentation, ALinearWithoutBiasStaysFloat) {
  for (const bool is_dynamic : {false, true}) {
    ProgramBuilder b;
    Node* weight = b.weight("fc.weight", {6, 8});
    Node* x = b.input("x", {4, 8});
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({.is_dynamic = is_dynamic}));
    Prepared prepared = prepare_pt2e(b.finish({b.call("linear.default", {x, weight}, "fc")}), quantizer);
    prepared.run({sample({4, 8}, 1)});
    const Program converted = convert_pt2e(prepared), reference = convert_pt2e(prepared, {true, true});
    verify_program(reference);
    EXPECT_TRUE(reference.graph->find("linear")->is("torch.ops.aten.linear.default"));
    // A quantize that divides may round another way than one that multiplies, by one unit of x or of the output.
    EXPECT_LE(largest_difference(converted, reference, {sample({4, 8}, 2)}), 0.05);
  }
}

TEST(ReferenceRepresentation, OfAConvolutionWithoutBias) {
  ProgramBuilder b;
  Node* weight = b.weight("conv.weight", {4, 3, 3, 3});
  Node* x = b.input("x", {1, 3, 6, 6});
  Node* conv = b.call("conv2d.default", {x, weight}, "conv");
  SymmetricConfigOptions options;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  Prepared prepared = prepare_pt2e(b.finish({conv}), quantizer);
  for (uint32_t seed = 0; seed < 3; ++seed) prepared.run({sample({1, 3, 6, 6}, seed)});
  const Program converted = convert_pt2e(prepared), reference = convert_pt2e(prepared, {true, true});
  verify_program(reference);
  int64_t integer_operators = 0;
  for (const Node* node : reference.graph->nodes())
    integer_operators += node->target() == "torch.ops.higher_order.out_dtype";
  EXPECT_EQ(integer_operators, 2);  // the convolution and the scaling of its sums
  EXPECT_LE(largest_difference(converted, reference, {sample({1, 3, 6, 6}, 7)}),
            scale_behind(prepared, "conv2d") * 1.001);
}

}  // namespace
}  // namespace qdq::reference_representation_test
