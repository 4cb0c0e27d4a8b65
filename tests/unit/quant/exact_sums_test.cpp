// Sums that neither the order nor the grouping changes.
#include "quant/exact_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"

namespace qdq::exact_sums_test {
namespace {

bool same_digits(const ExactSums& a, const ExactSums& b) {
  return a.place() == b.place() && a.high() == b.high() && a.low() == b.low();
}

// Numbers of very different sizes, many of them zeros.
std::vector<double> numbers(std::mt19937& random, int spread) {
  std::vector<double> out(3);
  for (double& value : out) {
    const auto mantissa = static_cast<double>(random()) / 4294967296.0 - 0.5;
    value = random() % 4 == 0
                ? 0
                : std::ldexp(mantissa, static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2);
  }
  return out;
}

TEST(ExactSums, AnyOrderAndAnyGroupingGivesTheSameDigits) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const int spread = seed % 3 == 0 ? 2000 : 90;
    std::vector<std::vector<double>> added(1 + random() % 20);
    for (auto& values : added) values = numbers(random, spread);
    ExactSums whole(3);
    for (const auto& values : added) whole.add(values);
    std::shuffle(added.begin(), added.end(), random);
    std::vector<ExactSums> parts(1 + random() % 5, ExactSums(3));
    for (const auto& values : added) parts[random() % parts.size()].add(values);
    std::shuffle(parts.begin(), parts.end(), random);
    while (parts.size() > 1) {
      const size_t at = random() % (parts.size() - 1);
      parts[at].merge(parts[at + 1]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    ASSERT_TRUE(same_digits(parts[0], whole)) << seed;
    const ExactSums again(whole.place(), whole.high(), whole.low());
    EXPECT_EQ(again.values(), whole.values());
  }
}

TEST(ExactSums, KeepAtLeast37BitsOfTheLargestNumber) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    ExactSums sums(3);
    std::vector<double> wanted(3);
    double largest = 0;
    for (int i = 0; i < 50; ++i) {
      const std::vector<double> values = numbers(random, 60);
      sums.add(values);
      for (size_t k = 0; k < 3; ++k) {
        wanted[k] += values[k];
        largest = std::max(largest, std::fabs(values[k]));
      }
    }
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(sums.values()[k], wanted[k], 51 * largest * 0x1p-36);
  }
}

TEST(ExactSums, RefuseWhatIsNoNumberAndDigitsWithoutAPlace) {
  ExactSums sums(2);
  sums.add(std::vector<double>{1, 2});
  const ExactSums before = sums;
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_THROW(sums.add(std::vector<double>{1, bad}), Error);
  EXPECT_TRUE(same_digits(sums, before));
  EXPECT_THROW(ExactSums(0, {1, 2}, {3}), Error);
  EXPECT_THROW(ExactSums(29, {1}, {3}), Error);
  EXPECT_THROW(ExactSums(ExactSums::kNothing, {0, 1}, {0, 0}), Error);
  ExactSums full(0, {std::numeric_limits<int64_t>::max()}, {0});
  EXPECT_THROW(full.add(std::vector<double>{1}), Error);
}

}  // namespace
}  // namespace qdq::exact_sums_test
