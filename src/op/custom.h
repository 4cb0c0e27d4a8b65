// Operators that a program brings itself.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "op/op.h"

namespace qdq {

// An operator that qdq does not have. Models that call it open without it; once it is registered they run too, in every
// flow: calibration, evaluation, lowered sessions (where it runs by itself, between fused steps).
struct CustomOperator {
  // As torch.library.define has it: "my_domain::blur(Tensor x, float sigma=1.0) -> Tensor". A node of ONNX's domain
  // com.example and operator Blur calls "com_example::Blur", one of ONNX's own domain "onnx::Blur": its inputs are the
  // positional arguments, its attributes the keywords of the same names.
  std::string schema;
  // What is known of the result before it runs: dtype and sizes, which may be symbols of the arguments' sizes; a list
  // for several results.
  std::function<MetaValue(const Call<TensorMeta>& call)> infer;
  // The result: a tensor, or a list for several. Its dtypes and sizes must be those that `infer` tells.
  std::function<Value(const Call<Tensor>& call)> evaluate;
};

// From now on, for all programs of the process; to be called before models that use it are loaded. Throws
// Error{kInvalidArgument} if the schema is malformed, a function is missing, or the name is that of an operator which
// qdq has or which was registered before.
void register_operator(CustomOperator op);

// Who makes entries of the table of operators on demand, by their targets; nothing for targets that are none. Asked for
// what neither qdq nor a program has.
using OpResolver = std::optional<OpDef> (*)(std::string_view target);
void set_op_resolver(OpResolver resolve);

}  // namespace qdq
