// A decoder's loops over one token against plain ones.
#include "kernel/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "unit/kernel/plain.h"

namespace qdq::kernel::attention_test {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// In double, with rows that are `gap` elements longer than what is read of them.
void expect_attention(int64_t count, int64_t depth, int64_t width, const std::vector<float>& mask) {
  SCOPED_TRACE(testing::Message() << count << " keys of " << depth << ", values of " << width);
  constexpr int64_t kGap = 3;
  Random random(static_cast<unsigned>(count * 1000 + depth));
  const auto query = random.floats(depth), keys = random.floats(count * (depth + kGap)),
             values = random.floats(count * (width + kGap));
  std::vector<float> scores(static_cast<size_t>(count)), out(static_cast<size_t>(width), 77.0f);
  attend_f32(query.data(), {keys.data(), depth + kGap, values.data(), width + kGap, count, depth, width}, 0.5f,
             mask.empty() ? nullptr : mask.data(), scores.data(), out.data());
  std::vector<double> weights;
  double largest = -INFINITY, total = 0;
  for (int64_t s = 0; s < count; ++s) {
    double dot = 0;
    for (int64_t d = 0; d < depth; ++d)
      dot += double(query[static_cast<size_t>(d)]) * double(keys[static_cast<size_t>(s * (depth + kGap) + d)]);
    weights.push_back(dot * 0.5 + (mask.empty() ? 0.0 : double(mask[static_cast<size_t>(s)])));
    largest = std::max(largest, weights.back());
  }
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  for (int64_t e = 0; e < width; ++e) {
    double sum = 0;
    for (int64_t s = 0; s < count; ++s)
      sum += weights[static_cast<size_t>(s)] / total * double(values[static_cast<size_t>(s * (width + kGap) + e)]);
    EXPECT_NEAR(out[static_cast<size_t>(e)], sum, 1e-5) << e;
  }
}

TEST(Attention, WeighsTheValuesBySoftmax) {
  for (const int64_t count : {1, 5, 33})
    for (const int64_t depth : {1, 8, 16, 21, 64})
      for (const int64_t width : {1, 7, 16, 64, 100}) expect_attention(count, depth, width, {});
}

TEST(Attention, AddsAMaskAndPassesOverHiddenKeys) {
  expect_attention(6, 16, 16, {0, kHidden, 0.5f, -1, 0, kHidden});
  expect_attention(6, 16, 16, {kHidden, kHidden, 0, kHidden, kHidden, kHidden});
}

// Keys behind the last that is seen are not read at all, so that NaN there does no harm.
TEST(Attention, ReadsNothingBehindTheLastKeyThatIsSeen) {
  const std::vector<float> query = {1, 2}, mask = {0, 0, kHidden};
  const std::vector<float> keys = {1, 0, 0, 1, NAN, NAN}, values = {1, 2, 3, 4, NAN, NAN};
  std::vector<float> scores(3), out(2);
  attend_f32(query.data(), {keys.data(), 2, values.data(), 2, 3, 2, 2}, 1, mask.data(), scores.data(), out.data());
  EXPECT_NEAR(out[0], (std::exp(1.0) * 1 + std::exp(2.0) * 3) / (std::exp(1.0) + std::exp(2.0)), 1e-6);
}

TEST(Attention, OfHiddenKeysAloneIsZero) {
  const std::vector<float> query = {1}, keys = {1, 1}, values = {1, 1}, mask = {kHidden, kHidden};
  std::vector<float> scores(2), out = {77};
  attend_f32(query.data(), {keys.data(), 1, values.data(), 1, 2, 1, 1}, 1, mask.data(), scores.data(), out.data());
  EXPECT_EQ(out[0], 0);
}

TEST(Attention, HalvesAreTurned) {
  for (const int64_t width : {2, 8, 18, 64}) {
    Random random(static_cast<unsigned>(width));
    const auto x = random.floats(width), cos = random.floats(width), sin = random.floats(width);
    std::vector<float> out(static_cast<size_t>(width));
    rotate_halves_f32(x.data(), cos.data(), sin.data(), width, out.data());
    for (size_t i = 0, half = static_cast<size_t>(width / 2); i < out.size(); ++i) {
      const float other = i < half ? -x[i + half] : x[i - half], straight = x[i] * cos[i], crossed = other * sin[i];
      EXPECT_EQ(out[i], straight + crossed) << i;
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::attention_test
