// Programs that were exported in training mode.
#pragma once

#include "graph/graph.h"

namespace qdq {

// Throws Error{kInvalidArgument} naming the first batch norm that uses the statistics of each batch, or dropout that
// drops values at random.
void check_in_inference_form(const Graph& graph);

}  // namespace qdq
