// Floats that say where things are, or how much of them counts, rather than what they are.
#pragma once

#include <string_view>
#include <unordered_set>

#include "graph/graph.h"

namespace qdq {

// Positions, sizes and masks among a graph's floats: coordinates of a resized image, angles of rotary embeddings, the
// number that a size is cast from. Their range is that of the places, so that 8 bits would move them by whole places.
// Divisors, too, such as the sums of linear attention: those of the first steps may be small, and 8 bits would make
// their quotients several times as large, or infinite.
class Positions {
 public:
  // `divides`: divisions are computed in integers, which need the divisors' too.
  explicit Positions(const Graph& graph, bool divides = false);

  // Why what the node computes is better left in float; empty if nothing speaks against integers.
  std::string_view obstacle(const Node& node) const;
  // Whether it is stored, or follows from what is stored alone.
  bool is_constant(const Node& node) const { return constants_.count(&node) != 0; }

 private:
  void find_those_of_integers(const Graph& graph);
  void find_those_for_integers(const Graph& graph);
  void find_divisors(const Graph& graph);

  std::unordered_set<const Node*> constants_;  // attributes, and what is made of them alone
  // Follow from integers of 32 and 64 bits, flags, sizes and constants alone, without a layer in between.
  std::unordered_set<const Node*> of_integers_;
  // Are read for nothing but casts to integers.
  std::unordered_set<const Node*> for_integers_;
  // Are read for nothing but to divide by them, and the products of which such ones are a part, with those that lead to
  // them.
  std::unordered_set<const Node*> divisors_, products_;
};

}  // namespace qdq
