// Layers of integers whose number of rows only a run tells: what a mask selects.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "unit/lower/graph_builder.h"

namespace qdq {
namespace {

// The rows of x [rows, 2, 3, 3] whose first number is above zero, through a convolution and a linear layer.
class RunSizes : public testing::Test {
 protected:
  static Program network() {
    GraphBuilder graph;
    Node* x = graph.input({4, 2, 3, 3});
    Node* first =
        graph.call("torch.ops.aten.slice.Tensor", {graph.call("torch.ops.aten.flatten.using_ints", {x, 1}), 1, 0, 1});
    Node* mask = graph.call("torch.ops.aten.gt.Scalar", {graph.call("torch.ops.aten.squeeze.dim", {first, 1}), 0});
    Node* chosen = graph.call("torch.ops.aten.index.Tensor", {x, Argument(Argument::List{mask})});
    Node* conv = graph.conv(graph.round(chosen, 0.02, 128), {8, 2, 3, 3}, 1);
    Node* relu = graph.round(graph.call("torch.ops.aten.relu.default", {conv}), 0.02, 0);
    Node* flat = graph.call("torch.ops.aten.flatten.using_ints", {relu, 1});
    Node* linear = graph.call("torch.ops.aten.linear.default", {graph.round(flat, 0.02, 0), graph.weight({5, 72})});
    return graph.done({linear, relu});
  }
  // Of which `wanted` rows are chosen.
  static Tensor rows(int64_t wanted, int64_t others, float step) {
    const Tensor out = Tensor::empty({wanted + others, 2, 3, 3}, DType::kF32);
    for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = 2 * std::sin(step * static_cast<float>(i));
    for (int64_t row = 0; row < out.size(0); ++row)
      out.data<float>()[row * 18] = row % 2 == 0 && row < 2 * wanted ? 1.0f : -1.0f;
    return out;
  }
};

TEST_F(RunSizes, BecomeStepsForEveryNumberOfRows) {
  const Program program = network();
  Session plain = lower(program, {{"reference"}, false});
  for (const std::string_view backend : backend_names()) {
    Session fused = lower(program, {{std::string(backend)}});
    int64_t steps = 0;
    for (const Session::Placement& placement : fused.placements())
      steps += (placement.target == "torch.ops.aten.conv2d.default" ||
                placement.target == "torch.ops.aten.linear.default") &&
               !placement.step.empty();
    EXPECT_EQ(steps, backend == "reference" ? 0 : 2) << backend;
    for (const int64_t wanted : {3, 1, 0, 5, 3, 7, 8, 9, 10, 11, 12, 2, 3}) {
      const Tensor x = rows(wanted, wanted + 1, 0.37f + 0.01f * static_cast<float>(wanted));
      const std::vector<Tensor> got = fused.run({{x}}), expected = plain.run({{x}});
      ASSERT_EQ(got[0].sizes(), (Shape{wanted, 5})) << backend;
      for (size_t i = 0; i < 2; ++i) {
        ASSERT_EQ(got[i].sizes(), expected[i].sizes()) << backend;
        for (int64_t k = 0; k < got[i].numel(); ++k)
          EXPECT_NEAR(got[i].contiguous().data<float>()[k], expected[i].contiguous().data<float>()[k], 0.05)
              << backend << " of " << wanted;
      }
    }
  }
}

}  // namespace
}  // namespace qdq
