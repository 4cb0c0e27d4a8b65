// Loops over the elements of two tensors that are broadcast against each other.
#pragma once

#include "exec/simd.h"

namespace qdq {

// n results of a and b, the second operand with a factor where the operator has one.
using PairLoop = void (*)(const float* a, const float* b, float factor, int64_t n, float* out);

template <void (*F)(const float*, const float*, int64_t, float*)>
void pairs(const float* a, const float* b, float, int64_t n, float* out) {
  F(a, b, n, out);
}
void add_scaled(const float* a, const float* b, float factor, int64_t n, float* out);

// The loop over a and b, float32 tensors that are not empty, broadcast to the sizes of `out`, which lies densely.
void broadcast_pairs(PairLoop loop, float factor, const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace qdq
