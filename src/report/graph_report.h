// Programs, graphs and what stands in them as JSON: for `inspect --json`, and the pictures that JavaScript gets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/json_fwd.h"
#include "graph/program.h"
#include "graph/source_partition.h"
#include "op/match.h"
#include "quant/spec.h"

namespace qdq {

// The elements as nested lists; null for an undefined tensor.
format::Json json_of(const Tensor& tensor);
// An argument: {"node": name}, {"dtype": "int8"}, a list, a constant.
format::Json json_of(const Argument& argument);

// A place of an annotated graph: [producer, consumer]; {"edge": [producer, consumer]} or {"node": name}.
format::Json json_of(const Edge& edge);
format::Json json_of(const EdgeOrNode& place);

// One node: {name, op, target, args, kwargs, users, module?, type?, source?, dtype?, shape?}.
format::Json node_report(const Node& node);
// {"nodes": [{name, op, target, args, kwargs, users, module?, type?, dtype?, shape?}]}
format::Json graph_report(const Graph& graph);
// The same with inputs, outputs, attributes and qparams.
format::Json program_report(const Program& program);
// {source, nodes, input_nodes, output_nodes, params}, nodes by name.
format::Json partition_report(const SourcePartition& partition);
// {"name_node_map": {name: node or null}, "placeholder_nodes": [argument], "returning_nodes": [node]}
format::Json match_report(const Match& match);

// A quantize node of a converted program.
struct QuantizedValue {
  const Node* quantize;
  std::string of;  // the value it quantizes
  std::vector<double> scale;
  std::vector<int64_t> zero_point;
  int64_t quant_min, quant_max;
  DType dtype;
};
// All nodes that quantize, and those that dequantize an attribute (a folded weight), in graph order.
std::vector<QuantizedValue> quantized_values(const Program& program);

}  // namespace qdq
