#include "op/math.h"

#include <cmath>
#include <limits>

namespace qdq::math {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 0x1.921fb54442d18p+1;
constexpr double kSqrtPi = 0x1.c5bf891b4ef6bp+0;
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
  // What frexp gives, which LLVM 19 calls by a wrong signature where addresses of WebAssembly have 64 bits.
  int exponent = std::ilogb(x) + 1;
  double m = std::ldexp(x, -exponent);
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

double tan(double x) {
  if (std::isnan(x) || std::isinf(x)) return kNaN;
  int quadrant = 0;
  const double r = reduce_quadrant(x, quadrant), s = sin_near_zero(r), c = cos_near_zero(r);
  return quadrant % 2 == 0 ? s / c : -c / s;
}

double atan(double x) {
  if (std::isnan(x)) return x;
  double t = std::fabs(x);
  const bool inverted = t > 1;
  if (inverted) t = 1 / t;
  // Twice atan(t) = 2 atan(t / (1 + sqrt(1 + t^2))), which leaves t below 0.2.
  for (int i = 0; i < 2; ++i) t = t / (1 + std::sqrt(1 + t * t));
  double sum = 0;
  for (int n = 25; n >= 3; n -= 2) sum = (1.0 / n - sum) * t * t;
  const double angle = 4 * (t - t * sum);
  return std::copysign(inverted ? kPi / 2 - angle : angle, x);
}

double atan2(double y, double x) {
  if (std::isnan(x) || std::isnan(y)) return kNaN;
  double angle;  // of |y| over |x|
  if (y == 0) angle = 0;
  else if (std::isinf(x)) angle = std::isinf(y) ? kPi / 4 : 0;
  else angle = x == 0 || std::isinf(y) ? kPi / 2 : atan(std::fabs(y / x));
  return std::copysign(std::signbit(x) ? kPi - angle : angle, y);
}

double asin(double x) { return std::fabs(x) > 1 ? kNaN : atan(x / std::sqrt((1 - x) * (1 + x))); }
double acos(double x) { return std::fabs(x) > 1 ? kNaN : 2 * atan(std::sqrt((1 - x) / (1 + x))); }

double sinh(double x) {
  const double magnitude = std::fabs(x);
  if (magnitude > 20) {
    const double half = exp(magnitude / 2);  // exp(x) itself may overflow where half of it does not
    return std::copysign(half / 2 * half, x);
  }
  const double e = expm1(magnitude);
  return std::copysign((e + e / (e + 1)) / 2, x);
}
double cosh(double x) {
  const double half = exp(std::fabs(x) / 2), e = half * half;
  return std::fabs(x) > 20 ? half / 2 * half : (e + 1 / e) / 2;
}
double asinh(double x) {
  const double magnitude = std::fabs(x), square = magnitude * magnitude;
  const double value =
      magnitude > 1e8 ? log(magnitude) + kLn2 : log1p(magnitude + square / (1 + std::sqrt(1 + square)));
  return std::copysign(value, x);
}
double acosh(double x) {
  if (x < 1) return kNaN;
  const double above = x - 1;
  return x > 1e8 ? log(x) + kLn2 : log1p(above + std::sqrt(above * (above + 2)));
}
double atanh(double x) {
  const double magnitude = std::fabs(x);
  return std::copysign(0.5 * log1p(2 * magnitude / (1 - magnitude)), x);
}

double exp2(double x) {
  if (!(x > -1100) || x > 1100) return exp(x);  // 0, infinity or NaN alike
  const double k = std::nearbyint(x);
  return std::ldexp(exp((x - k) * kLn2), static_cast<int>(k));
}

double erfc(double x) {
  if (!(x > 2)) return 1 - erf(x);
  if (x > 27) return 0;
  // exp(-x^2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))); x^2 in two parts, the first exact.
  double rest = x;
  for (int n = 80; n >= 1; --n) rest = x + n / 2.0 / rest;
  const double high = std::nearbyint(x * 1024) / 1024;
  return exp(-high * high) * exp((high - x) * (high + x)) / (rest * kSqrtPi);
}

double erfinv(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude <= 1)) return kNaN;
  if (magnitude == 1) return std::copysign(kInfinity, x);
  // Within 0.3 % (Winitzki), then Halley's steps on the side where nothing cancels.
  const double l = log1p(-magnitude * magnitude), a = 0.147, part = 2 / (kPi * a) + l / 2;
  double y = std::sqrt(std::sqrt(part * part - l / a) - part);
  for (int i = 0; i < 3 && y > 0; ++i) {
    const double excess = magnitude < 0.5 ? erf(y) - magnitude : (1 - magnitude) - erfc(y);
    const double step = excess * kSqrtPi / 2 * exp(y * y);
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

double lgamma(double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x) || (x <= 0 && x == std::floor(x))) return kInfinity;
  if (x < 0.5) {
    const double rest = x - std::floor(x);
    return log(kPi / sin(kPi * rest)) - lgamma(1 - x);
  }
  double product = 1;
  for (; x < 12; x += 1) product *= x;
  // Stirling's series.
  const double i = 1 / x, s = i * i;
  const double series =
      i * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188 - s * 691.0 / 360360)))));
  return (x - 0.5) * log(x) - x + 0x1.d67f1c864beb5p-1 + series - log(product);
}

double digamma(double x) {
  if (std::isnan(x)) return x;
  if (x == 0) return std::copysign(kInfinity, -x);
  if (std::isinf(x)) return x > 0 ? x : kNaN;
  if (x < 0) return x == std::floor(x) ? kNaN : digamma(1 - x) - kPi / tan(kPi * (x - std::trunc(x)));
  double sum = 0;
  for (; x < 12; x += 1) sum -= 1 / x;
  const double s = 1 / (x * x);
  const double series =
      s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * 691.0 / 32760)))));
  return sum + log(x) - 0.5 / x - series;
}

double i0(double x) {
  if (!(std::fabs(x) < 720)) return x != x ? x : kInfinity;
  const double quarter = x * x / 4;  // sum of (x^2 / 4)^n / n!^2: all terms are positive
  double term = 1, sum = 1;
  for (int n = 1; term > sum * 1e-17; ++n) sum += term *= quarter / (static_cast<double>(n) * n);
  return sum;
}

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
