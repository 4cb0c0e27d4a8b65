// A small program for targets that need one, and inputs for any.
#pragma once

#include <vector>

#include "graph/program.h"
#include "op/op.h"

namespace qdq::fuzz {

// x: float32[2, 3, 6, 6] -> convolution -> relu -> flatten -> linear, two classes.
inline Program small_program() {
  Program program;
  Graph& graph = *program.graph;
  const auto constant = [&](const char* name, const Shape& sizes) {
    Tensor tensor = Tensor::empty(sizes, DType::kF32);
    const auto values = tensor.span<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) / 8 - 0.7f;
    TensorMeta meta{DType::kF32, {}, {}, false};
    for (const int64_t size : sizes) meta.sizes.emplace_back(size);
    program.add_attribute({name, std::move(tensor), Attribute::Kind::kParameter});
    Node* node = graph.get_attr(name);
    node->meta.val.value = meta;
    return node;
  };
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt(2), SymInt(3), SymInt(6), SymInt(6)}, {}, false};
  Node* conv = graph.call("torch.ops.aten.conv2d.default", {x, constant("weight", {4, 3, 3, 3})}, {}, "conv2d");
  Node* relu = graph.call("torch.ops.aten.relu.default", {conv}, {}, "relu");
  Node* flat = graph.call("torch.ops.aten.flatten.using_ints", {relu, 1}, {}, "flatten");
  Node* linear = graph.call("torch.ops.aten.linear.default", {flat, constant("rows", {2, 64}), constant("bias", {2})},
                            {}, "linear");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{linear})});
  infer_shapes(program);
  return program;
}

constexpr int64_t kLargestInput = 1 << 16;  // elements; more of them find nothing that fewer do not

// Small numbers that repeat, so that they are indices and booleans too. Open sizes are 2. Throws Error{kUnsupported}
// for inputs that are large or no tensors.
inline std::vector<Tensor> inputs_of(const Program& program) {
  std::vector<Tensor> out;
  for (const Node* node : program.graph->placeholders()) {
    const TensorMeta* meta = node->meta.val.tensor();
    QDQ_CHECK(meta, kUnsupported, "an input is no tensor");
    Shape sizes;
    for (const SymInt& size : meta->sizes) sizes.push_back(size.constant().value_or(2));
    QDQ_CHECK(numel_of(sizes) <= kLargestInput, kUnsupported, "an input is too large");
    Tensor numbers = Tensor::empty(sizes, DType::kF32);
    const auto values = numbers.span<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 2;
    out.push_back(numbers.to(meta->dtype));
  }
  return out;
}

}  // namespace qdq::fuzz
