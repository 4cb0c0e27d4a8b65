#include "op/math.h"

#include <cmath>
#include <limits>

namespace qdq::math {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
// ln 2 in two parts; the first has 20 trailing zero bits, so that a multiple of it by an exponent is exact.
constexpr double kLn2High = 0x1.62e42fefp-1;
constexpr double kLn2Low = 0x1.473de6af278edp-34;

// sum of r^n / n! for n = 1..15; |r| <= 0.36, so the rest is below 1e-18 of the sum.
double expm1_near_zero(double r) {
  double sum = 0;
  for (int n = 15; n >= 1; --n) sum = (sum + 1) * r / n;
  return sum;
}

// log((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + s^5 / 5 + ...); |s| <= 0.172.
double log_ratio(double s) {
  const double square = s * s;
  double sum = 0;
  for (int n = 25; n >= 3; n -= 2) sum = (sum + 1.0 / n) * square;
  return 2 * s + 2 * s * sum;
}

// x - k pi / 2 with the nearest integer k. The parts of pi / 2 have 33 bits each, so that their multiples are exact.
double reduce_quadrant(double x, int& quadrant) {
  constexpr double kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611a6p-34, kHalfPi3 = 0x1.3198a2e037073p-69;
  const double k = std::nearbyint(x * 0x1.45f306dc9c883p-1);
  quadrant = static_cast<int>(k - 4 * std::floor(k / 4));
  return ((x - k * kHalfPi1) - k * kHalfPi2) - k * kHalfPi3;
}

double sin_near_zero(double r) {
  const double square = r * r;
  double sum = 0;
  for (int n = 18; n >= 2; n -= 2) sum = -(sum + 1) * square / (n * (n + 1));
  return r + r * sum;
}

double cos_near_zero(double r) {
  const double square = r * r;
  double sum = 0;
  for (int n = 17; n >= 1; n -= 2) sum = -(sum + 1) * square / (n * (n + 1));
  return 1 + sum;
}

double by_quadrant(double x, int shift) {
  if (std::isnan(x) || std::isinf(x)) return kNaN;
  int quadrant = 0;
  const double r = reduce_quadrant(x, quadrant);
  quadrant = (quadrant + shift) & 3;
  const double value = quadrant % 2 == 0 ? sin_near_zero(r) : cos_near_zero(r);
  return quadrant < 2 ? value : -value;
}

}  // namespace

double exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 710) return kInfinity;
  if (x < -746) return 0;
  const double k = std::nearbyint(x / kLn2);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  return std::ldexp(1 + expm1_near_zero(r), static_cast<int>(k));
}

double expm1(double x) { return std::fabs(x) <= 0.35 ? expm1_near_zero(x) : exp(x) - 1; }

double log(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x == 0) return -kInfinity;
  if (x < 0) return kNaN;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) {  // keeps m within sqrt(1/2)..sqrt(2)
    m *= 2;
    --exponent;
  }
  return exponent * kLn2High + (log_ratio((m - 1) / (m + 1)) + exponent * kLn2Low);
}

double log1p(double x) {
  // log((1 + s) / (1 - s)) with s = x / (2 + x) needs no 1 + x, which would lose the low bits of a small x.
  return std::fabs(x) < 0.25 ? log_ratio(x / (2 + x)) : log(1 + x);
}

double tanh(double x) {
  if (std::isnan(x)) return x;
  const double magnitude = std::fabs(x);
  if (magnitude > 20) return std::copysign(1.0, x);
  const double e = expm1(2 * magnitude);
  return std::copysign(e / (e + 2), x);
}

double erf(double x) {
  if (std::isnan(x)) return x;
  const double magnitude = std::fabs(x);
  if (magnitude > 6) return std::copysign(1.0, x);
  // 2 / sqrt(pi) exp(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): all terms are positive, so nothing cancels.
  const double square = magnitude * magnitude;
  double term = magnitude, sum = magnitude;
  for (int n = 3; term > sum * 1e-17; n += 2) {
    term *= 2 * square / n;
    sum += term;
  }
  return std::copysign(0x1.20dd750429b6dp+0 * exp(-square) * sum, x);
}

double sin(double x) { return by_quadrant(x, 0); }
double cos(double x) { return by_quadrant(x, 1); }

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (std::isnan(x) || std::isnan(y)) return kNaN;
  if (std::fabs(y) <= 64 && y == std::floor(y)) {
    double power = 1, base = x;
    for (int n = static_cast<int>(std::fabs(y)); n > 0; n /= 2) {
      if (n % 2 == 1) power *= base;
      base *= base;
    }
    return y < 0 ? 1 / power : power;
  }
  if (y == 0.5 && x >= 0) return std::sqrt(x);
  const double magnitude = std::fabs(x);
  const bool integer = y == std::floor(y);
  if (x < 0 && !integer && !std::isinf(x) && !std::isinf(y)) return kNaN;
  const bool odd = integer && std::fmod(y, 2) != 0;
  if (magnitude == 1) return odd && x < 0 ? -1 : 1;
  const double value = exp(y * log(magnitude));
  return odd && std::signbit(x) ? -value : value;
}

}  // namespace qdq::math
