// Views of values that lie in plans: which of them move bytes, and that the numbers stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph_builder.h"
#include "lower/fuse.h"

namespace qdq::fuse_views_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

Argument list(std::vector<int64_t> numbers) { return Argument::List(numbers.begin(), numbers.end()); }

// x [2, 8, 6, 6] -> convolution, rounded if it is so -> what `view` makes of it.
using View = std::function<std::vector<Node*>(GraphBuilder&, Node*)>;
Program behind_convolution(int64_t channels, bool is_rounded, const View& view) {
  GraphBuilder g;
  Node* y = g.conv(g.round(g.input({2, 8, 6, 6}), 0.03, 128), {channels, 8, 3, 3}, 1);
  if (is_rounded) y = g.round(y, 0.04, 120);
  return g.done(view(g, y));
}

// On all backends, as the reference computes them node by node, up to one step of the rounding.
void expect_same_numbers(const Program& program, double step = 0.04) {
  Session reference = lower(program, {{"reference"}, false}), best = lower(program),
          portable = lower(program, {{"simd"}});
  for (const int64_t batch : {1, 2}) {
    const std::vector<Tensor> x = {random_tensor({batch, 8, 6, 6}, 3)}, wanted = reference.run(x);
    for (Session* session : {&best, &portable}) {
      const std::vector<Tensor> found = session->run(x);
      ASSERT_EQ(found.size(), wanted.size());
      for (size_t i = 0; i < found.size(); ++i) {
        const Tensor a = found[i].contiguous(), b = wanted[i].contiguous();
        ASSERT_EQ(a.sizes(), b.sizes());
        for (int64_t j = 0; j < a.numel(); ++j)
          ASSERT_NEAR(a.data<float>()[j], b.data<float>()[j], 1.01 * step) << "output " << i << " at " << j;
      }
    }
  }
}

// The steps of the plan that the whole program is.
std::vector<std::string> steps_of(const Program& given) {
  Program program = given.clone();
  const Fusion fusion = fuse_program(program);
  EXPECT_EQ(fusion.plans.size(), 1u);
  for (const NodeFate& fate : fusion.fates) EXPECT_EQ(fate.plan, 0) << fate.node << ": " << fate.refusal;
  return kinds_of(fusion.plans.at(0));
}

// As torchvision's ShuffleNet has it: the halves of the channels take turns, and the halves of that go on.
TEST(FuseViews, ShuffledChannelsStayLast) {
  for (const int64_t channels : {8, 40, 96}) {
    for (const bool is_rounded : {false, true}) {
      const Program program = behind_convolution(channels, is_rounded, [&](GraphBuilder& g, Node* x) {
        Node* grouped = g.call("torch.ops.aten.view.default", {x, list({-1, 2, channels / 2, 6, 6})});
        Node* turned = g.call("torch.ops.aten.transpose.int", {grouped, 1, 2});
        turned = g.call("torch.ops.aten.contiguous.default", {turned});
        Node* image = g.call("torch.ops.aten.view.default", {turned, list({-1, channels, 6, 6})});
        Node* halves = g.call("torch.ops.aten.chunk.default", {image, 2, 1});
        return std::vector{g.call("operator.getitem", {halves, 0}), g.call("operator.getitem", {halves, 1})};
      });
      EXPECT_THAT(steps_of(program), Not(Contains("copy")));
      expect_same_numbers(program);
    }
  }
}

TEST(FuseViews, SlicesAreViews) {
  for (const bool is_rounded : {false, true}) {
    const Program program = behind_convolution(40, is_rounded, [](GraphBuilder& g, Node* x) {
      Node* even = g.call("torch.ops.aten.slice.Tensor", {x, 1, 0, 40, 2});
      Node* last = g.call("torch.ops.aten.slice.Tensor", {x, 1, -9, Argument(), 3});
      Node* rows = g.call("torch.ops.aten.slice.Tensor", {x, 2, 1, 4});
      return std::vector{even, last, rows};
    });
    steps_of(program);
    expect_same_numbers(program);
  }
}

TEST(FuseViews, SplitsAreViews) {
  for (const bool is_rounded : {false, true}) {
    const Program program = behind_convolution(40, is_rounded, [](GraphBuilder& g, Node* x) {
      Node* parts = g.call("torch.ops.aten.split_with_sizes.default", {x, list({7, 20, 13}), 1});
      Node* columns = g.call("torch.ops.aten.split.Tensor", {x, 4, -1});
      return std::vector{g.call("operator.getitem", {parts, 2}), g.call("operator.getitem", {parts, 0}),
                         g.call("operator.getitem", {columns, 1})};
    });
    steps_of(program);
    expect_same_numbers(program);
  }
}

// The lower rows have the strides of the upper ones except along the batch, also if that is one image.
TEST(FuseViews, PartsOfOneImageAreAdded) {
  for (const int64_t channels : {5, 40}) {
    const Program program = behind_convolution(channels, false, [](GraphBuilder& g, Node* x) {
      Node* upper = g.call("torch.ops.aten.relu.default", {g.call("torch.ops.aten.slice.Tensor", {x, 2, 0, 3})});
      Node* lower = g.call("torch.ops.aten.slice.Tensor", {x, 2, 3, 6});
      return std::vector{g.call("torch.ops.aten.add.Tensor", {upper, lower})};
    });
    EXPECT_THAT(steps_of(program), Contains("add"));
    expect_same_numbers(program, 1e-4);
  }
}

