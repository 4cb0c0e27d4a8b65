// Float32 in the place of floats that ONNX's operators do not take.
#pragma once

#include <span>
#include <unordered_set>

#include "format/onnx_file.h"
#include "graph/program.h"

namespace qdq {

// Whether the ONNX nodes that a call became take its floats: float16 and float64 by the type constraints up to opset
// 21. bfloat16 they never do: ONNX has it for some operators only, and ONNX Runtime's CPU provider for casts alone.
bool take_floats_of(std::span<const format::OnnxNode> nodes, const Node& call);

// Lets these calls, of the program or of programs within it, compute in float32, with casts around them; what one of
// them gives another is not rounded in between.
void compute_in_float32(Program& program, const std::unordered_set<const Node*>& calls);

}  // namespace qdq
