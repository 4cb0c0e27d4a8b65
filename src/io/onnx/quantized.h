// Scales and zero points as inputs of ONNX nodes.
#pragma once

#include "io/onnx/import.h"

namespace qdq {

// Where a node has the scale and the zero point of a value, which it may lack.
struct OnnxQParams {
  size_t scale, zero_point;
  int64_t axis = 0;   // of one scale each; counted from either end
  int64_t block = 0;  // elements along the axis that share a scale; 0: none do
};

// Integers as floats of the scale's data type. A dequantize node of quantized_decomposed where it has one.
Node* dequantized(OnnxCall& call, Node* integers, const OnnxQParams& qparams);
// Floats as integers from `low` to `high`.
Node* quantized(OnnxCall& call, Node* floats, const OnnxQParams& qparams, DType dtype, int64_t low, int64_t high);
// The same with the data type of the zero point, else uint8.
Node* quantized(OnnxCall& call, Node* floats, const OnnxQParams& qparams);
// Numbers in a float dtype of 8 bits; what is beyond its largest becomes that or, unless `saturates`, infinity or NaN.
Node* as_float8(OnnxCall& call, Node* numbers, DType dtype, bool saturates);
// Floats as uint8 by their range in this run, behind which they are floats again.
Node* dynamically_quantized(OnnxCall& call, Node* floats);

}  // namespace qdq
