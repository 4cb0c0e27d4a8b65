// Spells quantized operators out in integer arithmetic.
#pragma once

#include "graph/program.h"
#include "quant/compat.h"

namespace qdq {

// Replaces dq -> linear, conv2d or max pool -> q, dq -> add (-> relu) -> q and dynamically quantized linear by integer
// arithmetic, and what is left of quantize and dequantize operators by divisions, rounding and clamps, so that the
// meaning of every integer can be read off the graph (torch/ao/quantization/pt2e/representation/rewrite.py). int8 and
// weights per tensor, as in PyTorch: a uint8 pair stays as it is, and a convolution with weights per channel is spelled
// out through its quantize and dequantize operators. With Compat::kTorch26 convolutions and max pools are found only by
// the names that they have in a decomposed program (convolution, max_pool2d_with_indices without padding), as in
// PyTorch.
void rewrite_as_reference_representation(Program& program, Compat compat);

}  // namespace qdq
