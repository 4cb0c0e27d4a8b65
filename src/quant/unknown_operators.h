// Programs with operators that qdq does not have: what data reaches, and what it does not.
#pragma once

#include <unordered_set>

#include "quant/annotation.h"

namespace qdq {

// The operators that qdq does not have, and everything that is computed from their results: no data reaches these.
std::unordered_set<const Node*> nodes_without_data(const Graph& graph);

// Takes back what a quantizer wants of such nodes where it needs data, and notes why: static quantization. Dynamic
// quantization and weights that are constants stay.
void leave_unknown_in_float(const Program& program, Annotations& annotations);

// Erases such nodes; outputs that they compute are no outputs any more.
void erase_without_data(Program& program);

}  // namespace qdq
