// Graphs as convert_pt2e leaves them: what is fused, what is not and why, and that the numbers stay.
#include "lower/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "lower/step_backend.h"
#include "lower/lower.h"
#include "graph_builder.h"
#include "op/infer.h"

namespace qdq::fuse_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A residual block, a max pool, a global mean and a classifier.
Program residual_network(DType dtype) {
  GraphBuilder g;
  const int low = dtype == DType::kS8 ? -128 : 0, middle = dtype == DType::kS8 ? 0 : 128;
  Node* x = g.round(g.input({2, 3, 12, 12}), 0.03, middle, dtype);
  Node* stem = g.q(g.call("torch.ops.aten.relu_.default", {g.conv(x, {16, 3, 3, 3}, 1)}), 0.02, low, dtype);
  Node* pooled = g.q(g.call("torch.ops.aten.max_pool2d.default",
                            {g.dq(stem), Argument::List{3, 3}, Argument::List{2, 2}, Argument::List{1, 1}}),
                     0.02, low, dtype);
  Node* inner =
      g.round(g.call("torch.ops.aten.relu_.default", {g.conv(g.dq(pooled), {16, 16, 3, 3}, 1)}), 0.02, low, dtype);
  Node* sum = g.call("torch.ops.aten.add_.Tensor", {g.conv(inner, {16, 16, 3, 3}, 1), g.dq(pooled)});
  Node* block = g.round(g.call("torch.ops.aten.relu_.default", {sum}), 0.03, low, dtype);
  Node* mean =
      g.round(g.call("torch.ops.aten.adaptive_avg_pool2d.default", {block, Argument::List{1, 1}}), 0.03, low, dtype);
  Node* flat = g.round(g.call("torch.ops.aten.flatten.using_ints", {mean, 1}), 0.03, low, dtype);
  flat = g.call("torch.ops.aten.dropout_.default", {flat, 0.2, false});
  Node* logits = g.call("torch.ops.aten.linear.default", {flat, g.weight({10, 16})});
  return g.done({g.round(logits, 0.05, middle, dtype)});
}

TEST(Fuse, MakesOnePlanOfAResidualNetwork) {
  for (const DType dtype : {DType::kU8, DType::kS8}) {
    Program program = residual_network(dtype);
    const Fusion fusion = fuse_program(program);
    ASSERT_EQ(fusion.plans.size(), 1u);
    EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("quantize", "convolution", "max_pool", "convolution",
                                                       "convolution", "average_pool", "linear", "dequantize"));
    for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
    // x, the plan, its item, the output
    EXPECT_EQ(program.graph->size(), 4u) << to_text(*program.graph);
    EXPECT_TRUE(program.attributes.empty());
    verify_program(program);
  }
}

TEST(Fuse, KeepsTheNumbersOfAResidualNetwork) {
  for (const DType dtype : {DType::kU8, DType::kS8})
    EXPECT_LE(difference_from("simd", residual_network(dtype), {1, 3, 12, 12}).largest, 0.0501);
}

TEST(Fuse, ResultsDoNotDependOnThreads) {
  const Program program = residual_network(DType::kU8);
  const Tensor x = random_tensor({4, 3, 12, 12}, 7);
  set_num_threads(1);
  const Tensor one = lower(program).run({{x}})[0];
  set_num_threads(2);
  const Tensor two = lower(program).run({{x}})[0];
  set_num_threads(1);
  EXPECT_TRUE(bitwise_equal(one, two));
}

// Squeeze and excitation as the X86 recipe leaves it: the product is taken in float.
Program excitation_network() {
  GraphBuilder g;
  Node* x = g.round(g.input({1, 8, 6, 6}), 0.03, 128);
  Node* wide = g.call("torch.ops.aten.silu_.default", {g.conv(x, {24, 8, 1, 1})});
  Node* squeezed =
      g.round(g.call("torch.ops.aten.mean.dim", {g.round(wide, 0.02, 12), Argument::List{2, 3}, true}), 0.02, 12);
  Node* hidden = g.round(g.call("torch.ops.aten.relu.default", {g.conv(squeezed, {6, 24, 1, 1})}), 0.02, 0);
  Node* gate = g.call("torch.ops.aten.sigmoid.default", {g.conv(hidden, {24, 6, 1, 1})});
  Node* scaled = g.round(g.call("torch.ops.aten.mul.Tensor", {gate, wide}), 0.02, 10);
  return g.done({g.round(g.conv(scaled, {8, 24, 1, 1}), 0.03, 128)});
}

