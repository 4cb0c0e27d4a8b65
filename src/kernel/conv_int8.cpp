// Integer convolutions: bands of rows are laid out so that the taps of a pixel are a few runs of bytes, then
// multiplied.
//
// An image is read where it stands if the road can: no padding, no groups, bytes of the road's sign. Otherwise a band
// of it is staged: copied with its padding, and flipped to s8 or widened to s16 for the roads that want that.
#include "kernel/conv_int8.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "kernel/depthwise_int8.h"
#include "kernel/matched_int8.h"
#include "kernel/panel.h"
#include "kernel/winograd_int8.h"

namespace qdq::kernel {
namespace {

// A staged band stays in the second-level cache while all panels of weights pass over it.
constexpr int64_t kBandBytes = int64_t{1} << 17;
// The same for a task's inputs transformed for Winograd; and the tiles that are worth transforming all the weights for,
// if there are more.
constexpr int64_t kTransformedBytes = int64_t{1} << 19;
constexpr int64_t kFewTiles = 32;
// Winograd's transforms pay if their products, 16 or 36 a tile, are fewer than these of a pixel, which the direct way
// multiplies 9 times. What it costs to transform the weights counts as some tiles more. Measured with 8 to 512
// channels: tiles of 2x2 for 4x4 pixels take 0.65 to 0.8 of the direct way's time in WebAssembly, for 3x3 1.06; tiles
// of 4x4 take 0.6 of the time of those of 2x2 for 56x56 pixels with AVX2, 0.87 for 14x14, and 1.04 for 10x10.
constexpr int64_t kDirectProducts = 8;
constexpr std::pair<int64_t, int64_t> kTransformTiles[] = {{2, 3}, {4, 5}};
// Beyond this the transformed weights of a panel drive each other out of the second-level cache: with AVX2 tiles of 4x4
// take 0.63 of the time of those of 2x2 for 384 channels (442 kB), and 2.6 times as long for 448.
constexpr int64_t kMostPanelBytes = kTransformedBytes - (int64_t{1} << 16);
// Bytes behind a staged band that a vector or a padded step may read.
constexpr int64_t kStageSlack = 64;
// Multiply-adds below which waking threads costs more than it gains.
constexpr int64_t kSerialWork = int64_t{1} << 18;

// Whether dot_road() may be kMatchedBytes; where it may, depthwise convolutions only have 16-bit products.
#if defined(__wasm__)
constexpr bool kMayMatch = false;
#else
constexpr bool kMayMatch = true;
#endif

// Working memory of a thread, which grows and stays: a warm call allocates nothing.
template <class T> T* scratch(int64_t count) {
  thread_local std::vector<T> memory;
  if (static_cast<int64_t>(memory.size()) < count) memory.resize(static_cast<size_t>(count));
  return memory.data();
}

bool has_winograd_windows(const Conv2d& c) {
  const int64_t ic = c.in_channels / c.groups;
  return c.kernel_h == 3 && c.kernel_w == 3 && c.stride_h == 1 && c.stride_w == 1 && c.dilation_h == 1 &&
         c.dilation_w == 1 && ic % kWinogradChannels == 0;
}

// Whether Winograd's tiles of 4x4 may take less than 8-bit dot products of 128 bits. Measured in Node 24 on Zen 5: they
// take 0.78 of the time for 64 channels and 56x56 pixels, 0.68 for 128 and 28x28, 0.87 for 256 and 14x14; 1.07 for 16
// channels and 55x55 pixels, 1.36 for 512 and 7x7. With 512 bits they gain nothing.
bool may_gain_by_tiles(const Conv2d& c, const ConvInt8Images& i) {
  constexpr int64_t kLeastChannels = 64, kLeastSide = 13;
  return has_winograd_windows(c) && c.in_channels / c.groups >= kLeastChannels && i.out_h >= kLeastSide &&
         i.out_w >= kLeastSide;
}

int64_t element_bytes(const PackedConvInt8& p) { return p.road == DotRoad::kPairs && !p.depthwise ? 2 : 1; }

// What a road's bytes are x-ored with to get them from u8.
uint8_t flip_of(const PackedConvInt8& p) { return p.road == DotRoad::kSignedBytes ? 128 : 0; }

// Groups of the channel arrays: those of a depthwise convolution stand together.
int64_t array_groups(const PackedConvInt8& p) { return p.depthwise ? 1 : p.conv.groups; }

// Where the value of an output channel stands in the padded arrays.
size_t array_index(const PackedConvInt8& p, int64_t channel) {
  const int64_t oc = p.conv.out_channels / array_groups(p);
  return static_cast<size_t>(channel / oc * p.padded_channels + channel % oc);
}

void pack_products(const int8_t* weight, PackedConvInt8& p) {
  const Conv2d& c = p.conv;
  const int64_t ic = c.in_channels / c.groups, oc = c.out_channels / c.groups, taps = c.kernel_h * c.kernel_w;
  const int64_t step = dot_step(p.road), panels = divide_up(oc, kDotPanel);
  p.weights = Tensor::empty({c.groups, panels, p.run_count, p.run_steps, kDotPanel, step}, DType::kS8);
  int8_t* out = p.weights.data<int8_t>();
  for (int64_t g = 0; g < c.groups; ++g) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t run = 0; run < p.run_count; ++run) {
        for (int64_t k = 0; k < p.run_steps * step; k += step) {
          for (int64_t o = panel * kDotPanel; o < (panel + 1) * kDotPanel; ++o) {
            for (int64_t i = k; i < k + step; ++i) {
              const int64_t element = run * p.run_length + i, tap = element / ic, channel = element % ic;
              *out++ = o < oc && i < p.run_length ? weight[((g * oc + o) * ic + channel) * taps + tap] : int8_t{0};
            }
          }
        }
      }
    }
  }
}

