// The windows of ONNX's convolutions and pools.
#pragma once

#include <string>
#include <vector>

#include "io/onnx/import.h"

namespace qdq {

// The window of a convolution or pool; an entry for each of its axes, which are the last ones of the input.
struct OnnxWindow {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<SymInt> begin, end;  // padding; symbols where auto_pad depends on an open size

  size_t axes() const { return kernel.size(); }
  int64_t reach(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
  int64_t taps() const;
  // Both sides are padded alike, by known numbers that are not negative.
  bool is_symmetric() const;
  bool is_padded() const;
  std::vector<int64_t> padding() const;  // of a symmetric window
};

// What the node's attributes say of the input, auto_pad worked out. Refuses what fits no window of 1 to 3 axes.
OnnxWindow window_of(OnnxCall& call, Node* input, const std::vector<int64_t>& kernel);
// The input, padded with `value` by a node of its own; `window` has no padding then.
Node* padded(OnnxCall& call, Node* input, OnnxWindow& window, double value);
// The same where aten.conv cannot pad: where both sides differ.
Node* padded_where_uneven(OnnxCall& call, Node* input, OnnxWindow& window, double value);
// "conv" for two axes: "conv2d.default".
std::string with_axes(const char* name, size_t axes, const char* overload = "default");
// Those of a weight [C, C, ...].
std::vector<int64_t> spatial_sizes(OnnxCall& call, Node* weight);
// The sizes of all axes.
std::vector<SymInt> sizes_of(OnnxCall& call, Node* node);
// The element of a node with several results.
Node* item(OnnxCall& call, Node* list, int64_t i);

// A convolution by aten.conv{1,2,3}d, after the node's attributes.
Node* convolution(OnnxCall& call, Node* input, Node* weight, const Argument& bias);
// a x b: aten.linear where b is a weight.
Node* matrix_product(OnnxCall& call, Node* a, Node* b, const Argument& bias = Argument());
// A weight with rows and columns exchanged; one behind a dequantize node stays behind one, as quantizers and fused
// kernels look for it.
Node* transposed(OnnxCall& call, Node* weight);
// AveragePool after the node's attributes.
Node* average_pool(OnnxCall& call, Node* input);
// A table of numbers that the importer works out.
Node* float_constant(OnnxCall& call, const std::string& name, const Shape& sizes, const std::vector<float>& values);

}  // namespace qdq