TEST(Fuse, TakesSqueezeAndExcitation) {
  Program program = excitation_network();
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("quantize", "convolution", "average_pool", "convolution",
                                                     "convolution", "mul", "convolution", "dequantize"));
  EXPECT_LE(difference_from("simd", excitation_network(), {1, 8, 6, 6}).largest, 0.0301);
}

// A block of ConvNeXt: between its convolution and its sum the channels lie last, so that they are no image.
Program block_with_channels_last(bool is_quantized) {
  GraphBuilder g;
  const auto rounded = [&](Node* x, double scale) { return is_quantized ? g.round(x, scale, 128) : x; };
  const auto linear = [&](Node* x, int64_t rows, int64_t columns) {
    return g.call(
        "torch.ops.aten.linear.default",
        {x, is_quantized ? g.weight({rows, columns}) : g.floats({rows, columns}, -0.2f, 0.2f), g.floats({rows})});
  };
  Node* image = g.input({1, 16, 1, 1});
  auto& sizes = std::get<TensorMeta>(image->meta.val.value).sizes;
  sizes[2] = SymInt::symbol("s1");
  sizes[3] = SymInt::symbol("s2");
  Node* x = g.conv(rounded(image, 0.03), {16, 1, 3, 3}, 1, 16);
  x = g.call("torch.ops.aten.permute.default", {x, Argument::List{0, 2, 3, 1}});
  x = g.call("torch.ops.aten.layer_norm.default", {x, Argument::List{16}, g.floats({16}), g.floats({16})});
  x = g.call("torch.ops.aten.gelu.default", {linear(rounded(x, 0.03), 32, 16)});
  x = linear(rounded(g.call("torch.ops.aten.mul.Tensor", {x, 0.5}), 0.02), 16, 32);
  x = g.call("torch.ops.aten.permute.default", {x, Argument::List{0, 3, 1, 2}});
  x = g.call("torch.ops.aten.mul.Tensor", {x, g.floats({16, 1, 1})});
  return g.done({g.call("torch.ops.aten.add.Tensor", {x, image})});
}

TEST(Fuse, TakesLinearLayersBetweenImages) {
  Program program = block_with_channels_last(true);
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("quantize", "convolution", "layer_norm", "quantize", "linear",
                                                     "mul", "linear", "mul", "arrange", "add", "dequantize"));
  for (const bool is_quantized : {true, false}) {
    Program one = block_with_channels_last(is_quantized);
    EXPECT_EQ(fuse_program(one, {.floats = true}).plans.size(), 1u);
    for (const Shape& sizes : {Shape{1, 16, 6, 5}, Shape{1, 16, 1, 7}})
      EXPECT_LE(difference_from("simd", block_with_channels_last(is_quantized), sizes).relative,
                is_quantized ? 0.05 : 1e-5);
  }
}

// A row of a constant fits the kernels; what is repeated between its own axes does not.
TEST(Fuse, TakesConstantOperandsThatAreRepeatedByRows) {
  const auto sum = [](Shape image, Shape constant) {
    GraphBuilder g;
    Node* x = g.conv(g.round(g.input(image), 0.03, 128), {8, image[1], 1, 1});
    return g.done({g.call("torch.ops.aten.add.Tensor", {x, g.floats(std::move(constant))})});
  };
  const Shape image{1, 3, 4, 6};
  for (const Shape& constant : {Shape{8, 1, 1}, Shape{1, 8, 1, 1}, Shape{1}, Shape{}, Shape{1, 8, 4, 6}}) {
    Program program = sum(image, constant);
    EXPECT_THAT(kinds_of(fuse_program(program).plans.at(0)), testing::Contains("add")) << to_string(constant);
    EXPECT_LE(difference_from("simd", sum(image, constant), image).relative, 1e-5) << to_string(constant);
  }
  for (const Shape& constant : {Shape{6}, Shape{4, 1}, Shape{8, 1, 6}}) {
    Program program = sum(image, constant);
    const Fusion fusion = fuse_program(program);
    EXPECT_THAT(fusion.fates.back().refusal, HasSubstr("repeated along scattered axes")) << to_string(constant);
    EXPECT_LE(difference_from("simd", sum(image, constant), image).relative, 1e-5) << to_string(constant);
  }
}

