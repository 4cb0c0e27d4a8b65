// Quantize, dequantize and fake-quantize loops against the formula, element by element.
#include "kernel/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::quantize_test {
namespace {

double plain_grid(float x, double scale, int64_t zero_point, Scaling scaling) {
  const float s = static_cast<float>(scale), inverse = static_cast<float>(1.0 / scale);
  const float scaled = scaling == Scaling::kDivide ? x / s : x * inverse;
  const float grid = std::nearbyint(scaled) + static_cast<float>(zero_point);
  return std::isnan(grid) ? 0.0 : static_cast<double>(grid);
}

int64_t plain_quantize(float x, double scale, int64_t zero_point, int64_t qmin, int64_t qmax, Scaling scaling) {
  return static_cast<int64_t>(std::min(std::max(plain_grid(x, scale, zero_point, scaling), static_cast<double>(qmin)),
                                       static_cast<double>(qmax)));
}

std::vector<float> data(int64_t n, float range) {
  Random random(static_cast<uint64_t>(n));
  auto x = random.floats(n, -range, range);
  const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e30f, -1e30f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
  for (int64_t i = 0; i < n; ++i)
    if (i % 5 == 0) at(x, i) = special[i / 5 % 12];
  return x;
}

template <class T> void check(int64_t qmin, int64_t qmax, int64_t zero_point) {
  for (Scaling scaling : {Scaling::kMultiply, Scaling::kDivide}) {
    for (double scale : {1.0, static_cast<double>(0.0237f), static_cast<double>(3e-3f)}) {
      for (int64_t n : {1, 7, 16, 33, 301}) {
        const auto x = data(n, static_cast<float>(scale) * 300);
        std::vector<T> q(x.size(), 1), want;
        const Affine affine{scale, zero_point, qmin, qmax, scaling};
        quantize_f32(x.data(), n, affine, q.data());
        for (float v : x) want.push_back(static_cast<T>(plain_quantize(v, scale, zero_point, qmin, qmax, scaling)));
        EXPECT_TRUE(same_bits(q, want));
        std::vector<float> back(x.size()), want_back;
        dequantize_f32(q.data(), n, affine, back.data());
        for (T v : q) {
          const float shifted = static_cast<float>(v) - static_cast<float>(zero_point);
          want_back.push_back(shifted * static_cast<float>(scale));
        }
        EXPECT_TRUE(same_bits(back, want_back));
      }
    }
  }
}

TEST(Quantize, FollowsTheFormulaForEveryType) {
  check<uint8_t>(0, 255, 128);
  check<uint8_t>(0, 127, 0);
  check<int8_t>(-128, 127, 3);
  check<int8_t>(-127, 127, 0);
  check<uint16_t>(0, 65535, 32768);
  check<int16_t>(-32768, 32767, 0);
  check<int32_t>(-8388608, 8388607, 0);
}

TEST(Quantize, SaturatesAtTheEndsOfS32) {
  const std::vector<float> x = {3e9f, -3e9f, INFINITY, -INFINITY, NAN, 2147483520.0f};
  std::vector<int32_t> q(6);
  quantize_f32(x.data(), 6, {1.0, 0, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()},
               q.data());
  const int32_t lo = std::numeric_limits<int32_t>::min(), hi = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(q, (std::vector<int32_t>{hi, lo, hi, lo, 0, 2147483520}));
}

TEST(Quantize, MultiplyAndDivideDifferInTheKnownTie) {
  // FBGEMM's include/fbgemm/QuantUtils.h gives this pair.
  const float x = 0.273939937f;
  uint8_t multiplied = 0, divided = 0;
  quantize_f32(&x, 1, {static_cast<double>(0.00214854861f), 0, 0, 255, Scaling::kMultiply}, &multiplied);
  quantize_f32(&x, 1, {static_cast<double>(0.00214854861f), 0, 0, 255, Scaling::kDivide}, &divided);
  EXPECT_EQ(multiplied, 128);
  EXPECT_EQ(divided, 127);
}

TEST(Quantize, TakesAScaleAChannel) {
  const std::vector<float> scales = {0.5f, 0.01f, 0.13f};
  const std::vector<int64_t> zero_points = {0, -3, 7};
  for (int64_t inner : {1, 5, 40}) {
    for (int threads : {1, 3}) {
      set_num_threads(threads);
      const auto x = data(2 * 3 * inner, 20.0f);
      ChannelAffine affine{scales.data(), zero_points.data(), 2, 3, inner, -128, 127, Scaling::kMultiply};
      std::vector<int8_t> q(x.size()), want_q;
      std::vector<float> back(x.size()), want_back, fake(x.size());
      std::vector<uint8_t> mask(x.size()), want_mask;
      for (int64_t i = 0; i < 6 * inner; ++i) {
        const int64_t c = i / inner % 3,
                      v = plain_quantize(at(x, i), at(scales, c), at(zero_points, c), -128, 127, Scaling::kMultiply);
        want_q.push_back(static_cast<int8_t>(v));
        want_back.push_back(static_cast<float>(v - at(zero_points, c)) * at(scales, c));
        want_mask.push_back(plain_grid(at(x, i), at(scales, c), at(zero_points, c), Scaling::kMultiply) ==
                            static_cast<double>(v));
      }
      quantize_channels_f32(x.data(), affine, q.data());
      dequantize_channels_f32(q.data(), affine, back.data());
      fake_quantize_channels_f32(x.data(), affine, fake.data(), mask.data());
      EXPECT_TRUE(same_bits(q, want_q));
      EXPECT_TRUE(same_bits(back, want_back));
      EXPECT_TRUE(same_bits(fake, want_back));
      EXPECT_TRUE(same_bits(mask, want_mask));
    }
  }
  set_num_threads(1);
}

TEST(Quantize, FakeQuantizeEqualsThereAndBack) {
  for (int64_t n : {1, 19, 500}) {
    const auto x = data(n, 9.0f);
    const Affine affine{static_cast<double>(0.06f), 12, 0, 127, Scaling::kMultiply};
    std::vector<uint8_t> q(x.size()), mask(x.size(), 9);
    std::vector<float> back(x.size()), fake(x);
    quantize_f32(x.data(), n, affine, q.data());
    dequantize_f32(q.data(), n, affine, back.data());
    fake_quantize_f32(fake.data(), n, affine, fake.data(), mask.data());
    EXPECT_TRUE(same_bits(fake, back));
    for (int64_t i = 0; i < n; ++i) {
      const double grid = plain_grid(at(x, i), affine.scale, affine.zero_point, affine.scaling);
      EXPECT_EQ(at(mask, i), grid >= 0 && grid <= 127 ? 1 : 0) << at(x, i);
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::quantize_test
