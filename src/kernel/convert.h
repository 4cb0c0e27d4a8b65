// Elements of arrays from one dtype to another, as Tensor::to converts them.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// Integers of floats: rounded toward zero; what int32 does not hold, and NaN, becomes its smallest number, of int64 for
// int64. Bytes are the lowest 8 bits of the int32.
void integers_of_floats(const float* x, int64_t n, int32_t* out);
void integers_of_floats(const float* x, int64_t n, int64_t* out);
void bytes_of_floats(const float* x, int64_t n, uint8_t* out);
// 1 for all numbers but 0, and for NaN.
void bools_of_floats(const float* x, int64_t n, uint8_t* out);

void floats_of_integers(const int32_t* x, int64_t n, float* out);
void floats_of_integers(const uint8_t* x, int64_t n, float* out);
void floats_of_integers(const int8_t* x, int64_t n, float* out);
void integers_of_integers(const uint8_t* x, int64_t n, int32_t* out);
void integers_of_integers(const int8_t* x, int64_t n, int32_t* out);

}  // namespace qdq::kernel
