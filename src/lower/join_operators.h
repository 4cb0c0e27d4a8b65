// What a file spells out in several operators, as the one operator that it is.
#pragma once

#include "graph/program.h"

namespace qdq {

// Rewrites, for the sake of steps that do the whole at once, with results that differ by rounding errors at most:
//   (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * gamma + beta   along the last axis to layer_norm
//   maximum(x, x * slope), 0 <= slope <= 1, and maximum(x, number)             to leaky_relu and clamp_min
//   prelu with one slope                                                       to leaky_relu
//   a convolution or linear layer, then a constant for each channel added      to the layer with another bias
// The graph must have its shapes.
void join_operators(Program& program);

}  // namespace qdq
