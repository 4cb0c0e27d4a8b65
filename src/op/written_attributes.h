// Which attributes of a program its runs change.
#pragma once

#include <string>
#include <unordered_set>

#include "graph/program.h"

namespace qdq {

// The attributes that a run of the program changes: those of its buffer mutations, and those that an operator writes to
// directly or through views (op/shared_storage.h).
using WrittenAttributes = std::unordered_set<std::string>;
WrittenAttributes written_attributes(const Program& program);

}  // namespace qdq
