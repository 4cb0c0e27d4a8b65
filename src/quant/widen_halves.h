// Float16 and bfloat16 models, for backends whose integers meet float32 alone.
#pragma once

#include "graph/program.h"

namespace qdq {

// Computes in float32 what is float16 or bfloat16: parameters, results, and the data types that operators name. Inputs
// and outputs keep their types. False, and nothing has changed, for programs whose state is half, that run programs, or
// that take bits for numbers.
bool widen_halves(Program& program);

}  // namespace qdq
