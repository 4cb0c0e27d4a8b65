// HistogramObserver of torch/ao/quantization/observer.py, with the float operations of ATen in ATen's order.
#include "quant/observers/observer_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "quant/observers/qparams.h"

namespace qdq {
namespace {

constexpr int64_t kUpsampleRate = 16;

// a * b + c, rounded once. std::fma is a call on processors where that is no instruction. The product is exact in
// double, and the sum's rounding to double matters only where it gives a number halfway between two floats.
float fused(float a, float b, float c) {
  const double sum = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
  // of the digits that a float does not hold
  constexpr uint64_t kRest = (uint64_t{1} << 29) - 1, kHalf = uint64_t{1} << 28;
  const bool is_sure = (std::bit_cast<uint64_t>(sum) & kRest) != kHalf &&
                       std::abs(sum) >= static_cast<double>(std::numeric_limits<float>::min());
  return is_sure ? static_cast<float>(sum) : std::fma(a, b, c);
}

// Element i of torch.linspace(start, end, steps) in f32. ATen's vectorised build fuses the product and the sum
// (RangeFactoriesKernel.cpp compiled with -mfma), so this does too.
float linspace_at(float start, float end, float step, int64_t steps, int64_t i) {
  if (i < steps / 2) return fused(step, static_cast<float>(i), start);
  return fused(-step, static_cast<float>(steps - i - 1), end);
}

std::vector<float> linspace(float start, float end, int64_t steps) {
  std::vector<float> out(static_cast<size_t>(steps));
  const float step = (end - start) / static_cast<float>(steps - 1);
  for (int64_t i = 0; i < steps; ++i) out[static_cast<size_t>(i)] = linspace_at(start, end, step, steps, i);
  return out;
}

int64_t ceil_log2(int64_t value) { return value <= 2 ? 1 : 64 - std::countl_zero(static_cast<uint64_t>(value - 1)); }

// torch.sum of a contiguous f32 array: lanes of a vector, four vectors side by side, each a cascade of four levels so
// that small numbers meet small numbers (SumKernel.cpp, multi_row_sum, row_sum and vectorized_inner_sum).
template <int kLanes> float cascade_sum(const float* x, int64_t n) {
  constexpr int kRows = 4, kLevels = 4, kWidth = kRows * kLanes;
  const int64_t vectors = n / kLanes;
  const int64_t steps = vectors / kRows;
  const int64_t level_power = std::max<int64_t>(4, ceil_log2(steps) / kLevels);
  const int64_t level_step = int64_t{1} << level_power;
  float sums[kLevels][kWidth] = {};
  int64_t i = 0;
  const auto add_step = [&] {
    for (int k = 0; k < kWidth; ++k) sums[0][k] += x[i * kWidth + k];
    ++i;
  };
  while (i + level_step <= steps) {
    for (int64_t j = 0; j < level_step; ++j) add_step();
    for (int level = 1; level < kLevels; ++level) {
      for (int k = 0; k < kWidth; ++k) {
        sums[level][k] += sums[level - 1][k];
        sums[level - 1][k] = 0;
      }
      if ((i & ((level_step - 1) << (level * level_power))) != 0) break;
    }
  }
  while (i < steps) add_step();
  for (int level = 1; level < kLevels; ++level)
    for (int k = 0; k < kWidth; ++k) sums[0][k] += sums[level][k];
  for (int64_t v = steps * kRows; v < vectors; ++v)
    for (int k = 0; k < kLanes; ++k) sums[0][k] += x[v * kLanes + k];
  for (int row = 1; row < kRows; ++row)
    for (int k = 0; k < kLanes; ++k) sums[0][k] += sums[0][row * kLanes + k];
  if (kLanes == 1) return sums[0][0];
  float total = 0;
  for (int64_t k = vectors * kLanes; k < n; ++k) total += x[k];
  for (int k = 0; k < kLanes; ++k) total += sums[0][k];
  return total;
}

float sum_of(std::span<const float> x) {
  const auto n = static_cast<int64_t>(x.size());
  return n >= 8 ? cascade_sum<8>(x.data(), n) : cascade_sum<1>(x.data(), n);
}

// density * (y^3 - x^3) / 3, the integral of the squared distance from x to y.
float integral(float x, float y, float density) { return density * ((y * y * y - x * x * x) / 3.0f); }

// The levels of the quantizer under test, in f32 as PyTorch's tensor operations see them.
struct Levels {
  float width;      // of a source bin
  float dst_width;  // of a level
  float half;       // of a level
  float last_level;
  int64_t start_bin;
};

// Python's floor division of floats (ATen/native/cpu/BinaryOpsKernel.cpp, div_floor_floating_vec), clamped to the
// levels. Exact for any operands, and slow.
float level_of(float position, const Levels& levels) {
  const float quotient = position / levels.dst_width;
  float level = quotient;
  if (levels.dst_width != 0) {
    const float rest = std::fmod(position, levels.dst_width);
    float whole = (std::isinf(quotient) && !std::isinf(position) ? position : position - rest) / levels.dst_width;
    if (rest != 0 && (levels.dst_width < 0) != (rest < 0)) whole -= 1.0f;
    level = std::floor(whole);
    if (whole - level > 0.5f) level += 1.0f;
  }
  return std::isnan(level) ? level : std::clamp(level, 0.0f, levels.last_level);
}

// The same where |position / dst_width| < 2^28, so that the quotient in double tells the integer part of the exact one,
// and its product with dst_width is exact. No calls and no branches: the compiler vectorises this.
float level_of_fast(float position, const Levels& levels) {
  const double divisor = levels.dst_width;
  const double whole_part = static_cast<int32_t>(position / divisor);
  const auto rest = static_cast<float>(position - whole_part * divisor);
  float whole = (position - rest) / levels.dst_width;
  whole -= rest < 0 ? 1.0f : 0.0f;
  float level = static_cast<float>(static_cast<int32_t>(whole));
  level -= level > whole ? 1.0f : 0.0f;
  level += whole - level > 0.5f ? 1.0f : 0.0f;
  return std::min(std::max(level, 0.0f), levels.last_level);
}

// The squared error of the counts of each source bin, taken as spread evenly over it, if every level stands for its
// middle.
template <float (*kLevelOf)(float, const Levels&)>
void bin_errors(std::span<const float> histogram, const Levels& levels, float* errors) {
  const float whole_level_cube =
      (levels.half * levels.half * levels.half - -levels.half * -levels.half * -levels.half) / 3.0f;
  for (size_t i = 0; i < histogram.size(); ++i) {
    const float begin =
        static_cast<float>(static_cast<int32_t>(i) - static_cast<int32_t>(levels.start_bin)) * levels.width;
    const float end = begin + levels.width;
    const float first = kLevelOf(begin, levels);
    const float last = kLevelOf(end, levels);
    const float density = histogram[i] / levels.width;
    const float first_center = (first + 0.5f) * levels.dst_width;
    const float last_center = last * levels.dst_width + levels.half;
    float error = 0.0f + integral(begin - first_center, levels.half, density);
    error += (last - first - 1.0f) * (density * whole_level_cube);
    error += integral(-levels.half, end - last_center, density);
    errors[i] = error;
  }
}

// The error of a quantizer of `dst_bins` levels over the bins start..end.
class QuantizationError {
 public:
  QuantizationError(std::span<const float> histogram, FloatRange range, int64_t dst_bins)
      : histogram_(histogram), dst_bins_(dst_bins), errors_(histogram.size()) {
    bin_width_ =
        (static_cast<double>(range.max) - static_cast<double>(range.min)) / static_cast<double>(histogram.size());
  }