// As the XNNPACK recipe leaves it: the constant's integers, dequantized.
TEST(Fuse, TakesConstantOperandsThatAreQuantized) {
  const auto sum = [](bool in_integers) {
    GraphBuilder g;
    Node* x = g.round(g.conv(g.round(g.input({1, 3, 4, 6}), 0.03, 128), {8, 3, 1, 1}), 0.05, 128);
    Node* constant = g.round(g.floats({8, 1, 1}, -1, 1), 0.01, 100);
    Program program = g.done({g.round(g.call("torch.ops.aten.add.Tensor", {x, constant}), 0.05, 128)});
    if (!in_integers) return program;
    Node* q = constant->arg(0).node();
    program.add_attribute({"integers", eval_constant(program, *q), Attribute::Kind::kBuffer});
    const auto point = program.graph->insert_before(q);
    Node* integers = program.graph->get_attr("integers");
    integers->meta = q->meta;
    q->replace_all_uses_with(integers);
    program.graph->eliminate_dead_code();
    return program;
  };
  Program program = sum(true);
  const Fusion fusion = fuse_program(program);
  EXPECT_THAT(kinds_of(fusion.plans.at(0)), ElementsAre("quantize", "convolution", "add", "dequantize"));
  EXPECT_LE(difference_from("simd", sum(true), {1, 3, 4, 6}).largest, 0.0501);
}

// A slope for each channel, behind a layer in float (X86) and behind one whose result is rounded (XNNPACK).
TEST(Fuse, TakesPreluOfImages) {
  const auto network = [](bool rounds, int64_t slopes) {
    GraphBuilder g;
    Node* x = g.conv(g.round(g.input({1, 3, 4, 6}), 0.03, 128), {8, 3, 1, 1});
    if (rounds) x = g.round(x, 0.05, 128);
    x = g.call("torch.ops.aten.prelu.default", {x, g.floats({slopes}, -0.5f, 1.5f)});
    return g.done({g.conv(g.round(x, 0.05, 100), {4, 8, 1, 1})});
  };
  for (const bool rounds : {false, true}) {
    Program program = network(rounds, 8);
    const Fusion fusion = fuse_program(program);
    EXPECT_THAT(kinds_of(fusion.plans.at(0)),
                ElementsAre("quantize", "convolution", "prelu", "convolution", "dequantize"));
    for (const int64_t slopes : {8, 1})
      EXPECT_LE(difference_from("simd", network(rounds, slopes), {1, 3, 4, 6}).relative, 0.02);
  }
}

// A layer norm in operators each of which the XNNPACK recipe rounds.
Program rounded_norm_network(bool has_another_reader) {
  GraphBuilder g;
  const auto call = [&](const char* name, std::vector<Argument> args) {
    return g.call(concat("torch.ops.aten.", name), std::move(args));
  };
  const auto linear = [&](Node* x) { return call("linear.default", {x, g.weight({32, 32})}); };
  Node* q = g.q(linear(g.round(g.input({1, 6, 32}), 0.03, 128)), 0.04, 120);
  Node* mean = g.round(call("mean.dim", {g.dq(q), Argument::List{2}, true}), 0.005, 100);
  Node* centered = call("sub.Tensor", {g.dq(q), mean});
  Node* variance =
      g.round(call("mean.dim", {call("pow.Tensor_Scalar", {centered, 2}), Argument::List{-1}, true}), 0.02, 0);
  Node* root = call("sqrt.default", {g.round(call("add.Tensor", {variance, g.floats({}, 0.01f, 0.02f)}), 0.02, 0)});
  Node* y = g.round(call("div.Tensor", {centered, root}), 0.03, 128);
  y = g.round(call("mul.Tensor", {y, g.floats({32})}), 0.03, 125);
  y = g.round(call("add.Tensor", {y, g.floats({32}, -1, 1)}), 0.04, 130);
  return has_another_reader ? g.done({linear(y), mean}) : g.done({linear(y)});
}

TEST(Fuse, TakesLayerNormsThatRoundOnTheWayWithTheSameNumbers) {
  Program program = rounded_norm_network(false);
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("quantize", "linear", "layer_norm", "linear"));
  EXPECT_LE(difference_from("simd", rounded_norm_network(false), {1, 6, 32}).relative, 0.01);
  Program other = rounded_norm_network(true);
  for (const Plan& plan : fuse_program(other).plans)
    EXPECT_THAT(kinds_of(plan), testing::Not(testing::Contains("layer_norm"))) << "its mean is an output";
}

