// Short chains of ATen calls that importers of several operators share.
#pragma once

#include <functional>
#include <vector>

#include "io/onnx/import.h"

namespace qdq {

// The node in another dtype; itself if it has that already.
Node* cast_to(OnnxCall& call, Node* node, DType dtype);
// A size of a node, which can be an argument of later calls.
SymInt size_along(OnnxCall& call, Node* node, size_t axis);
// Sizes that are computed while the model runs, where they are not known.
SymInt add_sizes(OnnxCall& call, const SymInt& a, const SymInt& b);
SymInt subtract_sizes(OnnxCall& call, const SymInt& a, const SymInt& b);
SymInt multiply_sizes(OnnxCall& call, const SymInt& a, const SymInt& b);
SymInt divide_sizes(OnnxCall& call, const SymInt& a, const SymInt& b);  // rounded down
Argument as_argument(OnnxCall& call, const SymInt& size);
// An integer that the model computes, as a size.
SymInt as_size(OnnxCall& call, Node* integer);
// The integer that the input `i` holds, which has to be a constant.
int64_t known_number(OnnxCall& call, size_t i);
// [0, count) as integers.
Node* count_up(OnnxCall& call, const SymInt& count);
// A vector as a tensor of `rank` axes, all but `axis` of size 1.
Node* along_axis(OnnxCall& call, Node* vector, int64_t axis, size_t rank);
// The elements in the opposite order along an axis.
Node* reversed(OnnxCall& call, Node* node, int64_t axis);
// Parts of these lengths along an axis, which fill it. Those of a constant are constants, such as the three matrices
// that PyTorch's newer exporter takes from the one weight of a multi-head attention.
std::vector<Node*> split_parts(OnnxCall& call, Node* x, const std::vector<int64_t>& lengths, int64_t axis);
// A vector of integers that does not change.
Node* constant_vector(OnnxCall& call, const std::vector<int64_t>& values);
// Texts as a tensor.
Tensor string_vector(const std::vector<std::string>& texts);
// Before opset 13 softmax and its kin took all axes from `axis` on as one (1 if none is given), since then one axis
// (the last). body(node, axis) computes along one axis and keeps the sizes.
void along_rows(OnnxCall& call, const std::function<Node*(Node* x, int64_t axis)>& body);

}  // namespace qdq
