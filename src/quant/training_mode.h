// Programs that were exported in training mode.
#pragma once

#include "graph/graph.h"

namespace qdq {

// Whether a batch norm uses the statistics of what it is given in inference, too, as that which standardizes weights.
bool has_no_running_statistics(const Node& batch_norm);

// Throws Error{kInvalidArgument} naming the first batch norm that uses the statistics of each batch, or dropout that
// drops values at random.
void check_in_inference_form(const Graph& graph);

}  // namespace qdq
