// The module `qdq-run` does without the operators of src/op/rare_ops.cpp, which would be a seventh of its size, and
// without their kernels (src/exec/rare_simd_ops.cpp); a program that calls one of them is refused by name, and runs in
// `qdq`.
#include "exec/simd.h"
#include "op/families.h"

namespace qdq {

void add_rare_ops(std::vector<OpDef>&) {}
const SimdOp* find_rare_simd_op(std::string_view) { return nullptr; }

}  // namespace qdq
