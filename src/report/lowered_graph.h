// A lowered program as fused calls, to look at, and for runtimes of others.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "format/npz.h"
#include "lower/lower.h"

namespace qdq {

// The calls of a session in execution order, fused steps in the place of the operators that they compute, and the
// tensors that they name.
struct LoweredGraph {
  // {"inputs": [value], "outputs": [argument], "values": {value: {"dtype", "shape", "scale"?, "zero_point"?,
  //  "quant_min"?, "quant_max"?, "view_of"?, "offset"?, "strides"?}}, "calls": [{"name", "target", "inputs", "output",
  //  ...}]}. A target is "fused.linear"
  // and so on, with the fields of its PlanStep in lower/plan.h, whose formulas it computes; tensors go by their names.
  // Other calls are those of the graph: {"name", "target", "args", "kwargs"}. In fused calls u8 stands for what the
  // graph has as int8, too, q and zero point both shifted by 128.
  std::string json;
  std::vector<format::NamedTensor> tensors;  // weights, scales, biases, tables, constants: "linear.weight"
};
LoweredGraph lowered_graph(const Session& session);

// Writes the graph to `path` and the tensors beside it, with the ending .npz in the place of .json.
// Throws Error{kInvalidArgument} if the path does not end in .json, and what Files::write throws.
void save_lowered_graph(const LoweredGraph& graph, const std::string& path, Files& files = disk());

}  // namespace qdq
