// Finds a small graph inside a large one, and replaces what it finds.
// Semantics: torch/fx/passes/utils/matcher_utils.py and torch/fx/subgraph_rewriter.py of PyTorch 2.6.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "graph/program.h"

namespace qdq {

// A pattern is a graph of its own: placeholders stand for anything (a node, a number, None), one output node returns one value.
//   x = placeholder; s = placeholder; y = call("torch.ops.aten.relu.default", x); output(y)
// A call's target without an overload ("torch.ops.aten.clamp") matches every overload. Other constants match equal ones.
struct Match {
  std::unordered_map<const Node*, Argument> placeholders;  // placeholder of the pattern -> what stands there
  std::unordered_map<const Node*, Node*> nodes;            // call of the pattern -> node of the graph
  Node* output = nullptr;                                  // the node that the pattern returns
};

struct MatchOptions {
  bool ignore_literals = false;  // numbers and other constants of the pattern match any
  std::function<bool(const Match&)> accept = {};  // a match that this refuses is none; empty: all count
};

// All matches in the order of the graph, none overlapping another. Nodes inside a match are used by nobody outside, except for the one
// returned. Two nodes of the pattern never stand for the same node of the graph; placeholders may stand for the same number.
std::vector<Match> find_matches(const Graph& graph, const Graph& pattern, const MatchOptions& options = {});

// Puts a copy of the replacement in the place of every match, in front of the first user of its result. The replacement's placeholders
// correspond to the pattern's in order. New nodes get what `new_node`, if given, does to them. Returns the number of matches.
//   before: a -> [pattern] -> b      after: a -> [replacement] -> b
size_t replace_pattern(Graph& graph, const Graph& pattern, const Graph& replacement,
                       const std::function<void(Node&)>& new_node = {}, const MatchOptions& options = {});

}  // namespace qdq
