// oneDNN's float operators against the reference operators: every road through them, for the shapes that choose it.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/interpreter.h"
#include "lower/lower.h"

namespace qdq::onednn_test {
namespace {

Tensor waves(const Shape& sizes, float step) {
  Tensor out = Tensor::empty(sizes, DType::kF32);
  float* values = out.data<float>();
  for (int64_t i = 0; i < out.numel(); ++i) values[i] = std::sin(step * static_cast<float>(i));
  return out;
}

Node* attribute(Program& program, const std::string& name, Tensor value) {
  program.add_attribute({name, std::move(value), Attribute::Kind::kParameter});
  Node* node = program.graph->get_attr(name);
  const Tensor& kept = program.find_attribute(name)->tensor;
  TensorMeta meta{DType::kF32, {}, {}, false};
  meta.sizes.assign(kept.sizes().begin(), kept.sizes().end());
  node->meta.val.value = meta;
  return node;
}

Node* input(Program& program, const Shape& sizes) {
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  TensorMeta meta{DType::kF32, {}, {}, false};
  meta.sizes.assign(sizes.begin(), sizes.end());
  x->meta.val.value = meta;
  return x;
}

// Runs the program on oneDNN and on the reference operators; their results may differ by 1e-5 of the largest.
void expect_same(Program program, Node* result, const Tensor& x, const std::string& what) {
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{result})});
  infer_shapes(program);
  Session fast = lower(program, {{"onednn"}});
  ASSERT_EQ(fast.placements().back().backend, "onednn") << what;
  const Tensor got = fast.run({{x}})[0], wanted = lower(program, {{"reference"}}).run({{x}})[0];
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  float largest = 0, worst = 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    largest = std::max(largest, std::fabs(wanted.data<float>()[i]));
    worst = std::max(worst, std::fabs(wanted.data<float>()[i] - got.data<float>()[i]));
  }
  EXPECT_LE(worst, 1e-5f * largest) << what;
}

class OneDnn : public testing::Test {
 protected:
  void SetUp() override {
    if (make_onednn_ops() == nullptr) GTEST_SKIP() << "this build has no oneDNN";
  }
};

TEST_F(OneDnn, Convolutions) {
  struct Case {
    Shape x, weight;
    int64_t stride, padding, dilation, groups;
  };
  const Case cases[] = {
      // a primitive; the BLAS, pointwise
      {{2, 3, 17, 15}, {8, 3, 3, 3}, 1, 1, 1, 1},
      {{2, 8, 9, 9}, {12, 8, 1, 1}, 1, 0, 1, 1},
      // the BLAS: deep, in groups
      {{3, 500, 5, 7}, {10, 500, 1, 1}, 1, 0, 1, 1},
      {{2, 8, 6, 6}, {6, 4, 1, 1}, 1, 0, 1, 2},
      // the BLAS through im2col
      {{1, 3, 20, 21}, {4, 3, 3, 3}, 2, 1, 1, 1},
      {{1, 2, 12, 10}, {5, 2, 3, 2}, 1, 2, 2, 1},
      {{1, 6, 9, 9}, {6, 1, 3, 3}, 1, 1, 1, 6},
      {{16, 4, 5, 5}, {4, 4, 1, 1}, 1, 0, 1, 1},  // primitives again
      // pointwise with padding
      {{2, 4, 6, 6}, {3, 4, 1, 1}, 1, 1, 1, 1},
      // volumes
      {{1, 16, 5, 9, 8}, {24, 16, 3, 3, 3}, 1, 1, 1, 1},
      {{2, 32, 6, 7, 9}, {32, 16, 3, 1, 3}, 2, 2, 2, 2},
      {{1, 17, 4, 4, 4}, {16, 17, 1, 1, 1}, 1, 0, 1, 1},
  };
  for (const Case& one : cases)
    for (const bool bias : {true, false}) {
      Program program;
      Node* x = input(program, one.x);
      Node* weight = attribute(program, "weight", waves(one.weight, 0.7f));
      const Argument shift = bias ? Argument(attribute(program, "bias", waves({one.weight[0]}, 1.3f))) : Argument();
      const size_t axes = one.x.size() - 2;
      const auto all = [&](int64_t value) { return Argument(Argument::List(axes, value)); };
      Node* conv =
          program.graph->call(concat("torch.ops.aten.conv", axes, "d.default"),
                              {x, weight, shift, all(one.stride), all(one.padding), all(one.dilation), one.groups});
      expect_same(std::move(program), conv, waves(one.x, 0.37f),
                  concat("weight ", one.weight[0], ", ", one.weight[1], ", ", one.weight[2], " of ", one.x[0], ", ",
                         one.x[1], bias ? " with bias" : ""));
    }
}

