#include "quant/observers/observer_mergeable_histogram.h"

#include <algorithm>
#include <cmath>

#include "quant/observers/observer_histogram.h"
#include "quant/observers/qparams.h"

namespace qdq {

namespace {

// The range of the least squared error.
FloatRange searched(const RangeHistogram& histogram, int64_t dst_bins) {
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

MergeableHistogramObserver::MergeableHistogramObserver(const ObserverArgs& args) : Observer(args) {
  QDQ_CHECK(!is_per_channel(args.qscheme), kInvalidArgument,
            "MergeableHistogramObserver takes per-tensor schemes only, found ", to_string(args.qscheme));
  QDQ_CHECK(!args.is_dynamic, kInvalidArgument, "MergeableHistogramObserver does not support dynamic quantization");
  QDQ_CHECK(args.bins == ObserverArgs().bins, kInvalidArgument,
            "MergeableHistogramObserver chooses its bins itself, so that it cannot have ", args.bins);
  const IntegerRange range = integer_range(args);
  quant_min_ = range.min;
  quant_max_ = range.max;
  // All integers of the dtype, as HistogramObserver has it.
  dst_bins_ = int64_t{1} << (8 * size_of(args.dtype));
}

void MergeableHistogramObserver::set_attribute(std::string_view name, const AttributeValue& value) {
  QDQ_CHECK(name != "bins", kInvalidArgument, "MergeableHistogramObserver chooses its bins itself");
  Observer::set_attribute(name, value);
}

Tensor MergeableHistogramObserver::forward(const Tensor& x) {
  QDQ_CHECK(x.numel() == 0 || is_floating(x.dtype()), kInvalidArgument,
            "MergeableHistogramObserver counts floats, and was given a tensor of ", to_string(x.dtype()));
  return forward_with_range(x, range_of(x));
}

Tensor MergeableHistogramObserver::forward_with_range(const Tensor& x, const FloatRange& range) {
  QDQ_CHECK(!std::isnan(range.min), kInvalidArgument, "MergeableHistogramObserver was given a tensor that holds NaN");
  found_.reset();
  histogram_.add(x, range);
  return x;
}

QParams MergeableHistogramObserver::calculate_qparams() const {
  QDQ_CHECK(calibrated(), kNotCalibrated,
            "MergeableHistogramObserver has seen no data; run calibration batches before qparams are asked for");
  if (!found_) found_ = searched(histogram_, dst_bins_);
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
            kInvalidArgument, "MergeableHistogramObserver keeps a least and a largest value and ",
            RangeHistogram::kBins, " counts, which are whole numbers");
  const Tensor counts = histogram.contiguous();
  histogram_ = RangeHistogram({static_cast<float>(min_val.item()), static_cast<float>(max_val.item())},
                              {counts.span<int64_t>().begin(), counts.span<int64_t>().end()});
  found_.reset();
}

}  // namespace qdq
