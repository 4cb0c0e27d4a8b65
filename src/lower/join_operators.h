// What a file spells out in several operators, as the one operator that it is.
#pragma once

#include <string_view>

#include "graph/program.h"

namespace qdq {

// Operators that are joined to, beside those of op/targets.h.
inline constexpr std::string_view kRmsNorm = "torch.ops.aten.rms_norm.default";
inline constexpr std::string_view kRotaryEmbedding = "torch.ops.onnx.rotary_embedding.default";

// Rewrites, for the sake of steps that do the whole at once, with results that differ by rounding errors at most:
//   (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * gamma + beta   along the last axis to layer_norm
//   x / sqrt(mean(x ** 2) + epsilon) * gamma                                   along the last axis to rms_norm
//   maximum(x, x * slope), 0 <= slope <= 1, and maximum(x, number)             to leaky_relu and clamp_min
//   prelu with one slope                                                       to leaky_relu
//   a convolution or linear layer, then a constant for each channel added      to the layer with another bias
//   softmax(q @ k' * factor) @ v of three or four axes                         to scaled_dot_product_attention
//   layers whose weight is uint8 or has zero points                            to layers of int8 weights (below)
//   dequantize(q) behind a max pool, a reshape or a transpose of q             to the same in front of it
// The graph must have its shapes.
void join_operators(Program& program);

// The first part of it, for the others look for operators side by side:
//   dropout of inference, and a cast to the dtype of its input                 to their input
//   softmax with the dtype of its input                                        to the one without a dtype
void leave_out_idle_operators(Program& program);
// A part of it, for what decoders have in front of their attention:
//   x * cos + cat([-x[..., half:], x[..., :half]]) * sin                       to onnx.rotary_embedding
//   attention whose keys and values are repeated for grouped queries           to the one with enable_gqa
//   attention with a mask of bools                                             to the one that adds 0 and -infinity
void join_decoder_operators(Program& program);
// The last line of that list.
void join_attention(Program& program);

// The weight of a convolution or linear layer that is uint8 or has zero points, less its zero points as int8 without.
// Where that is beyond int8, further layers multiply the same quantized input with the rest, and their results are
// added; behind an input that is not quantized the weight becomes float32.
void make_weight_signed(Program& program, Node& layer);

}  // namespace qdq
