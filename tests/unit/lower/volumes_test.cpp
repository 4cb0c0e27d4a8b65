// Convolutions over three axes in integers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "graph_builder.h"
#include "lower/fuse.h"
#include "lower/integer_layers.h"
#include "lower/volumes_as_images.h"

namespace qdq::volumes_test {
namespace {

using List = Argument::List;
using testing::ElementsAre;

struct Settings {
  List stride{1, 1, 1}, padding{1, 1, 1}, dilation{1, 1, 1};
  int groups = 1;
};

class VolumeGraph : public GraphBuilder {
 public:
  Node* conv3d(Node* x, const Shape& weight_sizes, const Settings& s = {}) {
    return call("torch.ops.aten.conv3d.default",
                {x, weight(weight_sizes), floats({weight_sizes[0]}, -1, 1), s.stride, s.padding, s.dilation, s.groups});
  }
  Node* relu(Node* x) { return call("torch.ops.aten.relu.default", {x}); }
  Node* pool(const char* name, Node* x, const List& kernel, const List& stride, const List& padding) {
    return call(concat("torch.ops.aten.", name, ".default"), {x, kernel, stride, padding});
  }
};

// Integers of the results: the graph's last values are rounded by `scale`.
int64_t different_integers(const Program& program, Shape sizes, double scale,
                           const std::vector<std::string>& backends) {
  Session fused = lower(program, {backends}), plain = lower(program, {{"reference"}, false});
  int64_t different = 0;
  for (const int64_t batch : {1, 2}) {
    sizes[0] = batch;
    const Tensor x = random_tensor(sizes, static_cast<unsigned>(batch));
    const std::vector<Tensor> found = fused.run({{x}}), expected = plain.run({{x}});
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].sizes(), expected[i].sizes());
      const Tensor a = found[i].contiguous(), b = expected[i].contiguous();
      for (int64_t j = 0; j < a.numel(); ++j)
        different +=
            std::nearbyint(double(a.data<float>()[j]) / scale) != std::nearbyint(double(b.data<float>()[j]) / scale);
    }
  }
  return different;
}

struct Case {
  const char* name;
  Shape x, weight;
  Settings settings{};
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Conv3d : public testing::TestWithParam<Case> {};

// The reference sums in float32, so that sums that end near the middle of two steps may fall to either side.
TEST_P(Conv3d, GivesTheIntegersOfTheReferenceGraph) {
  const auto& [name, x, weight, settings] = GetParam();
  VolumeGraph g;
  Node* y = g.relu(g.conv3d(g.round(g.input(x), 0.03, 120), weight, settings));
  const Program program = g.done({g.round(y, 0.05, 3, DType::kS8)});
  EXPECT_EQ(float_layers_text(integer_layers(program)), "");
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    EXPECT_LE(different_integers(program, x, 0.05, {"simd"}), 1);
    EXPECT_LE(different_integers(program, x, 0.05, {}), 1);
  }
  set_num_threads(1);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Conv3d,
    testing::Values(Case{"plain", {1, 8, 5, 9, 7}, {12, 8, 3, 3, 3}},
                    Case{"first", {1, 3, 6, 17, 19}, {16, 3, 3, 7, 7}, {{1, 2, 2}, {1, 3, 3}}},
                    Case{"stride", {1, 16, 7, 9, 8}, {24, 16, 3, 3, 3}, {{2, 2, 2}}},
                    Case{"uneven", {1, 5, 8, 6, 7}, {11, 5, 2, 3, 4}, {{3, 1, 2}, {0, 2, 1}}},
                    Case{"dilated", {1, 6, 9, 8, 7}, {10, 6, 3, 3, 3}, {{1, 1, 1}, {2, 0, 1}, {2, 1, 3}}},
                    Case{"groups", {1, 16, 5, 6, 5}, {32, 4, 3, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 4}},
                    Case{"depthwise", {1, 20, 5, 6, 5}, {20, 1, 3, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 20}},
                    Case{"spatial", {1, 8, 4, 9, 7}, {24, 8, 1, 3, 3}, {{1, 1, 1}, {0, 1, 1}}},
                    Case{"temporal", {1, 24, 6, 5, 7}, {8, 24, 3, 1, 1}, {{1, 1, 1}, {1, 0, 0}}},
                    Case{"pointwise", {1, 24, 6, 5, 7}, {8, 24, 1, 1, 1}, {{1, 1, 1}, {0, 0, 0}}},
                    Case{"pointwise_stride", {1, 24, 5, 6, 7}, {8, 24, 1, 1, 1}, {{2, 2, 2}, {0, 0, 0}}}),
    [](const auto& info) { return info.param.name; });

