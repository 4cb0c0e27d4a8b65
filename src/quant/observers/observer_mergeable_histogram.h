// Observers with a histogram whose parts can be merged, and what range they read from it.
#pragma once

#include <optional>
#include <string_view>

#include "quant/observers/observer.h"
#include "quant/observers/range_histogram.h"

namespace qdq {

// Counts in the bins of a RangeHistogram, so that the order of the data and how it is divided among processes change
// nothing; PyTorch has no such class. Infinite elements are not counted. The range is cut at the least and the largest
// value that was seen; the classes differ in how they find it:
class MergeableHistogramObserver final : public Observer {
 public:
  enum class Rule {
    // MergeableHistogramObserver: as HistogramObserver, by the same search for the least squared error
    // (search_histogram), over the bins from the least to the largest value, 1024 to 4096 of them where zero is among
    // the values.
    kSearch,
    kPercentile,  // PercentileObserver: args.percentile of the values (range_of_share)
    kEntropy,     // EntropyObserver: the least divergence of the rounded values (range_of_least_divergence)
    kMSE,         // MSEObserver: the least squared error of a search over both ends (range_of_least_error)
  };

  // Throws Error{kInvalidArgument} for per-channel schemes, dynamic quantization, a number of bins other than the
  // default, which it chooses itself, or a percentile that is not above 0 and at most 100.
  explicit MergeableHistogramObserver(const ObserverArgs& args, Rule rule = Rule::kSearch);

  std::string_view class_name() const override;
  std::string_view mergeable_class() const override { return class_name(); }
  // Throws Error{kInvalidArgument} if the data holds NaN or is of an integer dtype.
  Tensor forward(const Tensor& x) override;
  bool wants_range() const override { return true; }
  Tensor forward_with_range(const Tensor& x, const FloatRange& range) override;
  QParams calculate_qparams() const override;
  QParams qparams_after(const Tensor& x) const override;
  bool calibrated() const override { return histogram_.total() > 0; }
  void set_attribute(std::string_view name, const AttributeValue& value) override;
  Tensor min_val() const override { return Tensor::scalar(histogram_.range().min); }
  Tensor max_val() const override { return Tensor::scalar(histogram_.range().max); }
  // int64, the counts of all bins of the RangeHistogram.
  Tensor histogram() const override;
  FloatRange histogram_range() const override;
  void set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) override;

 private:
  FloatRange searched() const;

  Rule rule_;
  RangeHistogram histogram_;
  int64_t dst_bins_;
  mutable std::optional<FloatRange> found_;  // until more data comes
};

// Whether it is the name of one of them.
bool is_mergeable_histogram(std::string_view class_name);

}  // namespace qdq
