// What a graph tells before a run about calls that the portable loops cannot take.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace qdq {

// float16 and bfloat16, which are computed in float32 and rounded once.
inline bool is_half_dtype(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
// Whether a node chooses among uint8 or int8 numbers, so that it may as well do so among floats.
bool chooses_among_bytes(const Node& node, std::string_view name);
// Of the node's result, or of the first of several; float32 if the graph does not tell.
DType result_dtype_of(const Node& node);

// Why a call of the node cannot run on the loops, whatever values come: "other is int64, not float32". Empty if it can,
// or if only the values tell: of a size that the graph does not know, of a tensor whose elements do not lie dense.
// Of operators that read one tensor: activations, pools, quantization.
std::string elementwise_obstacle(const Node& node);
// Of those that tell places of elements.
std::string places_obstacle(const Node& node);
// Whether int64 holds all numbers of the dtype, which are integers.
bool counts_in_int64(DType dtype);
std::string logic_obstacle(const Node& node);
std::string matmul_obstacle(const Node& node);
std::string baddbmm_obstacle(const Node& node);
std::string linear_obstacle(const Node& node);
std::string addmm_obstacle(const Node& node);
std::string convolution_obstacle(const Node& node);
std::string softmax_obstacle(const Node& node);
std::string layer_norm_obstacle(const Node& node);
std::string batch_norm_obstacle(const Node& node);

}  // namespace qdq
