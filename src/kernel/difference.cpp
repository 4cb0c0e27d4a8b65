// The sums of difference.h in strands, so that an addition need not wait for the one before.
#include "kernel/difference.h"

namespace qdq::kernel {

Difference difference_f32(const float* x, const float* y, int64_t n) {
  constexpr int64_t kStrands = 4;
  double signal[kStrands] = {}, noise[kStrands] = {};
  const auto add = [&](int64_t i, int64_t j) {
    const double value = x[i], moved = value - y[i];
    signal[j] += value * value;
    noise[j] += moved * moved;
  };
  int64_t i = 0;
  for (; i + kStrands <= n; i += kStrands)
    for (int64_t j = 0; j < kStrands; ++j) add(i + j, j);
  for (int64_t j = 0; i < n; ++i, ++j) add(i, j);
  return {(signal[0] + signal[2]) + (signal[1] + signal[3]), (noise[0] + noise[2]) + (noise[1] + noise[3])};
}

}  // namespace qdq::kernel
