// Float convolutions: images are laid out so that a tap is a shift, then everything is a product of panels.
//
// Each group of an image becomes planes: zero-padded, and split by the stride into phases, so that the input of tap
// (ic, kh, kw) for all output pixels is a plain shifted view. Then one of three ways is taken; all give the same bits:
//   direct      few output channels or long rows: vectors of pixels are loaded from the planes at an offset a tap;
//   pixel lanes the taps of 16 pixels at a time are copied to panels, which many output channels then share;
//   channel lanes the same panels, but vectors run along output channels: for small maps such as 7 x 7.
#include "kernel/conv.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernel/panel.h"
#include "kernel/plane.h"
#include "kernel/stretches.h"

namespace qdq::kernel {
namespace {

// A thread's share of the output channels is a multiple of this.
constexpr int64_t kLaneChunk = 64;
// Beyond this many output channels a group, copying the taps to panels costs less than unaligned loads and idle lanes,
// unless the lanes between the rows are fewer than this many in `out_channels`: what copying costs, measured.
constexpr int64_t kDirectChannels = 16;
constexpr int64_t kDirectGain = 4;
// Elements of a piece's results for all its channels; with them, the panels of kSumBlock taps and as many rows of the
// weights stay in a second-level cache of 1 MiB. Elements of its planes where they are all it reads.
constexpr int64_t kTileElements = int64_t{1} << 16;
constexpr int64_t kPlaneElements = int64_t{1} << 15;
constexpr int64_t kTilePixels = 512;
// The same for a channel by itself, which has no tile: planes and results stay in a first-level cache, and few rows are
// laid out twice.
constexpr int64_t kSinglePixels = 4096;
constexpr int64_t kSinglePlaneElements = int64_t{1} << 13;

enum class Way { kDirect, kPixelLanes, kChannelLanes };

// The shape of the work, the same for every group of every image, and how it is cut into pieces.
struct ConvPlan {
  int64_t in_channels, out_channels;  // of a group
  int64_t depth;
  bool whole;  // every tap reads where the output stands: the input is taken as one row of pixels and needs no planes
  Window window;
  Way way;
  int64_t pixels;        // of a piece; whole rows unless a row is longer
  int64_t channel_step;  // of a piece

  ConvPlan(const Conv2d& c, const Window& w, int64_t images);

  // An output channel of each group, whose sums have no blocks: its rows need no tile.
  bool single() const { return way == Way::kDirect && out_channels == 1 && depth <= kSumBlock && window.out_w >= 4; }
  int64_t total() const { return window.out_h * window.out_w; }
  // Rows that a piece may touch: one more if its pixels are no multiple of a row.
  int64_t rows() const {
    return std::min(window.out_h, divide_up(pixels, window.out_w) + (pixels % window.out_w != 0));
  }
};

ConvPlan::ConvPlan(const Conv2d& c, const Window& w, int64_t images)
    : in_channels(c.in_channels / c.groups), out_channels(c.out_channels / c.groups),
      depth(in_channels * c.kernel_h * c.kernel_w),
      whole(c.kernel_h == 1 && c.kernel_w == 1 && c.stride_h == 1 && c.stride_w == 1 && c.pad_h == 0 && c.pad_w == 0 &&
            w.in_h == w.out_h && w.in_w == w.out_w),
      window(w) {
  if (whole) {
    window = Window();
    window.in_h = window.out_h = 1;
    window.in_w = window.out_w = w.in_h * w.in_w;
  }
  const auto use = [](int64_t n) { return static_cast<double>(n) / static_cast<double>(round_up(n, kPanel)); };
  const int64_t width = window.out_w;
  const int64_t halo = (c.kernel_w - 1) * c.dilation_w / c.stride_w;
  if (!whole && (out_channels < kDirectChannels || halo * out_channels < kDirectGain * width)) {
    way = Way::kDirect;
    const int64_t row = std::max<int64_t>(1, in_channels * c.stride_h * window.in_w);
    pixels = std::clamp<int64_t>((single() ? kSinglePlaneElements : kPlaneElements) / row, 1,
                                 divide_up(single() ? kSinglePixels : kTilePixels, width)) *
             width;
  } else {
    pixels = std::clamp<int64_t>(kTileElements / out_channels, 4 * kPanel, kTilePixels);
    if (width <= pixels) pixels = pixels / width * width;
    const bool channels = out_channels >= kPanel && use(std::min(pixels, total())) * 1.1 < use(out_channels);
    way = channels ? Way::kChannelLanes : Way::kPixelLanes;
  }
  pixels = std::min(pixels, total());
  const int64_t pieces = images * divide_up(total(), pixels), threads = num_threads();
  const int64_t splits = threads == 1 || pieces >= 2 * threads || way == Way::kDirect
                             ? 1
                             : std::min(divide_up(2 * threads, pieces), divide_up(out_channels, kLaneChunk));
  channel_step = round_up(divide_up(out_channels, splits), kPanel);
}

// A piece of the work: pixels [begin, end) of the output of one group of one image, channels [channel, channel_end).
struct Piece {
  const float* x;       // the group's input
  const float* weight;  // the group's, packed
  const float* bias;    // the group's, or null
  float* out;           // the group's output
  int64_t begin, end;
  int64_t channel, channel_end;
};

// What works on pieces, with buffers of its own: one a thread.
class Worker {
 public:
  Worker(const ConvPlan& plan, const Planes& planes, int64_t weight_panel)
      : plan_(plan), planes_(planes), weight_panel_(weight_panel) {
    if (!plan.whole) padded_ = make_scratch(planes.elements());
    if (plan.single()) {
      // needs no more
    } else if (plan.way == Way::kDirect) {
      tile_ = make_scratch(plan.out_channels * round_up(planes.rows() * planes.width(), kPanel));
    } else {
      panels_ = make_scratch(round_up(plan.pixels, kPanel) * std::min(plan.depth, kSumBlock) + kPanel);
      tile_ = make_scratch(round_up(plan.pixels, kPanel) * plan.channel_step);
    }
  }

