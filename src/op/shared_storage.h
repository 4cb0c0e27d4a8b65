// Which values of a graph share their elements, and who writes to them.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace qdq {

// The argument whose elements the result is, or may be: of views, items of what split gives, writes, dropouts and
// observers. Null if the result has its own.
Node* source_of(const Node& node);

// What an operator writes to; empty for those that write to nothing. An operator that qdq does not have may write to
// its first argument.
std::vector<Node*> written_by(const Node& node);

class SharedStorage {
 public:
  explicit SharedStorage(const Graph& graph);

  // The node whose elements the node's value may be a view of, or may write to and return: itself, if it is neither.
  // Nodes that read one attribute have one root.
  const Node* root_of(const Node* node) const { return roots_.at(node); }

 private:
  std::unordered_map<const Node*, const Node*> roots_;
};

}  // namespace qdq
