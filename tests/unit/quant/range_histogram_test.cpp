#include "quant/observers/range_histogram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/quant/program_builder.h"

namespace qdq::range_histogram_test {
namespace {

Tensor scaled(const Tensor& x, float by) {
  const Tensor out = x.clone();
  for (float& value : out.span<float>()) value *= by;
  return out;
}

TEST(RangeHistogram, CountsTheSameInAnyOrderAndGrouping) {
  std::vector<Tensor> parts;
  for (uint32_t i = 0; i < 6; ++i) parts.push_back(scaled(sample({500}, i + 1), i == 3 ? 900.0f : 0.3f * (i + 1)));
  RangeHistogram forward, backward, left, right;
  for (size_t i = 0; i < parts.size(); ++i) {
    forward.add(parts[i]);
    backward.add(parts[parts.size() - 1 - i]);
    (i % 2 ? left : right).add(parts[i]);
  }
  left.merge(right);
  for (const RangeHistogram* other : {&backward, &left}) {
    EXPECT_EQ(other->counts(), forward.counts());
    EXPECT_EQ(other->width(), forward.width());
    EXPECT_EQ(other->range().min, forward.range().min);
    EXPECT_EQ(other->range().max, forward.range().max);
  }
  EXPECT_EQ(forward.total(), 3000);
}

TEST(RangeHistogram, EveryValueIsInItsBin) {
  const Tensor x = Tensor::of<float>({6}, {-4.0f, -0.001f, 0.0f, 0.0019f, 3.999f, INFINITY});
  RangeHistogram histogram;
  histogram.add(x);
  EXPECT_EQ(histogram.total(), 5);
  EXPECT_EQ(histogram.width(), 1.0 / 256);  // the least power of two with 2048 bins beyond 4
  const auto count_at = [&](double value) {
    return histogram.counts()[static_cast<size_t>(static_cast<int64_t>(std::floor(value / histogram.width())) + 2048)];
  };
  EXPECT_EQ(count_at(-4.0), 1);
  EXPECT_EQ(count_at(-0.001), 1);
  EXPECT_EQ(count_at(0.0), 2);
  EXPECT_EQ(count_at(3.999), 1);
}

TEST(RangeHistogram, OfNothingAndOfZeros) {
  RangeHistogram histogram;
  EXPECT_EQ(range_of_share(histogram, 0.99).max, 0);
  histogram.add(Tensor::empty({0}, DType::kF32));
  EXPECT_EQ(histogram.total(), 0);
  histogram.add(Tensor::empty({5}, DType::kF32));
  EXPECT_EQ(histogram.total(), 5);
  EXPECT_EQ(range_of_least_error(histogram, 255, false).max, 0);
}

// 100,000 values between -1 and 1, and one far out.
RangeHistogram with_outlier() {
  RangeHistogram histogram;
  histogram.add(sample({100000}, 1));
  histogram.add(Tensor::of<float>({1}, {50.0f}));
  return histogram;
}

TEST(RangeOfLeastError, CutsAnOutlierWhereThatCostsLeast) {
  // Least of (50 - h)^2 + 1e5 ((h + 1) / 255)^2 / 12, and of (50 - h)^2 + 1e5 (2 h / 254)^2 / 12.
  const FloatRange range = range_of_least_error(with_outlier(), 255, false);
  EXPECT_NEAR(range.max, 44.2, 50.0 / 64);
  EXPECT_LE(range.min, -0.9f);
  const FloatRange symmetric = range_of_least_error(with_outlier(), 254, true);
  EXPECT_EQ(symmetric.min, -symmetric.max);
  EXPECT_NEAR(symmetric.max, 33.0, 50.0 / 64);
  // With 16 bits nothing is worth cutting.
  EXPECT_EQ(range_of_least_error(with_outlier(), 65535, false).max, 50);
}

TEST(RangeOfShare, LeavesOutThatShareOfTheValues) {
  const FloatRange range = range_of_share(with_outlier(), 0.9);
  EXPECT_NEAR(range.max, 0.9, 0.04);
  EXPECT_NEAR(range.min, -0.9, 0.04);
  EXPECT_EQ(range_of_share(with_outlier(), 1).max, 50);
}

}  // namespace
}  // namespace qdq::range_histogram_test
