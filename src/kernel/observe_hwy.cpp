// Ranges and histograms of float arrays in vectors. Minima, maxima and counts do not depend on the order they are taken
// in.
#include "kernel/observe.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <vector>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/observe_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// The tables that neighbouring elements count into, in turn: a bin met twice in a row must not wait for its own store.
#ifndef QDQ_KERNEL_HISTOGRAM_TABLES
#define QDQ_KERNEL_HISTOGRAM_TABLES
namespace qdq::kernel {
inline constexpr size_t kTables = 4;
// Bins between lo and hi, where all elements are or not; and bins of a width that is a power of two around zero.
enum class BinsOf { kInside, kAnywhere, kMultiples };
struct Binning {
  float lo, hi;   // kMultiples: not looked at
  float inverse;  // kMultiples: 1 / width
  int64_t bins;
};
}  // namespace qdq::kernel
#endif

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

MinMax min_max_run(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto min0 = hn::Set(d, std::numeric_limits<float>::infinity()), min1 = min0, min2 = min0, min3 = min0;
  auto max0 = hn::Neg(min0), max1 = max0, max2 = max0, max3 = max0;
  // A sum with a NaN in it is NaN, and adding is quicker than asking each; others may be, too: inf - inf.
  auto sum0 = hn::Zero(d), sum1 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes);
    const auto c = hn::LoadU(d, x + i + 2 * lanes), e = hn::LoadU(d, x + i + 3 * lanes);
    min0 = hn::Min(min0, a), min1 = hn::Min(min1, b), min2 = hn::Min(min2, c), min3 = hn::Min(min3, e);
    max0 = hn::Max(max0, a), max1 = hn::Max(max1, b), max2 = hn::Max(max2, c), max3 = hn::Max(max3, e);
    sum0 = hn::Add(sum0, hn::Add(a, b));
    sum1 = hn::Add(sum1, hn::Add(c, e));
  }
  bool has_nan =
      !hn::AllFalse(d, hn::IsNaN(hn::Add(sum0, sum1))) && std::any_of(x, x + i, [](float v) { return v != v; });
  float min = hn::ReduceMin(d, hn::Min(hn::Min(min0, min1), hn::Min(min2, min3)));
  float max = hn::ReduceMax(d, hn::Max(hn::Max(max0, max1), hn::Max(max2, max3)));
  for (; i < n; ++i) {
    has_nan = has_nan || x[i] != x[i];
    min = x[i] < min ? x[i] : min;
    max = x[i] > max ? x[i] : max;
  }
  const float quiet = std::numeric_limits<float>::quiet_NaN();
  // Which of -0 and +0 is met first depends on the width of a vector; adding +0 makes both +0.
  return has_nan ? MinMax{quiet, quiet, true} : MinMax{min + 0.0f, max + 0.0f, false};
}

// min and max take a row of as many channels in.
void min_max_columns(const float* x, int64_t n, float* min, float* max) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    // The zero that is added turns -0 into +0, and keeps a NaN that must stay.
    const auto v = hn::Add(hn::LoadU(d, x + i), hn::Zero(d));
    const auto lo = hn::LoadU(d, min + i), hi = hn::LoadU(d, max + i);
    hn::StoreU(hn::IfThenElse(hn::Or(hn::Lt(v, lo), hn::IsNaN(v)), v, lo), d, min + i);
    hn::StoreU(hn::IfThenElse(hn::Or(hn::Gt(v, hi), hn::IsNaN(v)), v, hi), d, max + i);
  }
  for (; i < n; ++i) {
    const float v = x[i] + 0.0f;
    if (v < min[i] || v != v) min[i] = v;
    if (v > max[i] || v != v) max[i] = v;
  }
}

