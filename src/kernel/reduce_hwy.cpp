// Sums and extremes of rows, and the norms made of them, in vectors of any width: several rows at a time, so that a
// sum need not wait for itself. The order of sums is that of kernel/math.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernel/math.h"
#include "kernel/order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/reduce_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A group of 16 elements, one of each strand, is as many vectors as that takes.
constexpr int64_t kStrands = 16;
using D = hn::CappedTag<float, kStrands>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = HWY_MAX_LANES_D(D);
constexpr size_t kVectors = kStrands / HWY_MAX_LANES_D(D);
constexpr size_t kRowsAtOnce = 4 / kVectors;

// out[r] = the sum of f(r, element) over the n elements of row r, `stride` elements behind the row before.
template <size_t kRows, class F> HWY_INLINE void add_up(const float* x, int64_t stride, int64_t n, float* out, F&& f) {
  const D d;
  V strands[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r)
    for (size_t j = 0; j < kVectors; ++j) strands[r][j] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStrands <= n; i += kStrands)
    for (size_t r = 0; r < kRows; ++r)
      for (size_t j = 0; j < kVectors; ++j) {
        const float* at = x + static_cast<int64_t>(r) * stride + i + static_cast<int64_t>(j) * kLanes;
        strands[r][j] = hn::Add(strands[r][j], f(r, hn::LoadU(d, at)));
      }
  for (size_t r = 0; r < kRows; ++r) {
    const float* row = x + static_cast<int64_t>(r) * stride;
    for (size_t j = 0; j < kVectors; ++j) {
      const int64_t at = i + static_cast<int64_t>(j) * kLanes;
      if (at >= n) break;
      const auto count = static_cast<size_t>(std::min(kLanes, n - at));
      const V term = f(r, hn::LoadN(d, row + at, count));
      strands[r][j] = hn::Add(strands[r][j], hn::IfThenElseZero(hn::FirstN(d, count), term));
    }
    float sums[kStrands];
    for (size_t j = 0; j < kVectors; ++j) hn::StoreU(strands[r][j], d, sums + static_cast<int64_t>(j) * kLanes);
    for (int64_t half = kStrands / 2; half > 0; half /= 2)
      for (int64_t j = 0; j < half; ++j) sums[j] += sums[j + half];
    out[r] = sums[0];
  }
}

// Calls run(first row, constant number of rows) on all rows.
template <class Run> HWY_INLINE void in_groups(int64_t rows, Run&& run) {
  constexpr auto kTogether = static_cast<int64_t>(kRowsAtOnce);
  int64_t r = 0;
  for (; r + kTogether <= rows; r += kTogether) run(r, std::integral_constant<size_t, kRowsAtOnce>());
  for (; r < rows; ++r) run(r, std::integral_constant<size_t, 1>());
}

void sum_rows(const float* x, int64_t rows, int64_t n, float* out) {
  in_groups(rows, [&](int64_t r, auto count) HWY_ATTR {
    add_up<decltype(count)::value>(x + r * n, n, n, out + r, [](size_t, V v) HWY_ATTR { return v; });
  });
}

