// Finds small graphs inside a large one, names what it finds, and replaces it.
// Semantics: torch/fx/passes/utils/{matcher_utils,matcher_with_name_node_map_utils}.py and
// torch/fx/subgraph_rewriter.py of PyTorch 2.6.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/program.h"

namespace qdq {

// A pattern is a graph of its own: placeholders stand for anything (a node, a number, None), get_attr nodes for any
// attribute, calls for calls of the same operator; the output node returns one value or several.
//   x = placeholder; s = placeholder; y = call("torch.ops.aten.relu.default", x); output(y)
// A call's target without an overload ("torch.ops.aten.clamp") matches every overload. Arguments that one side leaves
// out count with their defaults. Other constants match equal ones of the same type; lists match lists of the same
// length. Operands are not exchanged: a + b does not match b + a.
struct Pattern {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  // names for nodes of the graph, for finding what stands for them
  std::vector<std::pair<std::string, const Node*>> names;
};

// A place where a pattern was found (InternalMatch).
struct Match {
  // node of the pattern -> what stands there; a constant only for placeholders
  std::unordered_map<const Node*, Argument> nodes_map;
  std::vector<Argument> placeholder_nodes;  // for the pattern's placeholders, in order
  // for the values that the pattern returns, each once, in order
  std::vector<Node*> returning_nodes;
  std::vector<std::pair<std::string, Node*>> name_node_map;  // for the pattern's names; null where a constant stands

  Node* named(const std::string& name) const;  // throws Error{kInvalidArgument} if the pattern has no such name
};

struct MatchOptions {
  bool ignore_literals = false;  // constants of the pattern match anything
  bool remove_overlapping_matches = true;
  std::function<bool(const Match&)> accept = {};  // a match that this refuses is none; empty: all count
};

// All matches, in the order of the graph, the last of several results varying fastest. Nodes inside a match are used by
// nobody outside, except for those returned; a match that outside nodes would make a circle with is none; of
// overlapping ones the first counts. Two nodes of the pattern never stand for the same node of the graph; placeholders
// may stand for the same constant.
// Throws Error{kInvalidArgument} if the pattern is empty, or has a node whose value nobody uses.
std::vector<Match> find_matches(const Graph& graph, const Graph& pattern, const MatchOptions& options = {});
std::vector<Match> find_matches(const Graph& graph, const Pattern& pattern, const MatchOptions& options = {});

// Puts a copy of the replacement in the place of every match, in front of the first user of its result. The
// replacement's placeholders correspond to the pattern's in order. New nodes get what `new_node`, if given, does to
// them. Returns the number of matches. Throws Error{kInvalidArgument} unless both return the result of one call and
// take equally many placeholders.
//   before: a -> [pattern] -> b      after: a -> [replacement] -> b
size_t replace_pattern(Graph& graph, const Graph& pattern, const Graph& replacement,
                       const std::function<void(Node&)>& new_node = {}, const MatchOptions& options = {});

}  // namespace qdq