// Windows that do not come out even make sizes such as FloorDiv(s1 - 1, 2) + 1, and a mean over them.
TEST(Fuse, TakesImagesOfOpenHeightAndWidth) {
  const auto network = [] {
    GraphBuilder g;
    Node* image = g.input({1, 3, 1, 1});
    std::get<TensorMeta>(image->meta.val.value).sizes = {SymInt::symbol("s0"), SymInt(3), SymInt::symbol("s1"),
                                                         SymInt::symbol("s2")};
    Node* x = g.conv(g.round(image, 0.03, 128), {8, 3, 3, 3}, 1);
    Node* halved = g.call("torch.ops.aten.max_pool2d.default",
                          {g.round(x, 0.02, 100), Argument::List{3, 3}, Argument::List{2, 2}, Argument::List{1, 1}});
    Node* y = g.round(g.conv(g.round(halved, 0.02, 100), {8, 8, 3, 3}, 1), 0.05, 120);
    Node* mean = g.round(g.call("torch.ops.aten.mean.dim", {y, Argument::List{-1, -2}, true}), 0.02, 120);
    Node* pooled = g.round(g.call("torch.ops.aten.adaptive_avg_pool2d.default", {y, Argument::List{1, 1}}), 0.02, 120);
    return g.done({g.round(g.call("torch.ops.aten.mul.Tensor", {y, mean}), 0.02, 128), pooled});
  };
  Program program = network();
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]),
              ElementsAre("quantize", "convolution", "max_pool", "convolution", "average_pool", "average_pool", "mul",
                          "dequantize", "dequantize"));
  for (const Shape& sizes : {Shape{1, 3, 12, 12}, Shape{1, 3, 7, 10}})
    EXPECT_LE(difference_from("simd", network(), sizes).largest, 0.0501) << to_string(sizes);
}

// Branches that meet in a concatenation, activations between quantized values, a residual added on its own.
Program branched_network() {
  GraphBuilder g;
  Node* x = g.q(g.input({1, 8, 6, 6}), 0.03, 0, DType::kS8);
  Node* left = g.round(g.call("torch.ops.aten.relu.default", {g.conv(g.dq(x), {16, 8, 1, 1})}), 0.02, -128, DType::kS8);
  Node* right = g.round(g.conv(g.dq(x), {8, 1, 3, 3}, 1, 8), 0.03, -5, DType::kS8);
  Node* swished = g.round(g.call("torch.ops.aten.hardswish.default", {right}), 0.02, -100, DType::kS8);
  Node* sum = g.round(g.call("torch.ops.aten.add.Tensor", {swished, g.dq(x)}), 0.04, -3, DType::kS8);
  Node* joined = g.round(g.call("torch.ops.aten.cat.default", {Argument::List{left, sum}, 1}), 0.04, -3, DType::kS8);
  return g.done({joined});
}

TEST(Fuse, TakesBranches) {
  Program program = branched_network();
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]),
              ElementsAre("quantize", "convolution", "convolution", "map", "add", "concat", "dequantize"));
  EXPECT_LE(difference_from("simd", branched_network(), {1, 8, 6, 6}).largest, 0.0401);
}

// A transformer block as the X86 recipe leaves it: linear layers on integers, attention and normalization in float,
// residual sums.
Program transformer_block() {
  GraphBuilder g;
  Node* x = g.input({1, 6, 32});
  const auto linear = [&](Node* value, int64_t rows, int64_t columns) {
    return g.call("torch.ops.aten.linear.default", {value, g.weight({rows, columns})});
  };
  Node* n = g.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* qkv =
      g.call("torch.ops.aten.view.default", {linear(g.round(x, 0.03, 128), 96, 32), Argument::List{n, 6, 3, 4, 8}});
  Node* heads = g.call("torch.ops.aten.unbind.int",
                       {g.call("torch.ops.aten.permute.default", {qkv, Argument::List{2, 0, 3, 1, 4}})});
  std::vector<Argument> operands;
  for (int i = 0; i < 3; ++i) operands.emplace_back(g.call("operator.getitem", {heads, i}));
  Node* attended = g.call("torch.ops.aten.transpose.int",
                          {g.call("torch.ops.aten.scaled_dot_product_attention.default", operands), 1, 2});
  Node* joined = g.call("torch.ops.aten.reshape.default", {attended, Argument::List{n, 6, 32}});
  Node* sum = g.call("torch.ops.aten.add.Tensor", {x, linear(g.round(joined, 0.03, 128), 32, 32)});
  Node* norm = g.call("torch.ops.aten.layer_norm.default", {sum, Argument::List{32}, g.floats({32}), g.floats({32})});
  Node* up = g.round(g.call("torch.ops.aten.gelu.default", {linear(g.round(norm, 0.03, 128), 64, 32)}), 0.02, 9);
  Node* out = g.call("torch.ops.aten.add.Tensor", {norm, linear(up, 32, 64)});
  return g.done({g.call("torch.ops.aten.select.int", {out, 1, 0})});
}

