// Parses the equations of aten.einsum.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace qdq {

// One letter an axis: the sum over the letters that the output lacks of the product of all operands. An axis that "..."
// stands for has a digit; the last is 9, as broadcasting counts from the right.
struct EinsumEquation {
  std::vector<std::string> inputs;
  std::string output;
};

// ranks: the number of axes of each operand. Throws Error{kInvalidArgument} if the equation does not fit them.
EinsumEquation parse_einsum(const std::string& text, const std::vector<size_t>& ranks);

// How the product of a tensor and a constant is one of a linear layer: the letters of the tensor, and those of the
// constant that stay (`out`) and that are summed over (`in`).
struct EinsumLayer {
  std::string tensor, constant, out, in, result;
};

// `weight` is the constant's place among the two operands. Nothing if a letter occurs twice in an operand, is summed
// over within one, or stays of both.
std::optional<EinsumLayer> layer_of_einsum(const std::string& text, const TensorMeta& x, const TensorMeta& constant,
                                           size_t weight);

// The layer with the permutations and reshapes around it, called by the names of ATen's operators.
using AtenCaller = std::function<Node*(std::string_view name, std::vector<Argument> args)>;
Node* linear_of_einsum(const EinsumLayer& layer, Node* x, Node* constant, const AtenCaller& call);

}  // namespace qdq
