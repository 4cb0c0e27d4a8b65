// Comparisons of numbers and logic of truth values, as bytes of 0 or 1. Exact: the same on any vector width.
#pragma once

#include <cstdint>

namespace qdq::kernel {

enum class Comparison { kEqual, kLess, kLessEqual };

// out[i] = x[i * x_step] compared with y[i * y_step] for i < n; with a NaN it is false. A step is 0 or 1. T is float,
// int32_t or int64_t.
template <class T>
void compare(Comparison how, const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n, bool* out);

enum class Logic { kAnd, kOr, kXor };

// out[i] = x[i * x_step] combined with y[i * y_step] for i < n. A step is 0 or 1. `out` may be x or y.
void combine(Logic how, const bool* x, int64_t x_step, const bool* y, int64_t y_step, int64_t n, bool* out);

}  // namespace qdq::kernel
