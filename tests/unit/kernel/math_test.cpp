// Float formulas: accuracy against double, special values, one value for an element wherever it stands, one hash for
// all builds.
#include "kernel/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernel/math_xsimd.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::math_test {
namespace {

using Loop = std::function<void(const float*, int64_t, float*)>;

// The error in units of the last place of the exact result, as f32 has it (the smallest normal number's for smaller
// results).
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(want) || std::fabs(want) > std::numeric_limits<float>::max())
    return static_cast<double>(got) == (want > 0 ? INFINITY : -INFINITY) ? 0 : INFINITY;
  const int exponent = std::max(std::ilogb(want == 0 ? 1e-300 : want), -126);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

struct Formula {
  const char* name;
  Loop run;
  std::function<double(double)> exact;
  float lo, hi;
  double tolerance;
  uint64_t hash;
};

// The hashes are of the results for 20001 seeded inputs. They have to be equal in every build.
const std::vector<Formula>& formulas() {
  static const std::vector<Formula> all = {
      {"exp", exp_f32, [](double x) { return std::exp(x); }, -87.3f, 89.0f, 2, 0xabd82dadd23a9da3},
      {"expm1", expm1_f32, [](double x) { return std::expm1(x); }, -20, 89, 2, 0xcd2d174a5487878},
      {"log", log_f32, [](double x) { return std::log(x); }, 0, 100, 2, 0xc1a4c9ddd5219ba},
      {"log1p", log1p_f32, [](double x) { return std::log1p(x); }, -1, 50, 2, 0x83eab8df642bd630},
      {"tanh", tanh_f32, [](double x) { return std::tanh(x); }, -10, 10, 2, 0x9bfe4eca2ba6e455},
      {"erf", erf_f32, [](double x) { return std::erf(x); }, -5, 5, 2, 0xb7c69eb67feb7af9},
      {"sin", sin_f32, [](double x) { return std::sin(x); }, -1000, 1000, 1, 0xdb021a1a29d3f13},
      {"cos", cos_f32, [](double x) { return std::cos(x); }, -1000, 1000, 1, 0x522448b1759a470d},
      {"sigmoid", sigmoid_f32, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 3, 0xbe4b1c5c00a1e0fd},
      {"silu", silu_f32, [](double x) { return x / (1 + std::exp(-x)); }, -80, 80, 3, 0x208a28a17d5e7e91},
      // 1 + erf and 1 + tanh cancel for negative arguments, here as in PyTorch, so these are held to the positive ones.
      {"gelu", gelu_f32, [](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }, 0, 8, 3,
       0x24a903f38ec8a912},
      {"gelu_tanh", gelu_tanh_f32,
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); },
       0, 8, 3, 0x4cc0c11b7dd70c5e},
      {"softplus", [](const float* x, int64_t n, float* out) { softplus_f32(x, n, 1, 20, out); },
       [](double x) { return std::log1p(std::exp(x)); }, -20, 80, 4, 0x1a6a191dfdf57aa2},
      {"mish", mish_f32, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, -10, 80, 4,
       0x641086be0461f7e5},
      {"elu", [](const float* x, int64_t n, float* out) { elu_f32(x, n, 1.5f, 1, 1, out); },
       [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; }, -20, 20, 3, 0xde38262267c29a},
      {"pow",
       [](const float* x, int64_t n, float* out) {
         pow_f32(x, std::vector<float>(static_cast<size_t>(n), 2.7f).data(), n, out);
       },
       [](double x) { return std::pow(x, static_cast<double>(2.7f)); }, 0, 1e6f, 1, 0xe3e910a0cd757324},
      {"tan", tan_f32, [](double x) { return std::tan(x); }, -100, 100, 1, 0x4b15414cd8b28b10},
      {"asin", asin_f32, [](double x) { return std::asin(x); }, -1, 1, 1, 0xaabe0308f1d59b05},
      {"acos", acos_f32, [](double x) { return std::acos(x); }, -1, 1, 1, 0xe3b2441311893182},
      {"atan", atan_f32, [](double x) { return std::atan(x); }, -50, 50, 1, 0x98200fcaf7a2d6e5},
      {"sinh", sinh_f32, [](double x) { return std::sinh(x); }, -90, 90, 1, 0x75640fa2ce11d820},
      {"cosh", cosh_f32, [](double x) { return std::cosh(x); }, -90, 90, 1, 0x4f81c11a1472aee1},
      {"asinh", asinh_f32, [](double x) { return std::asinh(x); }, -1000, 1000, 1, 0x9c0bc50085ea865c},
      {"acosh", acosh_f32, [](double x) { return std::acosh(x); }, 1, 1000, 1, 0x1304868d1202aee1},
      {"atanh", atanh_f32, [](double x) { return std::atanh(x); }, -1, 1, 1, 0xa0b41ba388a6b684},
      {"atan2",
       [](const float* y, int64_t n, float* out) {
         atan2_f32(y, std::vector<float>(static_cast<size_t>(n), -3.7f).data(), n, out);
       },
       [](double y) { return std::atan2(y, static_cast<double>(-3.7f)); }, -50, 50, 1, 0x6e4d7fb02f027ef9},
      {"erfc", erfc_f32, [](double x) { return std::erfc(x); }, -5, 9, 1, 0x6e60efc6b872d57c},
      {"exp2", exp2_f32, [](double x) { return std::exp2(x); }, -130, 128, 2, 0x202a729821b69e7b},
  };
  return all;
}

