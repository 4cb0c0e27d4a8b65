#include "kernel/matched_int8.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "plain.h"

namespace qdq::kernel {
namespace {

// A run whose weights are the mean of `terms` numbers of all of s8: 1 is flat, more are bell-shaped.
std::vector<int8_t> run_of(int64_t length, int terms, uint64_t seed) {
  Random random(seed);
  std::vector<int8_t> weights(static_cast<size_t>(length * kDotPanel));
  for (int8_t& w : weights) {
    int sum = 0;
    for (int i = 0; i < terms; ++i) sum += static_cast<int>(random.next() >> 20 & 255) - 128;
    w = static_cast<int8_t>(sum / terms);
  }
  return weights;
}

MatchedWeights matched_of(const std::vector<int8_t>& weights, int64_t length) {
  MatchedWeights matched;
  append_matched_run(weights.data(), length, matched);
  return matched;
}

TEST(MatchedInt8, TakesEveryWeightOnceInPairsThatDoNotSaturate) {
  for (int64_t length : {1, 3, 4, 7, 15, 16, 17, 24, 31, 40, 147, 512}) {
    for (int terms : {1, 2, 4}) {
      const std::vector<int8_t> weights = run_of(length, terms, static_cast<uint64_t>(length));
      const MatchedWeights matched = matched_of(weights, length);
      std::vector<int> found(weights.size());
      for (size_t s = 0; s < matched.steps.size(); ++s) {
        const DotStep& step = matched.steps[s];
        EXPECT_GE(step.at, 0);
        EXPECT_LE(step.at, std::max<int64_t>(length - 16, 0));
        for (int64_t o = 0; o < kDotPanel; ++o) {
          const int8_t* w = matched.weights.data() + (static_cast<int64_t>(s) * kDotPanel + o) * 4;
          EXPECT_LE(std::abs(w[0] + w[1]), 128);
          EXPECT_LE(std::abs(w[2] + w[3]), 128);
          for (int k = 0; k < 4; ++k) {
            EXPECT_LT(step.from[k], 16);
            // What is alone has weights of zero beside it, which read any byte.
            if (w[k] != 0) found[static_cast<size_t>((step.at + step.from[k]) * kDotPanel + o)] += w[k];
          }
        }
      }
      // What two double steps add up stays within 16 bits for all inputs.
      ASSERT_EQ(matched.first.size(), 2u);
      EXPECT_EQ((matched.first[1] - matched.first[0]) % 2, 0);
      for (int32_t s = matched.first[0]; s < matched.first[1]; s += 2) {
        const int8_t* w = matched.weights.data() + int64_t{s} * kDotPanel * 4;
        for (int64_t pair = 0; pair < kDotPanel * 2; ++pair) {
          int above = 0, below = 0;
          for (const int8_t v :
               {w[pair * 2], w[pair * 2 + 1], w[pair * 2 + kDotPanel * 4], w[pair * 2 + 1 + kDotPanel * 4]})
            (v > 0 ? above : below) += v;
          EXPECT_LE(above, 128);
          EXPECT_GE(below, -128);
        }
      }
      for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(found[i], weights[i]) << length << ", " << i;
    }
  }
}

TEST(MatchedInt8, FindsPartnersForBellShapedWeights) {
  for (int64_t length : {32, 144, 1024})
    EXPECT_LE(matched_of(run_of(length, 4, 3), length).steps.size(), static_cast<size_t>(length / 4 * 21 / 20))
        << length;
}

TEST(MatchedInt8, MultipliesAloneWhatFitsNothing) {
  const std::vector<int8_t> weights(static_cast<size_t>(20 * kDotPanel), -128);
  EXPECT_EQ(matched_of(weights, 20).steps.size(), 10u);
}

TEST(MatchedInt8, AddsTwoStepsOfSmallWeights) {
  const MatchedWeights matched = matched_of(run_of(1024, 16, 5), 1024);
  EXPECT_GE(matched.first[1] - matched.first[0], 250);
  EXPECT_EQ(matched.steps.size(), 256u);
}

TEST(MatchedInt8, CountsTheStepsOfSeveralRuns) {
  MatchedWeights matched;
  const std::vector<int8_t> large(static_cast<size_t>(16 * kDotPanel), 64), small(large.size(), -32);
  append_matched_run(large.data(), 16, matched);
  append_matched_run(large.data(), 8, matched);
  append_matched_run(small.data(), 16, matched);
  append_matched_run(small.data(), 12, matched);
  EXPECT_EQ(matched.first, (std::vector<int32_t>{0, 0, 4, 4, 6, 10, 10, 12}));
  EXPECT_EQ(matched.steps.size(), 13u);
  EXPECT_EQ(matched.weights.size(), static_cast<size_t>(13 * kDotPanel * 4));
}

}  // namespace
}  // namespace qdq::kernel