void pack_matched(const int8_t* weight, PackedConvInt8& p) {
  const Conv2d& c = p.conv;
  const int64_t ic = c.in_channels / c.groups, oc = c.out_channels / c.groups, taps = c.kernel_h * c.kernel_w;
  MatchedWeights matched;
  std::vector<int8_t> rows(static_cast<size_t>(p.run_length * kDotPanel));
  p.shift_sums.assign(static_cast<size_t>(c.groups * p.padded_channels), 0);
  for (int64_t g = 0; g < c.groups; ++g) {
    for (int64_t first = 0; first < oc; first += kDotPanel) {
      for (int64_t run = 0; run < p.run_count; ++run) {
        int8_t* to = rows.data();
        for (int64_t i = 0; i < p.run_length; ++i) {
          const int64_t element = run * p.run_length + i, tap = element / ic, channel = element % ic;
          for (int64_t o = first; o < first + kDotPanel; ++o)
            *to++ = o < oc ? weight[((g * oc + o) * ic + channel) * taps + tap] : int8_t{0};
        }
        append_matched_run(rows.data(), p.run_length, matched, p.shift_sums.data() + g * p.padded_channels + first);
      }
    }
  }
  const auto count = static_cast<int64_t>(matched.steps.size());
  matched.first.push_back(static_cast<int32_t>(count));
  static_assert(sizeof(DotStep) == 2 * sizeof(int32_t));
  p.weights = Tensor::empty({count, kDotPanel, 4}, DType::kS8);
  std::copy(matched.weights.begin(), matched.weights.end(), p.weights.data<int8_t>());
  p.steps = Tensor::empty({count, 2}, DType::kS32);
  if (count > 0) std::memcpy(p.steps.data<int32_t>(), matched.steps.data(), matched.steps.size() * sizeof(DotStep));
  p.first_steps = Tensor::empty({static_cast<int64_t>(matched.first.size())}, DType::kS32);
  std::copy(matched.first.begin(), matched.first.end(), p.first_steps.data<int32_t>());
}

// What the three loops of kMatchedBytes take for a run of a pixel more than the one of 16-bit products, in the units of
// matched_cost. On Zen 3 pairs are the faster for runs of 64 channels at most: by 15 % for 32, and 4 % for 64.
constexpr int64_t kMatchedOverhead = 24;

// What kMatchedBytes takes for a pixel, where a step that is neither double nor shifted takes four.
int64_t matched_cost(const PackedConvInt8& p) {
  const int32_t* first = p.first_steps.data<int32_t>();
  int64_t cost = 0;
  for (int64_t run = 0; run + 3 < p.first_steps.numel(); run += 3, first += 3)
    cost += 6 * (first[1] - first[0]) / 2 + 7 * (first[2] - first[1]) / 3 + 4 * (first[3] - first[2]);
  return cost;
}