TEST(Fuse, TakesATransformerBlock) {
  Program program = transformer_block();
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("quantize", "linear", "attention", "quantize", "linear",
                                                     "layer_norm", "quantize", "linear", "linear", "arrange"));
  EXPECT_EQ(program.graph->size(), 4u) << to_text(*program.graph);
  EXPECT_LE(difference_from("simd", transformer_block(), {1, 6, 32}).largest, 0.06);  // what one step inside can move
}

// A number for each row, as the weights of a pool by attention; the first or the second operand.
TEST(Fuse, MultipliesRowsByANumberEach) {
  for (const bool rounds : {false, true}) {
    for (const bool is_first : {false, true}) {
      const auto network = [&] {
        GraphBuilder g;
        Node* x = g.round(g.input({1, 6, 32}), 0.03, 128);
        Node* weights = g.call("torch.ops.aten.linear.default", {x, g.weight({1, 32})});
        if (rounds) weights = g.round(weights, 0.02, 100);
        std::vector<Argument> operands{x, weights};
        if (is_first) std::swap(operands[0], operands[1]);
        return g.done({g.round(g.call("torch.ops.aten.mul.Tensor", operands), 0.05, 120)});
      };
      Program program = network();
      const Fusion fusion = fuse_program(program);
      ASSERT_EQ(fusion.plans.size(), 1u);
      EXPECT_THAT(kinds_of(fusion.plans[0]), testing::Contains("mul"));
      EXPECT_LE(difference_from("simd", network(), {1, 6, 32}).largest, 0.0501);
    }
  }
}

// Operands of attention that a recipe rounds, as XNNPACK's does behind linear layers.
TEST(Fuse, TakesAttentionOfRoundedOperands) {
  const auto network = [] {
    GraphBuilder g;
    Node* given = g.input({1, 6, 32});
    Node* n = g.call("torch.ops.aten.sym_size.int", {given, 0});
    Node* x = g.round(given, 0.03, 128);
    std::vector<Argument> operands;
    for (int i = 0; i < 3; ++i) {
      Node* part = g.round(g.call("torch.ops.aten.linear.default", {x, g.weight({32, 32})}), 0.02, 128);
      Node* heads = g.call("torch.ops.aten.view.default", {part, Argument::List{n, 6, 4, 8}});
      operands.emplace_back(g.call("torch.ops.aten.transpose.int", {heads, 1, 2}));
    }
    return g.done({g.call("torch.ops.aten.scaled_dot_product_attention.default", operands)});
  };
  Program program = network();
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), testing::Contains("attention"));
  EXPECT_EQ(program.graph->size(), 4u) << to_text(*program.graph);
  EXPECT_LE(difference_from("simd", network(), {1, 6, 32}).largest, 0.03);  // what one step inside can move
}

