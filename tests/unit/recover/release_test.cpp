// Remedies that leave sums and outputs unrounded.
#include "quant/explain.h"
#include "recover/recovery.h"
#include "recover/precision.h"
#include "recover/sensitivity.h"

#include <gtest/gtest.h>

#include "op/facts.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "unit/recover/networks.h"

namespace qdq::release_test {
namespace {

// x[8, 16] -> x + linear(x) -> layer norm -> linear -> [8, 4], where two channels of the sum are a thousand times as
// large as the others, and the layer norm makes them alike.
Program with_massive_channels() {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* layer = b.call("linear.default", {x, b.weight("a.weight", {16, 16}), b.weight("a.bias", {16})});
  Node* sum = b.call("add.Tensor", {x, layer});
  Node* norm = b.call("layer_norm.default",
                      {sum, Argument::List{16}, b.weight("norm.weight", {16}), b.weight("norm.bias", {16})});
  Program program =
      b.finish({b.call("linear.default", {norm, b.weight("b.weight", {4, 16}), b.weight("b.bias", {4})})});
  const auto scale = [&](const std::string& name, float massive, float others) {
    const Tensor tensor = program.find_attribute(name)->tensor;
    const int64_t inner = tensor.numel() / 16;
    for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] *= i / inner < 2 ? massive : others;
  };
  scale("a.weight", 1000, 1);
  scale("norm.weight", 1, 1000);
  return program;
}

TEST(ReleaseSums, LeavesSumsOfMassiveChannelsUnrounded) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(with_massive_channels(), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  Recovery recovery(prepared, rows());
  const double before = recovery.decibels();
  const int64_t released = release_sums(recovery);
  EXPECT_GT(released, 0);
  EXPECT_GT(recovery.decibels(), before + 3);
  const Program converted = convert_pt2e(prepared);
  for (const Node* node : converted.graph->nodes())
    if (is_a(*node, Family::kAdd)) {
      EXPECT_FALSE(is_a(*node->users()[0], Family::kQuantize));
    }
}

// x[8, 16] -> linear + mask -> softmax -> linear -> [8, 4], where the mask is 0 or -1e9.
Program with_mask() {
  ProgramBuilder b;
  Node* scores =
      b.call("linear.default", {b.input("x", {8, 16}), b.weight("a.weight", {16, 16}), b.weight("a.b", {16})});
  Node* shares = b.call("softmax.int", {b.call("add.Tensor", {scores, b.weight("mask", {16})}), -1});
  Program program = b.finish({b.call("linear.default", {shares, b.weight("b.weight", {4, 16}), b.weight("b.b", {4})})});
  const Tensor mask = program.find_attribute("mask")->tensor;
  for (int64_t i = 0; i < mask.numel(); ++i) mask.data<float>()[i] = i % 2 == 0 ? 0 : -1e9F;
  const Tensor weight = program.find_attribute("a.weight")->tensor;
  for (float& value : weight.span<float>()) value *= 4;
  return program;
}

TEST(ReleaseSums, LeavesMaskedScoresUnrounded) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(with_mask(), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  const std::vector<std::string> lost = lost_outputs(prepared, rows());
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_NE(
      lost[0].find(", and add holds a mask of -1e+09, beside which integers tell no scores apart; recover accuracy"),
      std::string::npos)
      << lost[0];
  Recovery recovery(prepared, rows());
  EXPECT_GT(release_sums(recovery), 0);
  EXPECT_GT(recovery.decibels(), 30);
  EXPECT_TRUE(lost_outputs(prepared, rows()).empty());
}

TEST(ReleaseSums, KeepsIntegersThatServe) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  choose_ranges(recovery);
  const Program chosen = convert_pt2e(prepared);
  EXPECT_EQ(release_sums(recovery), 0);
  expect_same(convert_pt2e(prepared), chosen);
}

TEST(ReleaseOutputs, LeavesWhatFollowsTheLastLayerUnrounded) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  choose_ranges(recovery);
  EXPECT_EQ(release_outputs(recovery), 1);
  const Program converted = convert_pt2e(prepared);
  const Node* output = converted.graph->output_node()->arg(0).list()[0].node();
  EXPECT_TRUE(is_a(*output, Family::kLinear));
}

TEST(ReleaseOutputs, SaysWhyAProductStaysInFloat) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* layer = b.call("linear.default", {x, b.weight("a.weight", {4, 16}), b.weight("a.bias", {4})});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(b.finish({b.call("mul.Tensor", {layer, layer})}), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  Recovery recovery(prepared, rows());
  EXPECT_EQ(release_outputs(recovery), 2);
  const std::vector<LeftInFloat> left = left_in_float(prepared, convert_pt2e(prepared));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].op, "aten.mul.Tensor");
  EXPECT_EQ(left[0].reason, "recovery left its values in float, which brings the outputs nearer");
}

// The noise of the sums may have hidden what the remedies in front of them gain.
TEST(Recover, TriesRemediesAgainBehindSumsInFloat) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(with_massive_channels(), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  std::vector<std::string> told;
  recover(prepared, rows(), [&](const RemedyResult& result) { told.push_back(result.remedy); });
  EXPECT_EQ(told, (std::vector<std::string>{"weight scales", "inputs", "equalization", "shifts", "ranges", "sums",
                                            "inputs", "equalization", "shifts", "ranges", "sums", "outputs", "rounding",
                                            "bias correction"}));
}

// x[8, 16] -> linear -> [8, 16], of which rows that a gate lets through go through another layer; it stays shut.
TEST(Recover, LeavesLayersInFloatThatNoSampleReaches) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* gate = b.input("gate", {8});
  Node* open = b.call("linear.default", {x, b.weight("a.weight", {16, 16}), b.weight("a.bias", {16})});
  Node* places = b.call("squeeze.dim", {b.call("nonzero.default", {gate}), 1});
  Node* shut = b.call("linear.default", {b.call("index_select.default", {open, 0, places}),
                                         b.weight("b.weight", {4, 16}), b.weight("b.bias", {4})});
  const Program program = b.finish({open, shut});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(program.clone(), quantizer);
  std::vector<Batch> batches = rows();
  for (Batch& batch : batches) {
    batch.push_back(Tensor::full({8}, DType::kF32, 0));
    prepared.run(batch);
  }
  EXPECT_FALSE(recover(prepared, batches).empty());
  EXPECT_EQ(prepared.values_without_data(), (std::vector<std::string>{"index_select", "linear_1"}));
  const Program converted = convert_pt2e(prepared);
  EXPECT_TRUE(bitwise_equal(converted.find_attribute("b.bias")->tensor, program.find_attribute("b.bias")->tensor));
  for (const Node* user : converted.graph->find(shut->name())->users()) EXPECT_FALSE(is_a(*user, Family::kQuantize));
}

}  // namespace
}  // namespace qdq::release_test
