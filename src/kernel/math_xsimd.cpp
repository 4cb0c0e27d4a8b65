// Float formulas with xsimd's polynomials, in four lanes without fused multiply-add in every build: SSE2 natively,
// SIMD128 in WASM.
#include "kernel/math_xsimd.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <xsimd/xsimd.hpp>

#include "kernel/math.h"

namespace qdq::kernel {
namespace {

#if defined(__wasm_simd128__)
using Arch = xsimd::wasm;
#else
using Arch = xsimd::sse2;
#endif
using V = xsimd::batch<float, Arch>;
constexpr int64_t kLanes = 4;
static_assert(V::size == kLanes);

// Calls f on every four elements; the rest goes through a vector too, so that an element's place does not change its
// value.
template <class F> void map_range(const float* x, int64_t n, float* out, F&& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(V::load_unaligned(x + i)).store_unaligned(out + i);
  if (i < n) {
    float rest[kLanes] = {};
    std::copy(x + i, x + n, rest);
    f(V::load_unaligned(rest)).store_unaligned(rest);
    std::copy(rest, rest + (n - i), out + i);
  }
}

// xsimd gives infinity from 88.38 on, where e^x is still finite up to 88.72.
V exp_full(V x) {
  const auto high = x > V(88.0f);
  const V value = xsimd::exp(xsimd::select(high, x - V(0.693359375f), x));
  return xsimd::select(high, value * V(2.0004244340270536f), value);
}

V sigmoid(V x) { return V(1.0f) / (V(1.0f) + exp_full(-x)); }

}  // namespace

float sine(float value, int64_t quadrant) {
  const double x = value;
  if (!(std::fabs(value) <= kMostSineArgument))
    return std::isfinite(x) ? sine(static_cast<float>(std::fmod(x, 6.283185307179586)), quadrant) : NAN;
  const double turns = std::nearbyint(x * kQuarterTurns);
  const double r = (x - turns * kQuarterTurn) - turns * kQuarterRest;
  const double s = r * r;
  const int64_t turn = (static_cast<int64_t>(turns) + quadrant) & 3;
  const auto series = [&](const auto& factors, double divisor) {
    double y = s / divisor;
    for (size_t i = std::size(factors); i-- > 0;) y = s * (factors[i] + y);
    return 1 + y;
  };
  const double y = turn % 2 == 0 ? r * series(kSineSeries, kSineDivisor) : series(kCosineSeries, kCosineDivisor);
  return static_cast<float>(turn >= 2 ? -y : y);
}

void four_lanes::exp_f32(const float* x, int64_t n, float* out) { map_range(x, n, out, exp_full); }
void four_lanes::sigmoid_f32(const float* x, int64_t n, float* out) { map_range(x, n, out, sigmoid); }
void four_lanes::silu_f32(const float* x, int64_t n, float* out) {
  map_range(x, n, out, [](V v) { return v / (V(1.0f) + exp_full(-v)); });
}
}  // namespace qdq::kernel