// Pixels as tokens lie behind each other already; only what a linear layer's operand needs is arranged.
TEST(FuseViews, TokensOfAnImageMoveNoBytes) {
  const Program program = behind_convolution(40, true, [](GraphBuilder& g, Node* x) {
    Node* planes = g.call("torch.ops.aten.flatten.using_ints", {x, 2, 3});
    Node* tokens = g.call("torch.ops.aten.transpose.int", {planes, 1, 2});
    return std::vector{g.round(g.call("torch.ops.aten.linear.default", {tokens, g.weight({16, 40})}), 0.04, 120)};
  });
  EXPECT_THAT(steps_of(program), ElementsAre("quantize", "convolution", "linear", "dequantize"));
  expect_same_numbers(program);
}

// Attention of one sample, whose axis of one element may have any stride; its tokens lie in front or behind.
TEST(FuseViews, OneSampleMayHaveAnyStride) {
  for (const bool has_tokens_first : {false, true}) {
    GraphBuilder g;
    const Shape sizes = has_tokens_first ? Shape{12, 1, 64} : Shape{1, 12, 64};
    Node* x = g.input(sizes, "x", false);
    const auto heads = [&] {
      Node* y = g.call("torch.ops.aten.linear.default", {x, g.floats({64, 64}, -0.2F, 0.2F), g.floats({64})});
      if (has_tokens_first) y = g.call("torch.ops.aten.transpose.int", {y, 0, 1});
      y = g.call("torch.ops.aten.view.default", {y, list({1, 12, 4, 16})});
      return g.call("torch.ops.aten.transpose.int", {y, 1, 2});
    };
    Node* read = g.call("torch.ops.aten.scaled_dot_product_attention.default", {heads(), heads(), heads()});
    read = g.call("torch.ops.aten.transpose.int", {read, 1, 2});
    read = g.call("torch.ops.aten.reshape.default", {read, list({1, 12, 64})});
    const Program program =
        g.done({g.call("torch.ops.aten.linear.default", {read, g.floats({64, 64}, -0.2F, 0.2F), g.floats({64})})});
    const std::vector<Tensor> input = {random_tensor(sizes, 5)};
    const Tensor found = lower(program).run(input)[0].contiguous();
    const Tensor wanted = lower(program, {{"reference"}, false}).run(input)[0].contiguous();
    for (int64_t i = 0; i < found.numel(); ++i) ASSERT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-4) << i;
  }
}

// Windows: neither a view nor an image whose channels lie beside each other.
TEST(FuseViews, OtherShapesAreCopied) {
  for (const bool is_rounded : {false, true}) {
    const Program program = behind_convolution(12, is_rounded, [](GraphBuilder& g, Node* x) {
      Node* windows = g.call("torch.ops.aten.view.default", {x, list({-1, 12, 2, 3, 3, 2})});
      windows = g.call("torch.ops.aten.permute.default", {windows, list({0, 2, 4, 3, 5, 1})});
      Node* flat = g.call("torch.ops.aten.flatten.using_ints", {x, 1, 3});
      return std::vector{g.call("torch.ops.aten.reshape.default", {windows, list({-1, 6, 12})}),
                         g.call("torch.ops.aten.reshape.default", {windows, list({-1, 3, 2, 12})}), flat};
    });
    steps_of(program);
    expect_same_numbers(program);
  }
}

// Both operands repeat, as relative positions of MViT do, or one along axes that are not neighbours.
TEST(FuseViews, OperandsThatRepeatAnyhowAreExpanded) {
  for (const bool is_rounded : {false, true}) {
    const Program program = behind_convolution(12, is_rounded, [&](GraphBuilder& g, Node* x) {
      const auto view = [&](std::vector<int64_t> sizes) {
        return g.call("torch.ops.aten.view.default", {x, list(std::move(sizes))});
      };
      const auto sum = [&](Node* a, Node* b) {
        Node* out = g.call("torch.ops.aten.add.Tensor", {a, b});
        return is_rounded ? g.round(out, 0.08, 120) : out;
      };
      Node* left = view({-1, 12, 6, 6, 1});
      return std::vector{sum(left, view({-1, 12, 6, 1, 6})),
                         g.call("torch.ops.aten.mul.Tensor", {left, view({-1, 12, 6, 1, 6})}),
                         sum(view({-1, 12, 6, 6}), g.call("torch.ops.aten.mean.dim", {x, list({1, 3}), true}))};
    });
    Program fused = program.clone();
    const Fusion fusion = fuse_program(fused);
    for (const Plan& plan : fusion.plans) {
      for (const PlanStep& step : plan.steps) {
        const auto is_whole = [&](size_t input) {
          return plan.buffers[input].symbolic_sizes == plan.buffers[step.output].symbolic_sizes;
        };
        if (step.kind() != PlanStep::Kind::kAdd && step.kind() != PlanStep::Kind::kMul) continue;
        EXPECT_TRUE(std::any_of(step.inputs.begin(), step.inputs.end(), is_whole)) << step.name;
      }
    }
    expect_same_numbers(program, 0.08);
  }
}

}  // namespace
}  // namespace qdq::fuse_views_test
