// Small programs for tests, written like PyTorch's.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"
#include "op/op.h"

namespace qdq {

// Adds inputs, parameters and calls in order; names are those of the graph.
class ProgramBuilder {
 public:
  Node* parameter(const std::string& name, Tensor tensor) {
    program_.add_attribute({name, tensor, Attribute::Kind::kParameter, true, true});
    Node* node = program_.graph->get_attr(name);
    node->meta.val.value = meta_of(tensor.sizes(), tensor.dtype());
    return node;
  }
  // Deterministic values around zero.
  Node* weight(const std::string& name, const Shape& sizes) {
    Tensor tensor = Tensor::empty(sizes, DType::kF32);
    uint32_t state = 12345 + static_cast<uint32_t>(name.size());
    for (float& value : tensor.span<float>()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(state >> 8) % 2001 - 1000) / 1000.0f;
    }
    return parameter(name, tensor);
  }
  Node* input(const std::string& name, const Shape& sizes, DType dtype = DType::kF32) {
    Node* node = program_.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    node->meta.val.value = meta_of(sizes, dtype);
    return node;
  }
  // One of the results of a node.
  Node* item(Node* of, int64_t index) { return program_.graph->call("operator.getitem", {of, index}); }
  // "conv2d.default" -> torch.ops.aten.conv2d.default. `module` is the path of the module that it came from.
  Node* call(const std::string& op, std::vector<Argument> args, const std::string& module = "",
             const std::string& source = "") {
    const std::string target = "torch.ops.aten." + op;
    Node* node = program_.graph->call(target, std::move(args), {}, op.substr(0, op.find('.')));
    node->meta.nn_module_stack = {{"L__self__", "", "Net"}, {"L__self___" + module, module, source}};
    if (!source.empty()) node->meta.source_fn_stack = {{node->name(), source}};
    return node;
  }
  Program finish(std::vector<Argument> outputs) {
    program_.graph->create(Node::Op::kOutput, "output", {Argument(std::move(outputs))}, {}, "output");
    infer_shapes(program_);
    return std::move(program_);
  }

 private:
  static TensorMeta meta_of(const Shape& sizes, DType dtype = DType::kF32) {
    TensorMeta meta{dtype, {}, {}, false};
    for (const int64_t size : sizes) meta.sizes.emplace_back(size);
    return meta;
  }
  Program program_;
};

// A tensor with values from -1 to 1 that depend on `seed`.
inline Tensor sample(const Shape& sizes, uint32_t seed) {
  Tensor tensor = Tensor::empty(sizes, DType::kF32);
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : tensor.span<float>()) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return tensor;
}

// The targets of a graph's nodes in order without the long prefixes, for reading in a test.
inline std::vector<std::string> targets(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node* node : graph.nodes()) {
    std::string target = node->target();
    for (const std::string prefix : {"torch.ops.aten.", "torch.ops.quantized_decomposed."})
      if (target.rfind(prefix, 0) == 0) target = target.substr(prefix.size());
    out.push_back(target);
  }
  return out;
}

}  // namespace qdq
