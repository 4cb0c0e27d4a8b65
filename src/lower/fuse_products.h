// Convolutions and linear layers of a graph as steps of a plan.
#pragma once

#include <string>
#include <variant>

#include "graph/program.h"
#include "lower/plan.h"

namespace qdq {

// The step of a conv2d or linear node: kind, weight, bias, extents; its name, inputs and output are left open. The weight is s8 as the graph
// has it quantized. Or the reason why there is none.
std::variant<PlanStep, std::string> quantized_product(const Program& program, const Node& node);

// The same in f32, for a weight that is a constant or a dequantized one. A batch norm in evaluation mode that alone reads a convolution is
// folded into weight and bias, computed in double and rounded once:
//   weight' = weight * s,  bias' = (bias - running_mean) * s + beta,  s = gamma / sqrt(running_var + epsilon)
struct FloatProduct {
  PlanStep step;
  Node* last = nullptr;  // the node itself or the batch norm
};
std::variant<FloatProduct, std::string> float_product(const Program& program, Node& node);

// The same for a graph whose float convolutions run node by node: gives each that can take a batch norm a weight and a bias of its own.
//   x -> conv2d -> batch_norm -> y    becomes    x -> conv2d' -> y
// A graph for which there is a fusion_obstacle is left as it is.
void fold_batch_norms(Program& program);

}  // namespace qdq