  double operator()(int64_t start_bin, int64_t end_bin) {
    const double dst_width = bin_width_ * static_cast<double>(end_bin - start_bin + 1) / static_cast<double>(dst_bins_);
    if (dst_width == 0) return 0;
    const Levels levels{static_cast<float>(bin_width_), static_cast<float>(dst_width),
                        static_cast<float>(dst_width / 2), static_cast<float>(dst_bins_ - 1), start_bin};
    constexpr double kExactQuotients = 1 << 27;
    const double quotients = static_cast<double>(histogram_.size()) * static_cast<double>(dst_bins_);
    if (quotients <= kExactQuotients && std::isnormal(levels.dst_width))
      bin_errors<level_of_fast>(histogram_, levels, errors_.data());
    else bin_errors<level_of>(histogram_, levels, errors_.data());
    return sum_of(errors_);
  }

 private:
  std::span<const float> histogram_;
  int64_t dst_bins_;
  double bin_width_;
  std::vector<float> errors_;
};

// How many edges are not greater than the value, as torch.bucketize(value, edges, right=True) finds out. Over a range
// narrower than its bins in units of the last place, linspace is not sorted, and then the path of the binary search
// decides.
class Bucketizer {
 public:
  explicit Bucketizer(std::vector<float> edges)
      : edges_(std::move(edges)), sorted_(std::is_sorted(edges_.begin(), edges_.end())) {}

