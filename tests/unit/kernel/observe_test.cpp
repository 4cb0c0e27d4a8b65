// Ranges and histograms against plain loops.
#include "kernel/observe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::observe_test {
namespace {

std::vector<uint64_t> plain_histogram(const std::vector<float>& x, float lo, float hi, int64_t bins) {
  std::vector<uint64_t> counts(static_cast<size_t>(bins));
  for (float v : x) {
    if (!(v >= lo && v <= hi)) continue;
    const float shifted = v - lo, scaled = shifted * static_cast<float>(bins), position = scaled / (hi - lo);
    const float last = static_cast<float>(bins - 1);
    ++at(counts, static_cast<int64_t>(position < last ? position : last));
  }
  return counts;
}

TEST(MinMax, FindsTheRangeAtAnyLengthAndPlace) {
  Random random(1);
  for (int64_t n : {1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 127, 1000}) {
    for (int64_t where = 0; where < n; where += std::max<int64_t>(1, n / 7)) {
      auto x = random.floats(n);
      at(x, where) = 5.0f;
      at(x, n - 1 - where) = where == n - 1 - where ? 5.0f : -6.0f;
      const MinMax got = min_max_f32(x.data(), n);
      EXPECT_EQ(got.min, *std::min_element(x.begin(), x.end()));
      EXPECT_EQ(got.max, *std::max_element(x.begin(), x.end()));
      EXPECT_FALSE(got.has_nan);
      at(x, where) = NAN;
      const MinMax nan = min_max_f32(x.data(), n);
      EXPECT_TRUE(nan.has_nan && std::isnan(nan.min) && std::isnan(nan.max)) << n << " " << where;
    }
  }
}

TEST(MinMax, OfNothingAndOfZerosAndOfInfinities) {
  const MinMax none = min_max_f32(nullptr, 0);
  EXPECT_EQ(none.min, INFINITY);
  EXPECT_EQ(none.max, -INFINITY);
  EXPECT_FALSE(none.has_nan);
  for (int64_t n : {1, 5, 64}) {
    const std::vector<float> zeros(static_cast<size_t>(n), -0.0f);
    const MinMax got = min_max_f32(zeros.data(), n);
    EXPECT_EQ(std::bit_cast<uint32_t>(got.min), 0u);
    EXPECT_EQ(std::bit_cast<uint32_t>(got.max), 0u);
  }
  const std::vector<float> ends = {1, INFINITY, -INFINITY, 3};
  EXPECT_EQ(min_max_f32(ends.data(), 4).min, -INFINITY);
  EXPECT_EQ(min_max_f32(ends.data(), 4).max, INFINITY);
}

TEST(MinMax, SumsThatAreNoNumberAreNoNaN) {
  for (const float large : {std::numeric_limits<float>::infinity(), 3e38f}) {
    std::vector<float> x(300, large);
    for (size_t i = 0; i < x.size(); i += 3) x[i] = -large;
    const MinMax range = min_max_f32(x.data(), 300);
    EXPECT_EQ(range.min, -large);
    EXPECT_EQ(range.max, large);
    EXPECT_FALSE(range.has_nan);
    x[150] = NAN;
    EXPECT_TRUE(min_max_f32(x.data(), 300).has_nan);
  }
}

TEST(MinMax, OfTwoArraysTogether) {
  const std::vector<float> x = {3, -2, 5}, y = {-4, 4}, odd = {1, NAN};
  const MinMax both = joined(min_max_f32(x.data(), 3), min_max_f32(y.data(), 2));
  EXPECT_EQ(both.min, -4);
  EXPECT_EQ(both.max, 5);
  EXPECT_FALSE(both.has_nan);
  const MinMax same = joined(min_max_f32(nullptr, 0), both);
  EXPECT_EQ(same.min, -4);
  EXPECT_EQ(same.max, 5);
  for (const MinMax& nan : {joined(min_max_f32(odd.data(), 2), both), joined(both, min_max_f32(odd.data(), 2))})
    EXPECT_TRUE(nan.has_nan && std::isnan(nan.min) && std::isnan(nan.max));
}

TEST(MinMax, IsTheSameForAnyNumberOfThreads) {
  Random random(2);
  auto x = random.floats(1 << 20);
  x[777777] = 3.5f;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    EXPECT_EQ(min_max_f32(x.data(), 1 << 20).max, 3.5f);
  }
  x[5] = NAN;
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    EXPECT_TRUE(std::isnan(min_max_f32(x.data(), 1 << 20).min));
  }
  set_num_threads(1);
}

