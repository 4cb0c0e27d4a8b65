// How PyTorch tells of nested inputs and outputs (torch/utils/_pytree.py, treespec_dumps).
#pragma once

#include <string>

namespace qdq {

// Whether the text is a spec with so many leaves.
bool spec_has_leaves(const std::string& text, size_t count);
// The spec of so many inputs that are given one by one, and of outputs: one, or a tuple.
std::string flat_in_spec(size_t count);
std::string flat_out_spec(size_t count);

}  // namespace qdq