  void run(const Piece& piece) {
    const int64_t row = plan_.whole ? 0 : piece.begin / plan_.window.out_w;
    if (!plan_.whole && (piece.x != input_ || row != row_)) {
      if (row != row_) planes_.clear(0.0f, padded_.get());
      planes_.fill(piece.x, row, padded_.get());
    }
    input_ = piece.x;
    row_ = row;
    if (plan_.way == Way::kDirect) return run_direct(piece, row);
    const int64_t pixels = piece.end - piece.begin, channels = piece.channel_end - piece.channel;
    const int64_t stride = round_up(plan_.way == Way::kPixelLanes ? pixels : channels, kPanel);
    const float* bias = piece.bias ? piece.bias + piece.channel : nullptr;
    float* out = piece.out + piece.channel * plan_.total() + piece.begin;
    for (int64_t k = 0; k == 0 || k < plan_.depth; k += kSumBlock) multiply_taps(piece, row, k, stride);
    if (plan_.way == Way::kPixelLanes) {
      store_tile(tile_.get(), stride, channels, pixels, bias, nullptr, out, plan_.total());
    } else {
      store_tile_transposed(tile_.get(), stride, pixels, channels, bias, out, plan_.total());
    }
  }

 private:
  // The vectors run over the rows of the planes, so some lanes between the rows are for nothing.
  void run_direct(const Piece& piece, int64_t row) {
    const int64_t width = plan_.window.out_w, rows = piece.end / width - row;
    if (plan_.single())
      return correlate_rows(padded_.get(), planes_.offsets().data(), piece.weight, plan_.depth, planes_.width(), rows,
                            width, piece.bias ? *piece.bias : 0.0f, piece.out + piece.begin);
    const int64_t columns = (rows - 1) * planes_.width() + width, stride = round_up(columns, kPanel);
    multiply_tile(piece.weight, weight_panel_, plan_.out_channels, {padded_.get(), 0, planes_.offsets().data()},
                  columns, plan_.depth, tile_.get(), stride);
    for (int64_t c = 0; c < plan_.out_channels; ++c) {
      store_rows(tile_.get() + c * stride, planes_.width(), rows, width, piece.bias ? piece.bias + c : nullptr,
                 piece.out + c * plan_.total() + piece.begin, width);
    }
  }

  // Takes the block of taps from `first` on into the tile of sums, [channel][pixel] or [pixel][channel].
  void multiply_taps(const Piece& piece, int64_t row, int64_t first, int64_t stride) {
    const int64_t taps = std::min(kSumBlock, plan_.depth - first);
    const int64_t pixels = piece.end - piece.begin, channels = piece.channel_end - piece.channel;
    fill_panels(piece, row, first, taps);
    const float* weight = piece.weight + piece.channel * plan_.depth + first * weight_panel_;
    const int64_t panel = kPanel * taps, weight_stride = weight_panel_ * plan_.depth;
    if (plan_.way == Way::kPixelLanes) {
      multiply_block(weight, weight_panel_, weight_stride, channels, {panels_.get(), panel, nullptr}, pixels, taps,
                     first > 0, tile_.get(), stride);
    } else {
      multiply_block(panels_.get(), kPanel, panel, pixels, {weight, weight_stride, nullptr}, channels, taps, first > 0,
                     tile_.get(), stride);
    }
  }

