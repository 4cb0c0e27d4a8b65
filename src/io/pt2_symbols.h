// What a .pt2 file says of the symbols in its sizes.
#pragma once

#include <map>
#include <string>

#include "format/json.h"
#include "graph/program.h"

namespace qdq {

// The values of symbols at export.
//
// PyTorch loads no program whose inputs have open sizes without them: it could not tell whether a tensor made of them
// is contiguous ("KeyError: s1"). A model that comes without gets values that differ from each other, so that none is
// taken for another, and that networks with strides can take: 2 of a first axis, multiples of 64.
std::map<std::string, int64_t> pt2_hints(const Program& program);

// {"s0": {"min_val": 1, "max_val": 64}}, for every symbol.
format::Json pt2_range_constraints(const Program& program);

}  // namespace qdq
