// Winograd's float convolution: blocks of tiles, whose transformed inputs stay in a second-level cache while all
// weights pass over them.
#include "kernel/winograd_f32.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernel/conv.h"
#include "kernel/panel.h"
#include "kernel/stretches.h"

namespace qdq::kernel {
namespace {

// Output channels that are finished together: two panels, as many as the products take at once.
constexpr int64_t kChunk = 2 * kPanel;
static_assert(kChunk == kTileChannels, "transformed inputs and products have the same stride");
// Tiles of a block: so often every transformed weight is used, and so many inputs stay in a second-level cache.
constexpr int64_t kTiles = 64;

// Sizes of a group, and how the tiles of all images are cut into blocks: of whole images, of rows of tiles of one, or,
// where those are long, of parts of a row.
struct Plan {
  int64_t in_channels, out_channels;
  int64_t pad_h, pad_w, in_h, in_w, out_h, out_w;
  int64_t tiles_h, tiles_w;
  int64_t images, rows, columns;  // of tiles, of a block
  int64_t chunks, chunk_step;

  int64_t tiles() const { return images * rows * columns; }
  int64_t blocks_w() const { return divide_up(tiles_w, columns); }
  int64_t blocks() const { return divide_up(tiles_h, rows) * blocks_w(); }  // of an image, or of `images` of them
};

Plan make_plan(const Conv2d& c, int64_t batch, int64_t in_h, int64_t in_w, int64_t out_h, int64_t out_w) {
  Plan p{};
  p.in_channels = c.in_channels / c.groups, p.out_channels = c.out_channels / c.groups;
  p.pad_h = c.pad_h, p.pad_w = c.pad_w, p.in_h = in_h, p.in_w = in_w, p.out_h = out_h, p.out_w = out_w;
  p.tiles_h = divide_up(out_h, kTileOutputs), p.tiles_w = divide_up(out_w, kTileOutputs);
  p.images = c.groups == 1 ? std::clamp<int64_t>(kTiles / (p.tiles_h * p.tiles_w), 1, batch) : 1;
  p.rows = std::clamp<int64_t>(kTiles / p.tiles_w, 1, p.tiles_h);
  p.rows = divide_up(p.tiles_h, divide_up(p.tiles_h, p.rows));
  p.columns = divide_up(p.tiles_w, divide_up(p.tiles_w, kTiles));
  p.chunks = divide_up(p.out_channels, kChunk);
  const int64_t blocks = divide_up(batch, p.images) * c.groups * p.blocks(), threads = num_threads();
  const int64_t splits = threads == 1 || blocks >= 2 * threads ? 1 : std::min(divide_up(2 * threads, blocks), p.chunks);
  p.chunk_step = divide_up(p.chunks, splits);
  return p;
}

// A block of one group: rows [row, row + rows) and columns [column, column + columns) of tiles of `images` images, and
// chunks [chunk, chunk_end) of its channels.
struct Block {
  const float* x;       // the group's input of the first image
  const float* weight;  // the group's, as given
  const float* bias;    // the group's, or null
  float* out;           // the group's output of the first image
  int64_t images, row, rows, column, columns, chunk, chunk_end;

  int64_t tiles() const { return images * rows * columns; }
};

// What works on blocks, with buffers of its own: one a thread.
class Worker {
 public:
  explicit Worker(const Plan& plan)
      : plan_(plan), row_((plan.columns * kTileOutputs + 2) * kPanel), step_(plan.tiles() * kTileChannels + kPanel),
        staged_(make_scratch(kTileInputs * row_)), scratch_(make_scratch(kTileInputs * row_)),
        inputs_(make_scratch(divide_up(plan.in_channels, kTileChannels) * kTileProducts * step_)),
        packed_(make_scratch(kTaps * kPanel * kTileChannels)), weights_(make_scratch(kTileProducts * kWeightStep)),
        products_(make_scratch(kTileProducts * step_)),
        outputs_(make_scratch(kTileOutputs * kTileOutputs * plan.columns * kPanel)) {}

