// Patterns written in PyTorch: an exported function as something to look for.
#pragma once

#include "op/match.h"

namespace qdq {

// The pattern that an exported function is. Its inputs become wildcards, its last result, if that is a dictionary,
// names nodes and is no result of the pattern:
//   def pattern(x, weight): conv = conv2d(x, weight); out = relu(conv); return out, {"conv": conv, "relu": out}
// Without such a dictionary every input and every call goes by the name that it has in the graph.
// Throws Error{kInvalidArgument} if the program returns nothing besides the dictionary.
Pattern pattern_of(const Program& program);

}  // namespace qdq
