// Distances between rows.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// How many columns a stride of squared_distances_f32 is a multiple of.
inline constexpr int64_t kDistanceColumns = 16;

// out[rows, columns] = sum over d of (x[r, d] - y[d, c])^2, d ascending from 0, each step rounded. x is [rows, depth];
// the rows of y are `stride` apart, a multiple of kDistanceColumns, and hold any numbers behind their columns.
void squared_distances_f32(const float* x, int64_t rows, int64_t depth, const float* y, int64_t columns, int64_t stride,
                           float* out);

}  // namespace qdq::kernel
