// Images laid out so that a tap of a sliding window is a shift: padded planes, split by the stride into phases.
// Seen only inside the room.
#pragma once

#include <cstdint>
#include <vector>

namespace qdq::kernel {

// Elements beyond the planes that a vector which begins inside may read.
inline constexpr int64_t kPlaneSlack = 32;

// A window sliding over an image; taps outside the image are padding, wherever they lie.
struct Window {
  int64_t in_h = 0, in_w = 0, out_h = 0, out_w = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;
};

// Planes for `rows` output rows of `channels` channels: a channel is [phase][rows + halo][width]. The pixel of output
// (i, j), i counted from the first of the rows, under tap t (in the order channel, kh, kw) stands at offsets()[t] + i *
// width() + j.
class Planes {
 public:
  Planes(const Window& window, int64_t channels, int64_t rows);

  int64_t width() const { return width_; }
  int64_t rows() const { return rows_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  // Of all planes, with the slack.
  int64_t elements() const { return channels_ * channel_elements_ + kPlaneSlack; }

  // Makes all of the planes padding, which fill leaves alone as long as it is called for the same row.
  void clear(float padding, float* planes) const;
  // Copies what lies inside the image x[channels, in_h, in_w] to cleared planes, for output rows from `row` on.
  void fill(const float* x, int64_t row, float* planes) const;

 private:
  Window window_;
  int64_t channels_, rows_;
  int64_t width_ = 0, height_ = 0, channel_elements_ = 0;
  std::vector<int64_t> phases_;  // those in use, y * stride_w + x
  std::vector<int64_t> offsets_;
};

// to[i * to_stride + j] = from[i * from_stride + j * step] for i < rows, j < columns.
void copy_rows(const float* from, int64_t from_stride, int64_t step, int64_t rows, int64_t columns, float* to,
               int64_t to_stride);

// to[i * to_stride + j] = from[i * from_stride + j] + *bias for i < rows, j < columns; no addition if bias is null.
void store_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, const float* bias, float* to,
                int64_t to_stride);

// One channel under `depth` taps, at most kSumBlock: to[i * columns + j] = sum over t ascending, from 0, of
// from[offsets[t] + i * from_stride + j] * taps[t], + bias, for i < rows, j < columns; columns is 4 or more.
void correlate_rows(const float* from, const int64_t* offsets, const float* taps, int64_t depth, int64_t from_stride,
                    int64_t rows, int64_t columns, float bias, float* to);

}  // namespace qdq::kernel
