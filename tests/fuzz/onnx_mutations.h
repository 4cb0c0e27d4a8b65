// Mutations of ONNX models, which the short fuzzing of the tests and the long one of qdq_onnx_fuzz share.
#pragma once

#include "format/onnx_file.h"
#include "unit/fuzz_random.h"

namespace qdq::fuzz {

// The model with up to four bytes changed, and now and then with its end cut off. It must not be empty.
format::Bytes with_other_bytes(format::Bytes model, Random& random);

// The model with one thing changed that a graph is made of: an operator, an input, an attribute, an initializer, a
// size, the order of nodes. It must have nodes.
format::OnnxFile with_other_graph(const format::OnnxFile& model, Random& random);

}  // namespace qdq::fuzz
