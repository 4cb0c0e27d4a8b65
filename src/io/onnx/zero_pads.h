// Zeros around the inputs of convolutions: ATen has as many on both sides of an axis, ONNX a number for each side.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace qdq {

// Zeros along the last axes of a tensor.
struct ZeroPad {
  Node* input = nullptr;
  std::vector<int64_t> before, behind;  // of each axis, the outermost first
};
// What a node adds to the last `axes` axes of its input, if that is zeros, of numbers that are known; and nothing else.
std::optional<ZeroPad> zero_pad_of(const Node& node, size_t axes);

// Rounds what is padded for convolutions before that, not behind it: zeros stay zeros. A value that was rounded in the
// same way already is not rounded again.
void pad_behind_rounding(Graph& graph);

}  // namespace qdq
