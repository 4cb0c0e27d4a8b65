// Graphs whose activations are quantized by their range in every run, and weights in groups: what is fused, and that
// the numbers stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_builder.h"
#include "lower/fuse.h"

namespace qdq::fuse_dynamic_test {
namespace {

using testing::ElementsAre;

// The value quantized by its own range in every run.
Node* rounded_by_range(GraphBuilder& g, Node* value, DType dtype) {
  const int low = static_cast<int>(min_of(dtype)), high = static_cast<int>(max_of(dtype));
  Node* chosen =
      g.call("torch.ops.quantized_decomposed.choose_qparams.tensor", {value, low, high, 0.000244140625, dtype});
  Node *scale = g.call("operator.getitem", {chosen, 0}), *zero_point = g.call("operator.getitem", {chosen, 1});
  Node* integers =
      g.call("torch.ops.quantized_decomposed.quantize_per_tensor.tensor", {value, scale, zero_point, low, high, dtype});
  return g.call("torch.ops.quantized_decomposed.dequantize_per_tensor.tensor",
                {integers, scale, zero_point, low, high, dtype});
}

// Two linear layers, the first perhaps behind a static quantizer.
Program dynamic_network(DType dtype, bool is_static_before = false) {
  GraphBuilder g;
  Node* x = g.input({1, 6, 32});
  if (is_static_before) x = g.round(x, 0.03, 128);
  const auto rounded = [&](Node* value) { return rounded_by_range(g, value, dtype); };
  Node* hidden = g.call("torch.ops.aten.relu.default",
                        {g.call("torch.ops.aten.linear.default", {rounded(x), g.weight({64, 32})})});
  Node* out = g.call("torch.ops.aten.linear.default", {rounded(hidden), g.weight({32, 64})});
  return g.done({g.call("torch.ops.aten.add.Tensor", {out, x})});
}

// Three convolutions, one depthwise, one in front of an addition, whose other operand is rounded, too, if that is so.
Program dynamic_images(DType dtype, bool rounds_sum = false) {
  GraphBuilder g;
  const auto rounded = [&](Node* value) { return rounded_by_range(g, value, dtype); };
  Node* x = g.input({2, 8, 9, 9});
  Node* a = g.call("torch.ops.aten.relu.default", {g.conv(rounded(x), {24, 8, 3, 3}, 1)});
  Node* rounded_a = rounded(a);
  Node* b = g.call("torch.ops.aten.relu.default", {g.conv(rounded_a, {24, 1, 3, 3}, 1, 24)});
  if (rounds_sum) a = rounded_a;
  Node* c = g.conv(rounded(b), {24, 24, 1, 1});
  return g.done({g.call("torch.ops.aten.relu.default", {g.call("torch.ops.aten.add.Tensor", {c, a})})});
}

TEST(FuseDynamic, TakesDynamicLinearLayers) {
  for (const DType dtype : {DType::kU8, DType::kS8}) {
    Program program = dynamic_network(dtype);
    const Fusion fusion = fuse_program(program);
    ASSERT_EQ(fusion.plans.size(), 1u);
    EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("dynamic_linear", "dynamic_linear"));
    for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
    EXPECT_EQ(program.graph->size(), 4u) << to_text(*program.graph);
    program = dynamic_network(dtype);
    EXPECT_TRUE(fuse_program(program, {.dynamic = false}).plans.empty());
    // One step of the hidden values can move the outputs so far.
    EXPECT_LE(difference_from("simd", dynamic_network(dtype), {1, 6, 32}).largest, 0.05);
    EXPECT_LE(difference_from("simd", dynamic_network(dtype, true), {1, 6, 32}).largest, 0.05);
  }
}

// x [s0, 6, 64] -> gate and up, both of it -> silu(gate) * up -> down, with weights of 4 bits in groups of 32.
Program group_network(bool per_token) {
  GraphBuilder g;
  const auto linear = [&](Node* x, int64_t channels) {
    return g.call("torch.ops.aten.linear.default", {x, g.group_weight({channels, 64}, 32), g.floats({channels})});
  };
  const auto rounded = [&](Node* x) { return per_token ? g.round_tokens(x) : x; };
  Node* x = rounded(g.input({1, 6, 64}));
  Node* gate = g.call("torch.ops.aten.silu.default", {linear(x, 64)});
  Node* hidden = g.call("torch.ops.aten.mul.Tensor", {gate, linear(x, 64)});
  return g.done({linear(rounded(hidden), 40)});
}

TEST(FuseDynamic, KeepsWeightsInGroupsPacked) {
  for (const bool per_token : {false, true}) {
    Program program = group_network(per_token);
    const Fusion fusion = fuse_program(program);
    ASSERT_EQ(fusion.plans.size(), 1u);
    EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("group_linear", "group_linear", "mul", "group_linear"));
    for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
    EXPECT_EQ(fusion.plans[0].steps[0].as<PlanStep::GroupLinear>().per_token, per_token);
    // Nothing of the weights is left beside the packed ones.
    EXPECT_TRUE(program.attributes.empty());
    // A hidden value may be rounded to the other side, which moves outputs by a step of a token.
    EXPECT_LE(difference_from("simd", group_network(per_token), {2, 6, 64}).largest, per_token ? 0.02 : 1e-5);
  }
}

TEST(FuseDynamic, TokensThatOthersReadAreRoundedInTheGraph) {
  GraphBuilder g;
  Node* x = g.round_tokens(g.input({1, 6, 64}));
  Node* y = g.call("torch.ops.aten.linear.default", {x, g.group_weight({40, 64}, 32)});
  Program program = g.done({y, g.call("torch.ops.aten.relu.default", {x})});
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_FALSE(fusion.plans[0].steps[0].as<PlanStep::GroupLinear>().per_token);
}

TEST(FuseDynamic, TakesDynamicConvolutions) {
  for (const DType dtype : {DType::kU8, DType::kS8}) {
    for (const bool floats : {false, true}) {
      Program program = dynamic_images(dtype);
      const Fusion fusion = fuse_program(program, {.floats = floats});
      ASSERT_EQ(fusion.plans.size(), 1u);
      EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("arrange", "dynamic_convolution", "dynamic_convolution",
                                                         "dynamic_convolution", "dequantize"));
      for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
    }
    EXPECT_LE(difference_from("simd", dynamic_images(dtype), {2, 8, 9, 9}).largest, 0.1);
    Program program = dynamic_images(dtype, true);
    const Fusion fusion = fuse_program(program, {.floats = false});
    ASSERT_EQ(fusion.plans.size(), 1u);
    EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("arrange", "dynamic_convolution", "dynamic_round",
                                                       "dynamic_convolution", "dynamic_convolution", "dequantize"));
    for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
    EXPECT_LE(difference_from("simd", dynamic_images(dtype, true), {2, 8, 9, 9}).largest, 0.1);
  }
}

}  // namespace
}  // namespace qdq::fuse_dynamic_test
