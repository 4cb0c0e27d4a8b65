// What observers measure on a tensor: ranges and histograms, as aminmax and histc do it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

struct FloatRange {
  float min;
  float max;
};

// torch.aminmax of the elements converted to f32; both NaN if one is. Of an empty tensor: [inf, -inf].
FloatRange range_of(const Tensor& x);

// The same without infinities.
FloatRange finite_range_of(const Tensor& x);

struct ChannelRanges {
  std::vector<float> min;
  std::vector<float> max;
};

// The range of each slice along the axis (which may count from the end). Throws Error{kInvalidArgument} if the tensor
// has fewer than two axes, where PyTorch has nothing to flatten, or the axis is out of range.
ChannelRanges channel_ranges_of(const Tensor& x, int64_t axis);

// torch.histc(x, bins, range.min, range.max) with one thread (ATen/native/cpu/HistogramKernel.cpp): the bin of an
// element is trunc((x - min) * bins / (max - min)) in f32, the last edge belongs to the last bin, elements outside are
// skipped. A range of one value is widened by 1 to both sides. Counts are f32, so a bin stops growing at 2^24.
// all_inside: no element is outside or NaN, which saves looking. Throws Error{kInvalidArgument} if the range is not
// finite.
std::vector<float> histogram_of(const Tensor& x, FloatRange range, int64_t bins, bool all_inside);

}  // namespace qdq
