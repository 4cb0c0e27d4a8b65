// Float formulas with xsimd's polynomials, in four lanes without fused multiply-add in every build: SSE2 natively,
// SIMD128 in WASM.
#include "kernel/math_xsimd.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <xsimd/xsimd.hpp>

#include "base/parallel.h"
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
constexpr int64_t kStrands = 16;
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

// Sums in the order that kernel/math.h documents.
class RowSum {
 public:
  // Adds f(element) for each of n elements. f of a missing element of the last group is not added.
  template <class F> void add(const float* x, int64_t n, F&& f) {
    int64_t i = 0;
    for (; i + kStrands <= n; i += kStrands) {
      for (int64_t j = 0; j < 4; ++j) strands_[j] += f(V::load_unaligned(x + i + j * kLanes));
    }
    if (i == n) return;
    float rest[kStrands] = {};
    std::copy(x + i, x + n, rest);
    for (int64_t j = 0; j < 4; ++j) f(V::load_unaligned(rest + j * kLanes)).store_unaligned(rest + j * kLanes);
    std::fill(rest + (n - i), rest + kStrands, 0.0f);
    for (int64_t j = 0; j < 4; ++j) strands_[j] += V::load_unaligned(rest + j * kLanes);
  }

  float total() const {
    float lane[kLanes];
    ((strands_[0] + strands_[2]) + (strands_[1] + strands_[3])).store_unaligned(lane);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
  }

 private:
  V strands_[4] = {V(0.0f), V(0.0f), V(0.0f), V(0.0f)};
};

// Calls body(first element of the row) for rows, in threads if they are worth it.
template <class Body> void for_rows(int64_t rows, int64_t columns, Body&& body) {
  parallel_for(rows, std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(columns, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) body(row);
               });
}

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
float sum_f32(const float* x, int64_t n) {
  RowSum sum;
  sum.add(x, n, [](V v) { return v; });
  return sum.total();
}

void layer_norm_f32(const float* x, int64_t rows, int64_t columns, const float* gamma, const float* beta, float eps,
                    float* out, float* mean, float* rstd) {
  for_rows(rows, columns, [&](int64_t row) {
    const float* from = x + row * columns;
    float* to = out + row * columns;
    const float count = static_cast<float>(columns), average = sum_f32(from, columns) / count;
    RowSum squares;
    squares.add(from, columns, [&](V v) { return (v - V(average)) * (v - V(average)); });
    const float factor = 1.0f / std::sqrt(squares.total() / count + eps);
    if (mean) mean[row] = average;
    if (rstd) rstd[row] = factor;
    for (int64_t i = 0; i < columns; ++i) {
      float value = (from[i] - average) * factor;
      if (gamma) value = value * gamma[i];
      if (beta) value = value + beta[i];
      to[i] = value;
    }
  });
}

void rms_norm_f32(const float* x, int64_t rows, int64_t columns, const float* gamma, float eps, float* out) {
  for_rows(rows, columns, [&](int64_t row) {
    const float* from = x + row * columns;
    float* to = out + row * columns;
    RowSum squares;
    squares.add(from, columns, [](V v) { return v * v; });
    const V factor(1.0f / std::sqrt(squares.total() / static_cast<float>(columns) + eps));
    map_range(from, columns, to, [&](V v) { return v * factor; });
    if (gamma == nullptr) return;
    int64_t i = 0;
    for (; i + kLanes <= columns; i += kLanes)
      (V::load_unaligned(to + i) * V::load_unaligned(gamma + i)).store_unaligned(to + i);
    for (; i < columns; ++i) to[i] = to[i] * gamma[i];
  });
}

}  // namespace qdq::kernel
