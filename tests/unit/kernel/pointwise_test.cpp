// Exact arithmetic loops against the expression they document.
#include "kernel/pointwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::pointwise_test {
namespace {

std::vector<float> data(int64_t n, uint64_t seed) {
  Random random(seed);
  auto x = random.floats(n, -9, 9);
  const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, 1e38f, 3.0f, -3.0f};
  for (int64_t i = 0; i < n; i += 6) at(x, i) = special[i / 6 % 7];
  return x;
}

float relu6(float x) { return x < 0 ? 0.0f : x > 6 ? 6.0f : x; }  // leaves -0 alone

// Bits, except that any NaN equals any other.
void expect_equal(const std::vector<float>& got, const std::vector<float>& want, const char* name) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << name << " " << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
          << name << " " << i << ": " << got[i] << ", wanted " << want[i];
    }
  }
}

// The formula of kernel/pointwise.h in plain arithmetic.
float near_silu(float x) {
  const float c = std::min(std::max(x, -12.0f), 12.0f), y = c * c, s = (y + 218.67677f) * y;
  const float p = (s + 7078.0073f) * (y + 1653.505f), q = (s - 21836.707f) * (y + 291.9163f) + 6740225.5f;
  return x * (c * p / q + 64) / 128;
}

TEST(Pointwise, UnaryLoops) {
  struct Case {
    const char* name;
    std::function<void(const float*, int64_t, float*)> run;
    std::function<float(float)> plain;
  };
  const Case cases[] = {
      {"relu", relu_f32, [](float x) { return x < 0 ? 0.0f : x; }},
      {"clamp", [](const float* x, int64_t n, float* out) { clamp_f32(x, n, -1, 6, out); },
       [](float x) { return x < -1  ? -1.0f
                            : x > 6 ? 6.0f
                                    : x; }},
      {"relu6", [](const float* x, int64_t n, float* out) { clamp_f32(x, n, 0, 6, out); }, relu6},
      {"add_scalar", [](const float* x, int64_t n, float* out) { add_scalar_f32(x, 0.1f, n, out); },
       [](float x) { return x + 0.1f; }},
      {"mul_scalar", [](const float* x, int64_t n, float* out) { mul_scalar_f32(x, 0.1f, n, out); },
       [](float x) { return x * 0.1f; }},
      {"hardsigmoid", hardsigmoid_f32, [](float x) { return relu6(x + 3) / 6; }},
      {"hardswish", hardswish_f32, [](float x) { return x * relu6(x + 3) / 6; }},
      {"near_silu", near_silu_f32, near_silu},
      {"leaky_relu", [](const float* x, int64_t n, float* out) { leaky_relu_f32(x, n, 0.01f, out); },
       [](float x) { return x > 0 ? x : x * 0.01f; }},
  };
  for (const Case& c : cases) {
    for (int64_t n : {0, 1, 5, 16, 100, 200000}) {
      auto x = data(n, 1);
      if (n > 3) at(x, 3) = NAN;
      if (n > 3) at(x, 2) = -0.0f;
      set_num_threads(n > 1000 ? 3 : 1);
      std::vector<float> out(x.size()), want;
      for (float v : x) want.push_back(c.plain(v));
      c.run(x.data(), n, out.data());
      expect_equal(out, want, c.name);
      c.run(x.data(), n, x.data());
      expect_equal(x, want, c.name);
    }
  }
  set_num_threads(1);
}

TEST(Pointwise, NearSiluIsAsNearAsItSays) {
  std::vector<float> x;
  for (int i = -400000; i <= 400000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
  for (float far : {1e6f, 1e30f}) x.insert(x.end(), {far, -far});
  std::vector<float> y(x.size()), want;
  for (float v : x) want.push_back(near_silu(v));
  near_silu_f32(x.data(), static_cast<int64_t>(x.size()), y.data());
  expect_equal(y, want, "near_silu");
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]), exact = v / (1 + std::exp(-v)), size = std::abs(v),
                 off = std::abs(static_cast<double>(y[i]) - exact);
    ASSERT_LE(off, size <= 2 ? 1.5e-6 : size <= 4 ? 2e-6 : size <= 8 ? 6e-6 : 6.5e-6 * size) << v;
    if (size <= 40) {
      ASSERT_LE(off, 8e-5) << v;
    }
    if (size >= 12) {
      ASSERT_EQ(y[i], v > 0 ? x[i] : 0.0f);
    }
  }
}

TEST(Pointwise, BinaryLoops) {
  struct Case {
    const char* name;
    std::function<void(const float*, const float*, int64_t, float*)> run;
    std::function<float(float, float)> plain;
  };
  const Case cases[] = {
      {"add", add_f32, [](float a, float b) { return a + b; }},
      {"sub", sub_f32, [](float a, float b) { return a - b; }},
      {"mul", mul_f32, [](float a, float b) { return a * b; }},
      {"div", div_f32, [](float a, float b) { return a / b; }},
      {"maximum", maximum_f32, [](float a, float b) { return std::isnan(a) || a > b ? a : b; }},
      {"minimum", minimum_f32, [](float a, float b) { return std::isnan(a) || a < b ? a : b; }},
      {"add_scaled", [](const float* a, const float* b, int64_t n, float* out) { add_scaled_f32(a, b, 0.3f, n, out); },
       [](float a, float b) {
         const float product = 0.3f * b;
         return a + product;
       }},
  };
  for (const Case& c : cases) {
    for (int64_t n : {1, 7, 33, 500}) {
      auto a = data(n, 1), b = data(n, 2);
      if (n > 4) at(a, 3) = at(b, 4) = NAN;
      std::vector<float> out(a.size()), want;
      for (int64_t i = 0; i < n; ++i) want.push_back(c.plain(at(a, i), at(b, i)));
      c.run(a.data(), b.data(), n, out.data());
      expect_equal(out, want, c.name);
      c.run(a.data(), b.data(), n, a.data());
      expect_equal(a, want, c.name);
    }
  }
}

TEST(Pointwise, ScaleChannels) {
  for (const auto& [channels, inner] : {std::pair<int64_t, int64_t>{3, 1}, {3, 13}, {37, 1}}) {
    const auto x = data(2 * channels * inner, 3), scale = data(channels, 5), shift = data(channels, 7);
    std::vector<float> out(x.size()), plain(x.size()), itself = x, want, want_plain;
    for (int64_t i = 0; i < 2 * channels * inner; ++i) {
      const float product = at(x, i) * at(scale, i / inner % channels);
      want_plain.push_back(product);
      want.push_back(product + at(shift, i / inner % channels));
    }
    scale_channels_f32(x.data(), 2, channels, inner, scale.data(), shift.data(), out.data());
    scale_channels_f32(x.data(), 2, channels, inner, scale.data(), nullptr, plain.data());
    scale_channels_f32(itself.data(), 2, channels, inner, scale.data(), shift.data(), itself.data());
    expect_equal(out, want, "scale and shift");
    expect_equal(plain, want_plain, "scale");
    expect_equal(itself, want, "in place");
  }
}

}  // namespace
}  // namespace qdq::kernel::pointwise_test