TEST(MinMax, OfChannels) {
  Random random(3);
  for (int64_t inner : {1, 3, 40}) {
    const int64_t outer = 4, channels = 37;
    auto x = random.floats(outer * channels * inner);
    at(x, (2 * channels + 5) * inner) = NAN;
    at(x, (3 * channels + 5) * inner) = 100.0f;
    std::vector<float> min(37), max(37);
    min_max_channels_f32(x.data(), outer, channels, inner, min.data(), max.data());
    for (int64_t c = 0; c < channels; ++c) {
      float lo = INFINITY, hi = -INFINITY;
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
          lo = std::min(lo, at(x, (o * channels + c) * inner + i));
          hi = std::max(hi, at(x, (o * channels + c) * inner + i));
        }
      if (c == 5) {
        EXPECT_TRUE(std::isnan(at(min, c)) && std::isnan(at(max, c)));
      } else {
        EXPECT_EQ(at(min, c), lo);
        EXPECT_EQ(at(max, c), hi);
      }
    }
  }
}

TEST(Histogram, CountsAsThePlainLoopDoes) {
  Random random(4);
  for (int64_t n : {0, 1, 15, 16, 300, 70000}) {
    for (int64_t bins : {1, 10, 2048}) {
      auto x = random.floats(n, -3.0f, 5.0f);
      for (int64_t i = 0; i < n; i += 11) at(x, i) = i % 2 ? NAN : (i % 4 ? 4.0f : -2.0f);
      if (n > 100) at(x, 50) = INFINITY, at(x, 51) = -INFINITY, at(x, 52) = std::numeric_limits<float>::max();
      std::vector<uint64_t> counts(static_cast<size_t>(bins));
      histogram_f32(x.data(), n, -2.0f, 4.0f, bins, false, counts.data());
      EXPECT_TRUE(same_bits(counts, plain_histogram(x, -2.0f, 4.0f, bins))) << n << " " << bins;
    }
  }
}

TEST(Histogram, AddsToWhatIsThereAndTakesAnyNumberOfThreads) {
  Random random(5);
  const auto x = random.floats(1 << 19, -0.3f, 1.7f);
  auto want = plain_histogram(x, -0.3f, 1.7f, 2048);
  for (uint64_t& count : want) count += 3;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    std::vector<uint64_t> counts(2048, 3);
    histogram_f32(x.data(), 1 << 19, -0.3f, 1.7f, 2048, false, counts.data());
    EXPECT_TRUE(same_bits(counts, want));
    counts.assign(2048, 3);
    histogram_f32(x.data(), 1 << 19, -0.3f, 1.7f, 2048, true, counts.data());
    EXPECT_TRUE(same_bits(counts, want));
  }
  set_num_threads(1);
}

TEST(Histogram, AWrongPromiseCountsEverythingSomewhere) {
  const std::vector<float> x = {-5, 7, NAN, INFINITY, -INFINITY, 0, 1, 3e38f, -3e38f, 0.5f, 2};
  for (const int64_t n : {4, 11}) {
    std::vector<uint64_t> counts(3);
    histogram_f32(x.data(), n, 0.0f, 1.0f, 3, true, counts.data());
    EXPECT_EQ(counts[0] + counts[1] + counts[2], static_cast<uint64_t>(n));
  }
}

TEST(Histogram, EdgesFallAsInPyTorch) {
  // The upper end belongs to the last bin, and huge products do not wrap.
  std::vector<uint64_t> counts(4);
  const std::vector<float> x = {-1, 1, 0, -0.5f, 0.5f, 1.0000001f, -1.0000001f};
  histogram_f32(x.data(), 7, -1, 1, 4, false, counts.data());
  EXPECT_EQ(counts, (std::vector<uint64_t>{1, 1, 1, 2}));
  counts.assign(4, 0);
  const std::vector<float> huge = {0, 1e38f, 1.5e38f};
  histogram_f32(huge.data(), 3, 0, 1.5e38f, 4, true, counts.data());
  EXPECT_EQ(counts, (std::vector<uint64_t>{1, 0, 0, 2}));
}

// The bins of a power of two are those that double arithmetic, which is exact here, finds.
TEST(Multiples, EveryElementIsCountedInItsBin) {
  constexpr int64_t kBins = 4096;
  Random random(11);
  for (const int64_t n : {0, 1, 7, 64, 255, 256, 257, 100000, 1 << 19}) {
    auto x = random.floats(n);
    for (int64_t i = 0; i < n; i += 3) at(x, i) = std::max(at(x, i), 0.0f);
    if (n > 100) {
      at(x, 5) = -0.0f;
      at(x, 6) = -std::numeric_limits<float>::denorm_min();
      at(x, 7) = std::numeric_limits<float>::denorm_min();
      at(x, 8) = -1e-30f;
    }
    for (const int exponent : {-8, 3, 30, 100}) {
      std::vector<float> scaled = x;
      if (exponent == 30)
        for (float& value : scaled) value *= 0x1p40f;
      const float width = std::ldexp(1.0f, exponent);
      std::vector<uint64_t> counts(kBins), wanted(kBins);
      for (const float value : scaled)
        ++at(wanted, static_cast<int64_t>(std::floor(static_cast<double>(value) / width)) + kBins / 2);
      count_multiples_f32(scaled.data(), n, width, kBins, counts.data());
      EXPECT_EQ(counts, wanted) << n << " elements, width 2^" << exponent;
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::observe_test
