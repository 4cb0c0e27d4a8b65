// Laying images out as padded planes, one a phase of the stride, and taking results out again.
#include "kernel/plane.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/plane_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The last vector of a row overlaps the one before, so that rows of maps such as 7 x 7 need no loop over single
// elements.
template <bool kBias, class D> HWY_INLINE void move_row(D d, const float* from, int64_t columns, hn::Vec<D> bias, float* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto move = [&](int64_t j) HWY_ATTR {
    const auto v = hn::LoadU(d, from + j);
    hn::StoreU(kBias ? hn::Add(v, bias) : v, d, to + j);
  };
  int64_t j = 0;
  for (; j + lanes <= columns; j += lanes) move(j);
  if (j < columns) move(columns - lanes);
}

template <bool kBias>
void move_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float bias, float* to, int64_t to_stride) {
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 4> narrow;
  if (columns >= static_cast<int64_t>(hn::Lanes(wide))) {
    for (int64_t i = 0; i < rows; ++i) move_row<kBias>(wide, from + i * from_stride, columns, hn::Set(wide, bias), to + i * to_stride);
  } else if (columns >= 4) {
    for (int64_t i = 0; i < rows; ++i) move_row<kBias>(narrow, from + i * from_stride, columns, hn::Set(narrow, bias), to + i * to_stride);
  } else {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) to[i * to_stride + j] = kBias ? from[i * from_stride + j] + bias : from[i * from_stride + j];
  }
}

void store_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, const float* bias, float* to, int64_t to_stride) {
  if (bias) {
    move_rows<true>(from, from_stride, rows, columns, *bias, to, to_stride);
  } else {
    move_rows<false>(from, from_stride, rows, columns, 0.0f, to, to_stride);
  }
}

void copy_rows(const float* from, int64_t from_stride, int64_t step, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  if (step == 1) {
    move_rows<false>(from, from_stride, rows, columns, 0.0f, to, to_stride);
    return;
  }
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 4> narrow;
  for (int64_t i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
    int64_t j = 0;
    // A vector reads the element after its last one, which the last element of a row may not have.
    const auto take_even = [&](auto d) HWY_ATTR {
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
      for (; j + lanes < columns; j += lanes) {
        hn::Vec<decltype(d)> even, odd;
        hn::LoadInterleaved2(d, from + 2 * j, even, odd);
        hn::StoreU(even, d, to + j);
      }
    };
    if (step == 2) {
      take_even(wide);
      take_even(narrow);
    }
    for (; j < columns; ++j) to[j] = from[j * step];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(store_rows);
HWY_EXPORT(copy_rows);

void store_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, const float* bias, float* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(store_rows)(from, from_stride, rows, columns, bias, to, to_stride);
}

void copy_rows(const float* from, int64_t from_stride, int64_t step, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(copy_rows)(from, from_stride, step, rows, columns, to, to_stride);
}

namespace {

// The indices [begin, end) within [0, count) for which first + index * step lies within [0, extent).
struct Inside {
  int64_t begin, end;
};
Inside inside(int64_t first, int64_t step, int64_t count, int64_t extent) {
  const int64_t begin = first < 0 ? std::min(count, (-first + step - 1) / step) : 0;
  return {begin, first < extent ? std::clamp((extent - first + step - 1) / step, begin, count) : begin};
}

}  // namespace

Planes::Planes(const Window& window, int64_t channels, int64_t rows)
    : window_(window), channels_(channels), rows_(rows), width_(window.out_w + (window.kernel_w - 1) * window.dilation_w / window.stride_w),
      height_(rows + (window.kernel_h - 1) * window.dilation_h / window.stride_h) {
  for (int64_t kh = 0; kh < window.kernel_h; ++kh) {
    for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
      const int64_t y = kh * window.dilation_h, x = kw * window.dilation_w;
      const int64_t phase = y % window.stride_h * window.stride_w + x % window.stride_w;
      const auto at = std::find(phases_.begin(), phases_.end(), phase);
      offsets_.push_back((at - phases_.begin()) * height_ * width_ + y / window.stride_h * width_ + x / window.stride_w);
      if (at == phases_.end()) phases_.push_back(phase);
    }
  }
  channel_elements_ = static_cast<int64_t>(phases_.size()) * height_ * width_;
  const size_t taps = offsets_.size();
  offsets_.reserve(taps * static_cast<size_t>(channels));
  for (int64_t c = 1; c < channels; ++c)
    for (size_t t = 0; t < taps; ++t) offsets_.push_back(offsets_[t] + c * channel_elements_);
}

void Planes::clear(float padding, float* planes) const { std::fill(planes, planes + elements(), padding); }

void Planes::fill(const float* x, int64_t row, float* planes) const {
  for (int64_t c = 0; c < channels_; ++c, x += window_.in_h * window_.in_w) {
    for (int64_t phase : phases_) {
      const int64_t top = row * window_.stride_h + phase / window_.stride_w - window_.pad_h;
      const int64_t left = phase % window_.stride_w - window_.pad_w;
      const Inside ys = inside(top, window_.stride_h, height_, window_.in_h);
      const Inside xs = inside(left, window_.stride_w, width_, window_.in_w);
      copy_rows(x + (top + ys.begin * window_.stride_h) * window_.in_w + left + xs.begin * window_.stride_w, window_.stride_h * window_.in_w,
                window_.stride_w, ys.end - ys.begin, xs.end - xs.begin, planes + ys.begin * width_ + xs.begin, width_);
      planes += height_ * width_;
    }
  }
}

}  // namespace qdq::kernel
#endif
