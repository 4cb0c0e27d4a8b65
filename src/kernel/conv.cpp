// Float convolutions: images are laid out so that a tap is a shift, then everything is a product of panels.
//
// Each group of an image becomes planes: zero-padded, and split by the stride into phases, so that the input of tap (ic, kh, kw)
// for all output pixels is a plain shifted view. Then one of three ways is taken; all give the same bits:
//   direct      few output channels: vectors of pixels are loaded from the planes at an offset a tap;
//   pixel lanes the taps of 16 pixels at a time are copied to panels, which many output channels then share;
//   channel lanes the same panels, but vectors run along output channels: for small maps such as 7 x 7.
#include "kernel/conv.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernel/panel.h"
#include "kernel/plane.h"

namespace qdq::kernel {
namespace {

constexpr int64_t kLaneChunk = 64;
// Beyond this many output channels a group, copying the taps to panels costs less than unaligned loads and idle lanes.
constexpr int64_t kDirectChannels = 16;
// Elements of planes or panels that a task works on: half of a second-level cache of 2 MiB.
constexpr int64_t kCacheElements = int64_t{1} << 18;
// One group's geometry, the same for all images. An image of which every tap reads the same place (1 x 1, no stride) needs no
// planes: it is taken as one row of in_h * in_w pixels.
struct Geometry {
  int64_t in_channels, out_channels;
  int64_t depth;
  bool whole;
  Window window;
  Planes planes;

  Geometry(const Conv2d& c, const Window& w)
      : in_channels(c.in_channels / c.groups), out_channels(c.out_channels / c.groups),
        depth(in_channels * c.kernel_h * c.kernel_w),
        whole(c.kernel_h == 1 && c.kernel_w == 1 && c.stride_h == 1 && c.stride_w == 1 && c.pad_h == 0 && c.pad_w == 0 &&
              w.in_h == w.out_h && w.in_w == w.out_w),
        window(whole ? Window{1, w.in_h * w.in_w, 1, w.in_h * w.in_w} : w), planes(window) {}