void pack_depthwise(const int8_t* weight, PackedConvInt8& p) {
  const int64_t taps = p.conv.kernel_h * p.conv.kernel_w, group = depthwise_taps(p.road);
  const int64_t panels = divide_up(p.conv.out_channels, kDepthwisePanel);
  p.weights = Tensor::empty({panels, p.run_count, kDepthwisePanel, group}, DType::kS8);
  int8_t* out = p.weights.data<int8_t>();
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t g = 0; g < p.run_count; ++g) {
      for (int64_t place = 0; place < kDepthwisePanel; ++place) {
        const int64_t c = panel * kDepthwisePanel + depthwise_channel(place);
        for (int64_t slot = 0; slot < group; ++slot) {
          const int64_t tap = depthwise_tap(p.conv, p.road, g, slot);
          *out++ = c < p.conv.out_channels && tap < taps ? weight[c * taps + tap] : int8_t{0};
        }
      }
    }
  }
}

void sum_weights(const int8_t* weight, PackedConvInt8& p) {
  const Conv2d& c = p.conv;
  p.weight_sums.assign(static_cast<size_t>(array_groups(p) * p.padded_channels), 0);
  const int64_t depth = c.in_channels / c.groups * c.kernel_h * c.kernel_w;
  for (int64_t o = 0; o < c.out_channels; ++o) {
    int32_t& sum = p.weight_sums[array_index(p, o)];
    int64_t magnitudes = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int8_t w = weight[o * depth + k];
      sum += w;
      magnitudes += std::abs(w);
    }
    p.most_magnitudes = std::max(p.most_magnitudes, magnitudes);
  }
}

// The starting sums take out what the zero point adds: a product road multiplies x itself, or x - 128.
void set_start(PackedConvInt8& p) {
  p.start.assign(p.weight_sums.size(), 0);
  if (element_bytes(p) == 2) return;  // staged less the zero point
  const int32_t zero_point = p.x_zero_point - flip_of(p);
  for (size_t i = 0; i < p.start.size(); ++i) p.start[i] = -zero_point * p.weight_sums[i];
  for (size_t i = 0; i < p.shift_sums.size(); ++i) p.start[i] += p.shift_sums[i];
}

void pad_channels(std::vector<float>& values, const PackedConvInt8& p) {
  std::vector<float> padded(static_cast<size_t>(array_groups(p) * p.padded_channels), 0.0f);
  for (size_t o = 0; o < values.size(); ++o) padded[array_index(p, static_cast<int64_t>(o))] = values[o];
  values = std::move(padded);
}

// The geometry of one call: how pixels and taps stand in what the products read.
class Layout {
 public:
  Layout(const PackedConvInt8& p, const ConvInt8Images& images)
      : p_(p), c_(p.conv), i_(images), channels_(p.depthwise ? c_.in_channels : c_.in_channels / c_.groups) {
    kernel_h_ = p.depthwise ? c_.kernel_h / i_.frames.kernel : c_.kernel_h;
    // A 1x1 convolution reads only the pixels that its stride meets, so that is all that is staged.
    picks_ = c_.kernel_h * c_.kernel_w == 1 && c_.pad_h == 0 && c_.pad_w == 0;
    const int64_t step = p.depthwise ? kDepthwisePanel : dot_step(p.road);
    const bool inside = (i_.out_h - 1) * c_.stride_h + (c_.kernel_h - 1) * c_.dilation_h < i_.in_h &&
                        (i_.out_w - 1) * c_.stride_w + (c_.kernel_w - 1) * c_.dilation_w < i_.in_w;
    const bool dense_runs = p.run_length <= channels_ || i_.x_stride == channels_;
    const bool is_matched = p.road == DotRoad::kMatchedBytes;
    const bool whole = is_matched ? p.run_length >= 16 : (p.depthwise ? channels_ : p.run_length) % step == 0;
    const bool stands = i_.frames.kernel == 1 && i_.frames.pad == 0;
    staged_ = !(stands && (is_matched || p.road == DotRoad::kUnsignedBytes) && c_.pad_h == 0 && c_.pad_w == 0 &&
                inside && (p.depthwise || c_.groups == 1) && dense_runs && whole);
    if (stands && p.depthwise && p.road == DotRoad::kPairs && c_.pad_h == 0 && c_.pad_w == 0 && inside && whole)
      staged_ = false;
    step_h_ = staged_ && picks_ ? 1 : c_.stride_h;
    step_w_ = staged_ && picks_ ? 1 : c_.stride_w;
    width_ = staged_ ? (i_.out_w - 1) * step_w_ + (c_.kernel_w - 1) * c_.dilation_w + 1 : i_.in_w;
    pixel_ = staged_ ? channels_ * element_bytes(p) : i_.x_stride;
    row_ = width_ * pixel_;
  }