TEST_F(OneDnn, TransposedConvolutions) {
  struct Case {
    Shape x, weight;
    int64_t stride, padding, added, groups, dilation;
  };
  const Case cases[] = {
      {{2, 16, 9, 8}, {16, 24, 4, 4}, 2, 1, 0, 1, 1},
      {{1, 32, 5, 6}, {32, 16, 2, 2}, 2, 0, 0, 1, 1},
      {{1, 32, 7, 7}, {32, 16, 3, 3}, 2, 1, 1, 2, 1},
      {{1, 17, 6, 5}, {17, 18, 3, 2}, 1, 2, 0, 1, 2},
      {{1, 16, 6, 6}, {16, 16, 2, 2}, 3, 0, 2, 1, 1},
      {{1, 16, 1, 1}, {16, 20, 4, 4}, 1, 0, 0, 1, 1},
      {{2, 16, 30}, {16, 16, 8}, 4, 2, 0, 1, 1},
      {{1, 16, 4, 5, 6}, {16, 16, 2, 2, 2}, 2, 0, 0, 1, 1},
      {{1, 32, 3, 4, 3}, {32, 16, 3, 3, 3}, 2, 1, 1, 2, 1},
      {{1, 16, 8, 8}, {16, 16, 3, 3}, 1, 0, 0, 1, 1},
      {{1, 16, 5, 5}, {16, 16, 1, 1}, 2, 0, 1, 1, 1},
      {{1, 16, 9, 9}, {16, 16, 5, 5}, 2, 4, 1, 1, 1},
  };
  for (const Case& one : cases)
    for (const bool bias : {true, false}) {
      Program program;
      Node* x = input(program, one.x);
      Node* weight = attribute(program, "weight", waves(one.weight, 0.7f));
      const Argument shift =
          bias ? Argument(attribute(program, "bias", waves({one.weight[1] * one.groups}, 1.3f))) : Argument();
      const size_t axes = one.x.size() - 2;
      const auto all = [&](int64_t value) { return Argument(Argument::List(axes, value)); };
      Node* conv = program.graph->call(
          concat("torch.ops.aten.conv_transpose", axes, axes == 1 ? "d.default" : "d.input"),
          {x, weight, shift, all(one.stride), all(one.padding), all(one.added), one.groups, all(one.dilation)});
      expect_same(std::move(program), conv, waves(one.x, 0.37f),
                  concat(axes, " axes, kernel ", one.weight[2], ", stride ", one.stride, ", padding ", one.padding,
                         bias ? ", with bias" : ""));
    }
}

// Their copies in the primitive's layout take longer than the portable kernels.
TEST_F(OneDnn, LeavesVolumesOfFewChannels) {
  Program program;
  Node *x = input(program, {1, 8, 5, 5, 5}), *weight = attribute(program, "weight", waves({16, 8, 3, 3, 3}, 0.7f));
  Node* conv = program.graph->call("torch.ops.aten.conv3d.default", {x, weight});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{conv})});
  infer_shapes(program);
  EXPECT_EQ(lower(program).placements().back().backend, "simd");
}

