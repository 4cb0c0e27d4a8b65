// Exact float arithmetic on contiguous arrays: one rounding an operation, any vector width. `out` may be the same array
// as an input, but must not overlap it otherwise. NaN comes out where PyTorch gives NaN.
#pragma once

#include <cstdint>

namespace qdq::kernel {

void relu_f32(const float* x, int64_t n, float* out);                       // x < 0 ? 0 : x
void clamp_f32(const float* x, int64_t n, float lo, float hi, float* out);  // min(max(x, lo), hi), NaN stays
void add_f32(const float* a, const float* b, int64_t n, float* out);        // a + b
void sub_f32(const float* a, const float* b, int64_t n, float* out);        // a - b
void mul_f32(const float* a, const float* b, int64_t n, float* out);        // a * b
void div_f32(const float* a, const float* b, int64_t n, float* out);        // a / b
void add_scalar_f32(const float* x, float s, int64_t n, float* out);        // x + s
void mul_scalar_f32(const float* x, float s, int64_t n, float* out);        // x * s
void add_scaled_f32(const float* a, const float* b, float alpha, int64_t n,
                    float* out);                                          // a + alpha * b, the product rounded
void hardsigmoid_f32(const float* x, int64_t n, float* out);              // min(max(x + 3, 0), 6) / 6
void hardswish_f32(const float* x, int64_t n, float* out);                // x * min(max(x + 3, 0), 6) / 6
void leaky_relu_f32(const float* x, int64_t n, float slope, float* out);  // x > 0 ? x : x * slope
void threshold_f32(const float* x, int64_t n, float threshold, float value,
                   float* out);                                             // x <= threshold ? value : x
void maximum_f32(const float* a, const float* b, int64_t n, float* out);    // the larger, NaN if one is
void minimum_f32(const float* a, const float* b, int64_t n, float* out);    // the smaller, NaN if one is
void prelu_f32(const float* x, const float* slope, int64_t n, float* out);  // x > 0 ? x : x * slope
void sqrt_f32(const float* x, int64_t n, float* out);
void reciprocal_f32(const float* x, int64_t n, float* out);  // 1 / x
void neg_f32(const float* x, int64_t n, float* out);
void abs_f32(const float* x, int64_t n, float* out);
void round_f32(const float* x, int64_t n, float* out);  // to the nearest integer, half to even
void floor_f32(const float* x, int64_t n, float* out);
void ceil_f32(const float* x, int64_t n, float* out);
void trunc_f32(const float* x, int64_t n, float* out);
void sign_f32(const float* x, int64_t n, float* out);  // 1, -1 or 0; 0 for NaN

// Nearly silu_f32 of kernel/math.h, at half of its cost, for results that are rounded to 8 bits at once: from x = 12 on
// x itself, from -12 down 0, and between them x (c (s + 7078.0073) (y + 1653.505) / ((s - 21836.707) (y + 291.9163) +
// 6740225.5) + 64) / 128, where c is x, y = c^2 and s = (y + 218.67677) y. It is off by at most 1.5e-6 for |x| <= 2,
// 2e-6 for |x| <= 4, 6e-6 for |x| <= 8, and 8e-5 beyond.
void near_silu_f32(const float* x, int64_t n, float* out);

// x and out are [outer, channels, inner]: out = x * scale[c] + shift[c], product and sum rounded apart. shift may be
// null.
void scale_channels_f32(const float* x, int64_t outer, int64_t channels, int64_t inner, const float* scale,
                        const float* shift, float* out);

}  // namespace qdq::kernel
