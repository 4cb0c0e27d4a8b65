// Control flow in the form that .pt2 files have: torch.cond, while_loop, map and scan, whose programs hold no tensors.
#pragma once

#include "graph/program.h"

namespace qdq {

// Whether the program runs others (Family::kControlFlow).
bool runs_programs(const Program& program);

// Makes tensors that only a program within reads inputs of it, as PyTorch has them, and ONNX's loop a scan if it always
// goes through all iterations, else a while_loop. Nodes keep their values. Throws Error{kUnsupported} naming a loop
// that is neither: it stops early and joins what its iterations gave.
void rewrite_control_flow_for_pt2(Program& program);

}  // namespace qdq
