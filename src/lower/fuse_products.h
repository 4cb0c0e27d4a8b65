// Convolutions and linear layers as steps: what other rules ask of them, and batch norms of graphs whose float
// convolutions run node by node.
#pragma once

#include <string>

#include "graph/program.h"

namespace qdq {

// Why a conv2d or linear node cannot be a step with its weight in s8, as the graph has it quantized; empty if it can.
std::string int8_product_obstacle(const Program& program, const Node& node);

// Gives each convolution in f32 whose result a batch norm in evaluation mode alone reads a weight and a bias of its
// own, computed in double and rounded once, that do the norm's work too.
//   x -> conv2d -> batch_norm -> y    becomes    x -> conv2d' -> y
//   weight' = weight * s,  bias' = (bias - running_mean) * s + beta,  s = gamma / sqrt(running_var + epsilon)
// A graph for which there is a fusion_obstacle is left as it is.
void fold_norms_into_weights(Program& program);

}  // namespace qdq
