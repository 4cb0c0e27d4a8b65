// Which layers are multiplied in integers, and why the others are not.
#include "lower/integer_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_builder.h"
#include "lower/fuse.h"
#include "lower/join_operators.h"

namespace qdq::integer_layers_test {
namespace {

using testing::HasSubstr;
using List = Argument::List;

TEST(IntegerLayers, NamesNoneWhereAllAreSteps) {
  GraphBuilder g;
  Node* x = g.round(g.conv(g.round(g.input({1, 3, 6, 6}), 0.03, 128), {8, 3, 3, 3}, 1), 0.05, 120);
  Node* flat = g.round(g.call("torch.ops.aten.flatten.using_ints", {x, 1}), 0.05, 120);
  const IntegerLayers found =
      integer_layers(g.done({g.call("torch.ops.aten.linear.default", {flat, g.weight({4, 288})})}));
  EXPECT_EQ(found.total, 2u);
  EXPECT_TRUE(found.in_float.empty());
  EXPECT_EQ(float_layers_text(found), "");
}

TEST(IntegerLayers, SaysWhyALayerIsMultipliedInFloats) {
  GraphBuilder g;
  Node* image = g.input({1, 3, 6, 6});
  Node* wide = g.conv(g.round(image, 0.001, 0, DType::kS16), {8, 3, 3, 3}, 1);
  Node* alone = g.conv(wide, {8, 8, 1, 1});
  Node* transposed =
      g.call("torch.ops.aten.conv_transpose2d.input", {g.round(alone, 0.05, 128), g.weight({8, 4, 2, 2})});
  Node* product =
      g.call("torch.ops.aten.matmul.default", {g.round(transposed, 0.05, 128), g.round(transposed, 0.04, 100)});
  Node* half = g.call("torch.ops.aten.matmul.default", {product, g.round(product, 0.05, 128)});
  const IntegerLayers found = integer_layers(g.done({g.conv(g.round(half, 0.05, 128), {2, 4, 1, 1})}));
  EXPECT_EQ(found.total, 6u);
  ASSERT_EQ(found.in_float.size(), 5u);
  EXPECT_THAT(found.in_float[0].reason, HasSubstr("its activations are int16"));
  EXPECT_EQ(found.in_float[1].reason, "only its weight is quantized");
  EXPECT_EQ(found.in_float[2].reason, "no integer kernel does aten.conv_transpose2d.input");
  EXPECT_EQ(found.in_float[3].reason, "no integer kernel does aten.matmul.default");
  EXPECT_EQ(found.in_float[4].reason, "only one of its operands is quantized");
  const std::string text = float_layers_text(found);
  EXPECT_THAT(text, HasSubstr("in float here     5 of 6 quantized layers"));
  EXPECT_THAT(text, HasSubstr(found.in_float[1].node + ": only its weight is quantized"));
}

// A program that is handed integers, and one that chooses among them before it dequantizes.
TEST(IntegerLayers, TakesIntegersThatTheGraphBrings) {
  for (const DType dtype : {DType::kU8, DType::kS8}) {
    for (const bool transposes : {false, true}) {
      SCOPED_TRACE(concat(to_string(dtype), ", ", transposes));
      GraphBuilder g;
      Node* x = g.input(transposes ? Shape{1, 3, 6, 4} : Shape{1, 3, 6, 6});
      std::get<TensorMeta>(x->meta.val.value).dtype = dtype;
      if (transposes) x = g.call("torch.ops.aten.transpose.int", {x, 2, 3});
      const int zero_point = dtype == DType::kU8 ? 120 : -8;
      Node* real = g.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default",
                          {x, 0.03, zero_point, int(min_of(dtype)), int(max_of(dtype)), dtype});
      const Program program = g.done({g.round(g.conv(real, {8, 3, 3, 3}, 1), 0.05, 120)});
      EXPECT_EQ(integer_layers(program).total, 1u);
      EXPECT_EQ(float_layers_text(integer_layers(program)), "");
      const Tensor input = random_tensor(transposes ? Shape{2, 3, 6, 4} : Shape{2, 3, 6, 6}, 1);
      const Tensor integers = Tensor::empty(input.sizes(), dtype);
      for (int64_t i = 0; i < input.numel(); ++i)
        static_cast<uint8_t*>(static_cast<void*>(integers.raw()))[i] = static_cast<uint8_t>(i * 37);
      const Tensor expected = lower(program, {{"reference"}, false}).run({{integers}})[0].contiguous(),
                   lowered = lower(program).run({{integers}})[0].contiguous();
      for (int64_t i = 0; i < lowered.numel(); ++i)
        ASSERT_NEAR(lowered.data<float>()[i], expected.data<float>()[i], 0.0501) << i;
    }
  }
}

// As QOperator files have it: between the layers the integers themselves are pooled and reshaped.
TEST(IntegerLayers, TakesLayersBehindIntegersThatWerePooled) {
  GraphBuilder g;
  const List two{2, 2};
  Node* q = g.q(g.conv(g.round(g.input({1, 3, 6, 6}), 0.03, 128), {8, 3, 3, 3}, 1), 0.05, 120);
  Node* pooled = g.call("torch.ops.aten.max_pool2d.default", {q, List{3, 3}, two, List{1, 1}});
  Node* flat = g.call("torch.ops.aten.flatten.using_ints", {pooled, 1});
  std::vector<Argument> args = q->args();
  args[0] = flat;
  Node* real = g.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default", std::move(args));
  const Program program = g.done({g.call("torch.ops.aten.linear.default", {real, g.weight({4, 72})})});
  EXPECT_EQ(integer_layers(program).total, 2u);
  EXPECT_EQ(float_layers_text(integer_layers(program)), "");
  EXPECT_LE(difference_from("reference", program, {1, 3, 6, 6}).relative, 1e-2);
  Program fused = program.clone();
  join_operators(fused);
  EXPECT_EQ(fuse_program(fused).plans.size(), 1u) << "one plan from the first layer to the last";
}

TEST(IntegerLayers, LeavesOutFloatLayersBehindRoundedValues) {
  GraphBuilder g;
  Node* x = g.round(g.conv(g.round(g.input({1, 3, 6, 6}), 0.03, 128), {8, 3, 3, 3}, 1), 0.05, 120);
  Node* flat = g.call("torch.ops.aten.flatten.using_ints", {x, 1});
  const IntegerLayers found =
      integer_layers(g.done({g.call("torch.ops.aten.linear.default", {flat, g.floats({4, 288})})}));
  EXPECT_EQ(found.total, 1u);
  EXPECT_EQ(float_layers_text(found), "");
}

// A slice whose end is computed from the batch, and convolutions that make it smaller: what stands behind is fused once
// the sizes of an input are known, and its small weights stay integers.
TEST(IntegerLayers, TakesTheSizesOfAnExample) {
  GraphBuilder g;
  Node* x = g.input({2, 3, 6, 6});
  Node* size = g.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* number = g.call("torch.ops.aten.scalar_tensor.default", {size});
  Node* end = g.call("torch.ops.aten.item.default", {g.call("torch.ops.aten.to.dtype", {number, DType::kS64})});
  Node* part = g.call("torch.ops.aten.slice.Tensor", {x, 2, 0, end});
  const Program program = g.done(
      {g.round(g.conv(g.round(g.conv(g.round(part, 0.03, 128), {8, 3, 3, 3}), 0.05, 128), {4, 8, 1, 1}), 0.1, 120)});
  const IntegerLayers open = integer_layers(program);
  EXPECT_EQ(open.total, 2u);
  EXPECT_EQ(open.in_float.size(), 2u);
  const Tensor example = Tensor::empty({4, 3, 6, 6}, DType::kF32);
  const IntegerLayers found = integer_layers(program, {{example}});
  EXPECT_EQ(found.total, 2u);
  EXPECT_EQ(float_layers_text(found), "");
}

// As run_decompositions() leaves them: steps take them, so that they are no float layers.
TEST(IntegerLayers, FindsLayersThatWereTakenApart) {
  GraphBuilder g;
  const List one{1, 1}, none{0, 0};
  Node* x =
      g.call("torch.ops.aten.convolution.default", {g.round(g.input({1, 3, 6, 6}), 0.03, 128), g.weight({8, 3, 3, 3}),
                                                    g.floats({8}), one, one, one, false, none, 1});
  Node* rows = g.call("torch.ops.aten.view.default", {g.round(x, 0.05, 120), List{-1, 6}});
  Node* matrix = g.call("torch.ops.aten.permute.default", {g.weight({4, 6}), List{1, 0}});
  Node* product = g.call("torch.ops.aten.addmm.default", {g.floats({4}), rows, matrix});
  const Program program = g.done({g.call("torch.ops.aten.view.default", {product, List{-1, 8, 6, 4}})});
  const IntegerLayers found = integer_layers(program);
  EXPECT_EQ(found.total, 2u);
  EXPECT_EQ(float_layers_text(found), "");
  EXPECT_LE(difference_from("reference", program, {1, 3, 6, 6}).relative, 2e-2);
}

// As convert_pt2e(fold_quantize=False) leaves them.
TEST(IntegerLayers, TakesFloatWeightsThatAreQuantizedInTheGraph) {
  GraphBuilder g;
  const List one{1, 1};
  Node* weight = g.round(g.floats({8, 3, 3, 3}, -1, 1), 0.01, 0, DType::kS8);
  Node* x = g.call("torch.ops.aten.conv2d.default",
                   {g.round(g.input({1, 3, 6, 6}), 0.03, 128), weight, g.floats({8}), one, one});
  const Program program = g.done({g.round(x, 0.05, 120)});
  EXPECT_EQ(float_layers_text(integer_layers(program)), "");
  const Session session = lower(program);
  ASSERT_EQ(session.plans().size(), 1u);
  const std::vector<PlanStep>& steps = session.plans()[0].steps;
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(),
                          [](const PlanStep& step) { return step.weights() && !step.weights()->is_float(); }));
  EXPECT_LE(difference_from("reference", program, {1, 3, 6, 6}).relative, 2e-2);
}

