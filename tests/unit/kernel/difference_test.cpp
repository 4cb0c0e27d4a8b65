// The sums of signal and noise against plain sums, for every remainder of the strands.
#include "kernel/difference.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace qdq::kernel {
namespace {

TEST(Difference, IsTheSumsInTheirOrder) {
  std::minstd_rand random(5);
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 1001}) {
    std::vector<float> x(static_cast<size_t>(n)), y(x.size());
    for (auto* values : {&x, &y})
      for (float& value : *values) value = static_cast<float>(random() % 2001) / 1000 - 1;
    double signal[4] = {}, noise[4] = {};
    for (size_t i = 0; i < x.size(); ++i) {
      const double difference = static_cast<double>(x[i]) - y[i];
      signal[i % 4] += static_cast<double>(x[i]) * x[i];
      noise[i % 4] += difference * difference;
    }
    const auto [found_signal, found_noise] = difference_f32(x.data(), y.data(), n);
    EXPECT_EQ(found_signal, (signal[0] + signal[2]) + (signal[1] + signal[3])) << n;
    EXPECT_EQ(found_noise, (noise[0] + noise[2]) + (noise[1] + noise[3])) << n;
  }
}

}  // namespace
}  // namespace qdq::kernel
