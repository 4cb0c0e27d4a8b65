// Parses the equations of aten.einsum.
#pragma once

#include <string>
#include <vector>

namespace qdq {

// One letter an axis: the sum over the letters that the output lacks of the product of all operands. An axis that "..."
// stands for has a digit; the last is 9, as broadcasting counts from the right.
struct EinsumEquation {
  std::vector<std::string> inputs;
  std::string output;
};

// ranks: the number of axes of each operand. Throws Error{kInvalidArgument} if the equation does not fit them.
EinsumEquation parse_einsum(const std::string& text, const std::vector<size_t>& ranks);

}  // namespace qdq