TEST(Math, FormulasAreAccurate) {
  Random random(1);
  for (const Formula& f : formulas()) {
    auto x = random.floats(20001, f.lo, f.hi);
    for (size_t i = 0; i < 5000; ++i) x[i] *= 0x1p-10f;
    std::vector<float> out(x.size());
    f.run(x.data(), static_cast<int64_t>(x.size()), out.data());
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(out[i], f.exact(x[i]));
      if (!(error <= worst)) worst = error, where = x[i];
    }
    EXPECT_LE(worst, f.tolerance) << f.name << " at " << where;
    EXPECT_EQ(hash_bits(out), f.hash) << f.name << std::hex << " 0x" << hash_bits(out);
  }
}

TEST(Math, AnElementsValueDoesNotDependOnItsPlaceOrTheThreads) {
  Random random(2);
  for (const Formula& f : formulas()) {
    const auto x = random.floats(50000, f.lo, f.hi);
    std::vector<float> whole(x.size()), parts(x.size());
    f.run(x.data(), 50000, whole.data());
    for (int64_t at = 0, step = 1; at < 50000; at += step, step = step % 7 + 1 + (at > 100) * 5000)
      f.run(x.data() + at, std::min(step, 50000 - at), parts.data() + at);
    if (std::string(f.name) != "pow") {
      EXPECT_TRUE(same_bits(parts, whole)) << f.name;
    }
    set_num_threads(3);
    f.run(x.data(), 50000, parts.data());
    set_num_threads(1);
    EXPECT_TRUE(same_bits(parts, whole)) << f.name;
    std::vector<float> in_place(x);
    f.run(in_place.data(), 50000, in_place.data());
    EXPECT_TRUE(same_bits(in_place, whole)) << f.name;
  }
}

// Runs of 1024 with an argument beyond the range of the wide vectors' exponential among runs without one.
TEST(Math, WideVectorsAndFourLanesGiveTheSameBits) {
  struct Pair {
    const char* name;
    Loop wide, four;
  };
  Random random(6);
  for (const Pair& pair :
       {Pair{"exp", exp_f32, four_lanes::exp_f32}, Pair{"sigmoid", sigmoid_f32, four_lanes::sigmoid_f32},
        Pair{"silu", silu_f32, four_lanes::silu_f32}}) {
    for (const float range : {1e-6f, 1.0f, 20.0f, 80.0f}) {
      for (const int64_t n : {1, 3, 16, 21, 1024, 1031, 50003}) {
        auto x = random.floats(n, -range, range);
        if (n == 50003)
          x[3000] = 80.5f, x[7000] = NAN, x[12000] = -INFINITY, x[20000] = -0.0f, x[30000] = 80.0f, x[40000] = -80.0f;
        std::vector<float> wide(x.size()), four(x.size());
        pair.wide(x.data(), n, wide.data());
        pair.four(x.data(), n, four.data());
        EXPECT_TRUE(same_bits(wide, four)) << pair.name << " within " << range << ", " << n << " elements";
      }
    }
  }
}

