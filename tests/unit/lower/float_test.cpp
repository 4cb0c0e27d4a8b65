// Float graphs in plans: what is fused, and that the numbers are those of the graph run node by node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "graph_builder.h"
#include "lower/step_backend.h"
#include "lower/fuse.h"
#include "lower/lower.h"
#include "lower/mixed_bf16.h"

namespace qdq::float_test {
namespace {

using testing::ElementsAre;

bool fuses_floats() { return make_onednn_steps() != nullptr; }

class FloatGraph : public GraphBuilder {
 public:
  Node* conv(Node* x, Shape weight, int pad = 0, int groups = 1, bool has_bias = false) {
    const Argument::List one{1, 1}, padding{pad, pad};
    const Argument bias = has_bias ? Argument(floats({weight[0]}, -1, 1)) : Argument();
    const float bound = std::sqrt(3.0f / static_cast<float>(weight[1] * weight[2] * weight[3]));
    return call("torch.ops.aten.conv2d.default",
                {x, floats(std::move(weight), -bound, bound), bias, one, padding, one, groups});
  }
  Node* norm(Node* x, int64_t channels, bool trains = false) {
    return call("torch.ops.aten.batch_norm.default",
                {x, floats({channels}), floats({channels}, -1, 1), floats({channels}, -1, 1), floats({channels}),
                 trains, 0.1, 1e-5, true});
  }
  Node* linear(Node* x, int64_t rows, int64_t columns) {
    const float bound = std::sqrt(3.0f / static_cast<float>(columns));
    return call("torch.ops.aten.linear.default", {x, floats({rows, columns}, -bound, bound), floats({rows}, -1, 1)});
  }
};

// Two convolutions whose sum is taken, pools and a classifier.
Program residual_network() {
  FloatGraph g;
  Node* stem = g.call("torch.ops.aten.relu_.default", {g.norm(g.conv(g.input({2, 3, 12, 12}), {16, 3, 3, 3}, 1), 16)});
  Node* pooled = g.call("torch.ops.aten.max_pool2d.default",
                        {stem, Argument::List{3, 3}, Argument::List{2, 2}, Argument::List{1, 1}});
  Node* inner = g.call("torch.ops.aten.relu_.default", {g.norm(g.conv(pooled, {24, 16, 3, 3}, 1), 24)});
  Node* sum = g.call("torch.ops.aten.add_.Tensor",
                     {g.norm(g.conv(inner, {24, 24, 3, 3}, 1), 24), g.norm(g.conv(pooled, {24, 16, 1, 1}), 24)});
  Node* block = g.call("torch.ops.aten.relu_.default", {sum});
  Node* mean = g.call("torch.ops.aten.adaptive_avg_pool2d.default", {block, Argument::List{1, 1}});
  return g.done({g.linear(g.call("torch.ops.aten.flatten.using_ints", {mean, 1}), 10, 24)});
}

TEST(Floats, MakeOnePlanOfAResidualNetwork) {
  Program program = residual_network();
  const Fusion fusion = fuse_program(program, {.floats = true});
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("arrange", "convolution", "max_pool", "convolution", "convolution",
                                                     "convolution", "average_pool", "linear"));
  for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
  EXPECT_EQ(program.graph->size(), 4u) << to_text(*program.graph);  // x, the plan, its item, the output
  EXPECT_TRUE(program.attributes.empty());
  verify_program(program);
  EXPECT_LE(difference_from("reference", residual_network(), {1, 3, 12, 12}).relative, 1e-5);
}

TEST(Floats, StayInTheGraphUnlessAskedFor) {
  Program program = residual_network();
  EXPECT_TRUE(fuse_program(program).plans.empty());
}

TEST(Floats, ResultsDoNotDependOnThreads) {
  const Program program = residual_network();
  const Tensor x = random_tensor({4, 3, 12, 12}, 7);
  set_num_threads(1);
  const Tensor one = lower(program).run({{x}})[0];
  set_num_threads(2);
  const Tensor two = lower(program).run({{x}})[0];
  set_num_threads(1);
  EXPECT_TRUE(bitwise_equal(one, two));
}

// Depthwise, squeeze and excitation, branches, every activation behind a convolution.
Program mobile_network(const char* activation) {
  FloatGraph g;
  Node* x = g.input({1, 8, 9, 9});
  Node* wide = g.call(activation, {g.norm(g.conv(x, {24, 8, 1, 1}), 24)});
  Node* deep = g.call(activation, {g.norm(g.conv(wide, {24, 1, 3, 3}, 1, 24), 24)});
  Node* squeezed = g.call("torch.ops.aten.mean.dim", {deep, Argument::List{2, 3}, true});
  Node* hidden = g.call("torch.ops.aten.relu.default", {g.conv(squeezed, {6, 24, 1, 1}, 0, 1, true)});
  Node* gate = g.call("torch.ops.aten.hardsigmoid.default", {g.conv(hidden, {24, 6, 1, 1}, 0, 1, true)});
  Node* narrow = g.norm(g.conv(g.call("torch.ops.aten.mul.Tensor", {gate, deep}), {8, 24, 1, 1}), 8);
  Node* sum = g.call("torch.ops.aten.add.Tensor", {narrow, x});
  return g.done(
      {g.call("torch.ops.aten.cat.default", {Argument::List{sum, g.conv(sum, {5, 8, 3, 3}, 1, 1, true)}, 1})});
}

TEST(Floats, TakeActivationsAndBranches) {
  for (const char* activation :
       {"torch.ops.aten.relu.default", "torch.ops.aten.hardswish_.default", "torch.ops.aten.silu.default",
        "torch.ops.aten.relu6.default", "torch.ops.aten.gelu.default", "torch.ops.aten.sigmoid.default"}) {
    SCOPED_TRACE(activation);
    Program program = mobile_network(activation);
    const Fusion fusion = fuse_program(program, {.floats = true});
    ASSERT_EQ(fusion.plans.size(), 1u);
    EXPECT_THAT(kinds_of(fusion.plans[0]),
                ElementsAre("arrange", "convolution", "convolution", "average_pool", "convolution", "convolution",
                            "mul", "convolution", "convolution", "concat", "dequantize"));
    EXPECT_LE(difference_from("reference", mobile_network(activation), {1, 8, 9, 9}).relative, 1e-5);
  }
}

Program transformer_block() {
  FloatGraph g;
  Node* x = g.input({1, 6, 32});
  Node* n = g.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* qkv = g.call("torch.ops.aten.view.default", {g.linear(x, 96, 32), Argument::List{n, 6, 3, 4, 8}});
  Node* heads = g.call("torch.ops.aten.unbind.int",
                       {g.call("torch.ops.aten.permute.default", {qkv, Argument::List{2, 0, 3, 1, 4}})});
  std::vector<Argument> operands;
  for (int i = 0; i < 3; ++i) operands.emplace_back(g.call("operator.getitem", {heads, i}));
  Node* attended = g.call("torch.ops.aten.transpose.int",
                          {g.call("torch.ops.aten.scaled_dot_product_attention.default", operands), 1, 2});
  Node* joined = g.call("torch.ops.aten.reshape.default", {attended, Argument::List{n, 6, 32}});
  Node* sum = g.call("torch.ops.aten.add.Tensor", {x, g.linear(joined, 32, 32)});
  Node* norm = g.call("torch.ops.aten.layer_norm.default", {sum, Argument::List{32}, g.floats({32}), g.floats({32})});
  Node* up = g.call("torch.ops.aten.gelu.default", {g.linear(norm, 64, 32)});
  return g.done({g.call("torch.ops.aten.add.Tensor", {norm, g.linear(up, 32, 64)})});
}

TEST(Floats, TakeATransformerBlock) {
  Program program = transformer_block();
  const Fusion fusion = fuse_program(program, {.floats = true});
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]),
              ElementsAre("linear", "attention", "linear", "layer_norm", "linear", "linear"));
  EXPECT_EQ(program.graph->size(), 4u) << to_text(*program.graph);
  EXPECT_LE(difference_from("reference", transformer_block(), {1, 6, 32}).relative, 1e-5);
}

