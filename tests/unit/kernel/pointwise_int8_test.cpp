// Integer pools and elementwise loops against plain loops by the formula of kernel/requantize.h, to the bit.
#include "kernel/pointwise_int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "plain.h"

namespace qdq::kernel::pointwise_int8_test {
namespace {

std::vector<uint8_t> bytes(Random& random, int64_t n) {
  std::vector<uint8_t> x(static_cast<size_t>(n));
  for (uint8_t& v : x) v = static_cast<uint8_t>(random.next() >> 30);
  return x;
}

RealRows u8_rows(const uint8_t* x, int32_t zero_point, int64_t row_stride) {
  return {reinterpret_cast<const std::byte*>(x), false, zero_point, row_stride};
}
RealRows f32_rows(const float* x, int64_t row_stride) {
  return {reinterpret_cast<const std::byte*>(x), true, 0, row_stride};
}

Requantize to_u8() {
  Requantize to;
  to.inverse_scale = 3.7f;
  to.zero_point = 90;
  to.low = 3;
  to.high = 250;
  return to;
}

void plain_finish(const Requantize& to, float t, void* out, int64_t i) {
  if (to.activation) to.activation(&t, 1, &t);
  if (to.out_is_float) {
    static_cast<float*>(out)[i] = t;
    return;
  }
  const float q = std::nearbyint(t * to.inverse_scale) + static_cast<float>(to.zero_point);
  const float bounded = std::isnan(q) ? static_cast<float>(to.low)
                                      : std::min(std::max(q, static_cast<float>(to.low)), static_cast<float>(to.high));
  static_cast<uint8_t*>(out)[i] = static_cast<uint8_t>(bounded);
}

float plain_real(const RealRows& x, int64_t r, int64_t i) {
  const int64_t at = r * x.row_stride + i;
  if (x.is_float) return reinterpret_cast<const float*>(x.data)[at];
  return static_cast<float>(reinterpret_cast<const uint8_t*>(x.data)[at] - x.zero_point);
}

TEST(PointwiseInt8, SumsAndProductsFollowTheFormula) {
  Random random(1);
  // Rows as an elementwise step has them, and as a factor for every channel has them.
  const int64_t shapes[][2] = {{1, 1}, {3, 40}, {50, 7}, {2, 70000}};
  for (const auto& [rows, n] : shapes) {
    const auto a = bytes(random, rows * n), b = bytes(random, rows * n);
    const auto f = random.floats(rows * n, -20, 20);
    for (int kind = 0; kind < 10; ++kind) {
      const RealRows x = kind & 1 ? f32_rows(f.data(), kind == 9 ? 0 : n) : u8_rows(a.data(), 77, n);
      const RealRows y = u8_rows(b.data(), 200, kind & 2 ? 0 : n);
      Requantize to = to_u8();
      to.out_is_float = kind & 4;
      if (kind >= 8) to.inverse_scale = 1.0f;
      if (kind == 3) {
        to.activation = hardswish_f32;
        to.curve.kind = Activation::Kind::kHardSwish;
      }
      std::vector<float> sum(a.size()), want_sum(a.size()), product(a.size()), want_product(a.size());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
          const float left = plain_real(x, r, i) * 0.125f, right = plain_real(y, r, i) * 0.0371f;
          plain_finish(to, left + right, want_sum.data(), r * n + i);
          const float factor = plain_real(x, r, i) * 0.00391f;
          plain_finish(to, factor * plain_real(y, r, i), want_product.data(), r * n + i);
        }
      }
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        add_rows(x, 0.125f, y, 0.0371f, rows, n, to, sum.data());
        mul_rows(x, y, 0.00391f, rows, n, to, product.data());
        EXPECT_TRUE(same_bits(sum, want_sum)) << rows << "x" << n << " kind " << kind;
        EXPECT_TRUE(same_bits(product, want_product)) << rows << "x" << n << " kind " << kind;
      }
      set_num_threads(1);
    }
  }
}

