// The sums of a difference against plain sums, for every remainder of the strands.
#include "kernel/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace qdq::kernel::difference_test {
namespace {

TEST(Difference, IsTheSumsInTheirOrder) {
  std::minstd_rand random(5);
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 1001}) {
    std::vector<float> x(static_cast<size_t>(n)), y(x.size());
    for (auto* values : {&x, &y})
      for (float& value : *values) value = static_cast<float>(random() % 2001) / 1000 - 1;
    double signal[4] = {}, noise[4] = {}, other[4] = {}, product[4] = {}, largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double difference = static_cast<double>(x[i]) - y[i];
      signal[i % 4] += static_cast<double>(x[i]) * x[i];
      noise[i % 4] += difference * difference;
      other[i % 4] += static_cast<double>(y[i]) * y[i];
      product[i % 4] += static_cast<double>(x[i]) * y[i];
      largest = std::max(largest, std::abs(difference));
    }
    const auto sum = [](const double* strands) { return (strands[0] + strands[2]) + (strands[1] + strands[3]); };
    const Difference found = difference_f32(x.data(), y.data(), n);
    EXPECT_EQ(found.signal, sum(signal)) << n;
    EXPECT_EQ(found.noise, sum(noise)) << n;
    EXPECT_EQ(found.other, sum(other)) << n;
    EXPECT_EQ(found.product, sum(product)) << n;
    EXPECT_EQ(found.largest, largest) << n;
  }
}

}  // namespace
}  // namespace qdq::kernel::difference_test