// Queries from a constant number of rows, keys and values from as many as the input has, which come first in memory:
// the layout of nn.MultiheadAttention. The heads are an axis of their own, or joined with the batch.
Program sequence_first_attention(int64_t batch, int64_t heads, int64_t queries, bool joins_heads) {
  FloatGraph g;
  Node* rows = g.input({2, batch, 16});
  const Argument length = g.call("torch.ops.aten.sym_size.int", {rows, 0});
  const auto headed = [&](Node* x, const Argument& count) {
    Node* values = g.linear(x, heads * 16, 16);
    if (joins_heads) {
      Node* joined = g.call("torch.ops.aten.reshape.default", {values, Argument::List{count, batch * heads, 16}});
      return g.call("torch.ops.aten.unsqueeze.default", {g.call("torch.ops.aten.transpose.int", {joined, 0, 1}), 0});
    }
    Node* apart = g.call("torch.ops.aten.reshape.default", {values, Argument::List{count, batch, heads, 16}});
    return g.call("torch.ops.aten.permute.default", {apart, Argument::List{1, 2, 0, 3}});
  };
  Node* first = g.call("torch.ops.aten.slice.Tensor", {rows, 0, 0, 1});
  Node* many = g.call("torch.ops.aten.mul.Tensor", {first, g.floats({queries, batch, 16}, -1, 1)});
  const std::vector<Argument> operands = {headed(many, queries), headed(rows, length), headed(rows, length)};
  return g.done({g.call("torch.ops.aten.scaled_dot_product_attention.default", operands)});
}