// Adds to kTables tables of stride elements each; the slot `bins` takes what is to be skipped. Where all elements lie
// inside, none is looked at twice.
template <BinsOf kBins>  // NOLINTNEXTLINE(readability-function-size): one loop, unrolled by hand
void histogram_run(const float* x, int64_t n, const Binning& how, uint32_t* tables, size_t stride) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  const int64_t bins = how.bins;
  const auto high = hn::Set(d, how.hi), all = hn::Set(d, static_cast<float>(bins));
  const auto width = hn::Set(d, how.hi - how.lo), last = hn::Set(d, static_cast<float>(bins - 1));
  const auto inverse = hn::Set(d, how.inverse), half = hn::Set(d, static_cast<float>(bins / 2));
  // The value that is met most often, the least one of a relu, and its bin.
  const auto low = hn::Set(d, kBins == BinsOf::kMultiples ? 0.0f : how.lo);
  const size_t bin_of_low = kBins == BinsOf::kMultiples ? static_cast<size_t>(bins / 2) : 0;
  // The low bits of a whole number from 0 on that this was added to are that number: the quickest conversion where
  // engines must saturate.
  const auto rounder = hn::Set(d, 8388608.0f);
  const auto bin_of = [&](auto v) HWY_ATTR {
    auto position = hn::Zero(d);
    if constexpr (kBins == BinsOf::kMultiples) {
      // Exact but for products below the least float, which end as -0 or 0: what is below zero is in a bin below zero.
      const auto whole = hn::Floor(hn::Mul(v, inverse));
      const auto below = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Min(whole, hn::Set(d, -1.0f)), whole);
      position = hn::Max(hn::Min(hn::Add(below, half), last), hn::Zero(d));
    } else {
      position = hn::Min(hn::Div(hn::Mul(hn::Sub(v, low), all), width), last);
      // Not below 0, so that a caller's mistake stays within the tables.
      if constexpr (kBins == BinsOf::kInside) position = hn::Max(position, hn::Zero(d));
      else position = hn::IfThenElse(hn::And(hn::Ge(v, low), hn::Le(v, high)), position, all);
    }
    return hn::Xor(hn::BitCast(di, hn::Add(hn::Floor(position), rounder)), hn::BitCast(di, rounder));
  };
  constexpr size_t kChunk = 256, kAhead = 1024;
  HWY_ALIGN int32_t index[kChunk + HWY_MAX_LANES_D(decltype(di))];
  uint32_t* table[kTables];
  for (size_t t = 0; t < kTables; ++t) table[t] = tables + t * stride;
  const auto count = [&](size_t at) HWY_ATTR {
#pragma GCC unroll 8
    for (size_t t = 0; t < kTables; ++t) ++table[t][index[at + t]];
  };
  while (n > 0) {
    const size_t chunk = static_cast<size_t>(std::min<int64_t>(n, kChunk));
    // While the tables are counted into nothing is read, so what comes later is asked for.
    for (size_t ahead = 0; ahead < chunk; ahead += 16) __builtin_prefetch(x + kAhead + ahead, 0, 2);
    size_t i = 0, found = 0, counted = 0;
    if constexpr (HWY_MAX_LANES_D(decltype(d)) > 4) {
      for (; i + lanes <= chunk; i += lanes) {
        const auto v = hn::LoadU(d, x + i);
        // Half of what a relu gives is the least value, and a table would be waited for at each of them: they are
        // counted here.
        const auto above = hn::Not(hn::Eq(v, low));  // a NaN, too, has a place of its own
        hn::StoreU(hn::Compress(bin_of(v), hn::RebindMask(di, above)), di, index + found);
        found += hn::CountTrue(d, above);
      }
    } else {
      // Bins and counts keep different parts of the processor busy: while some elements are counted, those kLead behind
      // them are placed.
      constexpr size_t kLead = 32;
      for (; i + lanes <= chunk; i += lanes) {
        hn::Store(bin_of(hn::LoadU(d, x + i)), di, index + i);
        if (i < kLead) continue;
        count(counted);
        counted += kTables;
      }
      found = i;
    }
    table[0][bin_of_low] += static_cast<uint32_t>(i - found);
    if (i < chunk) {
      HWY_ALIGN float rest[HWY_MAX_LANES_D(decltype(d))] = {};
      std::copy(x + i, x + chunk, rest);
      HWY_ALIGN int32_t rest_index[HWY_MAX_LANES_D(decltype(d))];
      hn::Store(bin_of(hn::Load(d, rest)), di, rest_index);
      std::copy(rest_index, rest_index + (chunk - i), index + found);
      found += chunk - i;
    }
    for (; counted + kTables <= found; counted += kTables) count(counted);
    for (; counted < found; ++counted) ++table[0][index[counted]];
    x += chunk;
    n -= static_cast<int64_t>(chunk);
  }
}

