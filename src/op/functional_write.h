// Writing to a tensor, as calls that make new tensors.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace qdq {

// Whether there is an operator that makes what `write` writes to its first argument: relu for relu_, copy for copy_.
bool has_functional_form(const Node& write);

// The view that an operator stands for which changes in place only a tensor's sizes: "torch.ops.aten.unsqueeze.default"
// for unsqueeze_; nothing for other operators. In an exported program all that reads the tensor later reads the result.
std::string_view view_of_in_place(std::string_view target);

// Whether the node takes a part that an operator can put back: slice and select.
bool takes_part(const Node& view);

// Creates, in front of `write`, what each value of `chain` is behind it, and returns these in the same order. `write`
// writes to chain[0] and has a functional form; each value takes a part of the next one. `values`: what they are in
// front of it, where others wrote to them.
//   part = slice(x, 1, 0, 2); copy_(part, y)       becomes       made = copy(part, y), slice_scatter(x, made, 1, 0, 2)
// The copy is left out where y has the sizes and the dtype of the part, and nobody reads the result of the write.
std::vector<Node*> make_written(Graph& graph, Node& write, const std::vector<Node*>& chain,
                                const std::vector<Node*>& values);

}  // namespace qdq
