// Exact integer products u8/s8 * s8 -> s32 of a band of pixels with packed weights, requantized in registers. Seen only
// inside the room: conv_int8.h lays out the operands.
//
// A "road" is the instruction that multiplies. All give the same integers; packed weights and staged activations belong
// to one road.
//   kPairs          16-bit pairs: activations staged as s16 less their zero point, weights widened when used.
//                   Everywhere.
//   kUnsignedBytes  four u8 * s8 at once: AVX-512 VNNI; WASM's relaxed dot product where the engine takes the operand
//                   of which only 7 bits are specified as unsigned and does not saturate (x86 with VNNI).
//   kSignedBytes    four s8 * s8 at once: the relaxed dot product of engines that take that operand as signed (Arm, or
//                   x86 with AVX-VNNI-INT8).
//   kMatchedBytes   two u8 * s8 at once in 16 bits that saturate (vpmaddubsw), and those added in pairs, of one step or
//                   of two: AVX2. The weights are packed so that no sum saturates (kernel/matched_int8.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernel/requantize.h"

namespace qdq::kernel {

enum class DotRoad { kPairs, kUnsignedBytes, kSignedBytes, kMatchedBytes };

// The best road that is exact on this machine. In WASM with relaxed SIMD the engine's instruction is tried on all
// combinations of extreme operands first; an engine whose results are neither signed nor unsigned products gets kPairs.
DotRoad dot_road();
std::string_view dot_road_name(DotRoad road);

// Output channels of a panel of weights: two vectors in WASM, whose engines keep 16 vector registers.
#if defined(__wasm__)
inline constexpr int64_t kDotPanel = 8;
#else
inline constexpr int64_t kDotPanel = 16;
#endif
// Elements of the depth that one step multiplies; a step reads 4 bytes of a pixel in every road.
inline int64_t dot_step(DotRoad road) { return road == DotRoad::kPairs ? 2 : 4; }

// A step of kMatchedBytes: which four of the 16 bytes at `at` it multiplies. The two of a double step that is not
// shifted have the same place.
struct DotStep {
  int32_t at = 0;
  uint8_t from[4] = {};
};

// The taps of a pixel are `run_count` runs of `run_steps` steps. Weights are
// [panels][run_count][run_steps][kDotPanel][dot_step(road)]; on kMatchedBytes, where every run of a panel has its own
// count of steps, [steps][kDotPanel][4].
struct DotBand {
  DotRoad road = DotRoad::kPairs;
  const uint8_t* activations = nullptr;
  const int32_t* pixels = nullptr;  // byte offset of every output pixel
  int64_t pixel_count = 0;
  const int32_t* runs = nullptr;  // byte offset of every run from its pixel
  int64_t run_count = 0;
  int64_t run_steps = 0;
  const int8_t* weights = nullptr;
  const DotStep* steps = nullptr;  // kMatchedBytes
  // kMatchedBytes: of [panels][run_count], the first double step, the first shifted one and the first of the others
  // (kernel/matched_int8.h); and one behind the last.
  const int32_t* first_steps = nullptr;
  int16_t* words = nullptr;                     // kPairs: room for 2 * kDotPanel numbers a step of a pixel
  const int32_t* start = nullptr;               // one sum a channel to begin with, padded to kFinishChannels
  int64_t first_channel = 0, last_channel = 0;  // first_channel is a multiple of kDotPanel
  Finish finish;
};

// Computes channels [first_channel, last_channel) of all pixels.
void dot_band(const DotBand& band);

// Sums of products of s16 with panels of s16, as they are: out[row][matrix][channel] of kDotPanel channels = the sum
// over k of rows[matrix][row][k] * weights[matrix][k][channel], modulo 2^32. Pairs of neighbouring products must fit 32
// bits. On every road's machine.
struct DotWords {
  const int16_t* rows = nullptr;  // `depth` elements each, one behind the other
  int64_t row_count = 0;
  int64_t depth = 0;  // a multiple of 8
  int64_t matrices = 0;
  int64_t rows_stride = 0;           // elements between the first rows of two matrices
  const int16_t* weights = nullptr;  // [depth / 2][kDotPanel][2] a matrix
  int64_t weights_stride = 0;        // elements between the weights of two matrices
  int32_t* out = nullptr;            // [row_count][matrices][kDotPanel]
};
void dot_words(const DotWords& words);

// Requantizes sums[pixel][kDotPanel] of `pixel_count` pixels: channels from `channel`, a multiple of kDotPanel, to
// before last_channel.
void finish_sums(const Finish& finish, const int32_t* sums, int64_t pixel_count, int64_t channel, int64_t last_channel);

// Runs `rounds` rounds of 6 to 9 independent dot instructions in registers, and returns how many multiply-adds that
// were. It measures the machine's peak for benchmarks.
int64_t dot_peak(DotRoad road, int64_t rounds);

}  // namespace qdq::kernel
