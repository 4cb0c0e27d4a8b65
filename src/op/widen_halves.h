// Float16 and bfloat16 models, for what has integers that meet float32 alone.
#pragma once

#include "graph/program.h"

namespace qdq {

// Computes in float32 what is float16 or bfloat16: parameters, results, and the data types that operators name. Inputs
// and outputs keep their types. Nothing changes in programs whose state is half, that run programs, or that take bits
// for numbers.
void widen_halves(Program& program);

// The same where integers are dequantized to halves, or to float32 that is cast to float16, as in ONNX files below
// opset 19. Casts to bfloat16 stay: int8-mixed-bf16 means them.
void widen_quantized_halves(Program& program);

}  // namespace qdq