TEST(Floats, AttentionOverSequencesThatComeFirstInMemory) {
  for (const bool joins_heads : {false, true})
    for (const int64_t batch : {1, 4, 8})
      for (const int64_t heads : {1, 2, 8})
        for (const int64_t queries : {1, 8, 16})
          for (const int64_t keys : {5, 64}) {
            const Program program = sequence_first_attention(batch, heads, queries, joins_heads);
            const Tensor x = random_tensor({keys, batch, 16}, 1);
            const Tensor fused = lower(program).run({{x}})[0].contiguous();
            const Tensor plain = lower(program, {{"reference"}, false}).run({{x}})[0].contiguous();
            double most = 0;
            for (int64_t i = 0; i < plain.numel(); ++i)
              most = std::max(most, std::fabs(double(fused.data<float>()[i]) - double(plain.data<float>()[i])));
            EXPECT_LE(most, 1e-5) << "batch " << batch << ", heads " << heads << ", queries " << queries << ", keys "
                                  << keys << (joins_heads ? ", joined" : "");
          }
}

// What a recipe left in float between integers: a convolution with its own weights, and one whose weights alone are
// quantized.
Program mixed_network() {
  FloatGraph g;
  Node* x = g.round(g.input({1, 8, 6, 6}), 0.03, 128);
  Node* first = g.round(g.call("torch.ops.aten.relu.default", {g.GraphBuilder::conv(x, {16, 8, 3, 3}, 1)}), 0.02, 0);
  Node* middle = g.call("torch.ops.aten.relu.default", {g.norm(g.conv(first, {16, 16, 3, 3}, 1), 16)});
  Node* last = g.GraphBuilder::conv(middle, {8, 16, 1, 1});
  return g.done({g.call("torch.ops.aten.max_pool2d.default", {last, Argument::List{2, 2}, Argument::List{2, 2}})});
}