  // Copies `taps` taps from `first` on of the piece's pixels to panels of 16 pixels.
  void fill_panels(const Piece& piece, int64_t row, int64_t first, int64_t taps) {
    const int64_t width = plan_.window.out_w;
    if (plan_.whole)
      return pack_columns(piece.x + first * width + piece.begin, width, piece.end - piece.begin, taps, panels_.get());
    float* panel = panels_.get();
    for (int64_t p = piece.begin; p < piece.end; p += kPanel, panel += kPanel * taps) {
      const int64_t end = std::min(p + kPanel, piece.end);
      Segment segments[kPanel];
      int64_t count = 0;
      for (int64_t at = p; at < end; ++count) {
        const int64_t y = at / width, x = at % width, length = std::min(end - at, width - x);
        segments[count] = {(y - row) * planes_.width() + x, length};
        at += length;
      }
      if (end - p < kPanel) std::fill(panel, panel + kPanel * taps, 0.0f);
      pack_segments(padded_.get(), planes_.offsets().data() + first, taps, segments, count, panel);
    }
  }

  const ConvPlan& plan_;
  const Planes& planes_;
  int64_t weight_panel_;
  // What the planes hold: neighbouring pieces often share them (long rows, split channels).
  const float* input_ = nullptr;
  int64_t row_ = -1;
  Scratch padded_, panels_, tile_;
};

}  // namespace

PackedConv2d pack_conv2d_f32(const Conv2d& conv, const float* weight) {
  PackedConv2d packed;
  packed.conv = conv;
  const int64_t rows = conv.out_channels / conv.groups;
  const int64_t depth = conv.in_channels / conv.groups * conv.kernel_h * conv.kernel_w;
  packed.panel = std::clamp<int64_t>(rows, 1, kPanel);
  const int64_t step = round_up(rows, packed.panel) * depth;
  packed.data = make_panels({conv.groups, step});
  for (int64_t g = 0; g < conv.groups; ++g)
    pack_panels({weight + g * rows * depth, depth, 1}, 0, rows, depth, packed.panel,
                packed.data.data<float>() + g * step);
  return packed;
}

void conv2d_f32(const float* x, int64_t batch, int64_t in_h, int64_t in_w, const PackedConv2d& packed,
                const float* bias, int64_t out_h, int64_t out_w, float* out,
                const std::function<void(int64_t, int64_t)>& written) {
  const Conv2d& conv = packed.conv;
  if (batch * out_h * out_w * conv.out_channels == 0) return;
  const int64_t images = batch * conv.groups;
  const ConvPlan plan(conv,
                      {in_h, in_w, out_h, out_w, conv.kernel_h, conv.kernel_w, conv.stride_h, conv.stride_w, conv.pad_h,
                       conv.pad_w, conv.dilation_h, conv.dilation_w},
                      images);
  const Planes planes(plan.window, plan.in_channels, plan.rows());
  const float* weight = packed.data.data<float>();
  const int64_t blocks = divide_up(plan.total(), plan.pixels), splits = divide_up(plan.out_channels, plan.channel_step);
  const int64_t elements = plan.out_channels * plan.total();
  Stretches stretches(images, 1, elements, blocks * splits, written);
  const int64_t work = 2 * plan.depth * std::min(plan.channel_step, plan.out_channels) * plan.pixels;
  parallel_for(images * blocks * splits, 1 + 200000 / std::max<int64_t>(work, 1), [&](int64_t begin, int64_t end) {
    Worker worker(plan, planes, packed.panel);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t split = task % splits, block = task / splits % blocks, image = task / splits / blocks;
      const int64_t group = image % conv.groups;
      Piece piece;
      piece.x = x + image * plan.in_channels * in_h * in_w;
      piece.weight = weight + group * round_up(plan.out_channels, packed.panel) * plan.depth;
      piece.bias = bias ? bias + group * plan.out_channels : nullptr;
      piece.out = out + image * elements;
      piece.begin = block * plan.pixels;
      piece.end = std::min(plan.total(), piece.begin + plan.pixels);
      piece.channel = split * plan.channel_step;
      piece.channel_end = std::min(plan.out_channels, piece.channel + plan.channel_step);
      worker.run(piece);
      stretches.finish(image);
    }
  });
  stretches.finish_all();
}

}  // namespace qdq::kernel
