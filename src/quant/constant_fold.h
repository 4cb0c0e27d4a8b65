// Replaces quantize operators on constants by integer constants.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/program.h"
#include "quant/compat.h"

namespace qdq {

// Evaluates every quantize_per_tensor / quantize_per_channel, and every convert_element_type to bfloat16, whose inputs
// are constants, pure operators between the constant and the quantize included, and puts a get_attr of the result
// `_frozen_param<n>` in its place. Dequantize operators stay; dynamic quantization stays, too, unless the rules are
// PyTorch's, which folds the integers beside the operators of their range. Then drops what nothing reads any more,
// attributes included (torch/_export/passes/constant_folding.py with convert's constraint, which leaves bfloat16 out).
void fold_quantized_constants(Program& program, Compat compat);

// Makes constants of the weights and biases of convolutions and linear layers that operators compute of constants:
// weight norm, .to(dtype), the parts of the one weight of an attention's projections. Their ranges need no samples.
void fold_computed_weights(Program& program);

// quantized_decomposed.quantize_per_... and dequantize_per_...
bool is_quantize(const Node& node);
bool is_dequantize(const Node& node);

}  // namespace qdq