// A file may say anything: what does not fit the tensors is refused, as by the reference operators.
TEST_F(OneDnn, RefusesNumbersThatDoNotFit) {
  using List = Argument::List;
  struct Case {
    const char* target;
    Shape weight;
    int64_t biases;
    List stride;
  };
  const Case cases[] = {{"torch.ops.aten.convolution.default", {5, 3, 3, 3}, 5, {1, 1, 1}},
                        {"torch.ops.aten.convolution.default", {5, 3, 3, 3}, 5, {0}},
                        {"torch.ops.aten.convolution.default", {5, 3, 3, 3}, 4, {1}},
                        {"torch.ops.aten.linear.default", {5, 20}, 4, {}}};
  for (const Case& one : cases) {
    Program program;
    Node* x = input(program, {2, 3, 20, 20});
    Node* weight = attribute(program, "weight", waves(one.weight, 0.7f));
    std::vector<Argument> args{x, weight, attribute(program, "bias", waves({one.biases}, 1.3f))};
    if (!one.stride.empty()) args.insert(args.end(), {one.stride, List{1}, List{1}, false, List{0}, 1});
    Node* node = program.graph->call(one.target, std::move(args));
    node->meta.val.value = TensorMeta{DType::kF32, {2, 5, 20, 20}, {}, false};
    program.graph->create(Node::Op::kOutput, "output", {Argument(List{node})});
    const std::unique_ptr<OpBackend> onednn = make_onednn_ops();
    Interpreter fast(program, {onednn.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "onednn") << one.target;
    EXPECT_THROW(fast.run({{waves({2, 3, 20, 20}, 0.37f)}}), Error) << one.target;
  }
}

// Scores with a mask of -1e9 in integers: its zero point is taken off beside it, not behind the sum.
TEST_F(OneDnn, AddsSmallNumbersToIntegersOfLargeSteps) {
  Program program;
  Graph& g = *program.graph;
  Node *scores = input(program, {2, 4, 16, 16}), *masks = input(program, {2, 4, 16, 16});
  const double scale = 1e9 / 255;
  Node* q =
      g.call("torch.ops.quantized_decomposed.quantize_per_tensor.default", {masks, scale, 127, -128, 127, DType::kS8});
  Node* real =
      g.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default", {q, scale, 127, -128, 127, DType::kS8});
  Node* sum = g.call("torch.ops.aten.add.Tensor", {scores, real});
  g.create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})});
  infer_shapes(program);
  const Tensor x = waves({2, 4, 16, 16}, 0.1f);
  Tensor mask = Tensor::full({2, 4, 16, 16}, DType::kF32, 0);
  for (int64_t i = 0; i < mask.numel(); i += 3) mask.data<float>()[i] = -1e9f;
  const Tensor got = lower(program, {{"onednn"}}).run({{x, mask}})[0];
  for (int64_t i = 0; i < got.numel(); ++i) {
    if (i % 3 != 0) ASSERT_NEAR(got.data<float>()[i], x.data<float>()[i], 1e-6) << i;
    else ASSERT_LE(got.data<float>()[i], -0.99e9f) << i;
  }
}

TEST_F(OneDnn, LinearLayers) {
  for (const Shape& sizes : {Shape{7, 5}, Shape{10, 900}, Shape{2, 3, 40}, Shape{33}})
    for (const bool bias : {true, false}) {
      Program program;
      Node* x = input(program, sizes);
      Node* weight = attribute(program, "weight", waves({6, sizes.back()}, 0.7f));
      const Argument shift = bias ? Argument(attribute(program, "bias", waves({6}, 1.3f))) : Argument();
      Node* linear = program.graph->call("torch.ops.aten.linear.default", {x, weight, shift});
      expect_same(std::move(program), linear, waves(sizes, 0.37f),
                  concat("depth ", sizes.back(), bias ? " with bias" : ""));
    }
}

TEST_F(OneDnn, MatrixProductsBroadcastTheirBatches) {
  Program program;
  Node* x = input(program, {2, 1, 5, 9});
  Node* y = attribute(program, "y", waves({3, 9, 4}, 0.7f));
  Node* product = program.graph->call("torch.ops.aten.matmul.default", {x, y});
  expect_same(std::move(program), product, waves({2, 1, 5, 9}, 0.37f), "matmul");
}

}  // namespace
}  // namespace qdq::onednn_test
