// The least memory that a run of a program takes, known before it begins.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/program.h"

namespace qdq {

// A run node by node holds at least so many bytes of results at once: the largest sum of those that live at the same
// time. Weights and inputs are left out, as are results that may be their operands' bytes (views, what is computed in
// place, what observers hand on) and those whose sizes are not known. `symbols` are the values of symbolic sizes.
uint64_t least_bytes_of_results(const Program& program, const std::map<std::string, int64_t>& symbols);

}  // namespace qdq