TEST(PointwiseInt8, PreluMultipliesWhatIsNotPositive) {
  Random random(11);
  const int64_t shapes[][2] = {{1, 1}, {3, 40}, {50, 7}, {2, 70000}};
  for (const auto& [rows, n] : shapes) {
    const auto a = bytes(random, rows * n);
    const auto f = random.floats(rows * n, -20, 20), slopes = random.floats(n, -1, 2);
    for (int kind = 0; kind < 4; ++kind) {
      const RealRows x = kind & 1 ? f32_rows(f.data(), n) : u8_rows(a.data(), 77, n);
      Requantize to = to_u8();
      to.out_is_float = kind & 2;
      std::vector<float> found(a.size()), want(a.size());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
          const float t = plain_real(x, r, i) * 0.125f;
          plain_finish(to, t > 0 ? t : t * at(slopes, i), want.data(), r * n + i);
        }
      }
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        prelu_rows(x, 0.125f, slopes.data(), rows, n, to, found.data());
        EXPECT_TRUE(same_bits(found, want)) << rows << "x" << n << " kind " << kind;
      }
      set_num_threads(1);
    }
  }
}

TEST(PointwiseInt8, PlanesBecomePixelsOfAnyCountOfChannels) {
  Random random(12);
  for (int64_t channels : {1, 3, 16, 37, 64}) {
    for (int64_t pixels : {1, 15, 16, 300, 547}) {
      const auto x = bytes(random, channels * pixels);
      std::vector<uint8_t> out(x.size()), want(x.size());
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t p = 0; p < pixels; ++p) at(want, p * channels + c) = at(x, c * pixels + p);
      interleave_planes_u8(x.data(), channels, pixels, out.data());
      EXPECT_EQ(out, want) << channels << " channels of " << pixels;
    }
  }
}

TEST(PointwiseInt8, CurvesGiveTheBitsOfTheirFunctions) {
  struct Case {
    Activation::Kind kind;
    std::function<void(const float*, int64_t, float*)> function;
  };
  const Case cases[] = {
      {Activation::Kind::kClamp, [](const float* x, int64_t n, float* y) { clamp_f32(x, n, -0.5f, 2.25f, y); }},
      {Activation::Kind::kHardSwish, hardswish_f32},
      {Activation::Kind::kHardSigmoid, hardsigmoid_f32},
      {Activation::Kind::kSigmoid, sigmoid_f32},
      {Activation::Kind::kSilu, silu_f32},
      {Activation::Kind::kNearSilu, near_silu_f32},
      {Activation::Kind::kGelu, gelu_f32}};
  // Within the range of the exponential and of all magnitudes; then with what lies beyond in every 1000th place.
  Random random(9);
  std::vector<float> x;
  for (int power = -30; power < 6; ++power) {
    for (float value : random.floats(20000, -2.4f, 2.4f)) x.push_back(std::ldexp(value, power));
  }
  const size_t within = x.size();
  const float beyond[] = {80.0f,
                          -80.0f,
                          81.0f,
                          -81.0f,
                          88.4f,
                          -88.4f,
                          1e30f,
                          -1e30f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          0.0f,
                          -0.0f};
  for (size_t i = 0; i < 20000; ++i) x.push_back(i % 1000 == 7 ? beyond[i / 1000 % std::size(beyond)] : x[i * 31]);
  for (const Case& c : cases) {
    Requantize to;
    to.out_is_float = true;
    to.curve = {c.kind, -0.5, 2.25, 0};
    bool was_called = false;
    to.activation = [&](const float* from, int64_t n, float* out) {
      was_called = true;
      c.function(from, n, out);
    };
    std::vector<float> out(x.size()), want(x.size());
    c.function(x.data(), static_cast<int64_t>(x.size()), want.data());
    convert_row(f32_rows(x.data(), 0), 1.0f, static_cast<int64_t>(within), to, out.data());
    EXPECT_FALSE(was_called);
    convert_row(f32_rows(x.data(), 0), 1.0f, static_cast<int64_t>(x.size()), to, out.data());
    EXPECT_TRUE(same_bits(out, want)) << to_string(c.kind);
  }
}

