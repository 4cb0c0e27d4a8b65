// Operators that run programs: torch.cond, torch.while_loop, map, scan, and ONNX's loop.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "op/op.h"

namespace qdq {

// Runs one of the call's programs: inputs in the order of its placeholders, outputs in that of its output node.
using RunProgram = FunctionRef<std::vector<Value>(const Program& program, std::span<const Value> inputs)>;

// A value as an output of a program: numbers are tensors of one element.
Value as_output(Value value);

// The result of a call of an operator of Family::kControlFlow, whose programs are run by `run`.
Value run_control_flow(const Call<Tensor>& call, const RunProgram& run);

// The same by the reference operators alone.
Value eval_control_flow(const Call<Tensor>& call);

// The call that runs a program, and that around it; none around the whole program.
struct Enclosing {
  const Node* call;
  const Enclosing* around;
};
// How an ONNX model is read so that a condition of `cond` is known and one branch remains: " --fix sr=VALUE", or
// " --fix x=SHAPE" where the sizes of the input alone count. `around` is the call whose program the condition stands
// in, null for the whole program. Empty if the condition hangs on no input that an ONNX file names, or on what large
// ones hold.
std::string fixes_of(const Node& condition, const Enclosing* around);

// Of operators with OpDef::expand, whose first argument is a list of tensors, and whose third is a list of the names of
// results, "" for those that nobody wants: whether the program is made for this tensor's values, not for its shape
// alone. So it is with sizes, axes and the like: integers, and a few numbers.
bool is_bound(const Tensor& tensor);
// Equal for calls that one program computes: dtypes and shapes, and the bytes of what is bound.
std::string expansion_key(const Call<Tensor>& call);
// What the program of an expanded call gives for it.
Value run_expansion(const Call<Tensor>& call, const Program& program, const RunProgram& run);

}  // namespace qdq
