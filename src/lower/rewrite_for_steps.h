// Everything that is rewritten in front of fusion.
#pragma once

#include "graph/program.h"

namespace qdq {

// Writes what fusion finds steps for in place of what it finds none for: layers that were taken apart (op/recompose.h),
// int8 layers between float16 or bfloat16, constants that are computed, operators spelled out, signals and volumes as
// images. `floats`: float layers shall be steps, too. The graph must have its shapes.
void rewrite_for_steps(Program& program, bool floats);

}  // namespace qdq
