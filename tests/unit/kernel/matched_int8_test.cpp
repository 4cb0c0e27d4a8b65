#include "kernel/matched_int8.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "plain.h"

namespace qdq::kernel::matched_int8_test {
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
  std::vector<int32_t> start(kDotPanel);
  append_matched_run(weights.data(), length, matched, start.data());
  return matched;
}

// The weights of two steps, of which each four is added in 16 bits: the sums of those above and below zero.
std::pair<int, int> above_and_below(const MatchedWeights& matched, int32_t step, int64_t four) {
  const int8_t* w = matched.weights.data() + int64_t{step} * kDotPanel * 4 + four * 2;
  int above = 0, below = 0;
  for (const int8_t v : {w[0], w[1], w[kDotPanel * 4], w[kDotPanel * 4 + 1]}) (v > 0 ? above : below) += v;
  return {above, below};
}

int16_t shift_of(const MatchedWeights& matched, int32_t step, int64_t four) {
  int16_t shift;
  std::memcpy(&shift, matched.weights.data() + int64_t{step} * kDotPanel * 4 + four * 2, sizeof shift);
  return shift;
}

TEST(MatchedInt8, TakesEveryWeightOnceInPairsThatDoNotSaturate) {
  for (int64_t length : {1, 3, 4, 7, 15, 16, 17, 24, 31, 40, 147, 512}) {
    for (int terms : {1, 2, 4}) {
      const std::vector<int8_t> weights = run_of(length, terms, static_cast<uint64_t>(length));
      const MatchedWeights matched = matched_of(weights, length);
      std::vector<int> found(weights.size());
      ASSERT_EQ(matched.first.size(), 3u);
      EXPECT_EQ((matched.first[2] - matched.first[1]) % 3, 0);
      for (int32_t s = 0; s < static_cast<int32_t>(matched.steps.size()); ++s) {
        if (s >= matched.first[1] && s < matched.first[2] && (s - matched.first[1]) % 3 == 2) continue;  // shifts
        const DotStep& step = matched.steps[static_cast<size_t>(s)];
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
      EXPECT_EQ((matched.first[1] - matched.first[0]) % 2, 0);
      for (int32_t s = matched.first[0]; s < matched.first[1]; s += 2) {
        for (int64_t four = 0; four < kDotPanel * 2; ++four) {
          const auto [above, below] = above_and_below(matched, s, four);
          EXPECT_LE(above, 128);
          EXPECT_GE(below, -128);
        }
      }
      for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(found[i], weights[i]) << length << ", " << i;
    }
  }
}

// Checks the shifts of a run, and returns how many sums of two steps have one.
int check_shifts(const std::vector<int8_t>& weights, int64_t length) {
  MatchedWeights matched;
  std::vector<int32_t> start(kDotPanel, 1000), wanted = start;
  append_matched_run(weights.data(), length, matched, start.data());
  for (int32_t s = matched.first[1]; s < matched.first[2]; s += 3) {
    for (int64_t four = 0; four < kDotPanel * 2; ++four) {
      const auto [above, below] = above_and_below(matched, s, four);
      const int shift = shift_of(matched, s + 2, four);
      EXPECT_LE(255 * above + shift, 32767);
      EXPECT_GE(255 * below + shift, -32768);
      wanted[static_cast<size_t>(four / 2)] -= shift;
    }
  }
  EXPECT_EQ(start, wanted);
  return (matched.first[2] - matched.first[1]) / 3;
}

TEST(MatchedInt8, ShiftsSumsOfTwoStepsInto16Bits) {
  for (int64_t length : {8, 16, 147, 512}) {
    check_shifts(run_of(length, 4, static_cast<uint64_t>(length)), length);
    // Four of these are above 128 and below 254, so that no two steps can do without a shift.
    std::vector<int8_t> weights(static_cast<size_t>(length * kDotPanel));
    Random random(3);
    for (int8_t& w : weights) w = static_cast<int8_t>(40 + (random.next() >> 20) % 24);
    EXPECT_EQ(check_shifts(weights, length), (length + 3) / 4 / 2) << length;
  }
}

TEST(MatchedInt8, FindsPartnersForBellShapedWeights) {
  for (int64_t length : {32, 144, 1024}) {
    const MatchedWeights matched = matched_of(run_of(length, 4, 3), length);
    const int32_t steps = matched.first[1] + (matched.first[2] - matched.first[1]) / 3 * 2,
                  singles = static_cast<int32_t>(matched.steps.size()) - matched.first[2];
    EXPECT_LE(steps + singles, length / 4 * 21 / 20) << length;
    EXPECT_GE(steps, singles * 2) << length;
  }
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
  const std::vector<int8_t> large(static_cast<size_t>(16 * kDotPanel), 64), small(large.size(), -32),
      medium(large.size(), 50);
  std::vector<int32_t> start(kDotPanel);
  append_matched_run(large.data(), 16, matched, start.data());
  append_matched_run(large.data(), 8, matched, start.data());
  append_matched_run(small.data(), 16, matched, start.data());
  append_matched_run(small.data(), 12, matched, start.data());
  append_matched_run(medium.data(), 12, matched, start.data());
  EXPECT_EQ(matched.first, (std::vector<int32_t>{0, 0, 0, 4, 4, 4, 6, 10, 10, 10, 12, 12, 13, 13, 16}));
  EXPECT_EQ(matched.steps.size(), 17u);
  EXPECT_EQ(matched.weights.size(), static_cast<size_t>(17 * kDotPanel * 4));
}

}  // namespace
}  // namespace qdq::kernel::matched_int8_test
