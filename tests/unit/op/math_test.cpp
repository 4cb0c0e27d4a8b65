// The elementary functions of the reference operators against the C library's, which may differ in the last bits alone.
#include "op/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace qdq::math_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Function = double (*)(double);

// The largest error between low and high, relative to results above 1 and absolute below.
double worst_error(Function f, Function exact, double low, double high) {
  constexpr int kSteps = 20000;
  double worst = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = low + (high - low) * i / kSteps, wanted = exact(x), found = f(x);
    if (wanted == found) continue;
    const double error = std::fabs(found - wanted) / std::max(1.0, std::fabs(wanted));
    worst = error > worst || error != error ? error : worst;
  }
  return worst;
}

TEST(Math, IsTheCLibrarysToTheLastBits) {
  struct Case {
    const char* name;
    Function f, exact;
    double low, high;
  };
  const Case cases[] = {
      {"tan", math::tan, std::tan, -1.5, 1.5},          {"asin", math::asin, std::asin, -1, 1},
      {"acos", math::acos, std::acos, -1, 1},           {"atan", math::atan, std::atan, -50, 50},
      {"sinh", math::sinh, std::sinh, -700, 700},       {"cosh", math::cosh, std::cosh, -700, 700},
      {"asinh", math::asinh, std::asinh, -1e3, 1e3},    {"acosh", math::acosh, std::acosh, 1, 1e3},
      {"atanh", math::atanh, std::atanh, -0.99, 0.99},  {"exp2", math::exp2, std::exp2, -1000, 1000},
      {"erfc", math::erfc, std::erfc, -5, 27},          {"lgamma", math::lgamma, std::lgamma, -4.9, 60},
      {"sinh near 0", math::sinh, std::sinh, -0.5, 0.5}};
  for (const Case& c : cases) EXPECT_LT(worst_error(c.f, c.exact, c.low, c.high), 3e-13) << c.name;
}

TEST(Math, InverseOfErfGivesItsArgumentBack) {
  for (double x = -3; x <= 3; x += 0.01) EXPECT_NEAR(math::erfinv(math::erf(x)), x, 1e-11) << x;
}

TEST(Math, DigammaGrowsByTheReciprocal) {
  for (double x = 0.05; x < 30; x += 0.05) EXPECT_NEAR(math::digamma(x + 1) - math::digamma(x), 1 / x, 1e-13) << x;
}

TEST(Math, EndsOfTheRanges) {
  EXPECT_EQ(math::atan(kInfinity), std::atan(kInfinity));
  EXPECT_EQ(math::asin(1), std::asin(1));
  EXPECT_EQ(math::acos(-1), std::acos(-1));
  EXPECT_TRUE(std::isnan(math::asin(1.1)) && std::isnan(math::acosh(0.9)) && std::isnan(math::atanh(1.1)));
  EXPECT_EQ(math::atanh(1), kInfinity);
  EXPECT_EQ(math::cosh(-kInfinity), kInfinity);
  EXPECT_EQ(math::asinh(-kInfinity), -kInfinity);
  EXPECT_EQ(math::exp2(-2000), 0);
  EXPECT_EQ(math::exp2(2000), kInfinity);
  EXPECT_EQ(math::erfinv(-1), -kInfinity);
  for (double y : {0.0, -0.0, 1.0, -1.0, kInfinity, -kInfinity})
    for (double x : {0.0, -0.0, 2.0, -2.0, kInfinity, -kInfinity}) {
      EXPECT_NEAR(math::atan2(y, x), std::atan2(y, x), 1e-15) << y << ", " << x;
      EXPECT_EQ(std::signbit(math::atan2(y, x)), std::signbit(std::atan2(y, x))) << y << ", " << x;
    }
}

}  // namespace
}  // namespace qdq::math_test
