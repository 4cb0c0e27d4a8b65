// Operators that run programs: torch.cond, torch.while_loop, and ONNX's loop.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "op/op.h"

namespace qdq {

// Runs one of the call's programs: inputs in the order of its placeholders, outputs flat.
using RunProgram = std::function<std::vector<Tensor>(const Program& program, std::span<const Tensor> inputs)>;

// The result of a call of an operator of Family::kControlFlow, whose programs are run by `run`.
Value run_control_flow(const Call<Tensor>& call, const RunProgram& run);

}  // namespace qdq
