// Float pooling over planes (NCHW with N and C taken together). Exact and independent of vector width and threads.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// `planes` images of in_h x in_w become as many of out_h x out_w. The output extents are the caller's, so ceil_mode is
// nothing special here: a window may reach beyond the padding.
struct Pool2d {
  int64_t planes = 0;
  int64_t in_h = 0, in_w = 0, out_h = 0, out_w = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;  // max_pool2d only
  bool count_include_pad = true;           // avg_pool2d only, with PyTorch's meaning
  int64_t divisor_override = 0;            // avg_pool2d only; 0: none
};

// The largest element of the window inside the image; NaN if one is NaN; -inf if the window is empty.
void max_pool2d_f32(const float* x, const Pool2d& pool, float* out);

// The same, and where in its plane each of them stands: of equal ones the first, of several NaN the last. Every window
// holds an element of the image.
void max_pool2d_places_f32(const float* x, const Pool2d& pool, float* out, int64_t* places);

// (sum of the window in row-major order from 0) / divisor, 0 if the window is empty; the same sum and divisor as
// PyTorch (ATen/native/cpu/AvgPoolKernel.cpp): the divisor counts the padding inside [-pad, extent + pad) if
// count_include_pad.
void avg_pool2d_f32(const float* x, const Pool2d& pool, float* out);

// Window of output o: rows floor(o * in / out) up to ceil((o + 1) * in / out). Uses only the extents of `pool`.
// Windows smaller than the plane: (row-major sum from 0) / rows / columns, as in
// ATen/native/cpu/AdaptiveAvgPoolKernel.cpp. out_h == out_w == 1: sum_f32 (kernel/math.h) of the plane / (in_h * in_w),
// since PyTorch takes mean() there.
void adaptive_avg_pool2d_f32(const float* x, const Pool2d& pool, float* out);

}  // namespace qdq::kernel
