// Extremes and sums along an axis; vectors run along the results, or along a row whose extreme is wanted.
#include "kernel/order.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/order_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DI = hn::RebindToSigned<D>;

// Numbers are compared as they are, or with the other sign if the smallest is wanted; NaN stays behind `best`.
template <bool largest> HWY_INLINE hn::Mask<D> is_better(V v, V best) {
  return largest ? hn::Gt(v, best) : hn::Lt(v, best);
}

// The first element of a row that is `value`.
int64_t place_of(const float* x, int64_t n, float value) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V wanted = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    if (const intptr_t at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), wanted)); at >= 0) return i + at;
  while (x[i] != value) ++i;
  return i;
}

template <bool largest> int64_t place_in_row(const float* x, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float worst = largest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  V best[4] = {hn::Set(d, worst), hn::Set(d, worst), hn::Set(d, worst), hn::Set(d, worst)};
  auto numbers = hn::Eq(best[0], best[0]);
  const auto take = [&](V v, V& so_far) HWY_ATTR {
    numbers = hn::And(numbers, hn::Eq(v, v));
    so_far = hn::IfThenElse(is_better<largest>(v, so_far), v, so_far);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    for (int64_t j = 0; j < 4; ++j) take(hn::LoadU(d, x + i + j * lanes), best[j]);
  for (; i + lanes <= n; i += lanes) take(hn::LoadU(d, x + i), best[0]);
  for (int64_t j = 1; j < 4; ++j) take(best[j], best[0]);
  float rest[HWY_MAX_LANES_D(D)], extreme = worst;
  hn::StoreU(best[0], d, rest);
  const auto take_one = [&](float v) { extreme = (largest ? v > extreme : v < extreme) ? v : extreme; };
  for (int64_t j = 0; j < lanes; ++j) take_one(rest[j]);
  bool all_numbers = hn::AllTrue(d, numbers);
  for (; i < n; ++i) all_numbers = all_numbers && x[i] == x[i], take_one(x[i]);
  if (all_numbers) return place_of(x, n, extreme);
  return std::find_if(x, x + n, [](float v) { return v != v; }) - x;
}

// The places of the extremes of `width` columns side by side, at most a vector, whose rows are `stride` apart.
template <bool largest>
void places_in_columns(const float* x, int64_t count, int64_t stride, size_t width, int64_t* out) {
  const D d;
  const DI di;
  const auto row = [&](int64_t r) HWY_ATTR {
    return width == hn::Lanes(d) ? hn::LoadU(d, x + r * stride) : hn::LoadN(d, x + r * stride, width);
  };
  V best = row(0);
  auto at = hn::Zero(di);
  for (int64_t r = 1; r < count; ++r) {
    const V v = row(r);
    const auto takes = hn::Or(is_better<largest>(v, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(v)));
    best = hn::IfThenElse(takes, v, best);
    at = hn::IfThenElse(hn::RebindMask(di, takes), hn::Set(di, static_cast<int32_t>(r)), at);
  }
  int32_t places[HWY_MAX_LANES_D(DI)];
  hn::StoreU(at, di, places);
  std::copy_n(places, width, out);
}

template <bool largest> void places(const float* x, int64_t count, int64_t inner, int64_t* out) {
  if (inner == 1) {
    *out = place_in_row<largest>(x, count);
    return;
  }
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t j = 0; j < inner; j += lanes)
    places_in_columns<largest>(x + j, count, inner, static_cast<size_t>(std::min(lanes, inner - j)), out + j);
}
void largest_places(const float* x, int64_t count, int64_t inner, int64_t* out) { places<true>(x, count, inner, out); }
void smallest_places(const float* x, int64_t count, int64_t inner, int64_t* out) {
  places<false>(x, count, inner, out);
}

// A row of results from the row before, whose sums are in double.
void add_row(const float* x, int64_t n, double* sums, float* out) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto sum = hn::Add(hn::LoadU(d, sums + i), hn::PromoteTo(d, hn::LoadU(df, x + i)));
    hn::StoreU(sum, d, sums + i);
    hn::StoreU(hn::DemoteTo(df, sum), df, out + i);
  }
  for (; i < n; ++i) out[i] = static_cast<float>(sums[i] += static_cast<double>(x[i]));
}