  bool staged() const { return staged_; }
  // Bytes between columns and between rows.
  int64_t pixel_bytes() const { return pixel_; }
  int64_t row_bytes() const { return row_; }
  // Staged bytes of `rows` output rows.
  int64_t bytes(int64_t rows) const { return (p_.depthwise ? i_.frames.kernel : 1) * in_rows(rows) * row_; }

  // Byte offsets of the pixels of `rows` output rows, and of their taps.
  void pixels(int64_t rows, int32_t* out) const {
    for (int64_t oh = 0; oh < rows; ++oh)
      for (int64_t ow = 0; ow < i_.out_w; ++ow)
        *out++ = static_cast<int32_t>(oh * step_h_ * row_ + ow * step_w_ * pixel_);
  }
  void taps(int64_t rows, int64_t count, int32_t* out) const {
    const int64_t taps = c_.kernel_h * c_.kernel_w, per_run = p_.depthwise ? 1 : p_.run_length / channels_,
                  slots = depthwise_taps(p_.road);
    for (int64_t run = 0; run < count; ++run) {
      const int64_t wanted = p_.depthwise ? depthwise_tap(c_, p_.road, run / slots, run % slots) : run * per_run;
      const int64_t tap = std::min(wanted, taps - 1), kh = tap / c_.kernel_w, kw = tap % c_.kernel_w;
      const int64_t row = kh / kernel_h_ * in_rows(rows) + kh % kernel_h_ * c_.dilation_h;
      out[run] = static_cast<int32_t>(row * row_ + kw * c_.dilation_w * pixel_);
    }
  }

  // Where the first tap of output row oh of image n stands, unstaged.
  const uint8_t* origin(int64_t n, int64_t oh) const {
    return i_.x + (frame_of(n, 0) * i_.in_h + oh * c_.stride_h) * i_.in_w * i_.x_stride;
  }

  // Copies what `rows` output rows from pixel (oh, ow) on read of a group of image n.
  void stage(int64_t n, int64_t group, int64_t oh, int64_t ow, int64_t rows, uint8_t* out) const {
    const int64_t count = in_rows(rows), part = p_.depthwise ? channels_ : channels_ / i_.frames.kernel,
                  frame_bytes = p_.depthwise ? count * row_ : part * element_bytes(p_);
    for (int64_t k = 0; k < i_.frames.kernel; ++k) {
      const int64_t frame = frame_of(n, k);
      for (int64_t r = 0; r < count; ++r) {
        const int64_t ih = picks_ ? (oh + r) * c_.stride_h : oh * c_.stride_h - c_.pad_h + r;
        const bool inside = frame >= 0 && ih >= 0 && ih < i_.in_h;
        const uint8_t* from = i_.x + (frame * i_.in_h + ih) * i_.in_w * i_.x_stride + group * part;
        stage_row(inside ? from : nullptr, ow, part, out + r * row_ + k * frame_bytes);
      }
    }
  }

 private:
  // The frame of x that lies under place k of the kernel for image n of the results; -1 in the padding.
  int64_t frame_of(int64_t n, int64_t k) const {
    const FrameWindow& f = i_.frames;
    const int64_t frame = n % f.out * f.stride - f.pad + k * f.dilation;
    return frame < 0 || frame >= f.in ? -1 : n / f.out * f.in + frame;
  }