  int64_t pixels() const { return window.out_h * window.out_w; }
};

// A piece of the work: pixels [begin, end) of the output of one group of one image, channels [channel, channel_end).
struct Piece {
  const float* x;              // the group's input
  const float* weight;         // the group's, packed
  const float* bias;           // the group's, or null
  float* out;                  // the group's output
  int64_t begin, end;
  int64_t channel, channel_end;
};

// How the pixels of an image are cut, and which way is taken.
struct Plan {
  enum class Way { kDirect, kPixelLanes, kChannelLanes } way;
  int64_t pixels;          // a piece's pixels; whole rows unless a row is longer
  int64_t channel_splits;  // pieces along the channels
};

Plan make_plan(const Geometry& g, int64_t images) {
  Plan plan;
  const int64_t total = g.pixels();
  const auto use = [](int64_t n) { return static_cast<double>(n) / static_cast<double>(round_up(n, kPanel)); };
  if (g.out_channels < kDirectChannels && !g.whole) {
    plan.way = Plan::Way::kDirect;
    const int64_t row = g.in_channels * g.planes.elements_per_row();
    plan.pixels = std::clamp<int64_t>(kCacheElements / 4 / std::max<int64_t>(row, 1), 1, divide_up(4096, g.window.out_w)) * g.window.out_w;
  } else {
    plan.pixels = std::clamp<int64_t>(kCacheElements / std::max<int64_t>(g.depth, 1), 3 * kPanel, 512);
    if (g.window.out_w <= plan.pixels) plan.pixels = plan.pixels / g.window.out_w * g.window.out_w;
    const bool channels = g.out_channels >= kPanel && use(std::min(plan.pixels, total)) * 1.1 < use(g.out_channels);
    plan.way = channels ? Plan::Way::kChannelLanes : Plan::Way::kPixelLanes;
  }
  plan.pixels = std::min(plan.pixels, total);
  const int64_t pieces = images * divide_up(total, plan.pixels), threads = num_threads();
  plan.channel_splits = threads == 1 || pieces >= 2 * threads || plan.way == Plan::Way::kDirect
                            ? 1
                            : std::min(divide_up(2 * threads, pieces), divide_up(g.out_channels, kLaneChunk));
  return plan;
}

// Buffers of one thread, kept from piece to piece.
struct Buffers {
  Scratch planes, panels, tile;
};

// Copies the taps of the piece's pixels to panels of 16 pixels.
void fill_panels(const Geometry& g, const Piece& piece, const float* source, const std::vector<int64_t>& offsets, int64_t row,
                 float* panels) {
  for (int64_t p = piece.begin; p < piece.end; p += kPanel, panels += kPanel * g.depth) {
    const int64_t end = std::min(p + kPanel, piece.end);
    Segment segments[kPanel];
    int64_t count = 0;
    for (int64_t at = p; at < end; ++count) {
      const int64_t y = at / g.window.out_w, x = at % g.window.out_w, length = std::min(end - at, g.window.out_w - x);
      segments[count] = {(y - row) * g.planes.width() + x, length};
      at += length;
    }
    if (end - p < kPanel) std::fill(panels, panels + kPanel * g.depth, 0.0f);
    pack_segments(source, offsets.data(), g.depth, segments, count, !g.whole, panels);
  }
}

void run_direct(const Geometry& g, const Piece& piece, int64_t panel, Buffers& buffers) {
  const int64_t row = piece.begin / g.window.out_w, rows = divide_up(piece.end, g.window.out_w) - row;
  const int64_t columns = (rows - 1) * g.planes.width() + g.window.out_w, stride = round_up(columns, kPanel);
  const std::vector<int64_t> offsets = g.planes.offsets(g.in_channels, rows);
  g.planes.fill(piece.x, g.in_channels, row, rows, 0.0f, buffers.planes.get());
  for (int64_t c = 0; c < g.out_channels; c += panel) {
    const int64_t count = std::min(panel, g.out_channels - c);
    multiply_tile(piece.weight + c * g.depth, panel, count, {buffers.planes.get(), 0, offsets.data()},
                  columns, g.depth, buffers.tile.get(), stride);
    for (int64_t i = 0; i < rows; ++i) {
      float* out = piece.out + c * g.pixels() + (row + i) * g.window.out_w;
      store_tile(buffers.tile.get() + i * g.planes.width(), stride, count, g.window.out_w, piece.bias ? piece.bias + c : nullptr, nullptr, out,
                 g.pixels());
    }
  }
}

void run_panels(const Geometry& g, const Piece& piece, int64_t panel, Plan::Way way, Buffers& buffers) {
  const int64_t row = g.whole ? 0 : piece.begin / g.window.out_w;
  const int64_t rows = divide_up(piece.end, g.window.out_w) - row, pixels = piece.end - piece.begin;
  if (!g.whole) g.planes.fill(piece.x, g.in_channels, row, rows, 0.0f, buffers.planes.get());
  fill_panels(g, piece, g.whole ? piece.x : buffers.planes.get(), g.planes.offsets(g.in_channels, rows), row, buffers.panels.get());
  const float* weight = piece.weight;
  const float* panels = buffers.panels.get();
  float* tile = buffers.tile.get();
  const int64_t plane = g.pixels();
  const int64_t step = way == Plan::Way::kPixelLanes ? kPanel : kLaneChunk;
  for (int64_t c = piece.channel; c < piece.channel_end; c += step) {
    const int64_t count = std::min(step, piece.channel_end - c);
    const float* bias = piece.bias ? piece.bias + c : nullptr;
    float* out = piece.out + c * plane + piece.begin;
    if (way == Plan::Way::kPixelLanes) {
      const int64_t stride = round_up(pixels, kPanel);
      multiply_tile(weight + c * g.depth, panel, count, {panels, kPanel * g.depth, nullptr}, pixels, g.depth, tile, stride);
      store_tile(tile, stride, count, pixels, bias, nullptr, out, plane);
    } else {
      multiply_tile(panels, kPanel, pixels, {weight + c * g.depth, kPanel * g.depth, nullptr}, count, g.depth, tile, kLaneChunk);
      store_tile_transposed(tile, kLaneChunk, pixels, count, bias, out, plane);
    }
  }
}

Buffers make_buffers(const Geometry& g, const Plan& plan) {
  Buffers buffers;
  // A piece of pixels that is no multiple of a row may touch one row more.
  const int64_t rows = std::min(g.window.out_h, divide_up(plan.pixels, g.window.out_w) + (plan.pixels % g.window.out_w != 0));
  if (!g.whole) buffers.planes = make_scratch(g.in_channels * g.planes.elements(rows) + kPlaneSlack);
  if (plan.way == Plan::Way::kDirect) {
    buffers.tile = make_scratch(kPanel * round_up(rows * g.planes.width(), kPanel));
  } else {
    buffers.panels = make_scratch(round_up(plan.pixels, kPanel) * g.depth + kPanel);
    buffers.tile = make_scratch(round_up(plan.pixels, kPanel) * kLaneChunk);
  }
  return buffers;
}

}  // namespace

PackedConv2d pack_conv2d_f32(const Conv2d& conv, const float* weight) {
  PackedConv2d packed;
  packed.conv = conv;
  const int64_t rows = conv.out_channels / conv.groups;
  const int64_t depth = conv.in_channels / conv.groups * conv.kernel_h * conv.kernel_w;
  packed.panel = std::clamp<int64_t>(rows, 1, kPanel);
  const int64_t step = round_up(rows, packed.panel) * depth;
  packed.data = Tensor::empty({conv.groups, step}, DType::kF32);
  for (int64_t g = 0; g < conv.groups; ++g)
    pack_panels({weight + g * rows * depth, depth, 1}, 0, rows, depth, packed.panel, packed.data.data<float>() + g * step);
  return packed;
}

void conv2d_f32(const float* x, int64_t batch, int64_t in_h, int64_t in_w, const PackedConv2d& packed, const float* bias,
                int64_t out_h, int64_t out_w, float* out) {
  const Conv2d& conv = packed.conv;
  if (batch * out_h * out_w * conv.out_channels == 0) return;
  const Geometry g(conv, {in_h, in_w, out_h, out_w, conv.kernel_h, conv.kernel_w, conv.stride_h, conv.stride_w, conv.pad_h,
                          conv.pad_w, conv.dilation_h, conv.dilation_w});
  const float* weight = packed.data.data<float>();
  const int64_t images = batch * conv.groups, total = out_h * out_w;
  const Plan plan = make_plan(g, images);
  const int64_t blocks = divide_up(total, plan.pixels);
  const int64_t channel_step = round_up(divide_up(g.out_channels, plan.channel_splits), kPanel);
  const int64_t splits = divide_up(g.out_channels, channel_step);
  const int64_t work = 2 * g.depth * std::min(channel_step, g.out_channels) * plan.pixels;
  parallel_for(images * blocks * splits, std::max<int64_t>(1, 200000 / std::max<int64_t>(work, 1)), [&](int64_t begin, int64_t end) {
    Buffers buffers = make_buffers(g, plan);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t split = task % splits, block = task / splits % blocks, image = task / splits / blocks;
      const int64_t group = image % conv.groups;
      Piece piece;
      piece.x = x + image * g.in_channels * in_h * in_w;
      piece.weight = weight + group * round_up(g.out_channels, packed.panel) * g.depth;
      piece.bias = bias ? bias + group * g.out_channels : nullptr;
      piece.out = out + image * g.out_channels * total;
      piece.begin = block * plan.pixels;
      piece.end = std::min(total, piece.begin + plan.pixels);
      piece.channel = split * channel_step;
      piece.channel_end = std::min(g.out_channels, piece.channel + channel_step);
      if (plan.way == Plan::Way::kDirect) {
        run_direct(g, piece, packed.panel, buffers);
      } else {
        run_panels(g, piece, packed.panel, plan.way, buffers);
      }
    }
  });
}

}  // namespace qdq::kernel