// The batch of one input is open, that of the other is not: the first may have one sample or as many as the second.
TEST(Floats, AnOpenBatchBesideAKnownOneIsNotSpread) {
  const auto network = [] {
    FloatGraph g;
    Node *image = g.conv(g.input({2, 3, 6, 6}), {16, 3, 3, 3}, 1), *e = g.input({2, 8}, "e", false);
    Node* numbers = g.linear(e, 16, 8);
    for (const int64_t axis : {2, 3}) numbers = g.call("torch.ops.aten.unsqueeze.default", {numbers, axis});
    return g.done({g.call("torch.ops.aten.add.Tensor", {image, numbers})});
  };
  Session reference = lower(network(), {{"reference"}, false}), best = lower(network());
  for (const int64_t batch : {1, 2}) {
    const std::vector<Tensor> inputs = {random_tensor({batch, 3, 6, 6}, 3), random_tensor({2, 8}, 4)};
    const Tensor wanted = reference.run(inputs).at(0).contiguous(), found = best.run(inputs).at(0).contiguous();
    ASSERT_EQ(found.sizes(), wanted.sizes());
    for (int64_t i = 0; i < wanted.numel(); ++i) ASSERT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-4);
  }
}

TEST(Floats, TakeWhatStaysFloatBetweenIntegers) {
  Program program = mixed_network();
  const Fusion fusion = fuse_program(program, {.floats = true});
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("quantize", "convolution", "dequantize", "convolution",
                                                     "convolution", "max_pool", "dequantize"));
  if (!fuses_floats()) return;
  // one step of 0.02 in the integers may differ
  EXPECT_LE(difference_from("reference", mixed_network(), {1, 8, 6, 6}).relative, 0.02);
}

TEST(MixedBf16, RoundsWhatAutocastRounds) {
  Program program = mixed_network();
  Fusion fusion = fuse_program(program, {.floats = true});
  Plan& plan = fusion.plans.at(0);
  const std::vector<PlanStep> before = plan.steps;
  const std::vector<size_t> moved = keep_floats_in_bf16(plan);
  ASSERT_EQ(moved.size(), before.size());
  for (size_t s = 0; s < before.size(); ++s) EXPECT_EQ(plan.steps.at(moved[s]).name, before[s].name);
  std::vector<std::string> dtypes;
  for (const PlanStep& step : plan.steps) dtypes.emplace_back(to_string(plan.buffers[step.output].dtype));
  // quantize, convolution, dequantize straight to bf16, two convolutions, max pool; what leaves the plan is float32
  EXPECT_THAT(dtypes, ElementsAre("uint8", "uint8", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "float32"));
}

// A sum of bf16 and f32 is f32, and what a linear layer reads of it is rounded for it alone.
TEST(MixedBf16, PromotesAndConverts) {
  FloatGraph g;
  Node* x = g.input({1, 32});
  Node* sum = g.call("torch.ops.aten.add.Tensor",
                     {g.call("torch.ops.aten.mul.Tensor", {g.linear(x, 32, 32), g.linear(x, 32, 32)}), x});
  Node* out = g.call("torch.ops.aten.add.Tensor", {g.linear(sum, 32, 32), sum});
  Program program = g.done({out});
  Fusion fusion = fuse_program(program, {.floats = true});
  Plan& plan = fusion.plans.at(0);
  keep_floats_in_bf16(plan);
  std::vector<std::string> steps;
  for (const PlanStep& step : plan.steps)
    steps.push_back(concat(to_string(step.kind()), " ", to_string(plan.buffers[step.output].dtype)));
  EXPECT_THAT(steps, ElementsAre("arrange bfloat16", "linear bfloat16", "linear bfloat16", "mul bfloat16",
                                 "arrange float32", "add float32", "arrange bfloat16", "linear float32"));
}