  // Copies `channels` of the pixels of a row, null if it is padding, from column ow of the results on.
  void stage_row(const uint8_t* from, int64_t ow, int64_t channels, uint8_t* out) const {
    if (from == nullptr) return fill(out, width_, channels);
    const int64_t step = picks_ ? c_.stride_w : 1, first = ow * c_.stride_w - c_.pad_w;
    const int64_t left = std::min(std::max<int64_t>(-first, 0), width_);
    const int64_t middle = std::clamp<int64_t>(divide_up(i_.in_w - first, step) - left, 0, width_ - left);
    fill(out, left, channels);
    uint8_t* to = out + left * pixel_;
    from += (first + left * step) * i_.x_stride;
    if (step == 1 && channels == channels_ && i_.x_stride == channels_) {
      copy(from, middle * channels_, to);
    } else {
      for (int64_t w = 0; w < middle; ++w) copy(from + w * step * i_.x_stride, channels, to + w * pixel_);
    }
    fill(to + middle * pixel_, width_ - left - middle, channels);
  }

  // Rows of one frame.
  int64_t in_rows(int64_t rows) const { return (rows - 1) * step_h_ + (kernel_h_ - 1) * c_.dilation_h + 1; }

  // Zero points in `channels` of the pixels, which are one behind the other if these are all.
  void fill(uint8_t* out, int64_t pixels, int64_t channels) const {
    const int value = element_bytes(p_) == 2 ? 0 : static_cast<uint8_t>(p_.x_zero_point) ^ flip_of(p_);
    const bool whole = channels == channels_;
    for (int64_t i = 0; i < (whole ? 1 : pixels); ++i)
      std::memset(out + i * pixel_, value, static_cast<size_t>(whole ? pixels * pixel_ : channels * element_bytes(p_)));
  }
  void copy(const uint8_t* from, int64_t n, uint8_t* to) const {
    if (element_bytes(p_) == 2) {
      const auto zero_point = static_cast<int16_t>(p_.x_zero_point);
      auto* wide = reinterpret_cast<int16_t*>(to);
      for (int64_t i = 0; i < n; ++i) wide[i] = static_cast<int16_t>(from[i] - zero_point);
    } else if (const uint8_t flip = flip_of(p_)) {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(from[i] ^ flip);
    } else {
      std::memcpy(to, from, static_cast<size_t>(n));
    }
  }

  const PackedConvInt8& p_;
  const Conv2d& c_;
  const ConvInt8Images& i_;
  int64_t channels_;
  bool picks_ = false, staged_ = true;
  int64_t kernel_h_ = 1, step_h_ = 1, step_w_ = 1, width_ = 0, pixel_ = 0, row_ = 0;
};

// A rectangle of output pixels of one image, all or some of the channels of one group.
struct Task {
  int64_t image, group, row, rows, column, columns, first_channel, last_channel;
};

// Where the pixels of the task go from row `row` of it on.
Finish finish_of(const PackedConvInt8& p, const ConvInt8Images& i, const Task& task, int64_t row = 0) {
  const int64_t channel = p.depthwise ? 0 : task.group * (p.conv.out_channels / p.conv.groups);
  const int64_t out_pixel = (task.image * i.out_h + task.row + row) * i.out_w + task.column;
  Finish finish;
  finish.requantize = &p.requantize;
  finish.multiplier = p.requantize.multiplier.data() + task.group * p.padded_channels;
  finish.offset = p.requantize.offset.data() + task.group * p.padded_channels;
  if (i.residual) {
    const int64_t size = p.requantize.residual_is_float ? 4 : 1;
    finish.residual = static_cast<const std::byte*>(i.residual) + (out_pixel * i.residual_stride + channel) * size;
  }
  finish.residual_stride = i.residual_stride;
  finish.out =
      static_cast<std::byte*>(i.out) + (out_pixel * i.out_stride + channel) * (p.requantize.out_is_float ? 4 : 1);
  finish.out_stride = i.out_stride;
  return finish;
}