  void run(const Block& block) {
    if (block.x != x_ || block.row != row_of_tiles_ || block.column != column_) transform_inputs(block);
    x_ = block.x, row_of_tiles_ = block.row, column_ = block.column;
    for (int64_t chunk = block.chunk; chunk < block.chunk_end; ++chunk) {
      multiply(block, chunk);
      store_outputs(block, chunk);
    }
  }

 private:
  // `count` pixels [count][16] of a row of the input, from column `first` on; what lies outside of the image is 0.
  void stage_row(const float* x, int64_t channels, int64_t y, int64_t first, int64_t count, float* to) {
    const int64_t left = std::clamp<int64_t>(-first, 0, count), begin = first + left;
    const int64_t inside = y < 0 || y >= plan_.in_h ? 0 : std::clamp<int64_t>(plan_.in_w - begin, 0, count - left);
    std::fill(to, to + left * kPanel, 0.0f);
    if (inside > 0)
      pack_panels({x + y * plan_.in_w + begin, plan_.in_h * plan_.in_w, 1}, 0, channels, inside, kPanel,
                  to + left * kPanel);
    std::fill(to + (left + inside) * kPanel, to + count * kPanel, 0.0f);
  }

  void transform_inputs(const Block& block) {
    const int64_t plane = plan_.in_h * plan_.in_w, columns = block.columns * kTileOutputs + 2;
    for (int64_t c = 0; c < plan_.in_channels; c += kPanel) {
      float* to = inputs_.get() + c / kTileChannels * kTileProducts * step_ + c % kTileChannels;
      for (int64_t image = 0; image < block.images; ++image) {
        const float* x = block.x + (image * plan_.in_channels + c) * plane;
        for (int64_t r = 0; r < block.rows; ++r, to += block.columns * kTileChannels) {
          // Two rows are those of the tiles above.
          const int64_t known = r > 0 ? kTileInputs - kTileOutputs : 0;
          std::copy_n(staged_.get() + kTileOutputs * row_, known * row_, staged_.get());
          for (int64_t i = known; i < kTileInputs; ++i)
            stage_row(x, std::min(kPanel, plan_.in_channels - c), (block.row + r) * kTileOutputs + i - plan_.pad_h,
                      block.column * kTileOutputs - plan_.pad_w, columns, staged_.get() + i * row_);
          winograd_inputs_f32(staged_.get(), row_, block.columns, kTileChannels, step_, scratch_.get(), to);
        }
      }
    }
  }

  // The weights of a chunk, transformed a block of the sum at a time, with all tiles.
  void multiply(const Block& block, int64_t chunk) {
    const int64_t first = chunk * kChunk, channels = std::min(kChunk, plan_.out_channels - first);
    const float* inputs = inputs_.get();
    for (int64_t k = 0; k < plan_.in_channels; k += kTileChannels, inputs += kTileProducts * step_) {
      const int64_t depth = std::min(kTileChannels, plan_.in_channels - k);
      transform_weights(block.weight + (first * plan_.in_channels + k) * kTaps, channels, depth);
      for (int64_t t = 0; t < kTileProducts; ++t)
        multiply_block_by_rows(inputs + t * step_, kTileChannels, block.tiles(),
                               {weights_.get() + t * kWeightStep, kTileChannels * kPanel, nullptr}, channels, depth,
                               k > 0, products_.get() + t * step_, kChunk);
    }
  }

  // `weight` is [channels][depth][3][3], of rows of all input channels; to [36][panels][32][16].
  void transform_weights(const float* weight, int64_t channels, int64_t depth) {
    for (int64_t c = 0; c < channels; c += kPanel) {
      pack_panels({weight, plan_.in_channels * kTaps, 1}, c, std::min(kPanel, channels - c), depth * kTaps, kPanel,
                  packed_.get());
      winograd_weights_f32(packed_.get(), depth, kWeightStep, weights_.get() + c * kTileChannels);
    }
  }