void order_keys(const float* x, int64_t n, bool flips, int32_t* keys) {
  const D d;
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto turn = hn::Set(di, flips ? -1 : 0), most = hn::Set(di, std::numeric_limits<int32_t>::max());
  const auto key = [&](V v) HWY_ATTR {
    const auto bits = hn::BitCast(di, hn::Add(v, hn::Zero(d)));  // makes -0 0
    const auto number = hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), most));
    return hn::Xor(hn::IfThenElse(hn::RebindMask(di, hn::Eq(v, v)), number, most), turn);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(key(hn::LoadU(d, x + i)), di, keys + i);
  const auto rest = static_cast<size_t>(n - i);
  if (rest > 0) hn::StoreN(key(hn::LoadN(d, x + i, rest)), di, keys + i, rest);
}

int64_t first_below(const int32_t* keys, int64_t begin, int64_t n, int32_t limit) {
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di));
  const auto least = hn::Set(di, limit);
  int64_t i = begin;
  for (; i + lanes <= n; i += lanes)
    if (const intptr_t at = hn::FindFirstTrue(di, hn::Lt(hn::LoadU(di, keys + i), least)); at >= 0) return i + at;
  while (i < n && keys[i] >= limit) ++i;
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(largest_places);
HWY_EXPORT(smallest_places);
HWY_EXPORT(add_row);
HWY_EXPORT(order_keys);
HWY_EXPORT(first_below);

int64_t grain(int64_t elements) { return std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(elements, 1)); }

// The sums along up to kTogether rows, of which the next of one waits for the one before. Stretches of them are copied
// side by side, or rows a power of two apart would push each other out of the caches.
constexpr int64_t kTogether = 8;
void sum_rows_up(const float* x, int64_t rows, int64_t count, float* out) {
  constexpr int64_t kStretch = 64;
  double sums[kTogether] = {};
  float stretch[kStretch][kTogether] = {};
  for (int64_t begin = 0; begin < count; begin += kStretch) {
    const int64_t n = std::min(kStretch, count - begin);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < n; ++i) stretch[i][r] = x[r * count + begin + i];
    for (int64_t i = 0; i < n; ++i)
      for (int64_t r = 0; r < kTogether; ++r)
        stretch[i][r] = static_cast<float>(sums[r] += static_cast<double>(stretch[i][r]));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < n; ++i) out[r * count + begin + i] = stretch[i][r];
  }
}

}  // namespace

void extreme_places_f32(const float* x, int64_t outer, int64_t count, int64_t inner, bool largest, int64_t* out) {
  const auto run = largest ? QDQ_CHOSEN(largest_places) : QDQ_CHOSEN(smallest_places);
  parallel_for(outer, grain(count * inner), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(x + i * count * inner, count, inner, out + i * inner);
  });
}

void order_keys_f32(const float* x, int64_t n, bool flips, int32_t* keys) {
  HWY_DYNAMIC_DISPATCH(order_keys)(x, n, flips, keys);
}
int64_t find_below(const int32_t* keys, int64_t begin, int64_t n, int32_t limit) {
  return HWY_DYNAMIC_DISPATCH(first_below)(keys, begin, n, limit);
}

void cumulative_sums_f32(const float* x, int64_t outer, int64_t count, int64_t inner, float* out) {
  const auto run = QDQ_CHOSEN(add_row);
  if (inner == 1)
    return parallel_for((outer + kTogether - 1) / kTogether, grain(count * kTogether), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin * kTogether; r < std::min(end * kTogether, outer); r += kTogether)
        sum_rows_up(x + r * count, std::min(kTogether, outer - r), count, out + r * count);
    });
  parallel_for(outer, grain(count * inner), [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(inner));
    for (int64_t i = begin * count; i < end * count; ++i) {
      if (i % count == 0) std::fill(sums.begin(), sums.end(), 0.0);
      run(x + i * inner, inner, sums.data(), out + i * inner);
    }
  });
}

}  // namespace qdq::kernel
#endif
