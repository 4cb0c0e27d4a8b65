// Layer norms whose numbers are rounded to integers on the way, as a graph has them that was spelled out before it was
// quantized.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// r(v) = clamp(half_even(v * inverse_scale), low, high) * scale, every operation rounded to f32; NaN gives low * scale.
// low and high are integers, less the zero point. Where `rounds` is false, r(v) = v.
struct RealRounding {
  bool rounds = false;
  float inverse_scale = 1, scale = 1, low = 0, high = 0;
};

struct RoundedNorm {
  RealRounding mean, variance, shifted, normalized, scaled;
  float epsilon = 0;
  const float *gamma = nullptr, *beta = nullptr;  // [columns] or null
};

// Rows of x[rows, columns], with sums in the order of kernel/math.h:
//   m = mean(sum / n);  d = x - m;  v = shifted(variance(sum(d * d) / n) + epsilon)
//   out = scaled(normalized(d / sqrt(v)) * gamma) + beta
// `out` may be x.
void rounded_layer_norm_f32(const float* x, int64_t rows, int64_t columns, const RoundedNorm& norm, float* out);

}  // namespace qdq::kernel
