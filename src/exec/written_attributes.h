// Which attributes of a program its runs change.
#pragma once

#include <string>
#include <unordered_set>

#include "graph/program.h"

namespace qdq {

// Whether the node may write to its first argument; of an operator that qdq does not have nobody knows.
bool may_write(const Node& node);

// Whether the result is, or may be, in the bytes of the first argument: views, writes and observers.
bool shares_bytes(const Node& node);

// The attributes that a run of the program changes: those of its buffer mutations, and those that an operator writes to
// directly or through views.
using WrittenAttributes = std::unordered_set<std::string>;
WrittenAttributes written_attributes(const Program& program);

}  // namespace qdq
