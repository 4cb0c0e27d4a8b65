// The exponential and what is made of it, of arrays, in vectors of any width: the bits of kernel/math.h's four lanes.
#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "kernel/math.h"
#include "kernel/math_xsimd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/curve_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/curve_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

bool in_range(const float* x, int64_t n, float range) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V most = hn::Set(d, range);
  auto inside = hn::Le(most, most);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) inside = hn::And(inside, hn::Le(hn::Abs(hn::LoadU(d, x + i)), most));
  if (i < n) inside = hn::And(inside, hn::Le(hn::Abs(hn::LoadN(d, x + i, static_cast<size_t>(n - i))), most));
  return hn::AllTrue(d, inside);
}

// A run that holds an argument beyond the range, or NaN, is left to `rare`.
template <class F>
HWY_INLINE void map(const float* x, int64_t n, float* out, void (*rare)(const float*, int64_t, float*), F&& f) {
  const D d;
  constexpr int64_t kRun = 1024;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; n > 0; n -= kRun, x += kRun, out += kRun) {
    const int64_t run = std::min(n, kRun);
    if (!in_range(x, run, kExpRange)) {
      rare(x, run, out);
      continue;
    }
    int64_t i = 0;
    for (; i + lanes <= run; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, out + i);
    if (i < run)
      hn::StoreN(f(hn::LoadN(d, x + i, static_cast<size_t>(run - i))), d, out + i, static_cast<size_t>(run - i));
  }
}

void exp(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, four_lanes::exp_f32, [&](V v) HWY_ATTR { return exp_of_minus(D(), c, hn::Neg(v)); });
}
void sigmoid(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, four_lanes::sigmoid_f32, [&](V v) HWY_ATTR { return sigmoid_real(D(), c, v); });
}
void silu(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, four_lanes::silu_f32, [&](V v) HWY_ATTR { return silu_real(D(), c, v); });
}

// Softmax of a row. Its sum has 16 strands (kernel/math.h): a group of 16 elements is as many vectors as that takes.
constexpr int64_t kStrands = 16;
using DG = hn::CappedTag<float, kStrands>;
using VG = hn::Vec<DG>;
constexpr size_t kGroupVectors = kStrands / HWY_MAX_LANES_D(DG);
constexpr int64_t kGroupLanes = HWY_MAX_LANES_D(DG);
constexpr int64_t lanes_before(size_t vector) { return static_cast<int64_t>(vector) * kGroupLanes; }

