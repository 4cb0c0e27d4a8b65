// HistogramObserver: a histogram of all data, and the search for the range with the least quantization error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/observers/observer.h"
#include "quant/observers/observer_statistics.h"

namespace qdq {

// The bins that the search keeps and the range they span.
struct HistogramSearch {
  int64_t start_bin = 0;
  int64_t end_bin = 0;
  FloatRange range{0, 0};
};

// Walks inwards from both ends of the histogram of `range`, 1e-5 of the counts at a time, from the end where this skips
// more bins, until the squared error of quantizing to `dst_bins` levels grows (observer.py, _non_linear_param_search).
// Bit for bit as PyTorch on a CPU with AVX2 or AVX-512: the error is a f32 sum of 8 interleaved cascades
// (ATen/native/cpu/SumKernel.cpp), and the end can depend on its last bit.
HistogramSearch search_histogram(std::span<const float> histogram, FloatRange range, int64_t dst_bins);

// The histogram of `range` as one of the wider range `target` (observer.py, _upscale_histogram): each bin is cut into
// 16 pieces, and each piece goes to the bin that its middle falls in.
std::vector<float> rebin_histogram(std::span<const float> histogram, FloatRange range, FloatRange target);

// Keeps `bins` counts and the range. Infinite elements are not counted. Differs from PyTorch for tensors that are not
// f32: f16, bf16 and f64 are converted to f32 first, where PyTorch counts in the tensor's own dtype (f16 counts end at
// 2048 there).
class HistogramObserver final : public Observer {
 public:
  // Throws Error{kInvalidArgument} for per-channel schemes, dynamic quantization or bins outside of 1..65536.
  explicit HistogramObserver(const ObserverArgs& args);

  std::string_view class_name() const override { return "HistogramObserver"; }
  std::string_view mergeable_class() const override { return "MergeableHistogramObserver"; }
  // Throws Error{kInvalidArgument} if the data holds NaN or is of an integer dtype.
  Tensor forward(const Tensor& x) override;
  bool wants_range() const override { return true; }
  Tensor forward_with_range(const Tensor& x, const FloatRange& range) override;
  bool foresees_clamps() const override { return true; }
  // From what was counted: every bin holds numbers of one side of a bound but that of the bound itself.
  bool forward_clamped(float low, float high) override;
  QParams calculate_qparams() const override;
  QParams qparams_after(const Tensor& x) const override;
  bool calibrated() const override;
  void set_attribute(std::string_view name, const AttributeValue& value) override;
  Tensor min_val() const override { return Tensor::scalar(range_.min); }
  Tensor max_val() const override { return Tensor::scalar(range_.max); }
  Tensor histogram() const override;
  void set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) override;

  // What calculate_qparams finds in the present histogram.
  HistogramSearch search() const;

 private:
  void make_bins();  // none of them counted yet

  FloatRange range_;
  std::vector<float> histogram_;
  std::vector<float> newest_;      // the counts of the last tensor in the bins of range_; empty if they are not known
  FloatRange newest_range_{0, 0};  // its least and largest element
  int64_t dst_bins_;
  mutable std::optional<HistogramSearch> found_;  // until more data comes
};

}  // namespace qdq
