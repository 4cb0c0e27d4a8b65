// How far two arrays are apart: for reports of what quantization does to values.
#pragma once

#include <cstdint>

namespace qdq::kernel {

struct Difference {
  double signal;  // sum of x[i]^2
  double noise;   // sum of (x[i] - y[i])^2
};

// Both sums over n elements, in double and in one order: strand j of 4 adds elements j, j + 4, j + 8, ... in order from
// 0; the sum is (strand 0 + strand 2) + (strand 1 + strand 3).
Difference difference_f32(const float* x, const float* y, int64_t n);

}  // namespace qdq::kernel