  // Cheap for values close to the last one asked for.
  int64_t operator()(float value) {
    const auto count = static_cast<int64_t>(edges_.size());
    if (!sorted_) return search(value, count);
    while (at_ > 0 && edges_[static_cast<size_t>(at_ - 1)] > value) --at_;
    while (at_ < count && edges_[static_cast<size_t>(at_)] <= value) ++at_;
    return at_;
  }

 private:
  int64_t search(float value, int64_t end) const {
    int64_t start = 0;
    while (start < end) {
      const int64_t middle = start + (end - start) / 2;
      if (edges_[static_cast<size_t>(middle)] > value) end = middle;
      else start = middle + 1;
    }
    return start;
  }

  std::vector<float> edges_;
  bool sorted_;
  int64_t at_ = 0;
};

// torch.cumsum of f32: summed in double, each partial sum rounded to f32.
std::vector<float> cumulative(std::span<const float> histogram) {
  std::vector<float> out(histogram.size());
  double sum = 0;
  for (size_t i = 0; i < histogram.size(); ++i) {
    sum += histogram[i];
    out[i] = static_cast<float>(sum);
  }
  return out;
}

// The moves of the search: which bins remain when alpha of the counts is dropped below and 1 - beta above.
struct Walk {
  explicit Walk(std::span<const float> histogram)
      : sums(cumulative(histogram)), total(sum_of(histogram)), end(static_cast<int64_t>(histogram.size()) - 1),
        right(end) {}

  // Takes steps until one moves an end; false if alpha and beta have met. The candidate is in next_start, next_end.
  bool advance() {
    constexpr double kStep = 1e-5;
    while (alpha < beta) {
      const double next_alpha = alpha + kStep;
      const double next_beta = beta - kStep;
      // The comparisons are done in f32. Both thresholds only move inwards, so the scans go on from where they stopped.
      const auto low = static_cast<float>(next_alpha * total);
      const auto high = static_cast<float>(next_beta * total);
      while (left < end && sums[static_cast<size_t>(left)] < low) ++left;
      while (right > start && sums[static_cast<size_t>(right)] > high) --right;
      const int64_t l = std::min(std::max(left, start), end);
      const int64_t r = std::max(std::min(right, end), start);
      next_start = start;
      next_end = end;
      if (l - start > end - r) {
        next_start = l;
        alpha = next_alpha;
      } else {
        next_end = r;
        beta = next_beta;
      }
      if (next_start != start || next_end != end) return true;
    }
    return false;
  }