// Transforms all tiles of the task, then takes one panel of channels after the other through products, transform and
// finish.
void run_winograd(const PackedConvInt8& p, const ConvInt8Images& i, const Task& task, int64_t tile) {
  // Tiles are whole: what reaches beyond the last row and column is padding.
  const int64_t across = divide_up(task.columns, tile), down = divide_up(task.rows, tile), tiles = across * down;
  ConvInt8Images whole = i;
  whole.out_h = tile * down;
  whole.out_w = tile * across;
  const Layout layout(p, whole);
  uint8_t* stage = scratch<uint8_t>(layout.bytes(tile * down) + kStageSlack);
  layout.stage(task.image, task.group, task.row, task.column, tile * down, stage);
  const auto* rows = reinterpret_cast<const int16_t*>(stage);
  const int64_t channels = p.conv.in_channels / p.conv.groups, row_stride = layout.row_bytes() / 2;
  const int64_t taps = winograd_taps(tile), tile_size = taps * kDotPanel,
                panel_bytes =
                    p.weights.numel() / (p.conv.groups * divide_up(p.conv.out_channels / p.conv.groups, kDotPanel));
  // A cache line more, because at powers of two all taps would meet in one set of the cache.
  const int64_t inputs_stride = tiles * channels + 32, weights_stride = channels * kDotPanel + 32;
  int16_t* inputs = scratch<int16_t>(taps * (inputs_stride + weights_stride));
  int16_t* weights = inputs + taps * inputs_stride;
  for (int64_t r = 0; r < down; ++r)
    winograd_inputs(tile, rows + tile * r * row_stride, row_stride, channels, across, inputs_stride,
                    inputs + r * across * channels);

  int32_t* products = scratch<int32_t>(tiles * tile_size + tile * down * task.columns * kDotPanel);
  int32_t* sums = products + tiles * tile_size;
  const int8_t* packed = p.weights.data<int8_t>() + task.group * (p.weights.numel() / p.conv.groups);
  // Whole rows are one run of pixels.
  const int64_t runs = task.columns == i.out_w ? 1 : task.rows, pixels = task.rows * task.columns / runs;
  for (int64_t c = task.first_channel; c < task.last_channel; c += kDotPanel) {
    winograd_weights(tile, packed + c / kDotPanel * panel_bytes, channels, weights_stride, weights);
    dot_words({inputs, tiles, channels, taps, inputs_stride, weights, weights_stride, products});
    for (int64_t r = 0; r < down; ++r)
      winograd_outputs(tile, products + r * across * tile_size, task.columns,
                       sums + tile * r * task.columns * kDotPanel);
    for (int64_t r = 0; r < runs; ++r)
      finish_sums(finish_of(p, i, task, r), sums + r * pixels * kDotPanel, pixels, c, task.last_channel);
  }
}

void run_task(const PackedConvInt8& p, const ConvInt8Images& i, const Layout& layout, const Task& task) {
  if (const int64_t tile = winograd_tile(p, i)) return run_winograd(p, i, task, tile);
  const Conv2d& c = p.conv;
  const int64_t pixel_count = task.rows * i.out_w;
  const int64_t tap_count = p.depthwise ? p.run_count * depthwise_taps(p.road) : p.run_count;
  const bool walks = p.depthwise && depthwise_walks(c, p.road);
  int32_t* pixels = scratch<int32_t>(pixel_count + tap_count + (walks ? i.out_w * kDepthwisePanel : 0));
  int32_t* taps = pixels + pixel_count;
  layout.pixels(task.rows, pixels);
  layout.taps(task.rows, tap_count, taps);
  const uint8_t* activations = layout.origin(task.image, task.row);
  if (layout.staged()) {
    uint8_t* stage = scratch<uint8_t>(layout.bytes(task.rows) + kStageSlack);
    layout.stage(task.image, task.group, task.row, task.column, task.rows, stage);
    activations = stage;
  }
  const Finish finish = finish_of(p, i, task);
  const int32_t* start = p.start.data() + task.group * p.padded_channels;
  const int8_t* weights = p.weights.data<int8_t>();
  if (p.depthwise) {
    depthwise_band({p.road, activations, pixels, pixel_count, taps, p.run_count, weights, start, c.out_channels,
                    walks ? i.out_w : 0, layout.pixel_bytes(), taps + tap_count, finish});
  } else {
    DotBand band;
    band.road = p.road;
    band.activations = activations;
    band.pixels = pixels;
    band.pixel_count = pixel_count;
    band.runs = taps;
    band.run_count = p.run_count;
    band.run_steps = p.run_steps;
    band.weights = weights;
    if (p.road == DotRoad::kMatchedBytes) {
      band.steps = reinterpret_cast<const DotStep*>(p.steps.data<int32_t>());
      band.first_steps = p.first_steps.data<int32_t>() + task.group * (p.first_steps.numel() - 1) / c.groups;
    } else {
      band.weights += task.group * (p.weights.numel() / c.groups);
    }
    if (p.road == DotRoad::kPairs) band.words = scratch<int16_t>(p.run_count * p.run_steps * 2 * kDotPanel);
    band.start = start;
    band.first_channel = task.first_channel;
    band.last_channel = task.last_channel;
    band.finish = finish;
    dot_band(band);
  }
}