TEST(PointwiseInt8, RowsAreConvertedByTheFormula) {
  Random random(6);
  const auto q = bytes(random, 1003);
  const auto f = random.floats(1003, -50, 50);
  for (const RealRows& x : {u8_rows(q.data(), 12, 0), f32_rows(f.data(), 0)}) {
    std::vector<uint8_t> out(1003), want(1003);
    convert_row(x, 0.31f, 1003, to_u8(), out.data());
    for (int64_t i = 0; i < 1003; ++i) plain_finish(to_u8(), plain_real(x, 0, i) * 0.31f, want.data(), i);
    EXPECT_TRUE(same_bits(out, want));
  }
}

TEST(PointwiseInt8, ResultsMayTakeThePlaceOfAnOperand) {
  Random random(2);
  auto a = bytes(random, 1000);
  const auto b = bytes(random, 1000);
  std::vector<uint8_t> want(1000);
  add_rows(u8_rows(a.data(), 5, 1000), 0.1f, u8_rows(b.data(), 6, 1000), 0.2f, 1, 1000, to_u8(), want.data());
  add_rows(u8_rows(a.data(), 5, 1000), 0.1f, u8_rows(b.data(), 6, 1000), 0.2f, 1, 1000, to_u8(), a.data());
  EXPECT_EQ(a, want);
}

TEST(PointwiseInt8, NanGivesTheLowestInteger) {
  const float x[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                     -std::numeric_limits<float>::infinity()};
  const uint8_t zero[] = {0, 0, 0};
  uint8_t out[3];
  add_rows(f32_rows(x, 3), 1.0f, u8_rows(zero, 0, 3), 1.0f, 1, 3, to_u8(), out);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 250);
  EXPECT_EQ(out[2], 3);
}

TEST(PointwiseInt8, MaxPoolTakesTheLargestTapInside) {
  Random random(3);
  const Pool2d pools[] = {{1, 13, 9, 7, 5, 3, 3, 2, 2, 1, 1},
                          {1, 6, 6, 5, 5, 2, 2, 1, 1, 0, 0},
                          {1, 9, 9, 5, 5, 3, 3, 1, 1, 0, 0, 2, 2},
                          {1, 7, 7, 7, 7, 5, 5, 1, 1, 2, 2},
                          {1, 8, 8, 8, 8, 3, 3, 1, 1, 2, 2, 2, 2}};
  for (const Pool2d& p : pools) {
    for (int64_t channels : {1, 8, 16, 45, 150}) {
      const auto x = bytes(random, 2 * p.in_h * p.in_w * channels);
      std::vector<uint8_t> want, out(static_cast<size_t>(2 * p.out_h * p.out_w * channels));
      for (int64_t n = 0; n < 2; ++n) {
        for (int64_t oh = 0; oh < p.out_h; ++oh) {
          for (int64_t ow = 0; ow < p.out_w; ++ow) {
            for (int64_t c = 0; c < channels; ++c) {
              uint8_t largest = 0;
              for (int64_t kh = 0; kh < p.kernel_h; ++kh) {
                for (int64_t kw = 0; kw < p.kernel_w; ++kw) {
                  const int64_t h = oh * p.stride_h - p.pad_h + kh * p.dilation_h;
                  const int64_t w = ow * p.stride_w - p.pad_w + kw * p.dilation_w;
                  if (h < 0 || h >= p.in_h || w < 0 || w >= p.in_w) continue;
                  largest = std::max(largest, at(x, ((n * p.in_h + h) * p.in_w + w) * channels + c));
                }
              }
              want.push_back(largest);
            }
          }
        }
      }
      max_pool2d_u8(x.data(), 2, channels, p, out.data());
      EXPECT_TRUE(same_bits(out, want)) << p.in_h << "x" << p.in_w << " by " << p.kernel_h << ", " << channels;
    }
  }
}