void histogram_inside(const float* x, int64_t n, const Binning& how, uint32_t* tables, size_t stride) {
  histogram_run<BinsOf::kInside>(x, n, how, tables, stride);
}
void histogram_anywhere(const float* x, int64_t n, const Binning& how, uint32_t* tables, size_t stride) {
  histogram_run<BinsOf::kAnywhere>(x, n, how, tables, stride);
}
void histogram_multiples(const float* x, int64_t n, const Binning& how, uint32_t* tables, size_t stride) {
  histogram_run<BinsOf::kMultiples>(x, n, how, tables, stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(min_max_run);
HWY_EXPORT(min_max_columns);
HWY_EXPORT(histogram_inside);
HWY_EXPORT(histogram_anywhere);
HWY_EXPORT(histogram_multiples);

// Elements below which waking threads costs more than it saves.
constexpr int64_t kGrain = int64_t{1} << 17;
// A 32-bit count cannot overflow within a run of so many elements.
constexpr int64_t kRun = int64_t{1} << 31;

using CountRun = void (*)(const float* x, int64_t n, const Binning& how, uint32_t* tables, size_t stride);

void count(CountRun run, const float* x, int64_t n, const Binning& how, uint64_t* counts) {
  const size_t slots = static_cast<size_t>(how.bins) + 1;
  std::mutex mutex;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<uint32_t> tables(kTables * slots);
    for (int64_t at = begin; at < end; at += kRun) {
      std::fill(tables.begin(), tables.end(), 0u);
      run(x + at, std::min(kRun, end - at), how, tables.data(), slots);
      std::lock_guard<std::mutex> lock(mutex);
      for (size_t t = 0; t < kTables; ++t)
        for (size_t b = 0; b + 1 < slots; ++b) counts[b] += tables[t * slots + b];
    }
  });
}

}  // namespace

MinMax joined(const MinMax& a, const MinMax& b) {
  if (a.has_nan || b.has_nan) return a.has_nan ? a : b;
  return {std::min(a.min, b.min), std::max(a.max, b.max), false};
}

MinMax min_max_f32(const float* x, int64_t n) {
  MinMax all{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), false};
  std::mutex mutex;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    const MinMax part = HWY_DYNAMIC_DISPATCH(min_max_run)(x + begin, end - begin);
    std::lock_guard<std::mutex> lock(mutex);
    all = joined(all, part);
  });
  return all;
}

void min_max_channels_f32(const float* x, int64_t outer, int64_t channels, int64_t inner, float* min, float* max) {
  std::fill(min, min + channels, std::numeric_limits<float>::infinity());
  std::fill(max, max + channels, -std::numeric_limits<float>::infinity());
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o) HWY_DYNAMIC_DISPATCH(min_max_columns)(x + o * channels, channels, min, max);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, outer * inner));
  parallel_for(channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t c = begin; c < end; ++c) {
        const MinMax row = HWY_DYNAMIC_DISPATCH(min_max_run)(x + (o * channels + c) * inner, inner);
        if (row.min < min[c] || row.has_nan) min[c] = row.min;
        if (row.max > max[c] || row.has_nan) max[c] = row.max;
      }
    }
  });
}

void histogram_f32(const float* x, int64_t n, float lo, float hi, int64_t bins, bool all_inside, uint64_t* counts) {
  count(all_inside ? QDQ_CHOSEN(histogram_inside) : QDQ_CHOSEN(histogram_anywhere), x, n, {lo, hi, 0, bins}, counts);
}

void count_multiples_f32(const float* x, int64_t n, float width, int64_t bins, uint64_t* counts) {
  count(QDQ_CHOSEN(histogram_multiples), x, n, {0, 0, 1 / width, bins}, counts);
}

}  // namespace qdq::kernel
#endif
