// How far two arrays are apart: for reports of what quantization does to values.
#pragma once

#include <cstdint>

namespace qdq::kernel {

struct Difference {
  double signal = 0;   // sum of x[i]^2
  double noise = 0;    // sum of (x[i] - y[i])^2
  double other = 0;    // sum of y[i]^2
  double product = 0;  // sum of x[i] * y[i]
  double largest = 0;  // the largest |x[i] - y[i]|; NaN is passed over
};

// The sums over n elements, in double and in one order: strand j of 4 adds elements j, j + 4, j + 8, ... in order from
// 0; a sum is (strand 0 + strand 2) + (strand 1 + strand 3).
Difference difference_f32(const float* x, const float* y, int64_t n);

}  // namespace qdq::kernel