  void store_outputs(const Block& block, int64_t chunk) {
    const int64_t plane = plan_.out_h * plan_.out_w, row = kTileOutputs * block.columns * kPanel;
    const int64_t left = block.column * kTileOutputs,
                  width = std::min(block.columns * kTileOutputs, plan_.out_w - left);
    for (int64_t c = chunk * kChunk; c < std::min((chunk + 1) * kChunk, plan_.out_channels); c += kPanel) {
      const float* from = products_.get() + c % kChunk;
      const int64_t channels = std::min(kPanel, plan_.out_channels - c);
      for (int64_t image = 0; image < block.images; ++image) {
        float* out = block.out + (image * plan_.out_channels + c) * plane + left;
        for (int64_t r = 0; r < block.rows; ++r, from += block.columns * kChunk) {
          winograd_outputs_f32(from, kChunk, step_, block.columns, outputs_.get());
          const int64_t y = (block.row + r) * kTileOutputs;
          for (int64_t i = 0; i < std::min(kTileOutputs, plan_.out_h - y); ++i)
            store_tile_transposed(outputs_.get() + i * row, kPanel, width, channels,
                                  block.bias ? block.bias + c : nullptr, out + (y + i) * plan_.out_w, plane);
        }
      }
    }
  }

  const Plan& plan_;
  // Elements of a row of pixels, and from a product to the next, of weights and of tiles: no multiple of a page, so
  // that products do not meet in a cache.
  int64_t row_, step_;
  static constexpr int64_t kWeightStep = kChunk * kTileChannels + kPanel;
  // What the transformed inputs are of: neighbouring blocks share them where channels are split.
  const float* x_ = nullptr;
  int64_t row_of_tiles_ = -1, column_ = -1;
  Scratch staged_, scratch_, inputs_, packed_, weights_, products_, outputs_;
};

}  // namespace

bool takes_winograd(const Conv2d& conv, int64_t out_h, int64_t out_w) {
  // What the transforms cost is won back from this many channels on, and from tiles that are half in use.
  constexpr int64_t kLeastChannels = 16, kLeastPixels = 8;
  return conv.kernel_h == 3 && conv.kernel_w == 3 && conv.stride_h == 1 && conv.stride_w == 1 && conv.dilation_h == 1 &&
         conv.dilation_w == 1 && std::min(conv.in_channels, conv.out_channels) / conv.groups >= kLeastChannels &&
         out_h * out_w >= kLeastPixels * divide_up(out_h, kTileOutputs) * divide_up(out_w, kTileOutputs);
}

void winograd_conv2d_f32(const Conv2d& conv, const float* x, int64_t batch, int64_t in_h, int64_t in_w,
                         const float* weight, const float* bias, int64_t out_h, int64_t out_w, float* out,
                         const std::function<void(int64_t, int64_t)>& written) {
  if (batch * out_h * out_w * conv.out_channels == 0) return;
  const Plan plan = make_plan(conv, batch, in_h, in_w, out_h, out_w);
  const int64_t sets = divide_up(batch, plan.images) * conv.groups, blocks = plan.blocks();
  const int64_t splits = divide_up(plan.chunks, plan.chunk_step);
  const int64_t elements = plan.out_channels * out_h * out_w;  // of a group of an image
  Stretches stretches(batch * conv.groups, plan.images, elements, blocks * splits, written);
  const int64_t work = 2 * kTileProducts * plan.tiles() * plan.in_channels * plan.chunk_step * kChunk;
  parallel_for(sets * blocks * splits, 1 + 200000 / work, [&](int64_t begin, int64_t end) {
    Worker worker(plan);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t split = task % splits, at = task / splits % blocks;
      const int64_t set = task / splits / blocks, image = set * plan.images, group = image % conv.groups;
      Block block{};
      block.x = x + image * plan.in_channels * in_h * in_w;
      block.weight = weight + group * plan.out_channels * plan.in_channels * kTaps;
      block.bias = bias ? bias + group * plan.out_channels : nullptr;
      block.out = out + image * elements;
      block.images = std::min(plan.images, batch * conv.groups - image);
      block.row = at / plan.blocks_w() * plan.rows;
      block.rows = std::min(plan.rows, plan.tiles_h - block.row);
      block.column = at % plan.blocks_w() * plan.columns;
      block.columns = std::min(plan.columns, plan.tiles_w - block.column);
      block.chunk = split * plan.chunk_step;
      block.chunk_end = std::min(plan.chunks, block.chunk + plan.chunk_step);
      worker.run(block);
      stretches.finish(set);
    }
  });
  stretches.finish_all();
}

}  // namespace qdq::kernel