// NaN is passed over; it comes back through the sum.
float largest(const float* x, int64_t n) {
  const DG d;
  const VG least = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto larger = [](VG a, VG b) HWY_ATTR { return hn::IfThenElse(hn::Gt(a, b), a, b); };
  VG most[4] = {least, least, least, least};
  int64_t i = 0;
  for (; i + 4 * kGroupLanes <= n; i += 4 * kGroupLanes)
    for (int64_t j = 0; j < 4; ++j) most[j] = larger(hn::LoadU(d, x + i + j * kGroupLanes), most[j]);
  for (; i + kGroupLanes <= n; i += kGroupLanes) most[0] = larger(hn::LoadU(d, x + i), most[0]);
  if (i < n) most[1] = larger(hn::LoadNOr(least, d, x + i, static_cast<size_t>(n - i)), most[1]);
  return hn::ReduceMax(d, larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

// exp(x - max) of 16 elements. Arguments from -kNormal on have normal results, those below -kGone give 0; what lies
// between, and NaN, is left to four lanes.
HWY_INLINE void exp_of_group(const float* c, float max, VG (&x)[kGroupVectors]) {
  constexpr float kNormal = 87.3f, kGone = 88.5f;
  const DG d;
  const VG most = hn::Set(d, max), normal = hn::Set(d, kNormal), gone = hn::Set(d, kGone);
  auto usual = hn::Le(normal, normal);
  VG e[kGroupVectors];
  for (size_t j = 0; j < kGroupVectors; ++j) {
    const VG y = hn::Sub(most, x[j]);
    const auto vanishes = hn::Gt(y, gone);
    usual = hn::And(usual, hn::Or(vanishes, hn::Le(y, normal)));
    e[j] = hn::IfThenZeroElse(vanishes, exp_of_minus(d, c, y));
  }
  if (HWY_UNLIKELY(!hn::AllTrue(d, usual))) {
    float values[kStrands];
    for (size_t j = 0; j < kGroupVectors; ++j) hn::StoreU(hn::Sub(x[j], most), d, values + lanes_before(j));
    four_lanes::exp_f32(values, kStrands, values);
    for (size_t j = 0; j < kGroupVectors; ++j) e[j] = hn::LoadU(d, values + lanes_before(j));
  }
  for (size_t j = 0; j < kGroupVectors; ++j) x[j] = e[j];
}

// The sum of exp(x - max) over a row, whose largest element is max; the terms go to out if it is not null.
float sum_of_exps(const float* x, int64_t n, float max, float* out) {
  const DG d;
  const float* c = hidden(kExpConstants);
  VG strands[kGroupVectors], e[kGroupVectors];
  for (VG& strand : strands) strand = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStrands <= n; i += kStrands) {
    for (size_t j = 0; j < kGroupVectors; ++j) e[j] = hn::LoadU(d, x + i + lanes_before(j));
    exp_of_group(c, max, e);
    for (size_t j = 0; j < kGroupVectors; ++j) {
      if (out != nullptr) hn::StoreU(e[j], d, out + i + lanes_before(j));
      strands[j] = hn::Add(strands[j], e[j]);
    }
  }
  if (i < n) {
    // Of the last group's j-th vector.
    const auto left = [&](size_t j) { return static_cast<size_t>(std::max<int64_t>(0, n - i - lanes_before(j))); };
    for (size_t j = 0; j < kGroupVectors; ++j)
      e[j] = left(j) == 0 ? hn::Set(d, max) : hn::LoadNOr(hn::Set(d, max), d, x + i + lanes_before(j), left(j));
    exp_of_group(c, max, e);
    for (size_t j = 0; j < kGroupVectors && left(j) > 0; ++j) {
      e[j] = hn::IfThenElseZero(hn::FirstN(d, left(j)), e[j]);
      if (out != nullptr) hn::StoreN(e[j], d, out + i + lanes_before(j), left(j));
      strands[j] = hn::Add(strands[j], e[j]);
    }
  }
  float sums[kStrands];
  for (size_t j = 0; j < kGroupVectors; ++j) hn::StoreU(strands[j], d, sums + lanes_before(j));
  for (int64_t half = kStrands / 2; half > 0; half /= 2)
    for (int64_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

void softmax(const float* x, int64_t n, float* out) {
  const DG d;
  const VG sum = hn::Set(d, sum_of_exps(x, n, largest(x, n), out));
  int64_t i = 0;
  for (; i + kGroupLanes <= n; i += kGroupLanes) hn::StoreU(hn::Div(hn::LoadU(d, out + i), sum), d, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(hn::Div(hn::LoadN(d, out + i, rest), sum), d, out + i, rest);
}

void log_softmax(const float* x, int64_t n, float* out) {
  const DG d;
  const float max = largest(x, n);
  float log = sum_of_exps(x, n, max, nullptr);
  log_f32(&log, 1, &log);
  const VG most = hn::Set(d, max), less = hn::Set(d, log);
  int64_t i = 0;
  for (; i + kGroupLanes <= n; i += kGroupLanes)
    hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), most), less), d, out + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(hn::Sub(hn::Sub(hn::LoadN(d, x + i, rest), most), less), d, out + i, rest);
}

// An infinite largest element is the result, but for NaN beside it.
void logsumexp(const float* x, int64_t n, float* out) {
  const float max = largest(x, n);
  if (max - max != 0) {
    *out = max;
    for (int64_t i = 0; i < n; ++i)
      if (x[i] != x[i]) *out = x[i];
    return;
  }
  *out = sum_of_exps(x, n, max, nullptr);
  log_f32(out, 1, out);
  *out += max;
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(exp);
HWY_EXPORT(sigmoid);
HWY_EXPORT(silu);
HWY_EXPORT(softmax);
HWY_EXPORT(log_softmax);
HWY_EXPORT(logsumexp);

template <class Run> void in_threads(const float* x, int64_t n, float* out, Run run) {
  parallel_for(n, int64_t{1} << 14, [&](int64_t begin, int64_t end) { run(x + begin, end - begin, out + begin); });
}

// Runs over rows, each of which gives `results` elements.
template <class Run>
void over_rows(const float* x, int64_t rows, int64_t columns, float* out, int64_t results, Run run) {
  parallel_for(rows, std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(columns, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) run(x + row * columns, columns, out + row * results);
               });
}

}  // namespace

void exp_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(exp)); }
void sigmoid_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(sigmoid)); }
void silu_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, QDQ_CHOSEN(silu)); }

void softmax_f32(const float* x, int64_t rows, int64_t columns, float* out) {
  over_rows(x, rows, columns, out, columns, QDQ_CHOSEN(softmax));
}
void log_softmax_f32(const float* x, int64_t rows, int64_t columns, float* out) {
  over_rows(x, rows, columns, out, columns, QDQ_CHOSEN(log_softmax));
}
void logsumexp_f32(const float* x, int64_t rows, int64_t columns, float* out) {
  over_rows(x, rows, columns, out, 1, QDQ_CHOSEN(logsumexp));
}

}  // namespace qdq::kernel
#endif
