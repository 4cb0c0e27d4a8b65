// The loops of observers: ranges and histograms of float arrays, at memory speed and exact.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// If has_nan, min and max are NaN (as torch.aminmax). A zero is reported as +0. Of nothing: +inf, -inf, false.
struct MinMax {
  float min;
  float max;
  bool has_nan;
};

MinMax min_max_f32(const float* x, int64_t n);

// The range of two arrays together.
MinMax joined(const MinMax& a, const MinMax& b);

// x is [outer, channels, inner]; min and max are [channels]. A channel with a NaN gets NaN for both.
void min_max_channels_f32(const float* x, int64_t outer, int64_t channels, int64_t inner, float* min, float* max);

// counts[bin] += 1 for each element of [lo, hi], with bin = min(trunc((x - lo) * bins / (hi - lo)), bins - 1):
// subtraction, product and quotient in f32, in this order (ATen/native/cpu/HistogramKernel.cpp). Elements outside and
// NaN are skipped; if all_inside says that there are none, which is faster, they are counted in any bin. Requires lo <
// hi with a finite difference, and 1 <= bins <= 65536.
void histogram_f32(const float* x, int64_t n, float lo, float hi, int64_t bins, bool all_inside, uint64_t* counts);

// counts[floor(x / width) + bins / 2] += 1 for each element, exactly: no rounding moves an element into another bin.
// width is a power of two from 2^-126 to 2^126, bins is even and at most 65536, and all elements must be in the bins:
// one that is not, which is a caller's mistake, counts in the outermost, and a NaN in any.
void count_multiples_f32(const float* x, int64_t n, float width, int64_t bins, uint64_t* counts);

}  // namespace qdq::kernel
