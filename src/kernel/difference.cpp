// The sums of difference.h in strands, so that an addition need not wait for the one before.
#include "kernel/difference.h"

#include <algorithm>
#include <cmath>

namespace qdq::kernel {

Difference difference_f32(const float* x, const float* y, int64_t n) {
  constexpr int64_t kStrands = 4;
  Difference strands[kStrands];
  const auto add = [&](int64_t i, Difference& to) {
    const double value = x[i], other = y[i], moved = value - other;
    to.signal += value * value;
    to.noise += moved * moved;
    to.other += other * other;
    to.product += value * other;
    to.largest = std::max(to.largest, std::abs(moved));
  };
  int64_t i = 0;
  for (; i + kStrands <= n; i += kStrands)
    for (int64_t j = 0; j < kStrands; ++j) add(i + j, strands[j]);
  for (int64_t j = 0; i < n; ++i, ++j) add(i, strands[j]);
  const auto sum = [&](double Difference::* part) {
    return (strands[0].*part + strands[2].*part) + (strands[1].*part + strands[3].*part);
  };
  Difference out{sum(&Difference::signal), sum(&Difference::noise), sum(&Difference::other), sum(&Difference::product)};
  for (const Difference& strand : strands) out.largest = std::max(out.largest, strand.largest);
  return out;
}

}  // namespace qdq::kernel
