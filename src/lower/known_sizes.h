// A program for inputs of one size.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "graph/program.h"
#include "op/op.h"

namespace qdq {

// Whether more of a program can be fused once the sizes of its inputs are known: sizes of results follow from values,
// a condition from sizes, or operators of an ONNX file are known by their operands' shapes alone. False for a program
// that writes to its buffers, and for one of more than 64 MB, since it is lowered again for every size.
bool gains_by_known_sizes(const Program& program);

// The values that the symbols of the inputs' sizes have for these inputs; those of inputs that do not fit are left out.
std::map<std::string, int64_t> symbols_of(const std::vector<Node*>& placeholders, std::span<const Value> inputs);

// A copy of the program for inputs whose sizes have these values: what follows from the sizes is computed; where that
// tells how large results are, their sizes are constants; where it tells which program a call runs (the branch of a
// condition, an operator of an ONNX file whose ranks were open), that program's nodes stand in place of the call.
// Tensors are shared with the program.
// Throws Error{kInvalidArgument} for sizes that do not fit each other.
Program with_known_sizes(const Program& program, const std::map<std::string, int64_t>& symbols);

}  // namespace qdq
