// A pair of QuantizeLinear and DequantizeLinear for each operator that reads a value.
#pragma once

#include "graph/program.h"

namespace qdq {

// Gives each operator that reads a quantized activation a quantize and a dequantize node of its own with the same scale
// and zero point, as the DedicatedQDQPair of ONNX Runtime's quantize_static does. Constants keep what they have. Gives
// how many pairs the program had: 0 if no activation is quantized by a range that is known.
int64_t dedicate_pairs(Program& program);

}  // namespace qdq