// f(elements, their place, how many) of every vector of a row; stored to `to`.
template <class F> HWY_INLINE void map_row(const float* from, int64_t n, float* to, F&& f) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(f(hn::LoadU(d, from + i), [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, to + i);
  if (i == n) return;
  const auto rest = static_cast<size_t>(n - i);
  const auto load = [&](const float* p) HWY_ATTR { return hn::LoadN(d, p + i, rest); };
  hn::StoreN(f(load(from), load), d, to + i, rest);
}

void layer_norm(const float* x, int64_t rows, int64_t n, const float* gamma, const float* beta, float eps, float* out,
                float* mean, float* rstd) {
  const D d;
  const auto size = static_cast<float>(n);
  in_groups(rows, [&](int64_t first, auto count) HWY_ATTR {
    constexpr size_t kRows = decltype(count)::value;
    float averages[kRows], squares[kRows];
    add_up<kRows>(x + first * n, n, n, averages, [](size_t, V v) HWY_ATTR { return v; });
    V shift[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      averages[r] /= size;
      shift[r] = hn::Set(d, averages[r]);
    }
    add_up<kRows>(x + first * n, n, n, squares, [&](size_t r, V v) HWY_ATTR {
      const V apart = hn::Sub(v, shift[r]);
      return hn::Mul(apart, apart);
    });
    for (size_t r = 0; r < kRows; ++r) {
      const float factor = 1.0f / std::sqrt(squares[r] / size + eps);
      const int64_t row = first + static_cast<int64_t>(r);
      if (mean != nullptr) mean[row] = averages[r];
      if (rstd != nullptr) rstd[row] = factor;
      const V scale = hn::Set(d, factor);
      map_row(x + row * n, n, out + row * n, [&](V v, auto load) HWY_ATTR {
        v = hn::Mul(hn::Sub(v, shift[r]), scale);
        if (gamma != nullptr) v = hn::Mul(v, load(gamma));
        return beta != nullptr ? hn::Add(v, load(beta)) : v;
      });
    }
  });
}

void rms_norm(const float* x, int64_t rows, int64_t n, const float* gamma, float eps, float* out) {
  const D d;
  in_groups(rows, [&](int64_t first, auto count) HWY_ATTR {
    constexpr size_t kRows = decltype(count)::value;
    float squares[kRows];
    add_up<kRows>(x + first * n, n, n, squares, [](size_t, V v) HWY_ATTR { return hn::Mul(v, v); });
    for (size_t r = 0; r < kRows; ++r) {
      const V scale = hn::Set(d, 1.0f / std::sqrt(squares[r] / static_cast<float>(n) + eps));
      const int64_t row = first + static_cast<int64_t>(r);
      map_row(x + row * n, n, out + row * n, [&](V v, auto load) HWY_ATTR {
        v = hn::Mul(v, scale);
        return gamma != nullptr ? hn::Mul(v, load(gamma)) : v;
      });
    }
  });
}

// Which of two zeros it is, and NaN, is left to the caller. A row of few elements goes one by one, else four vectors at
// a time.
template <class Choose> HWY_INLINE bool extreme(const float* x, int64_t n, float first, float* out, Choose&& choose) {
  const D d;
  if (n < kLanes) {
    float most = x[0];
    bool is_number = most == most;
    for (int64_t i = 1; i < n; ++i) {
      most = (first < 0 ? x[i] > most : x[i] < most) ? x[i] : most;
      is_number = is_number && x[i] == x[i];
    }
    *out = most;
    return most != 0 && is_number;
  }
  V most[4] = {hn::Set(d, first), hn::Set(d, first), hn::Set(d, first), hn::Set(d, first)};
  auto is_nan = hn::IsNaN(most[0]);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int64_t j = 0; j < 4; ++j) {
      const V v = hn::LoadU(d, x + i + j * kLanes);
      is_nan = hn::Or(is_nan, hn::IsNaN(v));
      most[j] = choose(most[j], v);
    }
  for (; i < n; i += kLanes) {
    const auto count = static_cast<size_t>(std::min(kLanes, n - i));
    const V v = hn::IfThenElse(hn::FirstN(d, count), hn::LoadN(d, x + i, count), most[0]);
    is_nan = hn::Or(is_nan, hn::IsNaN(v));
    most[0] = choose(most[0], v);
  }
  const V found = choose(choose(most[0], most[1]), choose(most[2], most[3]));
  *out = first < 0 ? hn::ReduceMax(d, found) : hn::ReduceMin(d, found);
  return *out != 0 && hn::AllFalse(d, is_nan);
}

bool largest(const float* x, int64_t n, float* out) {
  return extreme(x, n, -std::numeric_limits<float>::infinity(), out,
                 [](V a, V b) HWY_ATTR { return hn::IfThenElse(hn::Gt(b, a), b, a); });
}
bool smallest(const float* x, int64_t n, float* out) {
  return extreme(x, n, std::numeric_limits<float>::infinity(), out,
                 [](V a, V b) HWY_ATTR { return hn::IfThenElse(hn::Lt(b, a), b, a); });
}

using DD = hn::CappedTag<double, 8>;
constexpr auto kDoubles = static_cast<int64_t>(HWY_MAX_LANES_D(DD));