float one(const Loop& loop, float x) {
  float out = 0;
  loop(&x, 1, &out);
  return out;
}

TEST(Math, SpecialValues) {
  for (const Formula& f : formulas()) EXPECT_TRUE(std::isnan(one(f.run, NAN))) << f.name;
  EXPECT_EQ(one(exp_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(exp_f32, -INFINITY), 0.0f);
  EXPECT_EQ(one(exp_f32, 0), 1.0f);
  EXPECT_EQ(one(expm1_f32, -INFINITY), -1.0f);
  EXPECT_EQ(one(expm1_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(log_f32, 0), -INFINITY);
  EXPECT_EQ(one(log_f32, INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(one(log_f32, -1)));
  EXPECT_NEAR(one(log_f32, 0x1p-140f), -140 * std::numbers::ln2, 1e-5);
  EXPECT_EQ(one(expm1_f32, 0x1p-140f), 0x1p-140f);
  EXPECT_EQ(one(gelu_tanh_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(log1p_f32, -1), -INFINITY);
  EXPECT_EQ(one(log1p_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(tanh_f32, INFINITY), 1.0f);
  EXPECT_EQ(one(tanh_f32, -INFINITY), -1.0f);
  EXPECT_EQ(one(erf_f32, INFINITY), 1.0f);
  EXPECT_EQ(one(erf_f32, -INFINITY), -1.0f);
  EXPECT_EQ(one(erfc_f32, INFINITY), 0.0f);
  EXPECT_EQ(one(erfc_f32, -INFINITY), 2.0f);
  EXPECT_EQ(one(erfc_f32, 10.3f), 0.0f);
  EXPECT_EQ(one(sigmoid_f32, -INFINITY), 0.0f);
  EXPECT_EQ(one(sigmoid_f32, INFINITY), 1.0f);
  EXPECT_EQ(one(silu_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(gelu_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(mish_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(atan_f32, -INFINITY), static_cast<float>(-std::numbers::pi / 2));
  EXPECT_EQ(one(asin_f32, 1), static_cast<float>(std::numbers::pi / 2));
  EXPECT_EQ(one(acos_f32, -1), static_cast<float>(std::numbers::pi));
  EXPECT_EQ(one(acos_f32, 1), 0.0f);
  EXPECT_EQ(one(sinh_f32, -INFINITY), -INFINITY);
  EXPECT_EQ(one(cosh_f32, -INFINITY), INFINITY);
  EXPECT_EQ(one(asinh_f32, -INFINITY), -INFINITY);
  EXPECT_EQ(one(acosh_f32, INFINITY), INFINITY);
  EXPECT_EQ(one(acosh_f32, 1), 0.0f);
  EXPECT_EQ(one(atanh_f32, -1), -INFINITY);
  for (const Loop& curve : {Loop(asin_f32), Loop(acos_f32), Loop(atanh_f32)}) {
    EXPECT_TRUE(std::isnan(one(curve, 1.5f)));
    EXPECT_TRUE(std::isnan(one(curve, -INFINITY)));
  }
  EXPECT_TRUE(std::isnan(one(acosh_f32, 0.5f)));
  EXPECT_TRUE(std::isnan(one(acosh_f32, -3)));
  for (const Loop& curve :
       {Loop(tan_f32), Loop(asin_f32), Loop(atan_f32), Loop(sinh_f32), Loop(asinh_f32), Loop(atanh_f32)})
    EXPECT_TRUE(std::signbit(one(curve, -0.0f)) && one(curve, -0.0f) == 0);
  EXPECT_TRUE(std::isnan(one(tan_f32, INFINITY)));
  EXPECT_TRUE(std::isnan(one(sin_f32, INFINITY)));
  EXPECT_NEAR(one(cos_f32, 1e20f), 0.0, 1.0);
}

TEST(Math, Atan2IsOfAnyTwoNumbers) {
  const float numbers[] = {0, -0.0f, 1, -2.5f, 1e-44f, -1e-40f, 3e38f, -1e38f, INFINITY, -INFINITY, NAN};
  for (const float y : numbers)
    for (const float x : numbers) {
      float out = 0;
      atan2_f32(&y, &x, 1, &out);
      const double want = std::atan2(static_cast<double>(y), static_cast<double>(x));
      EXPECT_LE(ulps(out, want), 1) << y << " " << x << " gives " << out;
      if (!std::isnan(want)) {
        EXPECT_EQ(std::signbit(out), std::signbit(want)) << y << " " << x;
      }
    }
}

TEST(Math, PowFollowsTheSignsAndZeros) {
  const std::vector<float> x = {-2, -2, -2, 0, 0, 0, INFINITY, 4, 9, 1, -0.5f, 7, NAN, 1, -1, -2, -1, -3},
                           y = {3,        2,  0.5f, 0, 2,   -1,       2,     0.5f,  -0.5f,
                                INFINITY, -3, 0,    0, NAN, INFINITY, 1e18f, 3e30f, -INFINITY};
  std::vector<float> out(x.size());
  pow_f32(x.data(), y.data(), static_cast<int64_t>(x.size()), out.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const float want = std::pow(x[i], y[i]);
    EXPECT_TRUE(std::isnan(want) ? std::isnan(out[i]) : out[i] == want) << x[i] << "^" << y[i] << " = " << out[i];
  }
}

float plain_sum(const std::vector<float>& x) {
  float strand[16] = {};
  for (size_t i = 0; i < x.size(); ++i) strand[i % 16] += x[i];
  for (size_t width = 8; width > 0; width /= 2)
    for (size_t j = 0; j < width; ++j) strand[j] += strand[j + width];
  return strand[0];
}

TEST(Math, SumsFollowTheDocumentedOrder) {
  Random random(3);
  for (int64_t n : {0, 1, 4, 15, 16, 17, 49, 1000}) {
    const auto x = random.floats(n);
    EXPECT_EQ(sum_f32(x.data(), n), plain_sum(x)) << n;
  }
}

TEST(Math, Rows) {
  Random random(4);
  std::vector<float> all;
  for (int64_t columns : {1, 3, 16, 50, 1000}) {
    const int64_t rows = 7;
    const auto x = random.floats(rows * columns, -8, 8), gamma = random.floats(columns), beta = random.floats(columns);
    std::vector<float> soft(x.size()), log(x.size()), norm(x.size()), mean(7), rstd(7);
    softmax_f32(x.data(), rows, columns, soft.data());
    log_softmax_f32(x.data(), rows, columns, log.data());
    layer_norm_f32(x.data(), rows, columns, gamma.data(), beta.data(), 1e-5f, norm.data(), mean.data(), rstd.data());
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, average = 0, variance = 0;
      for (int64_t c = 0; c < columns; ++c) sum += std::exp(at(x, r * columns + c)), average += at(x, r * columns + c);
      average /= static_cast<double>(columns);
      for (int64_t c = 0; c < columns; ++c)
        variance += std::pow(at(x, r * columns + c) - average, 2) / static_cast<double>(columns);
      EXPECT_NEAR(at(mean, r), average, 1e-5);
      EXPECT_NEAR(at(rstd, r) * std::sqrt(variance + 1e-5), 1.0, 1e-5);
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t i = r * columns + c;
        const double share = std::exp(at(x, i)) / sum;
        EXPECT_NEAR(at(soft, i), share, share * 2e-6);
        EXPECT_NEAR(at(log, i), std::log(share), 1e-5);
        EXPECT_NEAR(at(norm, i), (at(x, i) - average) / std::sqrt(variance + 1e-5) * at(gamma, c) + at(beta, c), 1e-4);
      }
    }
    for (const auto* part : {&soft, &log, &norm, &mean, &rstd}) all.insert(all.end(), part->begin(), part->end());
  }
  EXPECT_EQ(hash_bits(all), 0x94a7e9bb816d29eaull) << std::hex << "0x" << hash_bits(all);
}

// Attention has keys that are hidden (-infinity), and far from the largest: weights below the smallest normal number.
TEST(Math, SoftmaxIsTheExponentialsOverTheirSumToTheBit) {
  Random random(6);
  for (int64_t columns : {1, 5, 16, 33, 784}) {
    auto x = random.floats(columns, -110, 0);
    x[0] = 0.5f;
    for (int64_t i = 3; i < columns; i += 7) x[static_cast<size_t>(i)] = -INFINITY;
    for (int64_t i = 5; i < columns; i += 11) x[static_cast<size_t>(i)] = -86.7f - 0.001f * static_cast<float>(i);
    std::vector<float> soft(x.size()), plain(x.size());
    softmax_f32(x.data(), 1, columns, soft.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const float argument = x[i] - 0.5f;
      exp_f32(&argument, 1, &plain[i]);
    }
    const float sum = sum_f32(plain.data(), columns);
    for (float& value : plain) value /= sum;
    EXPECT_TRUE(same_bits(soft, plain)) << columns;
  }
}

TEST(Math, RowsInPlaceAndWithNaN) {
  Random random(5);
  auto x = random.floats(3 * 21);
  std::vector<float> soft(x.size()), log(x.size());
  softmax_f32(x.data(), 3, 21, soft.data());
  log_softmax_f32(x.data(), 3, 21, log.data());
  auto in_place = x;
  softmax_f32(in_place.data(), 3, 21, in_place.data());
  EXPECT_TRUE(same_bits(in_place, soft));
  in_place = x;
  log_softmax_f32(in_place.data(), 3, 21, in_place.data());
  EXPECT_TRUE(same_bits(in_place, log));
  x[25] = NAN;
  softmax_f32(x.data(), 3, 21, x.data());
  for (size_t i = 0; i < 63; ++i) EXPECT_EQ(std::isnan(x[i]), i / 21 == 1) << i;
}

TEST(Math, LogSumExpIsThatOfAPlainLoop) {
  Random random(9);
  for (const int64_t columns : {1, 3, 16, 21, 100}) {
    const std::vector<float> x = random.floats(3 * columns, -20, 20);
    std::vector<float> found(3);
    logsumexp_f32(x.data(), 3, columns, found.data());
    for (int64_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += std::exp(at(x, r * columns + c));
      EXPECT_NEAR(at(found, r), std::log(sum), 4e-6 * (1 + std::fabs(std::log(sum)))) << columns;
    }
  }
  const auto of = [](std::vector<float> x) {
    float out = 0;
    logsumexp_f32(x.data(), 1, static_cast<int64_t>(x.size()), &out);
    return out;
  };
  EXPECT_EQ(of({1, INFINITY, 2}), INFINITY);
  EXPECT_EQ(of({-INFINITY, -INFINITY}), -INFINITY);
  EXPECT_NEAR(of({-INFINITY, 2}), 2, 1e-6);
  EXPECT_NEAR(of({1000, 1000}), 1000 + std::log(2.0), 1e-4);
  EXPECT_TRUE(std::isnan(of({1, NAN, 2})));
  EXPECT_TRUE(std::isnan(of({INFINITY, NAN})));
}

}  // namespace
}  // namespace qdq::kernel::math_test