  std::vector<float> sums;
  double total;
  double alpha = 0;
  double beta = 1;
  int64_t start = 0;
  int64_t end;
  int64_t left = 0;
  int64_t right;
  int64_t next_start = 0;
  int64_t next_end = 0;
};

}  // namespace

HistogramSearch search_histogram(std::span<const float> histogram, FloatRange range, int64_t dst_bins) {
  QuantizationError error(histogram, range, dst_bins);
  Walk walk(histogram);
  double least = std::numeric_limits<double>::infinity();
  while (walk.advance()) {
    const double candidate = error(walk.next_start, walk.next_end);
    if (candidate > least) break;
    least = candidate;
    walk.start = walk.next_start;
    walk.end = walk.next_end;
  }
  const float bin_width = (range.max - range.min) / static_cast<float>(histogram.size());
  return {walk.start,
          walk.end,
          {range.min + bin_width * static_cast<float>(walk.start),
           range.min + bin_width * static_cast<float>(walk.end + 1)}};
}

std::vector<float> rebin_histogram(std::span<const float> histogram, FloatRange range, FloatRange target) {
  const auto bins = static_cast<int64_t>(histogram.size());
  const int64_t pieces = bins * kUpsampleRate;
  const float step = (range.max - range.min) / static_cast<float>(pieces);
  const float half_piece = 0.5f * step;
  Bucketizer bucketize(linspace(target.min, target.max, bins + 1));
  std::vector<float> out(histogram.size(), 0.0f);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const float middle = linspace_at(range.min, range.max, step, pieces + 1, piece) + half_piece;
    const int64_t bin = std::clamp<int64_t>(bucketize(middle) - 1, 0, bins - 1);
    out[static_cast<size_t>(bin)] +=
        histogram[static_cast<size_t>(piece / kUpsampleRate)] / static_cast<float>(kUpsampleRate);
  }
  return out;
}

HistogramObserver::HistogramObserver(const ObserverArgs& args) : Observer(args), range_{kInf, -kInf} {
  QDQ_CHECK(!is_per_channel(args.qscheme), kInvalidArgument, "HistogramObserver takes per-tensor schemes only, found ",
            to_string(args.qscheme));
  QDQ_CHECK(!args.is_dynamic, kInvalidArgument, "HistogramObserver does not support dynamic quantization");
  const IntegerRange range = integer_range(args);
  quant_min_ = range.min;
  quant_max_ = range.max;
  make_bins();
  // All integers of the dtype, even where the quantization range is narrower.
  dst_bins_ = int64_t{1} << (8 * size_of(args.dtype));
}

void HistogramObserver::make_bins() {
  QDQ_CHECK(args_.bins >= 1 && args_.bins <= 65536, kInvalidArgument, "HistogramObserver takes 1 to 65536 bins, found ",
            args_.bins);
  histogram_.assign(static_cast<size_t>(args_.bins), 0.0f);
}

void HistogramObserver::set_attribute(std::string_view name, const AttributeValue& value) {
  QDQ_CHECK(!calibrated(), kInvalidArgument, "HistogramObserver has seen data, so that its ", name, " stays");
  Observer::set_attribute(name, value);
  QDQ_CHECK(!args_.is_dynamic, kInvalidArgument, "HistogramObserver does not support dynamic quantization");
  make_bins();
}

bool HistogramObserver::calibrated() const { return !(range_.min == kInf && range_.max == -kInf); }

Tensor HistogramObserver::forward(const Tensor& x) {
  QDQ_CHECK(x.numel() == 0 || is_floating(x.dtype()), kInvalidArgument,
            "HistogramObserver counts floats, and was given a tensor of ", to_string(x.dtype()));
  return forward_with_range(x, range_of(x));
}

