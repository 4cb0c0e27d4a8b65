// The windows of ONNX's convolutions and pools.
#pragma once

#include <string>
#include <vector>

#include "io/onnx/import.h"

namespace qdq {

// The window of a convolution or pool; a number for each of its axes.
struct OnnxWindow {
  std::vector<int64_t> kernel, strides, dilations, begin, end;  // begin, end: padding
};

bool is_symmetric(const OnnxWindow& window);
bool is_padded(const OnnxWindow& window);
// What the node's attributes say, auto_pad worked out. Refuses what fits no window of 1 to 3 axes.
OnnxWindow window_of(OnnxCall& call, const std::vector<int64_t>& kernel);
// The input, padded with `value` by a node of its own where both sides differ; `window` has no padding then.
Node* padded_input(OnnxCall& call, OnnxWindow& window, double value);
// "conv" for two axes: "conv2d.default".
std::string with_axes(const char* name, size_t axes, const char* overload = "default");
// Those of a weight [C, C, ...].
std::vector<int64_t> spatial_sizes(OnnxCall& call, Node* weight);

}  // namespace qdq
