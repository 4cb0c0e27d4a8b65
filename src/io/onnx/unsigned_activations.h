// int8 activations as uint8 ones.
#pragma once

#include "graph/program.h"

namespace qdq {

// Writes int8 activations as uint8: the integers, their zero points and their bounds are 128 more, so what they stand
// for is the same to the bit. ONNX Runtime's x86 kernels want uint8 activations beside int8 weights: it joins int8 ones
// to them only where a tensor has one reader (onnxruntime/core/optimizer/qdq_transformer/qdq_s8_to_u8.cc).
// Weights stay as they are, and so do integers that leave the program, come into it, or go through other operators than
// dequantize_per_tensor. A constant becomes uint8 where it stands beside activations in a sum, a product or a cat.
// Programs that the program runs (torch.cond, loops) are changed, too.
void make_activations_unsigned(Program& program);

}  // namespace qdq
