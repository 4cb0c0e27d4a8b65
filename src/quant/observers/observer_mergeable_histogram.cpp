#include "quant/observers/observer_mergeable_histogram.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quant/observers/observer_histogram.h"
#include "quant/observers/qparams.h"

namespace qdq {

namespace {

// By rule.
constexpr std::array<std::string_view, 4> kNames = {"MergeableHistogramObserver", "PercentileObserver",
                                                    "EntropyObserver", "MSEObserver"};

// As HistogramObserver searches.
FloatRange range_by_search(const RangeHistogram& histogram, int64_t dst_bins) {
  const FloatRange seen = histogram.range();
  if (seen.min == seen.max) return seen;
  const std::vector<int64_t>& counts = histogram.counts();
  const auto is_counted = [](int64_t count) { return count != 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_counted);
  const auto end = std::find_if(counts.rbegin(), counts.rend(), is_counted).base();
  const std::vector<float> bins(first, end);
  // In units of a bin, which nothing overflows; powers of two change no digit.
  const auto low = static_cast<float>(first - counts.begin() - RangeHistogram::kBins / 2);
  const FloatRange found = search_histogram(bins, {low, low + static_cast<float>(bins.size())}, dst_bins).range;
  return {static_cast<float>(std::max<double>(seen.min, std::ldexp(found.min, histogram.exponent()))),
          static_cast<float>(std::min<double>(seen.max, std::ldexp(found.max, histogram.exponent())))};
}

}  // namespace

bool is_mergeable_histogram(std::string_view class_name) {
  return std::find(kNames.begin(), kNames.end(), class_name) != kNames.end();
}

std::string_view MergeableHistogramObserver::class_name() const { return kNames[static_cast<size_t>(rule_)]; }

MergeableHistogramObserver::MergeableHistogramObserver(const ObserverArgs& args, Rule rule)
    : Observer(args), rule_(rule) {
  QDQ_CHECK(!is_per_channel(args.qscheme), kInvalidArgument, class_name(), " takes per-tensor schemes only, found ",
            to_string(args.qscheme));
  QDQ_CHECK(!args.is_dynamic, kInvalidArgument, class_name(), " does not support dynamic quantization");
  QDQ_CHECK(args.bins == ObserverArgs().bins, kInvalidArgument, class_name(),
            " chooses its bins itself, so that it cannot have ", args.bins);
  QDQ_CHECK(args.percentile > 0 && args.percentile <= 100, kInvalidArgument, class_name(), " has a percentile of ",
            args.percentile, ", wanted a number above 0 and at most 100");
  const IntegerRange range = integer_range(args);
  quant_min_ = range.min;
  quant_max_ = range.max;
  // All integers of the dtype, as HistogramObserver has it.
  dst_bins_ = int64_t{1} << (8 * size_of(args.dtype));
}

void MergeableHistogramObserver::set_attribute(std::string_view name, const AttributeValue& value) {
  QDQ_CHECK(name != "bins", kInvalidArgument, class_name(), " chooses its bins itself");
  Observer::set_attribute(name, value);
}

Tensor MergeableHistogramObserver::forward(const Tensor& x) {
  QDQ_CHECK(x.numel() == 0 || is_floating(x.dtype()), kInvalidArgument, class_name(),
            " counts floats, and was given a tensor of ", to_string(x.dtype()));
  return forward_with_range(x, range_of(x));
}

Tensor MergeableHistogramObserver::forward_with_range(const Tensor& x, const FloatRange& range) {
  QDQ_CHECK(!std::isnan(range.min), kInvalidArgument, class_name(), " was given a tensor that holds NaN");
  found_.reset();
  histogram_.add(x, range);
  return x;
}

FloatRange MergeableHistogramObserver::searched() const {
  const int64_t levels = quant_max_ - quant_min_;
  switch (rule_) {
    case Rule::kSearch: return range_by_search(histogram_, dst_bins_);
    case Rule::kPercentile: return range_of_share(histogram_, args_.percentile / 100);
    case Rule::kEntropy: return range_of_least_divergence(histogram_, levels, is_symmetric(args_.qscheme));
    case Rule::kMSE: return range_of_least_error(histogram_, levels, is_symmetric(args_.qscheme));
  }
  fail(ErrorCode::kInternal, "an unknown rule of an observer");
}

QParams MergeableHistogramObserver::calculate_qparams() const {
  QDQ_CHECK(calibrated(), kNotCalibrated, class_name(),
            " has seen no data; run calibration batches before qparams are asked for");
  if (!found_) found_ = searched();
  return qparams_of_range({&found_->min, 1}, {&found_->max, 1}, args_, {quant_min_, quant_max_});
}

QParams MergeableHistogramObserver::qparams_after(const Tensor& x) const {
  MergeableHistogramObserver copy = *this;
  copy.forward(x);
  return copy.calculate_qparams();
}

Tensor MergeableHistogramObserver::histogram() const {
  return Tensor::of<int64_t>({RangeHistogram::kBins}, std::span<const int64_t>(histogram_.counts()));
}

FloatRange MergeableHistogramObserver::histogram_range() const {
  const double end = histogram_.width() * (static_cast<double>(RangeHistogram::kBins) / 2);
  return {static_cast<float>(-end), static_cast<float>(end)};
}

void MergeableHistogramObserver::set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) {
  QDQ_CHECK(min_val.defined() && max_val.defined() && min_val.dim() == 0 && max_val.dim() == 0 && histogram.defined() &&
                histogram.dtype() == DType::kS64 && histogram.sizes() == Shape{RangeHistogram::kBins},
            kInvalidArgument, class_name(), " keeps a least and a largest value and ", RangeHistogram::kBins,
            " counts, which are whole numbers");
  const Tensor counts = histogram.contiguous();
  histogram_ = RangeHistogram({static_cast<float>(min_val.item()), static_cast<float>(max_val.item())},
                              {counts.span<int64_t>().begin(), counts.span<int64_t>().end()});
  found_.reset();
}

}  // namespace qdq