// Squeeze and excitation: the value that is scaled stays f32, and the pool rounds it as it reads.
TEST(Fuse, LetsPoolsRound) {
  const auto build = [](bool is_read_twice) {
    GraphBuilder g;
    Node* x = g.round(g.input({2, 8, 9, 9}), 0.03, 128);
    Node* a = g.call("torch.ops.aten.silu_.default", {g.conv(x, {24, 8, 3, 3}, 1)});
    Node* rounded = g.round(a, 0.02, 14);
    Node* mean = g.call("torch.ops.aten.mean.dim", {rounded, Argument::List{2, 3}, true});
    Node* gate = g.call("torch.ops.aten.sigmoid.default", {g.conv(g.round(mean, 0.01, 20), {24, 24, 1, 1})});
    Node* out = g.round(g.call("torch.ops.aten.mul.Tensor", {gate, a}), 0.02, 14);
    return is_read_twice ? g.done({out, g.conv(rounded, {8, 24, 1, 1})}) : g.done({out});
  };
  Program program = build(false);
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]),
              ElementsAre("quantize", "convolution", "average_pool", "convolution", "mul", "dequantize"));
  for (const NodeFate& fate : fusion.fates) {
    EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
    EXPECT_TRUE(fate.target != "torch.ops.aten.mean.dim" || fate.step == 2);
    EXPECT_TRUE(fate.target != "torch.ops.aten.mul.Tensor" || fate.step == 4);
  }
  EXPECT_LE(difference_from("simd", build(false), {2, 8, 9, 9}).largest, 0.0201);
  program = build(true);
  EXPECT_EQ(kinds_of(fuse_program(program).plans.at(0)).at(2), "quantize");
}

// The feed-forward layers of a transformer as they are exported in evaluation mode.
TEST(Fuse, LooksThroughIdleDropouts) {
  const auto build = [] {
    GraphBuilder g;
    const auto dropout = [&](Node* x) { return g.call("torch.ops.aten.dropout.default", {x, 0.1, false}); };
    Node* x = g.input({1, 6, 32});
    Node* hidden = g.call("torch.ops.aten.gelu.default",
                          {g.call("torch.ops.aten.linear.default", {g.round(x, 0.03, 128), g.weight({64, 32})})});
    Node* out = g.call("torch.ops.aten.linear.default", {g.round(dropout(hidden), 0.02, 30), g.weight({32, 64})});
    return g.done({g.call("torch.ops.aten.add.Tensor", {x, dropout(out)})});
  };
  Program program = build();
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("quantize", "linear", "linear"));
  for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
  // one step of the hidden values can move the outputs so far
  EXPECT_LE(difference_from("simd", build(), {1, 6, 32}).largest, 0.05);
}

// One convolution whose input holds integers up to qmax.
Program one_convolution(int qmax) {
  GraphBuilder g;
  Node* q = g.call("torch.ops.quantized_decomposed.quantize_per_tensor.default",
                   {g.input({1, 16, 6, 6}), 0.03, 40, 0, qmax, DType::kU8});
  return g.done({g.conv(g.dq(q), {8, 16, 3, 3}, 1)});
}

TEST(Fuse, LeavesProductsThatWouldSaturateToKernelsThatAreExact) {
  const auto first = make_onednn_steps() != nullptr ? make_onednn_steps() : make_simd_steps();
  Session wide = lower(one_convolution(255)), narrow = lower(one_convolution(127));
  EXPECT_TRUE(narrow.warnings().empty());
  EXPECT_TRUE(wide.warnings().empty());
  const auto backend_of = [](Session& session) {
    for (const Session::Placement& placement : session.placements())
      if (placement.target == "torch.ops.aten.conv2d.default") return placement.backend;
    return std::string();
  };
  EXPECT_EQ(backend_of(wide), int8_products_saturate() ? "simd" : first->name());
  EXPECT_LE(difference_from("simd", one_convolution(255), {1, 16, 6, 6}).largest, 1e-4);
  EXPECT_LE(difference_from("simd", one_convolution(127), {1, 16, 6, 6}).largest, 1e-4);
}

TEST(Fuse, LeavesWhatItCannotDoBetweenTwoPlans) {
  const auto build = [] {
    GraphBuilder g;
    Node* x = g.round(g.input({1, 8, 6, 6}), 0.03, 128);
    Node* a = g.round(g.conv(x, {8, 8, 1, 1}), 0.03, 128);
    Node* flipped = g.call("torch.ops.aten.flip.default", {a, Argument::List{3}});
    Node* b = g.conv(g.round(flipped, 0.03, 128), {8, 8, 3, 3}, 1);
    // The sum reads a value of the first plan as well.
    return g.done({g.round(g.call("torch.ops.aten.add.Tensor", {b, a}), 0.05, 128)});
  };
  Program program = build();
  const Fusion fusion = fuse_program(program);
  ASSERT_EQ(fusion.plans.size(), 2u);
  EXPECT_THAT(kinds_of(fusion.plans[1]), ElementsAre("quantize", "convolution", "dequantize"));
  verify_program(program);
  int stayed = 0;
  for (const NodeFate& fate : fusion.fates) {
    if (fate.plan >= 0) continue;
    ++stayed;
    EXPECT_EQ(fate.target, "torch.ops.aten.flip.default");
    EXPECT_EQ(fate.refusal, "no step does this operator");
  }
  EXPECT_EQ(stayed, 1);
  EXPECT_LE(difference_from("simd", build(), {1, 8, 6, 6}).largest, 0.0501);
}

