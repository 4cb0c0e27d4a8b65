// Nodes of ONNX graphs and their attributes, as tests of the command line build them, and the calls that they become.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "format/onnx_file.h"
#include "graph/program.h"

namespace qdq {

// Called by the name of its only output.
inline format::OnnxNode onnx_node(const std::string& op, std::vector<std::string> inputs, const std::string& output) {
  format::OnnxNode out;
  out.name = output;
  out.op_type = op;
  out.inputs = std::move(inputs);
  out.outputs = {output};
  return out;
}

inline format::OnnxAttribute onnx_integer(const std::string& name, int64_t value) {
  format::OnnxAttribute out;
  out.name = name;
  out.kind = format::OnnxKind::kInt;
  out.i = value;
  return out;
}

inline format::OnnxAttribute onnx_integers(const std::string& name, std::vector<int64_t> values) {
  format::OnnxAttribute out;
  out.name = name;
  out.kind = format::OnnxKind::kInts;
  out.ints = std::move(values);
  return out;
}

inline std::vector<std::string> calls_of(const Program& program) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out.emplace_back(node->target());
  return out;
}

}  // namespace qdq
