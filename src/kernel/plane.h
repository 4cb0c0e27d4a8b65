// Images laid out so that a tap of a sliding window is a shift: zero-padded planes, split by the stride into phases.
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

// A channel's planes for `rows` output rows are [phase][rows + halo][width]; the pixel of output (i, j), i counted from the first
// of the rows, under tap t stands at offsets[t] + i * width + j.
class Planes {
 public:
  explicit Planes(const Window& window);

  int64_t width() const { return width_; }
  // Elements of one channel.
  int64_t elements(int64_t rows) const { return static_cast<int64_t>(phases_.size()) * (rows + halo_) * width_; }
  // Elements of one channel that each output row adds.
  int64_t elements_per_row() const { return static_cast<int64_t>(phases_.size()) * width_; }
  // The offsets of the taps in the order (channel, kh, kw).
  std::vector<int64_t> offsets(int64_t channels, int64_t rows) const;
  // Fills the planes of x[channels, in_h, in_w] for output rows [row, row + rows), and kPlaneSlack elements more.
  void fill(const float* x, int64_t channels, int64_t row, int64_t rows, float padding, float* planes) const;

 private:
  void fill_row(const float* from, int64_t left, float padding, float* to) const;

  Window window_;
  int64_t width_ = 0, halo_ = 0;
  std::vector<int64_t> phases_;    // those in use, y * stride_w + x
  std::vector<int64_t> phase_of_;  // of tap kh * kernel_w + kw, an index into phases_
};

}  // namespace qdq::kernel
