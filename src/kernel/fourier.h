// Discrete Fourier transforms of several rows at a time, in double.
#pragma once

#include <cstdint>

namespace qdq::kernel {

inline constexpr int64_t kFourierRows = 4;

// A length as the product of its factors, each 2, 4 or an odd number up to kMostFourierFactor, and its roots of one
// exp(-2 pi i k / length) (of the inverse transform with +) for 0 <= k < length, real and imaginary part in turn.
struct FourierPlan {
  int64_t length;
  const int64_t* factors;
  const double* waves;
};
inline constexpr int64_t kMostFourierFactor = 31;

// Number k of each row is the sum over t of its number t times root t k. in and out are [length][2][kFourierRows]: the
// real parts, then the imaginary parts of all rows; they do not overlap. The order of every sum depends on the length
// alone, so that a row has the same bits beside any others and on any vector width.
void transform_rows_f64(const FourierPlan& plan, const double* in, double* out);

}  // namespace qdq::kernel
