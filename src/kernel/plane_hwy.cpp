// Laying images out as padded planes, one a phase of the stride, taking results out again, and the sums of a channel by
// itself.
#include "kernel/plane.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/plane_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The last vector of a row overlaps the one before, so that rows of maps such as 7 x 7 need no loop over single
// elements.
template <bool kBias, class D>
HWY_INLINE void move_row(D d, const float* from, int64_t columns, hn::Vec<D> bias, float* to) {
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
void move_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float bias, float* to,
               int64_t to_stride) {
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 4> narrow;
  if (columns >= static_cast<int64_t>(hn::Lanes(wide))) {
    for (int64_t i = 0; i < rows; ++i)
      move_row<kBias>(wide, from + i * from_stride, columns, hn::Set(wide, bias), to + i * to_stride);
  } else if (columns >= 4) {
    for (int64_t i = 0; i < rows; ++i)
      move_row<kBias>(narrow, from + i * from_stride, columns, hn::Set(narrow, bias), to + i * to_stride);
  } else {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        to[i * to_stride + j] = kBias ? from[i * from_stride + j] + bias : from[i * from_stride + j];
  }
}

void store_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, const float* bias, float* to,
                int64_t to_stride) {
  if (bias) {
    move_rows<true>(from, from_stride, rows, columns, *bias, to, to_stride);
  } else {
    move_rows<false>(from, from_stride, rows, columns, 0.0f, to, to_stride);
  }
}

void copy_rows(const float* from, int64_t from_stride, int64_t step, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) {
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

// kTaps of them, which registers hold, or any number if that is 0.
template <int kTaps, class D>
HWY_NOINLINE void correlate(D d, const float* HWY_RESTRICT from, const int64_t* offsets, const float* taps,
                            int64_t depth, int64_t from_stride, int64_t rows, int64_t columns, float bias,
                            float* HWY_RESTRICT to) {
  using V = hn::Vec<D>;
  constexpr int kHeld = std::max(kTaps, 1);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V shift = hn::Set(d, bias);
  V weight[kHeld];
  const float* at[kHeld];
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) {
    weight[t] = hn::Set(d, taps[t]);
    at[t] = from + offsets[t];
  }
  for (int64_t i = 0; i < rows; ++i, to += columns) {
    const int64_t row = i * from_stride;
    const auto held = [&](int64_t j) HWY_ATTR {
      V sum = hn::Zero(d);
#pragma GCC unroll 9
      for (int t = 0; t < kTaps; ++t) sum = hn::Add(sum, hn::Mul(hn::LoadU(d, at[t] + row + j), weight[t]));
      hn::StoreU(hn::Add(sum, shift), d, to + j);
    };
    const auto any = [&](int64_t j, auto vectors) HWY_ATTR {
      constexpr int kVectors = decltype(vectors)::value;
      V sum[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
      for (int64_t t = 0; t < depth; ++t) {
        const float* x = from + offsets[t] + row + j;
        const V w = hn::Set(d, taps[t]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], hn::Mul(hn::LoadU(d, x + v * lanes), w));
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::Add(sum[v], shift), d, to + j + v * lanes);
    };
    // The last vector of a row overlaps the one before.
    int64_t j = 0;
    if constexpr (kTaps > 0) {
      for (; j + lanes <= columns; j += lanes) held(j);
      if (j < columns) held(columns - lanes);
    } else {
      for (; j + 4 * lanes <= columns; j += 4 * lanes) any(j, std::integral_constant<int, 4>());
      for (; j + lanes <= columns; j += lanes) any(j, std::integral_constant<int, 1>());
      if (j < columns) any(columns - lanes, std::integral_constant<int, 1>());
    }
  }
}

void correlate_rows(const float* from, const int64_t* offsets, const float* taps, int64_t depth, int64_t from_stride,
                    int64_t rows, int64_t columns, float bias, float* to) {
  const auto run = [&](auto d) HWY_ATTR {
    (depth == 9 ? correlate<9, decltype(d)> : correlate<0, decltype(d)>)(d, from, offsets, taps, depth, from_stride,
                                                                         rows, columns, bias, to);
  };
  if (columns >= 16) run(hn::CappedTag<float, 16>());
  else if (columns >= 8) run(hn::CappedTag<float, 8>());
  else run(hn::CappedTag<float, 4>());
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(store_rows);
HWY_EXPORT(copy_rows);
HWY_EXPORT(correlate_rows);

void store_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, const float* bias, float* to,
                int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(store_rows)(from, from_stride, rows, columns, bias, to, to_stride);
}

void copy_rows(const float* from, int64_t from_stride, int64_t step, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(copy_rows)(from, from_stride, step, rows, columns, to, to_stride);
}

void correlate_rows(const float* from, const int64_t* offsets, const float* taps, int64_t depth, int64_t from_stride,
                    int64_t rows, int64_t columns, float bias, float* to) {
  HWY_DYNAMIC_DISPATCH(correlate_rows)(from, offsets, taps, depth, from_stride, rows, columns, bias, to);
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
    : window_(window), channels_(channels), rows_(rows),
      width_(window.out_w + (window.kernel_w - 1) * window.dilation_w / window.stride_w),
      height_(rows + (window.kernel_h - 1) * window.dilation_h / window.stride_h) {
  for (int64_t kh = 0; kh < window.kernel_h; ++kh) {
    for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
      const int64_t y = kh * window.dilation_h, x = kw * window.dilation_w;
      const int64_t phase = y % window.stride_h * window.stride_w + x % window.stride_w;
      const auto at = std::find(phases_.begin(), phases_.end(), phase);
      offsets_.push_back((at - phases_.begin()) * height_ * width_ + y / window.stride_h * width_ +
                         x / window.stride_w);
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
      copy_rows(x + (top + ys.begin * window_.stride_h) * window_.in_w + left + xs.begin * window_.stride_w,
                window_.stride_h * window_.in_w, window_.stride_w, ys.end - ys.begin, xs.end - xs.begin,
                planes + ys.begin * width_ + xs.begin, width_);
      planes += height_ * width_;
    }
  }
}

}  // namespace qdq::kernel
#endif
