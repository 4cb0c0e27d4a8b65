// The program as training runs it: without operators that write over their arguments, whose old values the way back may
// need.
#pragma once

#include <string>
#include <unordered_set>

#include "graph/program.h"

namespace qdq {

// Makes of every in-place operator on what the parameters move its functional form (relu_ becomes relu), and lets who
// reads the written value later read the result instead. Operators on other values stay, as the counters of batch norms
// and the masks of windowed attention have them. Dropouts pass their input.
// Throws Error{kUnsupported} if the value is a view of another one or others are views of it, or the functional form is
// not there.
void make_functional(Program& program, const std::unordered_set<std::string>& parameters);

}  // namespace qdq
