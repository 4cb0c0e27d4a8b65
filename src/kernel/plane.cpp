// Laying images out as padded planes, one a phase of the stride.
#include "kernel/plane.h"

#include <algorithm>
#include <cstring>

namespace qdq::kernel {

Planes::Planes(const Window& window)
    : window_(window), width_(window.out_w + (window.kernel_w - 1) * window.dilation_w / window.stride_w),
      halo_((window.kernel_h - 1) * window.dilation_h / window.stride_h) {
  for (int64_t kh = 0; kh < window.kernel_h; ++kh) {
    for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
      const int64_t phase = kh * window.dilation_h % window.stride_h * window.stride_w + kw * window.dilation_w % window.stride_w;
      const auto at = std::find(phases_.begin(), phases_.end(), phase);
      phase_of_.push_back(at - phases_.begin());
      if (at == phases_.end()) phases_.push_back(phase);
    }
  }
}

std::vector<int64_t> Planes::offsets(int64_t channels, int64_t rows) const {
  std::vector<int64_t> taps;
  for (int64_t kh = 0; kh < window_.kernel_h; ++kh) {
    for (int64_t kw = 0; kw < window_.kernel_w; ++kw) {
      taps.push_back(phase_of_[static_cast<size_t>(kh * window_.kernel_w + kw)] * (rows + halo_) * width_ +
                     kh * window_.dilation_h / window_.stride_h * width_ + kw * window_.dilation_w / window_.stride_w);
    }
  }
  std::vector<int64_t> result;
  result.reserve(taps.size() * static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t tap : taps) result.push_back(c * elements(rows) + tap);
  return result;
}

void Planes::fill(const float* x, int64_t channels, int64_t row, int64_t rows, float padding, float* planes) const {
  for (int64_t c = 0; c < channels; ++c, x += window_.in_h * window_.in_w) {
    for (int64_t phase : phases_) {
      const int64_t top = row * window_.stride_h + phase / window_.stride_w - window_.pad_h;
      for (int64_t i = 0; i < rows + halo_; ++i, planes += width_) {
        const int64_t y = top + i * window_.stride_h;
        fill_row(y < 0 || y >= window_.in_h ? nullptr : x + y * window_.in_w, phase % window_.stride_w - window_.pad_w, padding,
                 planes);
      }
    }
  }
  std::fill(planes, planes + kPlaneSlack, padding);
}

// to[j] = from[left + j * stride_w], padding outside the row; from null is a row of padding.
void Planes::fill_row(const float* from, int64_t left, float padding, float* to) const {
  const int64_t step = window_.stride_w;
  const int64_t begin = std::min(width_, left < 0 ? (-left + step - 1) / step : 0);
  const int64_t end = from && left < window_.in_w ? std::clamp((window_.in_w - left + step - 1) / step, begin, width_) : begin;
  std::fill(to, to + begin, padding);
  if (step == 1 && end > begin) {
    std::memcpy(to + begin, from + left + begin, static_cast<size_t>(end - begin) * sizeof(float));
  } else if (step == 2) {
    for (int64_t j = begin; j < end; ++j) to[j] = from[left + j * 2];
  } else {
    for (int64_t j = begin; j < end; ++j) to[j] = from[left + j * step];
  }
  std::fill(to + end, to + width_, padding);
}

}  // namespace qdq::kernel
