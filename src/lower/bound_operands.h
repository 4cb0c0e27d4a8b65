// Programs within programs that have their constants themselves.
#pragma once

#include "graph/program.h"

namespace qdq {

// Gives the branches of conditions the constants that they are handed as inputs, as attributes of their own, which
// share the bytes: weights that a branch gets so are packed once and can be fused. A .pt2 file hands over all weights.
//   cond(p, f, g, [x, weight])   becomes   cond(p, f', g', [x])
// Constants that the program or a branch may write to are handed over as before.
void bind_constant_operands(Program& program);

}  // namespace qdq
