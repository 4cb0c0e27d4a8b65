// Graphs as convert_pt2e leaves them, or float ones, and what became of them, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/program.h"
#include "lower/lower.h"
#include "lower/plan.h"
#include "op/op.h"

namespace qdq {

// From `low` to `high`: the same number in every build, as the distributions of the standard library are not.
inline float uniform(std::mt19937& random, float low, float high) {
  return low + (high - low) * (static_cast<float>(random() >> 8) * 0x1p-24f);
}

class GraphBuilder {
 public:
  // Its first axis is open unless told otherwise.
  Node* input(Shape sizes, const char* name = "x", bool is_open = true) {
    Node* node = graph().create(Node::Op::kPlaceholder, name, {}, {}, name);
    TensorMeta meta{DType::kF32, {}, {}, false};
    for (size_t i = 0; i < sizes.size(); ++i)
      meta.sizes.push_back(i == 0 && is_open ? SymInt::symbol("s0") : SymInt(sizes[i]));
    node->meta.val.value = meta;
    return node;
  }
  Node* q(Node* x, double scale, int zero_point, DType dtype = DType::kU8) {
    return call("torch.ops.quantized_decomposed.quantize_per_tensor.default",
                {x, scale, zero_point, int(min_of(dtype)), int(max_of(dtype)), dtype});
  }
  Node* dq(Node* q) {
    std::vector<Argument> args = q->args();
    args[0] = q;
    return call("torch.ops.quantized_decomposed.dequantize_per_tensor.default", std::move(args));
  }
  Node* round(Node* x, double scale, int zero_point, DType dtype = DType::kU8) {
    return dq(q(x, scale, zero_point, dtype));
  }
  // The same numbers in every build, and so is the bias of conv().
  Node* weight(Shape sizes) {
    Tensor values = Tensor::empty(sizes, DType::kS8), scales = Tensor::empty({sizes[0]}, DType::kF32);
    const float depth = static_cast<float>(values.numel() / sizes[0]);
    for (int8_t& w : values.span<int8_t>()) w = static_cast<int8_t>(static_cast<int>(random_() % 255) - 127);
    for (float& s : scales.span<float>()) s = uniform(random_, 0.5f, 1.5f) / std::sqrt(depth) / 64.0f;
    Node* zero_points = constant(Tensor::empty({sizes[0]}, DType::kS64));
    return call("torch.ops.quantized_decomposed.dequantize_per_channel.default",
                {constant(values), constant(scales), zero_points, 0, -127, 127, DType::kS8});
  }
  // uint8 from 0 to `most`, with a zero point for each channel.
  Node* unsigned_weight(Shape sizes, const std::vector<int64_t>& zero_points, int most = 255) {
    const Tensor values = Tensor::empty(sizes, DType::kU8), zeros = Tensor::empty({sizes[0]}, DType::kS64);
    for (uint8_t& w : values.span<uint8_t>())
      w = static_cast<uint8_t>(std::uniform_int_distribution<int>(0, most)(random_));
    std::copy(zero_points.begin(), zero_points.end(), zeros.data<int64_t>());
    const Tensor scales = Tensor::full({sizes[0]}, DType::kF32, 0.003);
    return call("torch.ops.quantized_decomposed.dequantize_per_channel.default",
                {constant(values), constant(scales), constant(zeros), 0, 0, 255, DType::kU8});
  }
  // Of 4 bits, dequantized by groups along its rows.
  Node* group_weight(Shape sizes, int64_t group) {
    Tensor values = Tensor::empty(sizes, DType::kS8), scales = Tensor::empty({sizes[0], sizes[1] / group}, DType::kF32);
    for (int8_t& w : values.span<int8_t>()) w = static_cast<int8_t>(std::uniform_int_distribution<int>(-8, 7)(random_));
    for (float& s : scales.span<float>()) s = std::uniform_real_distribution<float>(0.01f, 0.05f)(random_);
    Node* zero_points = constant(Tensor::empty(scales.sizes(), DType::kS64));
    return call("torch.ops.quantized_decomposed.dequantize_per_channel_group.default",
                {constant(values), constant(scales), zero_points, -8, 7, DType::kS8, group, DType::kF32});
  }
  // Each row of the last axis rounded to int8 by its own range.
  Node* round_tokens(Node* x) {
    const std::string decomposed = "torch.ops.quantized_decomposed.";
    Node* chosen = call(decomposed + "choose_qparams_per_token_asymmetric.default", {x, DType::kS8});
    Node *scale = call("operator.getitem", {chosen, 0}), *zero_point = call("operator.getitem", {chosen, 1});
    Node* q = call(decomposed + "quantize_per_token.default", {x, scale, zero_point, -128, 127, DType::kS8});
    return call(decomposed + "dequantize_per_token.default",
                {q, scale, zero_point, -128, 127, DType::kS8, DType::kF32});
  }
  Node* floats(Shape sizes, float low = 0.5f, float high = 1.5f) {
    Tensor values = Tensor::empty(sizes, DType::kF32);
    for (float& x : values.span<float>()) x = std::uniform_real_distribution<float>(low, high)(random_);
    return constant(values);
  }
  // All are `value`.
  Node* integers(Shape sizes, int64_t value) {
    return constant(Tensor::full(std::move(sizes), DType::kS32, static_cast<double>(value)));
  }
  Node* conv(Node* x, Shape weight_sizes, int pad = 0, int groups = 1) {
    const Argument::List one{1, 1}, padding{pad, pad};
    Tensor bias = Tensor::empty({weight_sizes[0]}, DType::kF32);
    for (float& b : bias.span<float>()) b = uniform(random_, -1, 1);
    Node* w = weight(std::move(weight_sizes));
    return call("torch.ops.aten.conv2d.default", {x, w, constant(bias), one, padding, one, groups});
  }
  Node* call(std::string target, std::vector<Argument> args) {
    return graph().call(std::move(target), std::move(args));
  }
  Program done(std::vector<Node*> outputs) {
    Argument::List list(outputs.begin(), outputs.end());
    graph().create(Node::Op::kOutput, "output", {Argument(std::move(list))});
    infer_shapes(program_);
    return std::move(program_);
  }

