// Integer depthwise convolution of a band of pixels, channels last: every channel has a filter of its own. Seen only
// inside the room: conv_int8.h lays out the operands.
#pragma once

#include <cstdint>

#include "kernel/gemm_int8.h"

namespace qdq::kernel {

// Channels that are computed at once: a vector of bytes.
inline constexpr int64_t kDepthwisePanel = 16;

// Taps of a group: they are multiplied at once. The taps of a filter are padded to whole groups by zero weights.
inline int64_t depthwise_taps(DotRoad road) { return road == DotRoad::kPairs ? 2 : 4; }

// Activations are bytes: s8 on kSignedBytes, else u8. Up to 15 bytes beyond the last channel of a tap are read. Weights
// are [panels][tap groups][kDepthwisePanel][depthwise_taps(road)].
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
  Finish finish;
};

void depthwise_band(const DepthwiseBand& band);

}  // namespace qdq::kernel
