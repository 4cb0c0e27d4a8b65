// Operators of integers in place of floats between DequantizeLinear and QuantizeLinear.
#pragma once

#include <cstdint>

#include "format/onnx_file.h"

namespace qdq {

// Puts QLinearConv, QLinearMatMul and com.microsoft's QGemm, QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu,
// QLinearAveragePool, QLinearGlobalAveragePool and QLinearConcat in place of float operators whose inputs
// DequantizeLinear gives and whose result QuantizeLinear alone reads, at most behind a Relu or Clip that changes
// nothing within the range of the integers; and lets what only moves numbers (MaxPool, Reshape, Transpose, ...) move
// integers. Products of matrices whose result stays float become com.microsoft's QGemm without a scale of the result,
// and MatMulIntegerToFloat. Operators with other inputs, such as a float bias, stay as they are. The DequantizeLinear
// that nobody reads then are left for who eliminates dead code. Returns how many operators were replaced.
int64_t use_qoperators(format::OnnxGraph& graph);

}  // namespace qdq