TEST(PointwiseInt8, SumsOfPixelsAreExactAndRequantized) {
  const int64_t rows = 30, columns = 40, channels = 37, wide = 41;
  std::vector<uint8_t> x(static_cast<size_t>(rows * columns * wide), 255);
  Random random(4);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = static_cast<uint8_t>(random.next() >> 30);
  std::vector<int32_t> sums(static_cast<size_t>(channels)), want(sums.size(), 0);
  sum_pixels_u8(x.data(), rows, columns * wide, columns, wide, channels, 131, sums.data());
  for (int64_t p = 0; p < rows * columns; ++p)
    for (int64_t c = 0; c < channels; ++c) at(want, c) += at(x, p * wide + c) - 131;
  EXPECT_EQ(sums, want);
  std::vector<uint8_t> out(sums.size()), finished(sums.size());
  requantize_sums(sums.data(), channels, 0.0003f, to_u8(), out.data());
  for (int64_t c = 0; c < channels; ++c)
    plain_finish(to_u8(), static_cast<float>(at(want, c)) * 0.0003f, finished.data(), c);
  EXPECT_EQ(out, finished);
}

TEST(PointwiseInt8, FloatPixelsAreRoundedThenAdded) {
  Random random(8);
  Requantize rounding;
  rounding.inverse_scale = 41.0f;
  rounding.zero_point = 117;
  rounding.low = 3;
  rounding.high = 251;
  for (const int64_t channels : {1, 16, 45, 150}) {
    const int64_t rows = 5, columns = 6, wide = channels + 3;
    const auto x = random.floats(rows * columns * wide, -4, 4);
    std::vector<int32_t> sums(static_cast<size_t>(channels)), want(sums.size(), 0);
    sum_rounded_pixels_f32(x.data(), rows, columns * wide, columns, wide, channels, rounding, sums.data());
    for (int64_t p = 0; p < rows * columns; ++p)
      for (int64_t c = 0; c < channels; ++c) {
        const float steps =
            std::min(std::max(std::nearbyint(at(x, p * wide + c) * 41.0f), 3.0f - 117.0f), 251.0f - 117.0f);
        at(want, c) += static_cast<int32_t>(steps);
      }
    EXPECT_EQ(sums, want) << channels;
  }
}

TEST(PointwiseInt8, FloatPixelsAreAddedInOrder) {
  Random random(7);
  const auto x = random.floats(5 * 6 * 9);
  std::vector<float> sums(9), want(9, 0.0f);
  sum_pixels_f32(x.data(), 5, 54, 6, 9, 9, sums.data());
  for (int64_t i = 0; i < 270; ++i) at(want, i % 9) += at(x, i);
  EXPECT_TRUE(same_bits(sums, want));
}

TEST(PointwiseInt8, TablesAndPlanes) {
  Random random(5);
  const auto x = bytes(random, 300);
  std::array<uint8_t, 256> table{};
  std::array<float, 256> reals{};
  for (size_t i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(i * 7 + 3), reals[i] = static_cast<float>(i) * 0.5f;
  std::vector<uint8_t> pixels(300);
  std::vector<float> floats(300), planes(300);
  map_u8(x.data(), 300, reals.data(), floats.data());
  interleave_planes_u8(x.data(), 3, 100, pixels.data());
  map_to_planes_u8(pixels.data(), 3, 100, reals.data(), planes.data());
  // Tables of one value at one or both ends, for which less is searched, and in place.
  for (const auto& [low, high] : {std::pair{0, 255}, {0, 0}, {255, 255}, {100, 131}, {100, 132}, {7, 255}, {0, 17}}) {
    std::array<uint8_t, 256> bounded{};
    for (int i = 0; i < 256; ++i)
      bounded[static_cast<size_t>(i)] = table[static_cast<size_t>(std::clamp(i, low, high))];
    for (int64_t n : {1, 15, 16, 63, 64, 257, 300}) {
      std::vector<uint8_t> mapped = x;
      map_u8(mapped.data(), n, ByteTable(bounded.data()), mapped.data());
      for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(at(mapped, i), i < n ? bounded[at(x, i)] : at(x, i));
    }
  }
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(at(floats, i), reals[at(x, i)]);
    EXPECT_EQ(at(planes, i), reals[at(x, i)]);
    EXPECT_EQ(at(pixels, i), at(x, i % 3 * 100 + i / 3));
  }
}

}  // namespace
}  // namespace qdq::kernel::pointwise_int8_test
