// A histogram that does not depend on the order of what it counts, and the ranges that can be read from it.
#pragma once

#include <cstdint>
#include <vector>

#include "quant/observers/observer_statistics.h"
#include "quant/observers/qparams.h"

namespace qdq {

// Counts of values in bins whose width is a power of two and whose edges are its multiples. The width follows from the
// largest magnitude alone, and bins are joined in pairs when it grows: any order and any grouping of the same values
// gives the same counts. Exact: integers of 64 bits.
class RangeHistogram {
 public:
  static constexpr int64_t kBins = 4096;              // half of them for numbers below zero
  static constexpr int64_t kMost = int64_t{1} << 50;  // values that a state may count, so that all sums are exact
  static constexpr int kLeastExponent = -160;         // before anything but zeros is counted; so small a width none has

  RangeHistogram() = default;
  // One that has counted so: `counts` for each of the kBins bins, whose width follows from the range. Throws
  // Error{kInvalidArgument} if no values in that range are counted so: a negative count, a bin outside of the range, or
  // none of the least or the largest value; or more than kMost.
  RangeHistogram(const FloatRange& range, std::vector<int64_t> counts);

  // Counts the elements, converted to f32. Infinities are passed over, and a tensor that holds NaN.
  void add(const Tensor& x);
  // The same where range_of(x) is known.
  void add(const Tensor& x, const FloatRange& range);
  void merge(const RangeHistogram& other);

  int64_t total() const { return total_; }
  // The range of all that was counted; [inf, -inf] before.
  const FloatRange& range() const { return range_; }
  double width() const;  // of a bin, 2^exponent()
  int exponent() const { return exponent_; }
  // Bin i holds the values of [(i - kBins / 2) * width, (i + 1 - kBins / 2) * width).
  const std::vector<int64_t>& counts() const { return counts_; }
  double middle(int64_t bin) const;

 private:
  void widen(int exponent);
  int64_t bin_of(float value) const;

  std::vector<int64_t> counts_ = std::vector<int64_t>(kBins);
  int64_t total_ = 0;
  FloatRange range_{kInf, -kInf};
  int exponent_ = kLeastExponent;
};

// The range within `range` of the histogram whose integers (`levels` + 1 of them, symmetric around zero or not) leave
// the least sum of squared errors: half a step's error for what lies inside of it (step^2 / 12), the distance for what
// is cut off. The ends are searched among 1/64ths of the range's ends, which they share if symmetric. Zero is inside.
FloatRange range_of_least_error(const RangeHistogram& histogram, int64_t levels, bool symmetric);
// The range within `range` whose integers tell the most of what was counted: the least divergence (Kullback and
// Leibler) of the counts, those beyond the range in its outermost bins, from what is left of them when each integer's
// counts are spread evenly over its bins that have any. The bin of zero, which every integer type holds, counts as many
// as the larger one beside it. Both ends are drawn in together, by 1/128ths of them, as long as there is a bin for each
// integer. Zero is inside. The idea is TensorRT's calibration (S. Migacz, 8-bit Inference with TensorRT, 2017).
FloatRange range_of_least_divergence(const RangeHistogram& histogram, int64_t levels, bool symmetric);
// The range without the outermost (1 - share) of the values, half of them at each end. Zero is inside.
FloatRange range_of_share(const RangeHistogram& histogram, double share);

}  // namespace qdq