// How a call is divided if there is one thread: into bands of `rows` rows, each into strips of `columns`. A band is
// whole units of rows, and for more threads there may be up to most_bands.
struct Division {
  int64_t rows, columns, unit, most_bands;
};

Division division_of(const PackedConvInt8& p, const ConvInt8Images& i, const Layout& layout) {
  if (const int64_t tile = winograd_tile(p, i)) {
    const int64_t tile_bytes =
        winograd_taps(tile) * (p.conv.in_channels / p.conv.groups) * static_cast<int64_t>(sizeof(int16_t));
    const int64_t most_tiles = std::max(kTransformedBytes / tile_bytes, kFewTiles), across = divide_up(i.out_w, tile),
                  down = divide_up(i.out_h, tile);
    const int64_t columns = divide_up(across, divide_up(across, most_tiles));
    return {tile * (most_tiles / columns), tile * columns, tile, std::min(down, divide_up(across * down, kFewTiles))};
  }
  int64_t rows = std::min(i.out_h, p.conv.kernel_h);  // fewer would be mostly halo
  while (rows < i.out_h && layout.bytes(rows + 1) <= kBandBytes) ++rows;
  return {rows, i.out_w, 1, i.out_h};
}

}  // namespace

std::string PackedConvInt8::description() const {
  std::string text = depthwise ? "depthwise" : conv.groups > 1 ? "grouped conv" : "conv";
  text += " " + std::to_string(conv.kernel_h) + "x" + std::to_string(conv.kernel_w) + ", ";
  return text.append(dot_road_name(road));
}

PackedConvInt8 pack_conv2d_int8(const Conv2d& conv, const int8_t* weight, int32_t x_zero_point, Requantize requantize,
                                DotRoad road) {
  const int64_t ic = conv.in_channels / conv.groups, taps = conv.kernel_h * conv.kernel_w;
  QDQ_CHECK(ic * taps <= kMaxProducts, kUnsupported, "a sum of ", ic * taps, " products may not fit 32 bits; at most ",
            kMaxProducts, " do");
  PackedConvInt8 p;
  p.conv = conv;
  p.road = road;
  p.x_zero_point = x_zero_point;
  p.requantize = std::move(requantize);
  p.depthwise = is_depthwise(conv);
  if (p.depthwise && kMayMatch) p.road = road = DotRoad::kPairs;
  if (p.depthwise) {
    p.run_count = divide_up(taps, depthwise_taps(road));
    p.padded_channels = round_up(conv.out_channels, kFinishChannels);
    pack_depthwise(weight, p);
  } else {
    // Neighbouring taps of a row are neighbouring bytes.
    const int64_t joined = conv.dilation_w == 1 ? conv.kernel_w : 1;
    p.run_length = joined * ic;
    p.run_count = taps / joined;
    p.run_steps = divide_up(p.run_length, dot_step(road));
    p.padded_channels = round_up(conv.out_channels / conv.groups, kFinishChannels);
    if (kMayMatch && road == DotRoad::kMatchedBytes) pack_matched(weight, p);
    else pack_products(weight, p);
  }
  pad_channels(p.requantize.multiplier, p);
  pad_channels(p.requantize.offset, p);
  sum_weights(weight, p);
  set_start(p);
  return p;
}

PackedConvInt8 pack_conv2d_int8(const Conv2d& conv, const int8_t* weight, int32_t x_zero_point, Requantize requantize,
                                const ConvInt8Images& images) {
  const DotRoad road = dot_road();
  if (!kMayMatch && road != DotRoad::kPairs && may_gain_by_tiles(conv, images)) {
    PackedConvInt8 p = pack_conv2d_int8(conv, weight, x_zero_point, requantize, DotRoad::kPairs);
    if (winograd_tile(p, images) == 4) return p;
  }
  if (!kMayMatch || road != DotRoad::kMatchedBytes)
    return pack_conv2d_int8(conv, weight, x_zero_point, std::move(requantize), road);
  if (!has_winograd_windows(conv)) {
    PackedConvInt8 p = pack_conv2d_int8(conv, weight, x_zero_point, requantize, road);
    const int64_t panels = conv.groups * divide_up(conv.out_channels / conv.groups, kDotPanel);
    if (p.road != road || matched_cost(p) <= panels * p.run_count * (p.run_steps * 5 - kMatchedOverhead)) return p;
  }
  return pack_conv2d_int8(conv, weight, x_zero_point, std::move(requantize), DotRoad::kPairs);
}

