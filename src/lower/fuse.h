// From a dq -> op -> q graph to plans of fused steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/program.h"
#include "lower/plan.h"

namespace qdq {

// What became of a call_function node.
struct NodeFate {
  std::string node, target;
  int plan = -1;        // index into Fusion::plans; -1: the node is still in the graph
  size_t step = 0;      // of the plan
  std::string refusal;  // why it stayed, where somebody looked at it
};

struct Fusion {
  std::vector<Plan> plans;  // sizes symbolic, arena not laid out: see specialize()
  std::vector<NodeFate> fates;
};

struct FusionOptions {
  bool dynamic = true;  // layers whose input is quantized by its own range in every run
  // convolutions and linear layers in f32, with a batch norm behind a convolution folded into its weights
  bool floats = false;
  bool bf16 = false;  // the plans' floats will be kept in bfloat16
};

// Takes what plans can do out of the graph: every plan becomes one call_module node "plan_<i>", which takes the plan's
// inputs and returns its outputs as a list.
//   x -> q -> dq -> conv -> relu -> q -> dq -> max_pool -> q -> dq -> y    becomes    x -> plan_0 -> getitem(0) -> y
// Constants that only fused nodes read go. A graph with call_module nodes (a prepared one), or with an operator that
// writes to a value which others read, is left as it is. Values at a plan's border are those of the graph: f32 in C
// order, or u8 between two plans.
Fusion fuse_program(Program& program, const FusionOptions& options = {});

}  // namespace qdq
