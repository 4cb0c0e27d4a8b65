// What is rewritten before fusion: operators joined to one, signals as images, and programs for known sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_builder.h"
#include "lower/bound_operands.h"
#include "lower/fuse.h"
#include "lower/integer_layers.h"
#include "lower/join_operators.h"
#include "lower/known_sizes.h"
#include "lower/signals_as_images.h"
#include "lower/step_backend.h"
#include "op/facts.h"
#include "op/infer.h"

namespace qdq::rewrites_test {
namespace {

using testing::ElementsAre;
using List = Argument::List;

bool fuses_floats() { return make_onednn_steps() != nullptr; }

std::vector<std::string> targets_of(const Program& program) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out.emplace_back(short_name(node->target()));
  return out;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    largest = std::max(largest, std::fabs(double(a.contiguous().data<float>()[i]) - b.contiguous().data<float>()[i]));
  return largest;
}

Program with_layer_norm(double exponent, bool has_gamma, bool rounds = false) {
  GraphBuilder g;
  Node* x = g.call("torch.ops.aten.linear.default", {g.input({2, 3, 8}), g.floats({16, 8}, -1, 1), g.floats({16})});
  Node* centered = g.call("torch.ops.aten.sub.Tensor", {x, g.call("torch.ops.aten.mean.dim", {x, List{2}, true})});
  Node* power = g.call("torch.ops.aten.pow.Tensor_Scalar", {centered, exponent});
  Node* variance = g.call("torch.ops.aten.mean.dim", {power, List{-1}, true});
  Node* root = g.call("torch.ops.aten.sqrt.default", {g.call("torch.ops.aten.add.Tensor", {variance, 1e-5})});
  Node* y = g.call("torch.ops.aten.div.Tensor", {centered, root});
  if (rounds) y = g.round(y, 0.03, 128);
  if (has_gamma)
    y = g.call("torch.ops.aten.add.Tensor",
               {g.call("torch.ops.aten.mul.Tensor", {g.floats({16}), y}), g.floats({16}, -1, 1)});
  return g.done({y});
}

TEST(JoinedOperators, ALayerNormIsOneOperator) {
  for (const bool has_gamma : {false, true}) {
    Program program = with_layer_norm(2, has_gamma);
    join_operators(program);
    EXPECT_THAT(targets_of(program), ElementsAre("aten.linear.default", "aten.layer_norm.default"));
    verify_program(program);
    EXPECT_LE(difference_from("reference", with_layer_norm(2, has_gamma), {1, 3, 8}).relative, 1e-5);
  }
  Program other = with_layer_norm(3, true);
  join_operators(other);
  EXPECT_EQ(targets_of(other).size(), 10u) << "no variance";
}

// Its fused step does the whole; a norm of what is centered would take its middle out.
TEST(JoinedOperators, ALayerNormThatRoundsIsNoNormByTheMeanSquare) {
  Program program = with_layer_norm(2, true, true);
  join_operators(program);
  EXPECT_THAT(targets_of(program), testing::Not(testing::Contains("aten.rms_norm.default")));
}

// As nn.MultiheadAttention is exported: the heads are an axis of three or of four.
Program with_attention(size_t rank, bool shares_weights = false, int64_t axis = -1) {
  GraphBuilder g;
  Node* x = g.call("torch.ops.aten.linear.default", {g.input({3, 5, 8}), g.floats({24, 8}, -1, 1)});
  std::vector<Node*> parts;
  for (int i = 0; i < 3; ++i) {
    Node* part = g.call("torch.ops.aten.slice.Tensor", {x, 2, 8 * i, 8 * i + 8});
    if (rank == 4)
      part = g.call("torch.ops.aten.transpose.int",
                    {g.call("torch.ops.aten.reshape.default", {part, List{-1, 5, 2, 4}}), 1, 2});
    parts.push_back(part);
  }
  const auto end = static_cast<int64_t>(rank);
  Node* query = g.call("torch.ops.aten.mul.Tensor", {parts[0], 0.25});
  Node* turned = g.call("torch.ops.aten.transpose.int", {parts[1], end - 2, end - 1});
  Node* scores = g.call("torch.ops.aten.div.Tensor", {g.call("torch.ops.aten.matmul.default", {query, turned}), 2.0});
  Node* weights = g.call("torch.ops.aten.softmax.int", {scores, axis});
  Node* out = g.call("torch.ops.aten.matmul.default", {weights, parts[2]});
  return shares_weights ? g.done({out, weights}) : g.done({out});
}

TEST(JoinedOperators, ProductsAroundASoftmaxAreAttention) {
  for (const size_t rank : {size_t{3}, size_t{4}}) {
    SCOPED_TRACE(rank);
    Program program = with_attention(rank);
    join_operators(program);
    verify_program(program);
    EXPECT_THAT(targets_of(program), testing::Contains("aten.scaled_dot_product_attention.default"));
    EXPECT_THAT(targets_of(program), testing::Not(testing::Contains("aten.softmax.int")));
    EXPECT_LE(difference_from("reference", with_attention(rank), {1, 5, 8}).relative, 1e-5);
  }
  for (const bool shares_weights : {false, true}) {
    Program program = with_attention(3, shares_weights, shares_weights ? -1 : 1);
    join_operators(program);
    EXPECT_THAT(targets_of(program), testing::Contains("aten.softmax.int")) << "others read it, or another axis";
  }
}

// As Python spells attention out: softmax and a cast to float32, which it is, and a dropout of inference.
TEST(JoinedOperators, WhatReturnsItsInputIsLeftOut) {
  const auto graph = [](bool leaves) {
    GraphBuilder g;
    Node* x = g.input({2, 5, 8});
    std::vector<Node*> parts;
    for (int i = 0; i < 3; ++i) parts.push_back(g.call("torch.ops.aten.linear.default", {x, g.floats({8, 8}, -1, 1)}));
    Node* turned = g.call("torch.ops.aten.transpose.int", {parts[1], 1, 2});
    Node* scores = g.call("torch.ops.aten.matmul.default", {parts[0], turned});
    Node* weights = g.call("torch.ops.aten.softmax.int", {scores, -1, DType::kF32});
    weights = g.call("torch.ops.aten.to.dtype", {weights, DType::kF32});
    weights = g.call("torch.ops.aten.dropout.default", {weights, 0.1, false});
    return g.done({leaves ? weights : g.call("torch.ops.aten.matmul.default", {weights, parts[2]})});
  };
  Program program = graph(false), left = graph(true);
  join_operators(program);
  join_operators(left);
  EXPECT_THAT(targets_of(program), testing::Contains("aten.scaled_dot_product_attention.default"));
  EXPECT_THAT(targets_of(program), testing::Not(testing::Contains("aten.dropout.default")));
  EXPECT_EQ(targets_of(left).back(), "aten.dropout.default") << "an output keeps its node";
  EXPECT_THAT(targets_of(left), testing::Not(testing::Contains("aten.to.dtype")));
  for (const bool leaves : {false, true})
    EXPECT_LE(difference_from("reference", graph(leaves), {2, 5, 8}).relative, 1e-5);
}

// As windows with relative positions are exported: images and heads are one axis, of the mask too.
TEST(JoinedOperators, AttentionOfThreeAxesIsThatOfOneImage) {
  enum class Mask { kNone, kOfEach, kOfAll };
  for (const Mask mask : {Mask::kNone, Mask::kOfEach, Mask::kOfAll}) {
    SCOPED_TRACE(static_cast<int>(mask));
    const auto graph = [mask] {
      GraphBuilder g;
      std::vector<Argument> args;
      Node* x = g.input({3, 5, 8});
      for (int i = 0; i < 3; ++i)
        args.emplace_back(g.call("torch.ops.aten.linear.default", {x, g.floats({8, 8}, -1, 1)}));
      if (mask == Mask::kOfEach)
        args.emplace_back(g.call("torch.ops.aten.linear.default", {x, g.floats({5, 8}, -1, 1)}));
      if (mask == Mask::kOfAll) args.emplace_back(g.floats({5, 5}, -1, 1));
      return g.done({g.call("torch.ops.aten.scaled_dot_product_attention.default", args)});
    };
    Program program = graph();
    join_operators(program);
    const Fusion fusion = fuse_program(program);
    ASSERT_EQ(fusion.plans.size(), 1u);
    EXPECT_THAT(kinds_of(fusion.plans[0]), testing::Contains("attention"));
    EXPECT_LE(difference_from("reference", graph(), {3, 5, 8}).relative, 1e-5);
  }
}

TEST(JoinedOperators, TheLargerOfAValueAndItsPartIsALeakyRelu) {
  for (const double slope : {0.2, 1.5, -0.1}) {
    GraphBuilder g;
    Node* x = g.input({2, 3, 8});
    Node* y = g.call("torch.ops.aten.maximum.default", {g.call("torch.ops.aten.mul.Tensor", {slope, x}), x});
    Program program = g.done({y});
    const Program before = program.clone();
    join_operators(program);
    if (slope == 0.2) EXPECT_THAT(targets_of(program), ElementsAre("aten.leaky_relu.default"));
    else EXPECT_EQ(targets_of(program).size(), 2u);
    const Tensor given = random_tensor({2, 3, 8}, 1);
    EXPECT_TRUE(bitwise_equal(lower(program, {{"reference"}, false}).run({{given}})[0],
                              lower(before, {{"reference"}, false}).run({{given}})[0]));
  }
}

TEST(JoinedOperators, TheLargerOfAValueAndANumberIsAClamp) {
  const auto graph = [] {
    GraphBuilder g;
    return g.done({g.call("torch.ops.aten.maximum.default", {g.floats({}, -0.5, 0.5), g.input({2, 3, 8})})});
  };
  Program program = graph();
  join_operators(program);
  EXPECT_THAT(targets_of(program), ElementsAre("aten.clamp_min.default"));
  EXPECT_EQ(difference_from("reference", graph(), {2, 3, 8}).largest, 0);
}

TEST(JoinedOperators, AConstantBehindAConvolutionIsItsBias) {
  const auto graph = [](const Shape& shift) {
    GraphBuilder g;
    Node* conv = g.conv(g.round(g.input({2, 3, 6, 6}), 0.02, 128), {4, 3, 3, 3});
    return g.done({g.call("torch.ops.aten.add.Tensor", {g.floats(shift), conv})});
  };
  for (const Shape& shift : {Shape{4, 1, 1}, Shape{1, 4, 1, 1}}) {
    Program program = graph(shift);
    join_operators(program);
    EXPECT_EQ(targets_of(program).back(), "aten.conv2d.default");
    EXPECT_LE(difference_from("reference", graph(shift), {2, 3, 6, 6}).relative, 1e-5);
  }
  for (const Shape& shift : {Shape{4}, Shape{1}, Shape{4, 4}}) {
    Program program = graph(shift);
    join_operators(program);
    EXPECT_EQ(targets_of(program).back(), "aten.add.Tensor") << to_string(shift);
  }
}

TEST(JoinedOperators, AConstantBehindALinearLayerIsItsBiasEvenIfItIsQuantized) {
  const auto graph = [] {
    GraphBuilder g;
    Node* y = g.call("torch.ops.aten.linear.default", {g.input({2, 3, 8}), g.floats({4, 8}, -1, 1), g.floats({4})});
    return g.done({g.call("torch.ops.aten.add.Tensor", {y, g.round(g.floats({1, 4}, -1, 1), 0.01, 100)})});
  };
  Program program = graph(), folded = graph();
  for (Node* node : folded.graph->nodes()) {  // as a quantized file has it: integers that are dequantized
    if (!node->is("torch.ops.quantized_decomposed.quantize_per_tensor.default")) continue;
    folded.add_attribute({"integers", eval_constant(folded, *node), Attribute::Kind::kBuffer});
    const auto point = folded.graph->insert_before(node);
    Node* integers = folded.graph->get_attr("integers");
    node->replace_all_uses_with(integers);
  }
  folded.graph->eliminate_dead_code();
  infer_shapes(folded);
  const Program before = folded.clone();
  join_operators(folded);
  EXPECT_THAT(targets_of(folded), ElementsAre("aten.linear.default"));
  const Tensor given = random_tensor({2, 3, 8}, 1);
  EXPECT_LE(
      largest_difference(lower(before).run({{given}})[0], lower(program, {{"reference"}, false}).run({{given}})[0]),
      1e-5);
}

class SignalGraph : public GraphBuilder {
 public:
  Node* conv1d(Node* x, Node* weight) {
    return call("torch.ops.aten.conv1d.default", {x, weight, floats({4}, -1, 1), List{2}, List{1}, List{1}});
  }
  Node* relu(Node* x) { return call("torch.ops.aten.relu.default", {x}); }
};

Program float_signals() {
  SignalGraph g;
  Node* x = g.relu(g.conv1d(g.input({2, 3, 40}), g.floats({4, 3, 3}, -1, 1)));
  x = g.call("torch.ops.aten.max_pool1d.default", {x, List{2}});
  x = g.call("torch.ops.aten.add.Tensor", {x, g.relu(x)});
  x = g.call("torch.ops.aten.cat.default", {List{x, x}, -1});
  x = g.call("torch.ops.aten.avg_pool1d.default", {x, List{2}, List{1}});
  return g.done({g.call("torch.ops.aten.sum.dim_IntList", {g.relu(g.conv1d(x, g.floats({4, 4, 3}))), List{2}})});
}

// A layer with these zero points of its weight behind a quantized input or a float one.
Program with_unsigned_weight(bool is_conv, const std::vector<int64_t>& zero_points, int most, bool is_quantized) {
  GraphBuilder g;
  Node* x = is_conv ? g.input({2, 3, 6, 6}) : g.input({2, 5, 12});
  if (is_quantized) x = g.round(x, 0.03, 120);
  const List one{1, 1};
  Node* w = g.unsigned_weight(is_conv ? Shape{4, 3, 3, 3} : Shape{4, 12}, zero_points, most);
  Node* y = is_conv ? g.call("torch.ops.aten.conv2d.default", {x, w, g.floats({4}), one, one, one, 1})
                    : g.call("torch.ops.aten.linear.default", {x, w, g.floats({4})});
  return g.done({g.call("torch.ops.aten.relu.default", {y})});
}

TEST(JoinedOperators, WeightsWithZeroPointsAreInt8) {
  const std::vector<int64_t> middle{63, 64, 60, 66}, high{128, 100, 140, 1}, none{0, 0, 255, 128};
  for (const bool is_conv : {false, true}) {
    SCOPED_TRACE(is_conv);
    const char* layer = is_conv ? "aten.conv2d.default" : "aten.linear.default";
    const Shape sizes = is_conv ? Shape{2, 3, 6, 6} : Shape{2, 5, 12};
    struct Case {
      std::vector<int64_t> zero_points;
      int most, layers;
    };
    for (const auto& [zero_points, most, layers] : {Case{middle, 127, 1}, Case{high, 255, 2}, Case{none, 255, 3}}) {
      SCOPED_TRACE(layers);
      Program program = with_unsigned_weight(is_conv, zero_points, most, true);
      EXPECT_EQ(float_layers_text(integer_layers(program)), "");
      EXPECT_LE(difference_from("reference", program, sizes).relative, 1e-6);
      join_operators(program);
      verify_program(program);
      const std::vector<std::string> targets = targets_of(program);
      EXPECT_EQ(std::count(targets.begin(), targets.end(), layer), layers);
    }
  }
}

TEST(JoinedOperators, WeightsWithZeroPointsBehindFloatsAreFloatWhereInt8DoesNotHoldThem) {
  Program program = with_unsigned_weight(true, {128, 100, 140, 1}, 255, false);
  EXPECT_LE(difference_from("reference", program, {2, 3, 6, 6}).relative, 1e-5);
  join_operators(program);
  EXPECT_THAT(targets_of(program), testing::ElementsAre("aten.conv2d.default", "aten.relu.default"));
}

TEST(SignalsAsImages, FloatConvolutionsAndWhatStandsBetweenThem) {
  if (!fuses_floats()) GTEST_SKIP() << "this build fuses integers only";
  Program program = float_signals();
  make_images_of_signals(program, true);
  verify_program(program);
  EXPECT_THAT(targets_of(program), ElementsAre("aten.unsqueeze.default", "aten.conv2d.default", "aten.relu.default",
                                               "aten.max_pool2d.default", "aten.relu.default", "aten.add.Tensor",
                                               "aten.cat.default", "aten.avg_pool2d.default", "aten.conv2d.default",
                                               "aten.relu.default", "aten.squeeze.dim", "aten.sum.dim_IntList"));
  EXPECT_LE(difference_from("reference", float_signals(), {2, 3, 40}).relative, 1e-5);
  Program integers_only = float_signals();
  make_images_of_signals(integers_only, false);
  EXPECT_EQ(targets_of(integers_only)[0], "aten.conv1d.default");
}

TEST(SignalsAsImages, AFloatConvolutionAloneIsNotWorthTwoCopies) {
  SignalGraph g;
  Program program = g.done({g.conv1d(g.input({2, 3, 40}), g.floats({4, 3, 3}))});
  make_images_of_signals(program, true);
  EXPECT_THAT(targets_of(program), ElementsAre("aten.conv1d.default"));
}

TEST(SignalsAsImages, QuantizedConvolutionsRunInIntegers) {
  const auto graph = [] {
    SignalGraph g;
    Node* x = g.round(g.input({2, 3, 40}), 0.02, 128);
    Node* first = g.round(g.relu(g.conv1d(x, g.weight({4, 3, 3}))), 0.01, 0);
    Node* side = g.call("torch.ops.aten.sum.dim_IntList", {first, List{2}});
    return g.done({g.conv1d(first, g.weight({4, 4, 3})), side});
  };
  Program program = graph();
  make_images_of_signals(program, false);
  const Fusion fusion = fuse_program(program, {});
  size_t convolutions = 0;
  for (const Plan& plan : fusion.plans)
    for (const PlanStep& step : plan.steps) {
      convolutions += step.kind() == PlanStep::Kind::kConvolution;
      EXPECT_FALSE(has_float_weight(step));
    }
  EXPECT_EQ(convolutions, 2u);
  EXPECT_LE(difference_from("reference", graph(), {2, 3, 40}).largest, 0.011)
      << "a step of the inner value, through one";
}

// Of more roundings behind each other than a stack has frames for.
TEST(SignalsAsImages, LongChainsOfRoundingsAreRaised) {
  SignalGraph g;
  Node* x = g.input({2, 3, 40});
  for (int i = 0; i < 60000; ++i) x = g.round(x, 0.02, 128);
  Program program = g.done({g.conv1d(x, g.weight({4, 3, 3}))});
  make_images_of_signals(program, false);
  const std::vector<std::string> targets = targets_of(program);
  EXPECT_EQ(std::count(targets.begin(), targets.end(), "aten.conv2d.default"), 1);
}

// The second half of a signal, by a length that is computed from the input's.
Program by_size() {
  GraphBuilder g;
  Node* x = g.input({2, 4, 6, 6});
  Node* size = g.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* number = g.call("torch.ops.aten.scalar_tensor.default", {size});
  Node* more = g.call("torch.ops.aten.add.Tensor", {number, 1});
  Node* whole = g.call("torch.ops.aten.to.dtype", {more, DType::kS64});
  Node* end = g.call("torch.ops.aten.item.default", {whole});
  Node* part = g.call("torch.ops.aten.slice.Tensor", {x, 2, 0, end});
  const List one{1, 1}, pad{1, 1};
  Node* conv =
      g.call("torch.ops.aten.conv2d.default", {part, g.floats({5, 4, 3, 3}, -1, 1), Argument(), one, pad, one});
  return g.done({g.call("torch.ops.aten.relu.default", {conv})});
}

TEST(KnownSizes, WhatFollowsFromTheSizesIsComputedOnce) {
  const Program program = by_size();
  ASSERT_TRUE(gains_by_known_sizes(program));
  const Program sized = with_known_sizes(program, {{"s0", 3}});
  EXPECT_THAT(targets_of(sized), ElementsAre("aten.slice.Tensor", "aten.conv2d.default", "aten.relu.default"));
  const Node* part = sized.graph->output_node()->arg(0).list()[0].node()->arg(0).node()->arg(0).node();
  ASSERT_TRUE(part->is("torch.ops.aten.slice.Tensor"));
  EXPECT_EQ(to_string(part->meta.val.tensor()->sizes), "[3, 4, 4, 6]");
  EXPECT_EQ(targets_of(program).size(), 8u) << "the program itself stays";
}

// Which branch is taken follows from the size of the input: that one's nodes stand in the graph.
TEST(KnownSizes, ABranchThatTheSizesChooseIsPartOfTheGraph) {
  const auto branch = [](const char* activation) {
    GraphBuilder g;
    Node* x = g.input({2, 4, 6, 6});
    return std::make_shared<const Program>(g.done({g.call(concat("torch.ops.aten.", activation, ".default"), {x})}));
  };
  GraphBuilder g;
  Node* x = g.input({2, 4, 6, 6});
  Node* size = g.call("torch.ops.aten.scalar_tensor.default", {g.call("torch.ops.aten.sym_size.int", {x, 0})});
  Node* is_two = g.call("torch.ops.aten.eq.Scalar", {size, 2});
  Node* chosen = g.call("torch.ops.higher_order.cond",
                        {is_two, Subprogram(branch("tanh")), Subprogram(branch("sigmoid")), List{x}});
  const Program program = g.done({g.call("operator.getitem", {chosen, 0})});
  EXPECT_THAT(targets_of(with_known_sizes(program, {{"s0", 2}})), ElementsAre("aten.tanh.default"));
  EXPECT_THAT(targets_of(with_known_sizes(program, {{"s0", 3}})), ElementsAre("aten.sigmoid.default"));
  Session session = lower(program), plain = lower(program, {{"reference"}, false});
  for (const int64_t batch : {2, 2, 2, 3, 3, 3, 3, 3, 3}) {
    const Tensor given = random_tensor({batch, 4, 6, 6}, 1);
    EXPECT_LE(largest_difference(session.run({{given}})[0], plain.run({{given}})[0]), 1e-6);
  }
}

// y = zeros(n, 2); y[:, 0] = max(x): a tensor of known sizes that a run writes into is none of its constants, and
// neither are its views.
TEST(KnownSizes, ATensorThatIsWrittenToThroughViewsStaysComputed) {
  GraphBuilder g;
  Node* x = g.input({2, 3});
  Node* made =
      g.call("torch.ops.aten.zeros.default", {Argument(List{g.call("torch.ops.aten.sym_size.int", {x, 0}), 2})});
  Node* all = g.call("torch.ops.aten.slice.Tensor", {made, 0, 0, 9});
  Node* largest = g.call("torch.ops.aten.amax.default", {x, List{1}});
  g.call("torch.ops.aten.copy_.default", {g.call("torch.ops.aten.select.int", {all, 1, 0}), largest});
  const Program program = g.done({g.call("torch.ops.aten.mul.Tensor", {made, 2})});
  Session session = lower(with_known_sizes(program, {{"s0", 4}})), plain = lower(program, {{"reference"}, false});
  for (const uint32_t seed : {1u, 2u}) {
    const Tensor given = random_tensor({4, 3}, seed);
    EXPECT_EQ(largest_difference(session.run({{given}})[0], plain.run({{given}})[0]), 0);
  }
}

TEST(BoundOperands, BranchesHaveTheConstantsThatTheyAreHanded) {
  const auto branch = [](bool flips) {
    GraphBuilder g;
    Node *x = g.input({2, 3}, "x"), *weight = g.input({4, 3}, "weight"), *more = g.input({2, 4}, "more");
    weight->meta.val.value = TensorMeta{DType::kF32, {4, 3}, {}, false};
    Node* y = g.call("torch.ops.aten.add.Tensor", {g.call("torch.ops.aten.linear.default", {x, weight}), more});
    return std::make_shared<const Program>(g.done({flips ? g.call("torch.ops.aten.neg.default", {y}) : y}));
  };
  GraphBuilder g;
  Node *x = g.input({2, 3}), *more = g.input({2, 4}, "more");
  Node* is_large = g.call("torch.ops.aten.gt.Scalar", {g.call("torch.ops.aten.sum.default", {x}), 0});
  Node* chosen = g.call("torch.ops.higher_order.cond", {is_large, Subprogram(branch(false)), Subprogram(branch(true)),
                                                        List{x, g.floats({4, 3}, -1, 1), more}});
  const Program program = g.done({g.call("operator.getitem", {chosen, 0})});
  Program bound = program.clone();
  bind_constant_operands(bound);
  verify_program(bound);
  EXPECT_TRUE(bound.attributes.empty());
  for (const Node* node : bound.graph->nodes()) {
    if (!node->is("torch.ops.higher_order.cond")) continue;
    EXPECT_EQ(node->arg(3).list().size(), 2u);
    for (const size_t i : {size_t{1}, size_t{2}}) {
      const Program& inner = *node->arg(i).as<Subprogram>();
      verify_program(inner);
      EXPECT_EQ(inner.attributes.size(), 1u);
      EXPECT_EQ(inner.graph->placeholders().size(), 2u);
    }
  }
  Session session = lower(program), plain = lower(program, {{"reference"}, false});
  for (const float sign : {1.0f, -1.0f}) {
    const Tensor given = Tensor::full({2, 3}, DType::kF32, sign), more_given = random_tensor({2, 4}, 2);
    EXPECT_LE(largest_difference(session.run({{given, more_given}})[0], plain.run({{given, more_given}})[0]), 1e-5);
  }
}

TEST(KnownSizes, ASessionFollowsSizesThatComeAgainAndThatChange) {
  const Program program = by_size();
  Session session = lower(program), plain = lower(program, {{"reference"}, false});
  for (const int64_t batch : {2, 2, 2, 4, 4, 4, 4, 4, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3}) {
    const Tensor x = random_tensor({batch, 4, 6, 6}, static_cast<unsigned>(batch));
    const Tensor found = session.run({{x}})[0], expected = plain.run({{x}})[0];
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_LE(largest_difference(found, expected), 1e-4);
  }
  std::vector<Session::Timing> timings;
  session.run({{random_tensor({3, 4, 6, 6}, 3)}}, timings);
  const auto is_item = [](const Session::Timing& one) { return one.what == "torch.ops.aten.item.default"; };
  EXPECT_TRUE(std::none_of(timings.begin(), timings.end(), is_item));
  EXPECT_THROW(session.run({{random_tensor({3, 4, 6}, 3)}}), Error);
}

}  // namespace
}  // namespace qdq::rewrites_test
