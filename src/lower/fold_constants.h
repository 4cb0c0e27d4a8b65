// Values that are the same at every run become attributes.
#pragma once

#include "graph/program.h"

namespace qdq {

// Replaces the outermost constant tensors (typically dequantized weights) by attributes computed on the reference
// operators. A value that the program makes and writes to is a constant, too, if nobody else reads it before the last
// write and everything that is written is constant. An output is a copy in every run.
//   get_attr(int8) -> dequantize -> conv        becomes        get_attr(float) -> conv
void fold_constants(Program& program);

// The same for what follows from values that are written to alone, as masks are made. It belongs in front of fusion,
// which leaves alone what reads them.
//   mask = zeros(n, n); mask[:, 1:].fill_(1); add(x, mask)        becomes        add(x, get_attr)
void fold_written_constants(Program& program);

// The same for constants that are quantized, as weights are that fold_quantize = false left in float. It belongs in
// front of fusion, too, which takes constant integers alone.
//   get_attr(float) -> quantize -> dequantize -> conv        becomes        get_attr(int8) -> dequantize -> conv
// int32 constants are dequantized, as biases are: kernels take these in float.
void fold_quantized_constants(Program& program);

}  // namespace qdq
