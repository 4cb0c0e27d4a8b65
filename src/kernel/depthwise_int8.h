// Integer depthwise convolution of a band of pixels, channels last: every channel has a filter of its own. Seen only
// inside the room: conv_int8.h lays out the operands.
#pragma once

#include <cstdint>

#include "kernel/conv.h"
#include "kernel/gemm_int8.h"

namespace qdq::kernel {

// Channels that are computed at once: a vector of bytes.
inline constexpr int64_t kDepthwisePanel = 16;

// Taps of a group: they are multiplied at once. The taps of a filter are padded to whole groups by zero weights.
inline int64_t depthwise_taps(DotRoad road) { return road == DotRoad::kPairs ? 2 : 4; }

// Whether there may be vectors of 256 bits. They hold 16-bit numbers of 16 channels, of which two interleaved ones give
// fours of channels in the order 0, 2, 1, 3; and windows are walked along with 16-bit products, too.
#if defined(__wasm__)
inline constexpr bool kWidePairs = false;
#else
inline constexpr bool kWidePairs = true;
#endif

// Which channel of a panel has its weights at a place, and the other way round.
inline constexpr int64_t depthwise_channel(int64_t place) {
  const int64_t four = place / 4;
  return kWidePairs && (four == 1 || four == 2) ? 12 - 4 * four + place % 4 : place;
}

// Windows of 3x3 that are walked along: what a column gives to three of them is interleaved once. With a stride there
// is nothing to gain by it.
inline bool depthwise_walks(const Conv2d& c, DotRoad road) {
  return (road != DotRoad::kPairs || kWidePairs) && c.kernel_h == 3 && c.kernel_w == 3 && c.dilation_w == 1 &&
         c.stride_w == 1;
}
// Which tap of the filter, in C order, a slot of a group is; beyond the filter the weight is 0. Windows that are walked
// along have a column, from top to bottom, in each group; pairs have what the last row gives to two neighbouring
// columns in the last two groups. Others have the taps in their order.
inline int64_t depthwise_tap(const Conv2d& c, DotRoad road, int64_t group, int64_t slot) {
  if (!depthwise_walks(c, road)) return group * depthwise_taps(road) + slot;
  if (group < 3) return slot * 3 + group;
  constexpr int64_t kNone = 9;
  return group == 3 ? 6 + slot : slot == 0 ? kNone : 8;
}

// Activations are bytes: s8 on kSignedBytes, else u8. Up to 15 bytes beyond the last channel of a tap are read. Weights
// are [panels][tap groups][kDepthwisePanel][depthwise_taps(road)], channels in the order of depthwise_channel.
struct DepthwiseBand {
  DotRoad road = DotRoad::kPairs;
  const uint8_t* activations = nullptr;
  const int32_t* pixels = nullptr;  // byte offset of every output pixel
  int64_t pixel_count = 0;
  const int32_t* taps = nullptr;  // byte offset of every tap from its pixel, of whole groups
  int64_t tap_groups = 0;
  const int8_t* weights = nullptr;
  const int32_t* start = nullptr;  // one sum a channel to begin with, padded to kFinishChannels
  int64_t channels = 0;
  // For windows that are walked along, else 0: pixels of a row, bytes between columns, and room for the sums of a row,
  // kDepthwisePanel a pixel.
  int64_t width = 0, column_bytes = 0;
  int32_t* sums = nullptr;
  Finish finish;
};

void depthwise_band(const DepthwiseBand& band);

}  // namespace qdq::kernel
