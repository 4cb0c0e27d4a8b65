// Operators that run programs: torch.cond, torch.while_loop, map, scan, and ONNX's loop.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "op/op.h"

namespace qdq {

// Runs one of the call's programs: inputs in the order of its placeholders, outputs in that of its output node.
using RunProgram = std::function<std::vector<Value>(const Program& program, std::span<const Value> inputs)>;

// A value as an output of a program: numbers are tensors of one element.
Value as_output(Value value);

// The result of a call of an operator of Family::kControlFlow, whose programs are run by `run`.
Value run_control_flow(const Call<Tensor>& call, const RunProgram& run);

// The same by the reference operators alone.
Value eval_control_flow(const Call<Tensor>& call);

// Of operators with OpDef::expand, whose first argument is a list of tensors, and whose third is a list of the names of
// results, "" for those that nobody wants: whether the program is made for this tensor's values, not for its shape
// alone. So it is with sizes, axes and the like: integers, and a few numbers.
bool is_bound(const Tensor& tensor);
// Equal for calls that one program computes: dtypes and shapes, and the bytes of what is bound.
std::string expansion_key(const Call<Tensor>& call);
// What the program of an expanded call gives for it.
Value run_expansion(const Call<Tensor>& call, const Program& program, const RunProgram& run);

}  // namespace qdq
