// Loops over bags of a table's rows, which PyTorch's exporter makes of EmbeddingBag.
#pragma once

#include "io/onnx/import.h"

namespace qdq {

// Reads such a loop as a sum, mean or maximum over an axis where all bags have one size:
//   for every i: reduce(gather(table, indices[begins[i]:ends[i]]), 0)   becomes
//   reduce(gather(table, reshape(indices, [-1, size])), 1)
// False if the loop is none of these. It must run to its end and carry nothing.
bool read_equal_bags(OnnxCall& call, const format::OnnxGraph& body);

}  // namespace qdq
