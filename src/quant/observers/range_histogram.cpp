#include "quant/observers/range_histogram.h"

#include <algorithm>
#include <cmath>

#include "kernel/observe.h"
#include "op/math.h"

namespace qdq {

namespace {

// The least exponent e with magnitude < kBins / 2 * 2^e.
int exponent_for(float magnitude) {
  // magnitude < 2^exponent, as frexp says it; op/math.cpp says why that is not called.
  const int exponent = magnitude == 0 || !std::isfinite(magnitude) ? 0 : std::ilogb(magnitude) + 1;
  constexpr int kHalfBinsLog2 = 11;
  static_assert(RangeHistogram::kBins == int64_t{2} << kHalfBinsLog2);
  return exponent - kHalfBinsLog2;
}

}  // namespace

double RangeHistogram::width() const { return std::ldexp(1.0, exponent_); }
double RangeHistogram::middle(int64_t bin) const { return (static_cast<double>(bin - kBins / 2) + 0.5) * width(); }

void RangeHistogram::widen(int exponent) {
  if (exponent <= exponent_) return;
  const int shift = std::min(exponent - exponent_, 62);
  exponent_ = exponent;
  if (total_ == 0) return;
  std::vector<int64_t> joined(kBins);
  for (int64_t i = 0; i < kBins; ++i) {
    const int64_t index = (i - kBins / 2) >> shift;  // rounds down
    joined[static_cast<size_t>(index + kBins / 2)] += counts_[static_cast<size_t>(i)];
  }
  counts_ = std::move(joined);
}

RangeHistogram::RangeHistogram(const FloatRange& range, std::vector<int64_t> counts)
    : counts_(std::move(counts)), range_(range) {
  QDQ_CHECK(std::ssize(counts_) == kBins, kInvalidArgument, "a histogram of ", kBins, " bins was given ",
            counts_.size(), " counts");
  int64_t least = 0, most = 0;
  for (const int64_t count : counts_) {
    least = std::min(least, count);
    most = std::max(most, count);
    // Nothing overflows: what is above kMost in a bin is refused below.
    total_ += std::min(count, kMost);
  }
  QDQ_CHECK(least >= 0 && most <= kMost && total_ <= kMost, kInvalidArgument, "a histogram counts ",
            least < 0 ? least : std::max(most, total_), " values, wanted 0 to 2^50");
  if (total_ == 0) {
    QDQ_CHECK(range.min == kInf && range.max == -kInf, kInvalidArgument,
              "a histogram that counted nothing has the range ", range.min, " to ", range.max);
    return;
  }
  QDQ_CHECK(std::isfinite(range.min) && std::isfinite(range.max) && range.min <= range.max, kInvalidArgument,
            "a histogram has the range ", range.min, " to ", range.max, ", wanted finite numbers in order");
  if (const float magnitude = std::max(std::fabs(range.min), std::fabs(range.max)); magnitude > 0)
    exponent_ = exponent_for(magnitude);
  const auto is_counted = [](int64_t count) { return count != 0; };
  const auto first = std::find_if(counts_.begin(), counts_.end(), is_counted) - counts_.begin();
  const auto last = counts_.rend() - std::find_if(counts_.rbegin(), counts_.rend(), is_counted) - 1;
  QDQ_CHECK(first == bin_of(range.min) && last == bin_of(range.max), kInvalidArgument,
            "a histogram counts values in bins ", first, " to ", last, ", and its range ", range.min, " to ", range.max,
            " is that of bins ", bin_of(range.min), " to ", bin_of(range.max));
}

int64_t RangeHistogram::bin_of(float value) const {
  return static_cast<int64_t>(std::floor(std::ldexp(static_cast<double>(value), -exponent_))) + kBins / 2;
}

void RangeHistogram::add(const Tensor& x) { add(x, range_of(x)); }

void RangeHistogram::add(const Tensor& x, const FloatRange& range) {
  const bool all_finite = range.min != -kInf && range.max != kInf;
  const FloatRange seen = all_finite ? range : finite_range_of(x);
  if (!(seen.min <= seen.max)) return;
  // Which of -0 and 0 comes first must not show.
  range_ = {std::min(range_.min, seen.min + 0.0f), std::max(range_.max, seen.max + 0.0f)};
  const float magnitude = std::max(std::fabs(seen.min), std::fabs(seen.max));
  if (magnitude > 0) widen(exponent_for(magnitude));
  const Tensor values = x.to(DType::kF32).contiguous();
  std::span<const float> counted = values.span<float>();
  std::vector<float> finite;
  if (!all_finite) {
    std::copy_if(counted.begin(), counted.end(), std::back_inserter(finite), [](float v) { return std::isfinite(v); });
    counted = finite;
  }
  total_ += std::ssize(counted);
  constexpr int kExponentsOfFloats = 126;
  if (exponent_ < -kExponentsOfFloats) {
    for (const float value : counted) ++counts_[static_cast<size_t>(bin_of(value))];
    return;
  }
  std::vector<uint64_t> added(kBins);
  kernel::count_multiples_f32(counted.data(), std::ssize(counted), static_cast<float>(width()), kBins, added.data());
  for (size_t i = 0; i < added.size(); ++i) counts_[i] += static_cast<int64_t>(added[i]);
}

void RangeHistogram::merge(const RangeHistogram& other) {
  if (other.total_ == 0) return;
  widen(other.exponent_);
  if (other.exponent_ < exponent_) {
    RangeHistogram wider = other;
    wider.widen(exponent_);
    merge(wider);
    return;
  }
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  total_ += other.total_;
  range_ = {std::min(range_.min, other.range_.min), std::max(range_.max, other.range_.max)};
}

namespace {

double error_of(const RangeHistogram& histogram, double low, double high, double step) {
  const double inside = step * step / 12;
  double sum = 0;
  const std::vector<int64_t>& counts = histogram.counts();
  for (int64_t i = 0; i < RangeHistogram::kBins; ++i) {
    const int64_t count = counts[static_cast<size_t>(i)];
    if (count == 0) continue;
    const double x = histogram.middle(i);
    const double beyond = x < low ? low - x : x > high ? x - high : 0;
    sum += static_cast<double>(count) * std::max(inside, beyond * beyond);
  }
  return sum;
}

}  // namespace

FloatRange range_of_least_error(const RangeHistogram& histogram, int64_t levels, bool symmetric) {
  const double min = std::min(0.0, static_cast<double>(histogram.range().min));
  const double max = std::max(0.0, static_cast<double>(histogram.range().max));
  if (histogram.total() == 0 || max == min) return {static_cast<float>(min), static_cast<float>(max)};
  constexpr int kParts = 64;
  const auto steps = static_cast<double>(levels);
  if (symmetric) {
    const double end = std::max(-min, max);
    double best = end, least = kInf;
    for (int i = kParts; i > 0; --i) {
      const double bound = end * i / kParts;
      const double error = error_of(histogram, -bound, bound, 2 * bound / steps);
      if (error < least) {
        least = error;
        best = bound;
      }
    }
    return {static_cast<float>(-best), static_cast<float>(best)};
  }
  // From the whole range one end is drawn in at a time, whichever leaves the smaller error, down to nothing.
  int low = min < 0 ? kParts : 0, high = max > 0 ? kParts : 0;
  const auto error_at = [&](int l, int h) {
    const double from = min * l / kParts, to = max * h / kParts;
    return error_of(histogram, from, to, (to - from) / steps);
  };
  int best_low = low, best_high = high;
  double least = error_at(low, high);
  while (low + high > 1) {
    const double left = low > 0 ? error_at(low - 1, high) : kInf, right = high > 0 ? error_at(low, high - 1) : kInf;
    const double error = std::min(left, right);
    (left < right ? low : high) -= 1;
    if (error >= least) continue;
    least = error;
    best_low = low;
    best_high = high;
  }
  return {static_cast<float>(min * best_low / kParts), static_cast<float>(max * best_high / kParts)};
}

namespace {

// The counts, but for zeros, which are many behind ReLU and rounded in no range: the bin that holds them counts as many
// as the larger one beside it.
std::vector<double> counts_beside_zero(const RangeHistogram& histogram) {
  std::vector<double> out(histogram.counts().begin(), histogram.counts().end());
  constexpr size_t kZero = RangeHistogram::kBins / 2;
  out[kZero] = std::min(out[kZero], std::max(out[kZero - 1], out[kZero + 1]));
  return out;
}

// The divergence of counts from those of the integers of [low, high], in nats.
double divergence_of(const RangeHistogram& histogram, const std::vector<double>& all, double low, double high,
                     int64_t levels) {
  const auto bin_at = [&](double x) {
    const auto bin = static_cast<int64_t>(std::floor(std::ldexp(x, -histogram.exponent()))) + RangeHistogram::kBins / 2;
    return std::clamp<int64_t>(bin, 0, RangeHistogram::kBins - 1);
  };
  const int64_t first = bin_at(low), last = std::max(first, high > low ? bin_at(std::nextafter(high, low)) : first);
  const auto bins = static_cast<size_t>(last - first + 1);
  std::vector<double> counts(bins), inside(bins);
  for (int64_t i = 0; i < RangeHistogram::kBins; ++i) {
    const double count = all[static_cast<size_t>(i)];
    counts[static_cast<size_t>(std::clamp(i, first, last) - first)] += count;
    if (i >= first && i <= last) inside[static_cast<size_t>(i - first)] = count;
  }
  // Which bins an integer stands for follows from their middles.
  const double step = (high - low) / static_cast<double>(levels);
  const auto integer_of = [&](size_t bin) {
    return std::llround((histogram.middle(first + static_cast<int64_t>(bin)) - low) / step);
  };
  double divergence = 0;
  for (size_t begin = 0, end; begin < bins; begin = end) {
    double sum = 0, filled = 0;
    for (end = begin; end < bins && integer_of(end) == integer_of(begin); ++end) {
      sum += inside[end];
      filled += counts[end] > 0;
    }
    for (size_t bin = begin; bin < end; ++bin) {
      constexpr double kNothing = 1e-3;  // of a count, in the place of zero
      if (counts[bin] > 0) divergence += counts[bin] * math::log(counts[bin] / std::max(sum / filled, kNothing));
    }
  }
  double kept = 0, total = 0;
  for (const double count : inside) kept += count;
  for (const double count : counts) total += count;
  if (total == 0) return 0;
  // Both as shares of their sums.
  return divergence / total + math::log(std::max(kept, 1.0) / total);
}

}  // namespace

FloatRange range_of_least_divergence(const RangeHistogram& histogram, int64_t levels, bool symmetric) {
  double min = std::min(0.0, static_cast<double>(histogram.range().min));
  double max = std::max(0.0, static_cast<double>(histogram.range().max));
  if (symmetric) min = -(max = std::max(-min, max));
  if (histogram.total() == 0 || max == min) return {static_cast<float>(min), static_cast<float>(max)};
  constexpr int kParts = 128;
  int best = kParts;
  double least = kInf;
  const std::vector<double> counts = counts_beside_zero(histogram);
  for (int i = kParts; i > 0; --i) {
    // With fewer bins than integers nothing is rounded.
    if ((max - min) * i / kParts < static_cast<double>(levels) * histogram.width()) break;
    const double found = divergence_of(histogram, counts, min * i / kParts, max * i / kParts, levels);
    if (!(found < least)) continue;
    least = found;
    best = i;
  }
  return {static_cast<float>(min * best / kParts), static_cast<float>(max * best / kParts)};
}

FloatRange range_of_share(const RangeHistogram& histogram, double share) {
  const std::vector<int64_t>& counts = histogram.counts();
  const double cut = static_cast<double>(histogram.total()) * (1 - share) / 2;
  const auto end_from = [&](int64_t first, int64_t step) {
    double seen = 0;
    int64_t i = first;
    for (; i >= 0 && i < RangeHistogram::kBins; i += step) {
      seen += static_cast<double>(counts[static_cast<size_t>(i)]);
      if (seen > cut) break;
    }
    return i;
  };
  const double low = histogram.middle(end_from(0, 1)) - histogram.width() / 2;
  const double high = histogram.middle(end_from(RangeHistogram::kBins - 1, -1)) + histogram.width() / 2;
  return {std::min(0.0f, std::max(histogram.range().min, static_cast<float>(low))),
          std::max(0.0f, std::min(histogram.range().max, static_cast<float>(high)))};
}

}  // namespace qdq
