// The kernels of operators that few networks have. `qdq/run` links bindings/run_ops.cpp in place of this file.
#include "exec/simd.h"

namespace qdq {

const SimdOp* find_rare_simd_op(std::string_view name) {
  for (const std::span<const SimdOp> rows : {deformed_simd_ops(), onnx_recurrent_simd_ops()})
    if (const SimdOp* row = find_simd_op(rows, name)) return row;
  return nullptr;
}

}  // namespace qdq
