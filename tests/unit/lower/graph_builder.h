// Graphs as convert_pt2e leaves them, or float ones, and what became of them, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/program.h"
#include "lower/plan.h"
#include "op/op.h"

namespace qdq {

class GraphBuilder {
 public:
  Node* input(Shape sizes, const char* name = "x") {
    Node* node = graph().create(Node::Op::kPlaceholder, name, {}, {}, name);
    TensorMeta meta{DType::kF32, {}, {}, false};
    for (size_t i = 0; i < sizes.size(); ++i) meta.sizes.push_back(i == 0 ? SymInt::symbol("s0") : SymInt(sizes[i]));
    node->meta.val.value = meta;
    return node;
  }
  Node* q(Node* x, double scale, int zero_point, DType dtype = DType::kU8) {
    return call("torch.ops.quantized_decomposed.quantize_per_tensor.default", {x, scale, zero_point, int(min_of(dtype)), int(max_of(dtype)), dtype});
  }
  Node* dq(Node* q) {
    std::vector<Argument> args = q->args();
    args[0] = q;
    return call("torch.ops.quantized_decomposed.dequantize_per_tensor.default", std::move(args));
  }
  Node* round(Node* x, double scale, int zero_point, DType dtype = DType::kU8) { return dq(q(x, scale, zero_point, dtype)); }
  Node* weight(Shape sizes) {
    Tensor values = Tensor::empty(sizes, DType::kS8), scales = Tensor::empty({sizes[0]}, DType::kF32);
    const float depth = static_cast<float>(values.numel() / sizes[0]);
    for (int8_t& w : values.span<int8_t>()) w = static_cast<int8_t>(std::uniform_int_distribution<int>(-127, 127)(random_));
    for (float& s : scales.span<float>()) s = std::uniform_real_distribution<float>(0.5f, 1.5f)(random_) / std::sqrt(depth) / 64.0f;
    Node* zero_points = constant(Tensor::empty({sizes[0]}, DType::kS64));
    return call("torch.ops.quantized_decomposed.dequantize_per_channel.default", {constant(values), constant(scales), zero_points, 0, -127, 127,
        DType::kS8});
  }
  Node* floats(Shape sizes, float low = 0.5f, float high = 1.5f) {
    Tensor values = Tensor::empty(sizes, DType::kF32);
    for (float& x : values.span<float>()) x = std::uniform_real_distribution<float>(low, high)(random_);
    return constant(values);
  }
  Node* conv(Node* x, Shape weight_sizes, int pad = 0, int groups = 1) {
    const Argument::List one{1, 1}, padding{pad, pad};
    Tensor bias = Tensor::empty({weight_sizes[0]}, DType::kF32);
    for (float& b : bias.span<float>()) b = std::uniform_real_distribution<float>(-1, 1)(random_);
    Node* w = weight(std::move(weight_sizes));
    return call("torch.ops.aten.conv2d.default", {x, w, constant(bias), one, padding, one, groups});
  }
  Node* call(std::string target, std::vector<Argument> args) { return graph().call(std::move(target), std::move(args)); }
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

// What the steps of a plan do, in order.
inline std::vector<std::string> kinds_of(const Plan& plan) {
  std::vector<std::string> kinds;
  for (const PlanStep& step : plan.steps) kinds.emplace_back(to_string(step.kind));
  return kinds;
}

}  // namespace qdq