// Two blocks with a shortcut, pools of all kinds, a concatenation with a value from outside, and a classifier.
Program network() {
  VolumeGraph g;
  Node* input = g.input({1, 3, 8, 16, 16});
  Node* x = g.round(g.relu(g.conv3d(g.round(input, 0.03, 120), {16, 3, 3, 3, 3})), 0.02, 0);
  x = g.round(g.pool("max_pool3d", x, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}), 0.02, 0);
  Node* spatial = g.round(g.relu(g.conv3d(x, {24, 16, 1, 3, 3}, {{1, 1, 1}, {0, 1, 1}})), 0.02, 0);
  Node* temporal = g.round(g.conv3d(spatial, {16, 24, 3, 1, 1}, {{1, 1, 1}, {1, 0, 0}}), 0.03, 128);
  x = g.round(g.relu(g.call("torch.ops.aten.add.Tensor", {temporal, x})), 0.03, 0);
  Node* outside = g.call("torch.ops.aten.upsample_nearest3d.vec", {x, Argument(), List{1.0, 1.0, 1.0}});
  x = g.round(g.call("torch.ops.aten.cat.default", {List{x, outside}, 1}), 0.03, 0);
  x = g.round(g.pool("avg_pool3d", x, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}), 0.03, 0);
  x = g.round(g.relu(g.conv3d(x, {16, 32, 1, 1, 1}, {{2, 1, 1}, {0, 0, 0}})), 0.02, 0);
  Node* frames = g.pool("avg_pool3d", x, {2, 4, 4}, {1, 1, 1}, {0, 0, 0});
  Node* whole = g.round(g.call("torch.ops.aten.adaptive_avg_pool3d.default", {x, List{1, 1, 1}}), 0.02, 0);
  Node* flat = g.call("torch.ops.aten.flatten.using_ints", {whole, 1});
  return g.done({g.call("torch.ops.aten.linear.default", {flat, g.weight({10, 16})}), frames});
}

TEST(VolumesAsImages, KeepANetworkInIntegers) {
  Program program = network();
  EXPECT_EQ(float_layers_text(integer_layers(program)), "");
  make_images_of_volumes(program);
  verify_program(program);
  const Fusion fusion = fuse_program(program, {});
  std::vector<std::string> left;
  for (const NodeFate& fate : fusion.fates)
    if (fate.plan < 0) left.push_back(fate.target);
  EXPECT_THAT(left, ElementsAre("torch.ops.aten.permute.default", "torch.ops.aten.flatten.using_ints",
                                "torch.ops.aten.upsample_nearest3d.vec", "torch.ops.aten.permute.default",
                                "torch.ops.aten.flatten.using_ints"));
  for (const Plan& plan : fusion.plans)
    for (const PlanStep& step : plan.steps) {
      EXPECT_FALSE(has_float_weight(step));
      EXPECT_NE(step.kind(), PlanStep::Kind::kCopy) << step.name;
    }
  EXPECT_LE(difference_from("reference", network(), {1, 3, 8, 16, 16}).largest, 0.03) << "a step of an inner value";
}

TEST(VolumesAsImages, LeaveFloatConvolutionsAlone) {
  VolumeGraph g;
  Node* floats = g.call("torch.ops.aten.conv3d.default", {g.input({1, 3, 4, 5, 6}), g.floats({4, 3, 3, 3, 3})});
  Program program = g.done({g.relu(floats)});
  make_images_of_volumes(program);
  EXPECT_EQ(program.graph->nodes()[2]->target(), "torch.ops.aten.conv3d.default");
}

}  // namespace
}  // namespace qdq::volumes_test
