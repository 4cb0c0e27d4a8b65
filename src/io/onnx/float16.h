// Floats of 16 bits in the place of those of 32.
#pragma once

#include "graph/program.h"

namespace qdq {

// Makes float32 within the program float16: constants, numbers and data types among the arguments, what follows from
// them. Inputs and outputs stay as they are, with casts between. What must not be float16 stays float32 with casts
// around it: quantize and dequantize calls but those by groups, ranges of numbers, graphs within the graph, operators
// that qdq does not have, and those that refuse float16. Numbers that float16 cannot hold become its largest (65504),
// single numbers too small for it its smallest (2^-24), as onnxconverter-common's float16 keeps masks and epsilons.
void make_floats_half(Program& program);

}  // namespace qdq