TEST(Fuse, ReadsAViewInAPlanThatWasGivenWhatItShows) {
  const auto build = [] {
    GraphBuilder g;
    Node* a = g.round(g.conv(g.round(g.input({1, 8, 6, 6}), 0.03, 128), {8, 8, 1, 1}), 0.03, 128);
    Node* first = g.call("torch.ops.aten.flip.default", {a, Argument::List{3}});
    // A view in the second plan of a value of the first, which the third plan reads.
    Node* view = g.call("torch.ops.aten.permute.default", {a, Argument::List{0, 1, 3, 2}});
    Node* second = g.call("torch.ops.aten.flip.default", {view, Argument::List{3}});
    return g.done({first, second, g.round(g.call("torch.ops.aten.add.Tensor", {view, a}), 0.05, 128)});
  };
  Program program = build();
  EXPECT_EQ(fuse_program(program).plans.size(), 3u);
  verify_program(program);
  EXPECT_LE(difference_from("simd", build(), {1, 8, 6, 6}).largest, 0.0501);
}

TEST(Fuse, LeavesFloatGraphsAlone) {
  GraphBuilder g;
  Node* x = g.input({1, 8});
  Program program = g.done({g.call("torch.ops.aten.relu.default", {x})});
  const std::string before = to_text(*program.graph);
  EXPECT_TRUE(fuse_program(program).plans.empty());
  EXPECT_EQ(to_text(*program.graph), before);
}

TEST(Fuse, AConvolutionMayBeItsOwnResidual) {
  const auto build = [] {
    GraphBuilder g;
    Node* first = g.q(g.conv(g.round(g.input({1, 8, 6, 6}), 0.03, 128), {8, 8, 1, 1}), 0.03, 128);
    return g.done(
        {g.round(g.call("torch.ops.aten.add.Tensor", {g.conv(g.dq(first), {8, 8, 3, 3}, 1), g.dq(first)}), 0.05, 128)});
  };
  EXPECT_LE(difference_from("simd", build(), {1, 8, 6, 6}).largest, 0.0501);
}

TEST(Lower, SaysWhoRunsEveryNode) {
  const Program program = residual_network(DType::kU8);
  Session session = lower(program);
  std::vector<std::string> alone;
  for (const Session::Placement& placement : session.placements()) {
    EXPECT_FALSE(placement.backend.empty());
    if (placement.step.empty()) alone.push_back(placement.node);
    if (placement.target == "torch.ops.aten.add_.Tensor") {
      EXPECT_EQ(placement.step, "quantize_per_tensor_default_4");
    }
  }
  if (make_onednn_steps() != nullptr) {
    EXPECT_THAT(alone, ElementsAre());
  }
  std::vector<Session::Timing> timings;
  session.run({{random_tensor({2, 3, 12, 12}, 1)}}, timings);
  EXPECT_GE(timings.size(), 9u);
  double total = 0;
  for (const Session::Timing& timing : timings) total += timing.seconds;
  EXPECT_GT(total, 0);
  for (const Session::Placement& placement : lower(program, {{}, false}).placements())
    EXPECT_TRUE(placement.step.empty());
}

// Shapes come from a file, which may say anything of tensors that it does not fit.
TEST(Fuse, BelievesNoShapesThatAFileTells) {
  Program program = residual_network(DType::kU8);
  Attribute* bias = nullptr;
  for (Attribute& attribute : program.attributes)
    if (attribute.tensor.dtype() == DType::kF32 && attribute.tensor.sizes() == Shape{16}) bias = &attribute;
  ASSERT_NE(bias, nullptr);
  bias->tensor = Tensor::empty({3}, DType::kF32);
  Session session = lower(std::move(program));
  ASSERT_EQ(session.warnings().size(), 1u);
  EXPECT_THAT(session.warnings()[0], HasSubstr("no operators were fused"));
  EXPECT_THROW(session.run({{random_tensor({1, 3, 12, 12}, 1)}}), Error);
}

}  // namespace
}  // namespace qdq::fuse_test
