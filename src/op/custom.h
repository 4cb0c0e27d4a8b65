// Operators that the embedding program registers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "op/op.h"

namespace qdq {

// An operator that qdq does not have. Models that call it open without it. Once it is registered, they also run:
// calibration, evaluation, lowered sessions (where it runs between fused steps).
struct CustomOperator {
  // As torch.library.define has it: "my_domain::blur(Tensor x, float sigma=1.0) -> Tensor". A node of ONNX's domain
  // com.example and operator Blur calls "com_example::Blur", one of ONNX's own domain "onnx::Blur": its inputs are the
  // positional arguments, its attributes the keywords of the same names.
  std::string schema;
  // The dtype and sizes of the result before a run; sizes may contain symbols of the arguments' sizes. A list for
  // several results.
  std::function<MetaValue(const Call<TensorMeta>& call)> infer;
  // The result: a tensor, or a list for several. Its dtypes and sizes must be those that `infer` tells.
  std::function<Value(const Call<Tensor>& call)> evaluate;
};

// Registers the operator for all programs of the process; call it before you load models that use it. Throws
// Error{kInvalidArgument} if the schema is malformed, a function is missing, or qdq or an earlier call already has an
// operator of this name.
void register_operator(CustomOperator op);

// A function that makes entries of the table of operators on demand. It takes a target that neither qdq nor a program
// has, and returns nothing if that is no operator.
using OpResolver = std::optional<OpDef> (*)(std::string_view target);
void set_op_resolver(OpResolver resolve);

}  // namespace qdq
