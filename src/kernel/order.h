// Extremes and sums along an axis of x[outer, count, inner]: the same on any vector width and number of threads.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// out[outer, inner]: the place along the axis of the largest or smallest element, the first of equal ones; of the first
// NaN if there is one. `count` is above 0 and below 2^31.
void extreme_places_f32(const float* x, int64_t outer, int64_t count, int64_t inner, bool largest, int64_t* out);

// The largest or smallest of n elements; false, and nothing of use, if one is NaN or the result is 0 of either sign.
bool extreme_f32(const float* x, int64_t n, bool is_largest, float* out);

// out[outer, count, inner]: the sums of the elements up to each along the axis, in double in their order, each rounded
// once.
void cumulative_sums_f32(const float* x, int64_t outer, int64_t count, int64_t inner, float* out);

// Floats as integers in their order, or, if `flips`, in the opposite one: both zeros are one, and NaN, all alike, is
// above all numbers.
void order_keys_f32(const float* x, int64_t n, bool flips, int32_t* keys);
// The first place from `begin` on whose key is below `limit`; n if there is none.
int64_t find_below(const int32_t* keys, int64_t begin, int64_t n, int32_t limit);

}  // namespace qdq::kernel
