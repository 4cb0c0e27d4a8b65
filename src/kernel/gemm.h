// Float matrix products whose every bit is fixed: the same natively and in WASM, for any vector width and thread count.
//
// The order of a sum is a contract. For every output element, with block = 256 (kSumBlock):
//   total = 0-based blocks of the depth in order: s_0, then s_0 + s_1, then (s_0 + s_1) + s_2, ...
//   s_b   = ((0 + a[k0]*b[k0]) + a[k0+1]*b[k0+1]) + ...   for k0 = 256 b ascending, products and sums rounded to f32
//   apart out   = total + bias   (no addition where there is no bias)
// The convolutions of kernel/conv.h follow the same order along (ic, kh, kw). No fused multiply-add is used anywhere.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace qdq::kernel {

inline constexpr int64_t kSumBlock = 256;

// A matrix somewhere in memory; strides in elements, any sign or zero.
struct MatrixView {
  const float* data;
  int64_t row_stride;
  int64_t column_stride;
};

// The rows of a matrix repacked for the fast loops: [ceil(rows / 16)][depth][16], missing rows zero.
// The layout does not depend on the machine. Copies share the bytes.
struct PackedRows {
  int64_t rows = 0;
  int64_t depth = 0;
  Tensor data;
};

// Packs w[rows, depth], for instance the weight of a linear layer, once for many products.
PackedRows pack_rows(const MatrixView& w, int64_t rows, int64_t depth);

// out[m, n] = sum_k x[m, k] * weight[n, k] + bias[n]; x and out are contiguous, bias may be null. No aliasing.
void linear_f32(const float* x, int64_t m, const PackedRows& weight, const float* bias, float* out);

enum class BiasAxis { kNone, kRow, kColumn };

// out[i, j] = sum_k a[i, k] * b[k, j] + bias[i or j]. Rows of out are out_row_stride apart. No aliasing. depth 0 gives
// the bias or 0.
void gemm_f32(int64_t rows, int64_t columns, int64_t depth, const MatrixView& a, const MatrixView& b, const float* bias,
              BiasAxis axis, float* out, int64_t out_row_stride);

// `batch` products, each as gemm_f32 without bias; operand i of a batch begins at data + i * its batch stride (0
// broadcasts). out[batch, rows, columns] is contiguous.
void matmul_f32(int64_t batch, int64_t rows, int64_t columns, int64_t depth, const MatrixView& a,
                int64_t a_batch_stride, const MatrixView& b, int64_t b_batch_stride, float* out);

}  // namespace qdq::kernel
