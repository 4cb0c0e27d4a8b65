// Puts layers together again that decompositions of PyTorch took apart.
#pragma once

#include <string_view>

#include "graph/program.h"

namespace qdq {

// Rewrites what run_decompositions() leaves, as older releases of torch.export did, in the operators that quantizers
// know. Values keep their names and stay what they are, but for rounding errors of activations (the last line):
//   convolution                                                 to conv1d, ... conv_transpose3d
//   convolutions whose padding is "same" or "valid"             to those with numbers, behind a pad if the sides differ
//   addmm and mm of rows with a constant weight, bmm with one
//     for the whole batch, and the views that make rows         to linear
//   matmul of a tensor with a constant matrix, and a row added
//     to it; einsum of a tensor with a constant                 to linear
//   batch norms of running statistics                           to batch_norm
//   layer and group norms, whose statistics nobody reads        to layer_norm, group_norm
//   max pools, whose indices nobody reads                       to max_pool2d, max_pool3d
//   bmm with the views that join the front axes                 to matmul
//   _adaptive_avg_pool2d, _softmax, _log_softmax,
//     flash attention                                           to the operators that models call
//   activations and attention in parts (op/spelled_out.h)       to hardsigmoid, hardswish, silu,
//                                                               scaled_dot_product_attention
// The graph must have its shapes. PyTorch's own quantizers do not find such layers.
void recompose(Program& program);

// Whether this is the name of an operator that recompose makes another of wherever it can, because only decompositions
// and models that call it themselves leave it: "aten.convolution" or "aten.convolution.default", but not "aten.bmm".
bool is_decomposed(std::string_view name);

}  // namespace qdq