TEST(MixedBf16, IsRefusedWhereNothingComputesIt) {
  const Program program = residual_network();
  const auto message_of = [&](const LowerOptions& options) {
    try {
      lower(program, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message_of({{"simd"}, true, true}), "no error");
  EXPECT_EQ(
      message_of({{"reference"}, true, true}),
      "bf16 is computed by fused steps, which the backends that are asked here do not have; wanted onednn or simd");
  EXPECT_EQ(message_of({{"simd"}, false, true}),
            "bf16 is computed by fused steps, it cannot go with a graph that is run node by node");
}

TEST(Floats, FoldOnlyABatchNormThatAloneReadsTheConvolutionAndDoesNotTrain) {
  FloatGraph g;
  Node* x = g.input({1, 8, 6, 6});
  Node* shared = g.conv(x, {8, 8, 1, 1});
  Node* trained = g.norm(g.conv(x, {8, 8, 1, 1}), 8, true);
  Program program = g.done({g.norm(shared, 8), shared, trained});
  const Fusion fusion = fuse_program(program, {.floats = true});
  int stayed = 0;
  for (const NodeFate& fate : fusion.fates)
    if (fate.plan < 0) {
      ++stayed;
      EXPECT_EQ(fate.target, "torch.ops.aten.batch_norm.default");
    }
  EXPECT_EQ(stayed, 1) << "the one that trains";
  EXPECT_EQ(kinds_of(fusion.plans[0]).size(), 5u) << "the other is a step of its own, behind arrange and convolutions";
  verify_program(program);
}

// As Keras' networks have it; the pool behind it stays in the plan.
TEST(Floats, TakeABatchNormBehindAnActivation) {
  const auto network = [] {
    FloatGraph g;
    Node* relu = g.call("torch.ops.aten.relu.default", {g.conv(g.input({1, 3, 12, 12}), {8, 3, 3, 3}, 1)});
    Node* pooled = g.call("torch.ops.aten.max_pool2d.default", {g.norm(relu, 8), Argument::List{2, 2}});
    return g.done({g.conv(g.call("torch.ops.aten.relu.default", {g.norm(pooled, 8)}), {4, 8, 3, 3}, 1)});
  };
  Program program = network();
  const Fusion fusion = fuse_program(program, {.floats = true});
  ASSERT_EQ(fusion.plans.size(), 1u);
  EXPECT_THAT(kinds_of(fusion.plans[0]), ElementsAre("arrange", "convolution", "convolution", "max_pool", "convolution",
                                                     "convolution", "dequantize"));
  EXPECT_LE(difference_from("reference", network(), {1, 3, 12, 12}).relative, 1e-5);
  Program rounded = network();
  const std::vector<NodeFate> fates = fuse_program(rounded, {.floats = true, .bf16 = true}).fates;
  for (const NodeFate& fate : fates) {
    if (fate.target != "torch.ops.aten.batch_norm.default") continue;
    EXPECT_EQ(fate.refusal, "bfloat16 would round its factors") << fate.node;
  }
}

TEST(Floats, FoldBatchNormsWhereConvolutionsRunNodeByNode) {
  FloatGraph g;
  Node* x = g.input({2, 8, 6, 6});
  Node* relu = g.call("torch.ops.aten.relu_.default", {g.norm(g.conv(x, {12, 8, 3, 3}, 1), 12)});
  Node* shared = g.conv(relu, {12, 1, 3, 3}, 1, 12, true);
  const Program program = g.done({g.norm(g.conv(shared, {8, 12, 1, 1}, 0, 1, true), 8), g.norm(shared, 12),
                                  g.norm(g.conv(x, {8, 8, 1, 1}), 8, true)});
  Session session = lower(program, {{"simd"}});
  int norms = 0, convolutions = 0;
  for (const Session::Placement& placement : session.placements()) {
    norms += placement.target == "torch.ops.aten.batch_norm.default";
    convolutions += placement.target == "torch.ops.aten.conv2d.default";
    EXPECT_EQ(placement.step, "");
  }
  EXPECT_EQ(norms, 2) << "one that does not read its convolution alone, one that trains";
  EXPECT_EQ(convolutions, 4);
  const std::vector<Tensor> input{Tensor::full({2, 8, 6, 6}, DType::kF32, 0)};
  for (int64_t i = 0; i < input[0].numel(); ++i) input[0].data<float>()[i] = std::sin(static_cast<float>(i));
  const std::vector<Tensor> got = session.run(input), want = lower(program, {{"simd"}, false}).run(input);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), want[i].sizes());
    for (int64_t e = 0; e < got[i].numel(); ++e)
      EXPECT_NEAR(got[i].data<float>()[e], want[i].data<float>()[e], 2e-5) << i << ", " << e;
  }
}

}  // namespace
}  // namespace qdq::float_test