void set_input_qparams(PackedConvInt8& p, int32_t x_zero_point, const float* multiplier) {
  p.x_zero_point = x_zero_point;
  set_start(p);
  for (int64_t o = 0; o < p.conv.out_channels; ++o) p.requantize.multiplier[array_index(p, o)] = multiplier[o];
}

int64_t winograd_tile(const PackedConvInt8& p, const ConvInt8Images& i) {
  if (p.road != DotRoad::kPairs || !has_winograd_windows(p.conv)) return 0;
  int64_t best = 0, least = kDirectProducts * i.out_h * i.out_w;
  for (const auto& [tile, transform] : kTransformTiles) {
    const int64_t taps = winograd_taps(tile), tiles = divide_up(i.out_h, tile) * divide_up(i.out_w, tile);
    const int64_t cost = taps * (tiles + transform);
    const int64_t panel_bytes =
        taps * kDotPanel * (p.conv.in_channels / p.conv.groups) * static_cast<int64_t>(sizeof(int16_t));
    if (cost >= least || p.most_magnitudes > most_winograd_weights(tile)) continue;
    if (tile > 2 && panel_bytes > kMostPanelBytes) continue;
    best = tile;
    least = cost;
  }
  return best;
}

void conv2d_int8(const PackedConvInt8& p, const ConvInt8Images& i) {
  const Conv2d& c = p.conv;
  if (i.batch * i.out_h * i.out_w == 0) return;
  const Layout layout(p, i);
  const Division blocks = division_of(p, i, layout);
  const int64_t groups = array_groups(p), oc = c.out_channels / groups;
  const int64_t work = i.out_h * i.out_w * oc * (p.depthwise ? 1 : c.in_channels / c.groups) * c.kernel_h * c.kernel_w;
  const int threads = i.batch * groups * work < kSerialWork ? 1 : num_threads();
  // With several threads there are at least two tasks for each: shorter bands first, then fewer channels; the other way
  // round where nothing is staged and there are more weights than pixels, so that a thread reads few of them. More
  // tasks would even out unequal threads, but the rows that neighbouring bands share are staged twice: four a thread
  // took a tenth longer on two free processors.
  const int64_t wanted = threads == 1 ? 1 : 2 * threads, most_splits = p.depthwise ? 1 : divide_up(oc, kFinishChannels);
  const bool channels_first = !layout.staged() && p.weights.numel() > i.in_h * i.in_w * c.in_channels;
  const int64_t units = divide_up(i.out_h, blocks.unit), columns = blocks.columns, strips = divide_up(i.out_w, columns);
  const int64_t sheets = i.batch * groups * strips;
  int64_t bands = divide_up(i.out_h, blocks.rows);
  int64_t split = channels_first ? std::min(most_splits, divide_up(wanted, sheets * bands)) : 1;
  if (sheets * bands * split < wanted)
    bands = std::max(bands, std::min(blocks.most_bands, divide_up(wanted, sheets * split)));
  split = std::max(split, std::min(most_splits, divide_up(wanted, sheets * bands)));
  const int64_t channels = round_up(divide_up(oc, split), kDotPanel);
  split = divide_up(oc, channels);
  const int64_t tasks = sheets * bands * split;
  parallel_for(tasks, threads == 1 ? tasks : 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t part = t % split, strip = t / split % strips, band = t / split / strips % bands,
                    sheet = t / split / strips / bands;
      const int64_t row = band * units / bands * blocks.unit,
                    next_row = std::min((band + 1) * units / bands * blocks.unit, i.out_h);
      const int64_t column = strip * columns;
      run_task(p, i, layout,
               {sheet / groups, sheet % groups, row, next_row - row, column, std::min(columns, i.out_w - column),
                part * channels, std::min(oc, (part + 1) * channels)});
    }
  });
}

}  // namespace qdq::kernel
