// Values that operators write into after they were made: buffers with state, and tensors behind views.
#pragma once

#include "quant/annotation.h"

namespace qdq {

// Gives the program bytes of its own for the attributes that its runs write, so that its copies keep theirs.
void own_written_attributes(Program& program);

// Takes back what a quantizer wants of values that an operator writes into while others read them behind the write, and
// of buffers on the way to a write, and notes why: dequantization gives each reader a tensor of its own, which misses
// the write.
//   y = linear(x); y[..., 0:2] = exp(y[..., 0:2]); return y
void leave_written_in_float(const Program& program, Annotations& annotations);

}  // namespace qdq