Tensor HistogramObserver::forward_with_range(const Tensor& x, const FloatRange& range) {
  newest_.clear();
  if (x.numel() == 0) return x;
  FloatRange seen = range;
  const bool all_finite = seen.min != -kInf && seen.max != kInf;
  if (!all_finite) {
    seen = finite_range_of(x);
    if (seen.min > seen.max) return x;
  }
  QDQ_CHECK(!std::isnan(seen.min), kInvalidArgument, "HistogramObserver was given a tensor that holds NaN");
  found_.reset();
  newest_range_ = seen;
  if (range_.min == kInf || range_.max == -kInf) {
    histogram_ = histogram_of(x, seen, args_.bins, all_finite);
    range_ = seen;
    if (all_finite) newest_ = histogram_;
    return x;
  }
  const FloatRange both{std::min(range_.min, seen.min), std::max(range_.max, seen.max)};
  std::vector<float> counts = histogram_of(x, both, args_.bins, all_finite);
  std::vector<float> before;
  if (both.min == range_.min && both.max == range_.max) {
    before = std::move(histogram_);
  } else if (range_.min == range_.max) {
    // All data so far had one value. PyTorch gives it the weight of the new batch, not that of the old ones.
    before = histogram_of(Tensor::of<float>({1}, {range_.min}), both, args_.bins, true);
    const float weight = sum_of(counts);
    for (float& count : before) count *= weight;
  } else {
    before = rebin_histogram(histogram_, range_, both);
  }
  if (all_finite) newest_ = counts;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += before[i];
  histogram_ = std::move(counts);
  range_ = both;
  return x;
}

QParams HistogramObserver::qparams_after(const Tensor& x) const {
  HistogramObserver copy = *this;
  copy.forward(x);
  return copy.calculate_qparams();
}

bool HistogramObserver::forward_clamped(float low, float high) {
  constexpr float kLastCount = 16777216.0f;  // where a count stops growing, so that it may stand for more
  const auto is_whole = [&](float count) { return count < kLastCount; };
  // Of such ranges bins are in no order, or those of another range.
  const bool odd =
      !(range_.min < range_.max) || !std::isfinite((range_.max - range_.min) * static_cast<float>(args_.bins));
  if (newest_.empty() || odd || !(low <= high) || !std::all_of(newest_.begin(), newest_.end(), is_whole)) return false;
  const FloatRange seen{std::clamp(newest_range_.min, low, high), std::clamp(newest_range_.max, low, high)};
  if (!(seen.min >= range_.min && seen.max <= range_.max)) return false;
  const auto bin_of = [&](float value) {
    const std::vector<float> one = histogram_of(Tensor::of<float>({1}, {value}), range_, args_.bins, true);
    return std::find(one.begin(), one.end(), 1.0f) - one.begin();
  };
  const auto begin = newest_.begin(), first = begin + bin_of(seen.min), last = begin + bin_of(seen.max),
             end = newest_.end();
  const double below = std::accumulate(begin, first, 0.0), above = std::accumulate(last + 1, end, 0.0);
  std::fill(begin, first, 0.0f);
  std::fill(last + 1, end, 0.0f);
  *first = static_cast<float>(std::min<double>(*first + below, kLastCount));
  *last = static_cast<float>(std::min<double>(*last + above, kLastCount));
  for (size_t i = 0; i < histogram_.size(); ++i) histogram_[i] += newest_[i];
  newest_range_ = seen;
  found_.reset();
  return true;
}

Tensor HistogramObserver::histogram() const {
  return Tensor::of<float>({args_.bins}, std::span<const float>(histogram_));
}

void HistogramObserver::set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) {
  QDQ_CHECK(min_val.defined() && max_val.defined() && min_val.dim() == 0 && max_val.dim() == 0 && histogram.defined() &&
                histogram.sizes() == Shape{args_.bins},
            kInvalidArgument, "HistogramObserver keeps a least and a largest value and ", args_.bins, " counts");
  const Tensor counts = histogram.to(DType::kF32).contiguous();
  histogram_.assign(counts.span<float>().begin(), counts.span<float>().end());
  range_ = {static_cast<float>(min_val.item()), static_cast<float>(max_val.item())};
  newest_.clear();
  found_.reset();
}

HistogramSearch HistogramObserver::search() const {
  if (!found_) found_ = search_histogram(histogram_, range_, dst_bins_);
  return *found_;
}

QParams HistogramObserver::calculate_qparams() const {
  QDQ_CHECK(calibrated(), kNotCalibrated,
            "HistogramObserver has seen no data; run calibration batches before qparams are asked for");
  const FloatRange range = search().range;
  return qparams_of_range({&range.min, 1}, {&range.max, 1}, args_, {quant_min_, quant_max_});
}

}  // namespace qdq
