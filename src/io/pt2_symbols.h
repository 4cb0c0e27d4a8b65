// What a .pt2 file says of the symbols in its sizes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "format/json.h"
#include "graph/program.h"

namespace qdq {

// The values of symbols at export.
//
// PyTorch loads no program whose inputs have open sizes without them: it could not tell whether a tensor made of them
// is contiguous ("KeyError: s1"). A model that comes without gets values that differ from each other, so that none is
// taken for another, and that networks with strides can take: 2 of a first axis, multiples of 64, longer where a window
// is longer.
std::map<std::string, int64_t> pt2_hints(const Program& program);
// A size by these hints. None where that makes more than 64 bits: many sizes that values tell, whose hints are large.
std::optional<int64_t> pt2_hint_of(const SymInt& size, const std::map<std::string, int64_t>& hints);

// {"s0": {"min_val": 1, "max_val": 64}}, for every symbol.
format::Json pt2_range_constraints(const Program& program);

}  // namespace qdq