// Quantizers for accelerators derive them from the scales of inputs and weights.
TEST(IntegerLayers, TakesBiasesOfInt32) {
  for (const bool is_folded : {true, false}) {
    GraphBuilder g;
    const List one{1, 1};
    Node* bias = g.q(g.floats({8}), 1e-5, 0, DType::kS32);
    if (is_folded) bias = g.integers({8}, 40000);
    Node* real = g.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default",
                        {bias, 1e-5, 0, min_of(DType::kS32), max_of(DType::kS32), DType::kS32});
    Node* x = g.call("torch.ops.aten.conv2d.default",
                     {g.round(g.input({1, 3, 6, 6}), 0.03, 128), g.weight({8, 3, 3, 3}), real, one, one});
    const Program program = g.done({g.round(x, 0.05, 120)});
    EXPECT_EQ(integer_layers(program).total, 1u);
    EXPECT_EQ(float_layers_text(integer_layers(program)), "");
    EXPECT_LE(difference_from("reference", program, {1, 3, 6, 6}).relative, 2e-2);
  }
}

TEST(IntegerLayers, CountsRecurrentLayersByTheirWeights) {
  for (const bool has_integers : {false, true}) {
    GraphBuilder g;
    Node* x = g.round(
        g.call("torch.ops.aten.linear.default", {g.round(g.input({1, 5, 6}), 0.03, 128), g.weight({4, 6})}), 0.05, 120);
    const auto weight = [&](Shape sizes) {
      return has_integers ? g.weight(std::move(sizes)) : g.floats(std::move(sizes));
    };
    Node* zeros = g.call("torch.ops.aten.zeros.default", {Argument(List{1, 5, 3})});
    const List parameters{weight({12, 4}), weight({12, 3}), g.floats({12}), g.floats({12})};
    Node* all =
        g.call("torch.ops.aten.lstm.input", {x, List{zeros, zeros}, parameters, true, 1, 0.0, false, false, false});
    const IntegerLayers found = integer_layers(g.done({g.call("operator.getitem", {all, 0})}));
    EXPECT_EQ(found.total, has_integers ? 2u : 1u);
    ASSERT_EQ(found.in_float.size(), has_integers ? 1u : 0u);
    if (!has_integers) continue;
    EXPECT_EQ(found.in_float[0].reason, "no integer kernel does aten.lstm.input");
  }
}

TEST(IntegerLayers, AsksForRowsOfEmbeddings) {
  GraphBuilder g;
  Node* ids = g.input({1, 5});
  std::get<TensorMeta>(ids->meta.val.value).dtype = DType::kS64;
  const IntegerLayers found =
      integer_layers(g.done({g.call("torch.ops.aten.embedding.default", {g.weight({9, 4}), ids})}));
  ASSERT_EQ(found.in_float.size(), 1u);
  EXPECT_EQ(found.in_float[0].reason, "its rows are looked up, not multiplied");
}

}  // namespace
}  // namespace qdq::integer_layers_test
