// Float formulas with transcendental functions and row reductions. The bits are the same natively and in WASM: both
// builds run the same operations in vectors of any width, without fused multiply-add and without the C library.
//
// exp to atanh are within 2 ulp of the exact result, and one below the smallest normal number may be 0. The formulas
// made of them round after every operation: within 4 ulp, but gelu for negative x, where 1 + erf and 1 + tanh cancel as
// they do in PyTorch. Arrays are contiguous; `out` may be the same array as x. NaN in, NaN out.
//
// Row sums have one fixed order: strand j of 16 adds elements j, j + 16, j + 32, ... in order from 0; the strands are
// then added pairwise, j with j + 8, then with j + 4, j + 2, j + 1.
#pragma once

#include <cstdint>

namespace qdq::kernel {

void exp_f32(const float* x, int64_t n, float* out);
void expm1_f32(const float* x, int64_t n, float* out);
void log_f32(const float* x, int64_t n, float* out);
void log1p_f32(const float* x, int64_t n, float* out);
void tanh_f32(const float* x, int64_t n, float* out);
void erf_f32(const float* x, int64_t n, float* out);
void erfc_f32(const float* x, int64_t n, float* out);
void sin_f32(const float* x, int64_t n, float* out);
void cos_f32(const float* x, int64_t n, float* out);
void pow_f32(const float* x, const float* y, int64_t n, float* out);
void exp2_f32(const float* x, int64_t n, float* out);
void log2_f32(const float* x, int64_t n, float* out);
void log10_f32(const float* x, int64_t n, float* out);
void tan_f32(const float* x, int64_t n, float* out);
void asin_f32(const float* x, int64_t n, float* out);
void acos_f32(const float* x, int64_t n, float* out);
void atan_f32(const float* x, int64_t n, float* out);
void atan2_f32(const float* y, const float* x, int64_t n, float* out);
void sinh_f32(const float* x, int64_t n, float* out);
void cosh_f32(const float* x, int64_t n, float* out);
void asinh_f32(const float* x, int64_t n, float* out);
void acosh_f32(const float* x, int64_t n, float* out);
void atanh_f32(const float* x, int64_t n, float* out);

void sigmoid_f32(const float* x, int64_t n, float* out);    // 1 / (1 + exp(-x))
void silu_f32(const float* x, int64_t n, float* out);       // x / (1 + exp(-x))
void gelu_f32(const float* x, int64_t n, float* out);       // 0.5 x (1 + erf(x / sqrt(2)))
void gelu_tanh_f32(const float* x, int64_t n, float* out);  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
void softplus_f32(const float* x, int64_t n, float beta, float threshold, float* out);
void mish_f32(const float* x, int64_t n, float* out);  // x tanh(log(1 + exp(x)))
void elu_f32(const float* x, int64_t n, float alpha, float scale, float input_scale, float* out);

// The sum in the fixed order above.
float sum_f32(const float* x, int64_t n);
// out[r] = that of row r of x[rows, columns].
void sum_rows_f32(const float* x, int64_t rows, int64_t columns, float* out);
// out[o, i] = the sum over k ascending of |x[o, k, i]|, x being [outer, count, inner]; in double, rounded once.
void sum_magnitudes_f32(const float* x, int64_t outer, int64_t count, int64_t inner, float* out);

// Rows of x[rows, columns]: exp(x - max) / sum. log_softmax: (x - max) - log(sum).
void softmax_f32(const float* x, int64_t rows, int64_t columns, float* out);
void log_softmax_f32(const float* x, int64_t rows, int64_t columns, float* out);
// log(sum(exp(x - max))) + max of each row; infinite where max is.
void logsumexp_f32(const float* x, int64_t rows, int64_t columns, float* out);

// Rows of x[rows, columns]: mean = sum / n; var = sum((x - mean)^2) / n; out = (x - mean) * (1 / sqrt(var + eps)) *
// gamma + beta. gamma and beta are [columns] or null. mean and rstd, if not null, are [rows] and receive the
// statistics.
void layer_norm_f32(const float* x, int64_t rows, int64_t columns, const float* gamma, const float* beta, float eps,
                    float* out, float* mean, float* rstd);
// Rows of x[rows, columns]: out = x * (1 / sqrt(sum(x^2) / n + eps)) * gamma; gamma is [columns] or null.
void rms_norm_f32(const float* x, int64_t rows, int64_t columns, const float* gamma, float eps, float* out);

}  // namespace qdq::kernel
