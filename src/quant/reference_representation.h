// Spells quantized operators out in integer arithmetic.
#pragma once

#include "graph/program.h"

namespace qdq {

// Replaces dq -> linear -> q, dq -> add (-> relu) -> q and dynamically quantized linear by integer arithmetic, and what is left of
// quantize and dequantize operators by divisions, rounding and clamps, so that the meaning of every integer can be read off the graph
// (torch/ao/quantization/pt2e/representation/rewrite.py). int8, as in PyTorch: a uint8 pair stays as it is. PyTorch's patterns for
// convolutions and max pools are written for operators that no exported program holds any more, so they are spelled out through
// their quantize and dequantize operators alone; here likewise.
void rewrite_as_reference_representation(Program& program);

}  // namespace qdq
