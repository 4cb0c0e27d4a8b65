// Programs and observers as JSON: for `inspect --json`, `quantize --observers`, and the pictures that JavaScript gets.
#pragma once

#include "format/json.h"
#include "graph/program.h"
#include "graph/source_partition.h"
#include "op/match.h"
#include "quant/explain.h"

namespace qdq {

// "torch.ops.aten.conv2d.default" as "aten.conv2d.default".
std::string_view short_target(std::string_view target);

// The elements as nested lists; null for an undefined tensor.
format::Json json_of(const Tensor& tensor);
// An argument: {"node": name}, {"dtype": "int8"}, a list, a constant.
format::Json json_of(const Argument& argument);

// One node: {name, op, target, args, kwargs, users, module?, type?, source?, dtype?, shape?}.
format::Json node_report(const Node& node);
// {"nodes": [{name, op, target, args, kwargs, users, module?, type?, dtype?, shape?}]}
format::Json graph_report(const Graph& graph);
// The same with inputs, outputs, attributes and qparams.
format::Json program_report(const Program& program);
// Every observer instance: id, class, settings, state, qparams (or the reason why there are none), covers, inserted_as, derived_from.
format::Json observers_report(const Prepared& prepared);
// Gives the observers what others saw: `report` is observers_report of a program that was prepared from the same model by the same recipe,
// `what` names it in errors. So converting needs no data. Throws Error{kInvalidArgument} naming the first observer that is of another
// class, has other settings or looks at other values, or that has seen something else before: weights are looked at here.
void load_observers(Prepared& prepared, const format::Json& report, const std::string& what);

// {"operators": [{node, module, op, outcome, quantizer, pattern, reason, tensors, decisions}], "conflicts": [{edge, message, ...}]}
format::Json explanation_report(const Prepared& prepared);

// {"quantizer", "patterns": [{pattern, operators, static, dynamic, qat, note}], "parts": [...]}
format::Json capabilities_report(const QuantizationCapabilities& capabilities);

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
