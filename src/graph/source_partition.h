// Finds the nodes that came from one module or function of the exported model, by what export recorded about their
// source. Semantics: torch/fx/passes/utils/source_matcher_utils.py and torch/ao/quantization/pt2e/graph_utils.py of
// PyTorch 2.6.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace qdq {

using NodeFilter = std::function<bool(const Node&)>;  // empty: everything passes

// The nodes of one call of a source.
struct SourcePartition {
  // as the file writes it: "torch.nn.modules.conv.Conv2d", "torch._C._nn.linear", "_operator.add"
  std::string source;
  std::vector<Node*> nodes;         // in execution order
  std::vector<Node*> input_nodes;   // used by the partition, not part of it
  std::vector<Node*> output_nodes;  // part of it, used outside
  std::vector<Node*> params;        // part of it: get_attr nodes
};

// What the file records for PyTorch's public name of a module class or function: "torch.nn.Conv2d" ->
// "torch.nn.modules.conv.Conv2d", "torch.nn.functional.linear" -> "torch._C._nn.linear", "operator.add" ->
// "_operator.add". Other names are returned unchanged.
std::string source_name(std::string_view public_name);

// The partitions of the wanted sources, grouped by source in the order in which the graph mentions them first, then by
// call. A node belongs to the innermost entry of its source_fn_stack. A node without that record (a non-strict export)
// belongs to the function that torch_fn names, which is a bare name such as "add". A partition passes if all its nodes
// do.
std::vector<SourcePartition> get_source_partitions(const Graph& graph, const std::vector<std::string>& wanted_sources,
                                                   const NodeFilter& filter = {});

// The source and what PyTorch treats as the same: {nn.ReLU, F.relu, F.relu_}, {torch.add, +, +=}, ...
std::vector<std::string> equivalent_sources(const std::string& source);

// Whether some node of `second` uses a node of `first`.
bool are_connected(const SourcePartition& first, const SourcePartition& second);

// All chains of partitions, one for each source (or an equivalent of it), in which every next one uses the one before;
// the last source varies fastest. Throws Error{kInvalidArgument} if two of the sources are equivalent.
std::vector<std::vector<SourcePartition>> find_sequential_partitions(const Graph& graph,
                                                                     const std::vector<std::string>& sources,
                                                                     const NodeFilter& filter = {});

}  // namespace qdq