 private:
  Graph& graph() { return *program_.graph; }
  Node* constant(Tensor tensor) {
    const std::string name = concat("constant_", program_.attributes.size());
    TensorMeta meta{tensor.dtype(), {}, {}, false};
    for (const int64_t size : tensor.sizes()) meta.sizes.push_back(size);
    program_.add_attribute({name, std::move(tensor), Attribute::Kind::kBuffer});
    Node* node = graph().get_attr(name);
    node->meta.val.value = meta;
    return node;
  }
  Program program_;
  std::mt19937 random_{1};
};

inline Tensor random_tensor(const Shape& sizes, unsigned seed) {
  std::mt19937 random(seed);
  Tensor out = Tensor::empty(sizes, DType::kF32);
  for (float& x : out.span<float>()) x = std::uniform_real_distribution<float>(-3, 3)(random);
  return out;
}

// How far a lowered program is from the same run node by node on `backend`, over some batch sizes of an input of these
// sizes. A lowered session must give the same bits when it runs again.
struct Difference {
  double largest = 0;
  double relative = 0;  // to the largest value of the same output
};
inline Difference difference_from(const char* backend, const Program& program, Shape sizes) {
  Session fused = lower(program), plain = lower(program, {{backend}, false});
  Difference all;
  for (const int64_t batch : {1, 3, 1}) {
    sizes[0] = batch;
    const Tensor x = random_tensor(sizes, static_cast<unsigned>(batch));
    const std::vector<Tensor> lowered = fused.run({{x}}), expected = plain.run({{x}}), again = fused.run({{x}});
    EXPECT_EQ(lowered.size(), expected.size());
    for (size_t i = 0; i < lowered.size(); ++i) {
      EXPECT_EQ(lowered[i].sizes(), expected[i].sizes());
      const Tensor a = lowered[i].contiguous(), b = expected[i].contiguous();
      double difference = 0, output = 0;
      for (int64_t j = 0; j < a.numel(); ++j) {
        difference = std::max(difference, std::fabs(double(a.data<float>()[j]) - double(b.data<float>()[j])));
        output = std::max(output, std::fabs(double(b.data<float>()[j])));
      }
      EXPECT_GT(output, 0);
      all = {std::max(all.largest, difference), std::max(all.relative, difference / output)};
      EXPECT_TRUE(bitwise_equal(again[i].contiguous(), a)) << "a second run differs";
    }
  }
  return all;
}

// What the steps of a plan do, in order.
inline std::vector<std::string> kinds_of(const Plan& plan) {
  std::vector<std::string> kinds;
  for (const PlanStep& step : plan.steps) kinds.emplace_back(to_string(step.kind()));
  return kinds;
}

}  // namespace qdq