// out[i] = the sum over k ascending of |x[k * inner + i]| in double.
template <size_t kTogether> HWY_INLINE void add_magnitudes(const float* x, int64_t count, int64_t inner, float* out) {
  const DD d;
  const hn::Rebind<float, DD> floats;
  hn::Vec<DD> sums[kTogether];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (int64_t k = 0; k < count; ++k)
    for (size_t j = 0; j < kTogether; ++j) {
      const float* at = x + k * inner + static_cast<int64_t>(j) * kDoubles;
      sums[j] = hn::Add(sums[j], hn::PromoteTo(d, hn::Abs(hn::LoadU(floats, at))));
    }
  for (size_t j = 0; j < kTogether; ++j)
    hn::StoreU(hn::DemoteTo(floats, sums[j]), floats, out + static_cast<int64_t>(j) * kDoubles);
}
void sum_magnitudes(const float* x, int64_t count, int64_t inner, float* out) {
  int64_t i = 0;
  for (; i + 4 * kDoubles <= inner; i += 4 * kDoubles) add_magnitudes<4>(x + i, count, inner, out + i);
  for (; i + kDoubles <= inner; i += kDoubles) add_magnitudes<1>(x + i, count, inner, out + i);
  for (; i < inner; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += std::fabs(static_cast<double>(x[k * inner + i]));
    out[i] = static_cast<float>(sum);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(sum_rows);
HWY_EXPORT(layer_norm);
HWY_EXPORT(rms_norm);
HWY_EXPORT(largest);
HWY_EXPORT(smallest);
HWY_EXPORT(sum_magnitudes);

// Calls run(first row, rows) on ranges worth a thread.
template <class Run> void for_rows(int64_t rows, int64_t columns, Run&& run) {
  parallel_for(rows, std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(columns, 1)),
               [&](int64_t begin, int64_t end) { run(begin, end - begin); });
}

// Of rows, `kRows` at a time, so that a sum need not wait for itself.
template <int64_t kRows> void magnitudes_of_rows(const float* x, int64_t n, float* out) {
  double sums[kRows] = {};
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < kRows; ++r) sums[r] += std::fabs(static_cast<double>(x[r * n + k]));
  for (int64_t r = 0; r < kRows; ++r) out[r] = static_cast<float>(sums[r]);
}

}  // namespace

float sum_f32(const float* x, int64_t n) {
  float out = 0;
  HWY_DYNAMIC_DISPATCH(sum_rows)(x, 1, n, &out);
  return out;
}

void sum_rows_f32(const float* x, int64_t rows, int64_t columns, float* out) {
  for_rows(rows, columns, [&](int64_t row, int64_t count) {
    HWY_DYNAMIC_DISPATCH(sum_rows)(x + row * columns, count, columns, out + row);
  });
}

void sum_magnitudes_f32(const float* x, int64_t outer, int64_t count, int64_t inner, float* out) {
  for_rows(outer, count * inner, [&](int64_t first, int64_t rows) {
    const int64_t end = first + rows;
    int64_t o = first;
    for (; inner == 1 && o + 8 <= end; o += 8) magnitudes_of_rows<8>(x + o * count, count, out + o);
    for (; o < end; ++o) HWY_DYNAMIC_DISPATCH(sum_magnitudes)(x + o * count * inner, count, inner, out + o * inner);
  });
}

void layer_norm_f32(const float* x, int64_t rows, int64_t columns, const float* gamma, const float* beta, float eps,
                    float* out, float* mean, float* rstd) {
  for_rows(rows, columns, [&](int64_t row, int64_t count) {
    HWY_DYNAMIC_DISPATCH(layer_norm)
    (x + row * columns, count, columns, gamma, beta, eps, out + row * columns, mean == nullptr ? nullptr : mean + row,
     rstd == nullptr ? nullptr : rstd + row);
  });
}

void rms_norm_f32(const float* x, int64_t rows, int64_t columns, const float* gamma, float eps, float* out) {
  for_rows(rows, columns, [&](int64_t row, int64_t count) {
    HWY_DYNAMIC_DISPATCH(rms_norm)(x + row * columns, count, columns, gamma, eps, out + row * columns);
  });
}

bool extreme_f32(const float* x, int64_t n, bool is_largest, float* out) {
  return is_largest ? HWY_DYNAMIC_DISPATCH(largest)(x, n, out) : HWY_DYNAMIC_DISPATCH(smallest)(x, n, out);
}

}  // namespace qdq::kernel
#endif
