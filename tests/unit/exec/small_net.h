// A small network, and what tests of programs build theirs with.
#pragma once

#include <string>

#include "exec/interpreter.h"
#include "op/op.h"

namespace qdq {

inline Tensor counting(const Shape& shape, float step, float start) {
  const Tensor out = Tensor::empty(shape, DType::kF32);
  float value = start;
  for (float& element : out.span<float>()) {
    element = value;
    value = value > 1.f ? start : value + step;
  }
  return out;
}

inline Node* placeholder(Program& program, const std::string& name, const SymShape& sizes, DType dtype = DType::kF32) {
  Node* node = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
  node->meta.val.value = TensorMeta{dtype, sizes, {}, false};
  return node;
}

inline Node* attribute(Program& program, const std::string& name, const Tensor& tensor) {
  program.add_attribute({name, tensor, Attribute::Kind::kParameter});
  Node* node = program.graph->get_attr(name);
  SymShape sizes(tensor.sizes().begin(), tensor.sizes().end());
  node->meta.val.value = TensorMeta{tensor.dtype(), sizes, {}, false};
  return node;
}

// conv (3x3, stride 2, two groups) -> relu -> mean of the image -> linear, with an open batch dimension.
inline Program small_net() {
  Program program;
  Node* weight = attribute(program, "conv.weight", counting({8, 2, 3, 3}, 0.0371f, -1.f));
  Node* bias = attribute(program, "conv.bias", counting({8}, 0.3f, -1.f));
  Node* matrix = attribute(program, "fc.weight", counting({5, 8}, 0.0913f, -1.f));
  Node* x = placeholder(program, "x", {SymInt::symbol("s0"), 4, 9, 7});
  program.symbol_ranges["s0"] = {1, 16};
  Graph& graph = *program.graph;
  using List = Argument::List;
  Node* conv = graph.call("torch.ops.aten.conv2d.default", {x, weight, bias, List{2, 2}, List{1, 1}, List{1, 1}, 2}, {},
                          "conv2d");
  Node* relu = graph.call("torch.ops.aten.relu.default", {conv}, {}, "relu");
  Node* pool = graph.call("torch.ops.aten.adaptive_avg_pool2d.default", {relu, List{1, 1}}, {}, "pool");
  Node* flat = graph.call("torch.ops.aten.flatten.using_ints", {pool, 1}, {}, "flatten");
  Node* linear = graph.call("torch.ops.aten.linear.default", {flat, matrix}, {}, "linear");
  graph.create(Node::Op::kOutput, "output", {Argument(List{linear, relu})});
  infer_shapes(program);
  return program;
}

}  // namespace qdq
