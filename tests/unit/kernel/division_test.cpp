// Rests and quotients of arrays against those of one pair, bit for bit.
#include "kernel/division.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::division_test {
namespace {

TEST(Division, ArraysAreDividedAsOnePairIs) {
  using Loop = void (*)(const float*, const float*, int64_t, float*);
  using Pair = float (*)(float, float);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f,   -0.0f,  1,      -1,    7,         -7,         3,  0.7f,
                           1e-30f, -1e30f, 1e-45f, 1e38f, kInfinity, -kInfinity, NAN};
  Random random(1);
  std::vector<float> x = random.floats(40001, -50, 50), y = random.floats(40001, -3, 3);
  for (const float a : special)
    for (const float b : special) x.push_back(a), y.push_back(b);
  for (int i = 0; i < 500; ++i) x.push_back(static_cast<float>(i - 250)), y.push_back(static_cast<float>(i % 7 - 3));
  const auto n = static_cast<int64_t>(x.size());
  for (const auto& [loop, pair] : {std::pair<Loop, Pair>{rest_f32, rest_of<float>},
                                   {floor_rest_f32, floor_rest_of<float>},
                                   {floor_quotient_f32, floor_quotient_of<float>}}) {
    std::vector<float> want, got(x.size());
    for (int64_t i = 0; i < n; ++i) want.push_back(pair(at(x, i), at(y, i)));
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      loop(x.data(), y.data(), n, got.data());
      set_num_threads(1);
      for (int64_t i = 0; i < n; ++i) {
        if (std::isnan(at(want, i))) EXPECT_TRUE(std::isnan(at(got, i))) << at(x, i) << " by " << at(y, i);
        else
          EXPECT_TRUE(at(want, i) == at(got, i) && std::signbit(at(want, i)) == std::signbit(at(got, i)))
              << at(x, i) << " by " << at(y, i) << " gives " << at(got, i) << ", not " << at(want, i);
      }
    }
  }
}

// Of integers C's division tells.
TEST(Division, QuotientsOfIntegersAreRoundedDown) {
  for (int a = -60; a <= 60; ++a)
    for (int b = -9; b <= 9; ++b) {
      if (b == 0) continue;
      const int rest = ((a % b) + b) % b, quotient = (a - rest) / b;
      const auto x = static_cast<float>(a), y = static_cast<float>(b);
      EXPECT_EQ(floor_rest_of(x, y), static_cast<float>(rest)) << a << " by " << b;
      EXPECT_EQ(floor_quotient_of(x, y), static_cast<float>(quotient)) << a << " by " << b;
      EXPECT_EQ(rest_of(x, y), static_cast<float>(a % b)) << a << " by " << b;
    }
}

}  // namespace
}  // namespace qdq::kernel::division_test
