// Layer norms with roundings against plain loops by the formula of kernel/rounded_norm.h, to the bit.
#include "kernel/rounded_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernel/math.h"
#include "plain.h"

namespace qdq::kernel::rounded_norm_test {
namespace {

float plain_round(const RealRounding& to, float x) {
  if (!to.rounds) return x;
  const float steps = std::nearbyint(x * to.inverse_scale) + 0.0f;  // an integer has no sign of zero
  if (std::isnan(steps)) return to.low * to.scale;
  return std::fmin(std::fmax(steps, to.low), to.high) * to.scale;
}

TEST(RoundedNorm, RoundsWhereItIsTold) {
  Random random(1);
  const float beyond = std::numeric_limits<float>::infinity();
  for (int64_t columns : {1, 7, 32, 301}) {
    const int64_t rows = 90;
    auto x = random.floats(rows * columns, -3, 3);
    x[0] = beyond;
    const auto gamma = random.floats(columns, -2, 2), beta = random.floats(columns, -1, 1);
    for (int kind = 0; kind < 32; ++kind) {
      const auto rounding = [&](int bit, float scale, float low) {
        return RealRounding{(kind >> bit & 1) != 0, 1 / scale, scale, low, low + 255};
      };
      RoundedNorm norm{rounding(0, 0.01f, -100), rounding(1, 0.03f, 0),    rounding(2, 0.03f, 0),
                       rounding(3, 0.02f, -128), rounding(4, 0.03f, -120), 1e-3f};
      if (kind & 3) norm.gamma = gamma.data();
      if (kind & 5) norm.beta = beta.data();
      std::vector<float> want(x.size()), found(x.size());
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = x.data() + r * columns;
        const float mean = plain_round(norm.mean, sum_f32(row, columns) / static_cast<float>(columns));
        std::vector<float> squares;
        for (int64_t i = 0; i < columns; ++i) squares.push_back((row[i] - mean) * (row[i] - mean));
        const float variance =
            plain_round(norm.variance, sum_f32(squares.data(), columns) / static_cast<float>(columns));
        const float root = std::sqrt(plain_round(norm.shifted, variance + norm.epsilon));
        for (int64_t i = 0; i < columns; ++i) {
          float y = plain_round(norm.normalized, (row[i] - mean) / root);
          if (norm.gamma != nullptr) y = plain_round(norm.scaled, y * norm.gamma[i]);
          at(want, r * columns + i) = norm.beta != nullptr ? y + norm.beta[i] : y;
        }
      }
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        rounded_layer_norm_f32(x.data(), rows, columns, norm, found.data());
        EXPECT_TRUE(same_bits(found, want)) << columns << " columns, kind " << kind;
        found = x;
        rounded_layer_norm_f32(found.data(), rows, columns, norm, found.data());
        EXPECT_TRUE(same_bits(found, want)) << columns << " columns in place, kind " << kind;
      }
      set_num_threads(1);
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::rounded_norm_test
