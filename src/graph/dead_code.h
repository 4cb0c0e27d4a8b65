// Taking out of a program what nobody needs.
#pragma once

#include "graph/program.h"

namespace qdq {

// Graph::eliminate_dead_code, with the nodes whose values are written to buffers kept.
bool eliminate_dead_code(Program& program);

}  // namespace qdq
