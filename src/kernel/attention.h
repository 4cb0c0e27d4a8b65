// What a decoder does for one token, in float: a query over the rows of a cache, and turning features by their place.
// Every bit is fixed: the same natively and in WASM, for any vector width.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// Keys [count, depth] and values [count, width]; rows lie key_stride and value_stride elements apart, their elements
// one behind the other.
struct CacheRows {
  const float* keys;
  int64_t key_stride;
  const float* values;
  int64_t value_stride;
  int64_t count, depth, width;
};

// score[s] = (sum_d query[d] * keys[s, d]) * factor + mask[s]; out[e] = sum_s softmax_f32(score)[s] * values[s, e].
// mask is [count] or null; rows behind the last whose mask is not -infinity are not read, and a query whose keys are
// all hidden gives 0. `scores` has room for `count` floats. Products and sums are rounded to f32; sums over d in 16
// strands, as sum_f32 of kernel/math.h has them, those over s in the order of the rows. Runs in the caller's thread.
void attend_f32(const float* query, const CacheRows& rows, float factor, const float* mask, float* scores, float* out);

// Turns the pairs (x[i], x[i + width / 2]) of a row by the angles of a place: out[i] = x[i] * cos[i] + (-x[i + half]) *
// sin[i] in the first half, x[i] * cos[i] + x[i - half] * sin[i] in the second. width is even; out is not x.
void rotate_halves_f32(const float* x, const float* cos, const float* sin, int64_t width, float* out);

}  // namespace qdq::kernel
