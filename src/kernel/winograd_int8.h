// Winograd's F(2x2, 3x3) in integers: four neighbouring outputs of a 3x3 convolution from 16 products instead of 36.
// Seen only inside the room: conv_int8.cpp stages the images and divides the work.
//
//   Y = A^T [(G g G^T) * (B^T d B)] A
//   d: 4x4 inputs, g: 3x3 weights, Y: 2x2 outputs, * element by element, summed over the channels
//   B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]
//   G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]
//   A^T = [1 1 1 0; 0 1 -1 -1]
//
// It is exact: 2 G has whole numbers, so weights of s8 become integers of at most 9 * 128 in magnitude, inputs of at
// most 255 become at most 4 * 255, and A^T ... A gives 4 times the sum that is wanted. What is computed modulo 2^32 on
// the way there does no harm as long as that fits 32 bits, which bounds the channels.
// (Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, 2015, arXiv 1509.09308, section 4.1.)
#pragma once

#include <cstdint>

namespace qdq::kernel {

// Products of a tile of 2x2 outputs, each a matrix product over the channels of all tiles.
inline constexpr int64_t kWinogradTaps = 16;
// Input channels are a multiple of this.
inline constexpr int64_t kWinogradChannels = 8;
// 4 * 9 * 255 * 128 times this is below 2^31.
inline constexpr int64_t kMostWinogradChannels = 1827;

// (2 G) g (2 G)^T of a panel of kDotPanel output channels, packed as kernel/gemm_int8.h has them for pairs:
// [3][3][channels / 2][kDotPanel][2]. Tap t goes to out + t * tap_stride, as [channels / 2][kDotPanel][2].
void winograd_weights(const int8_t* weights, int64_t channels, int64_t tap_stride, int16_t* out);

// B^T d B of a row of `tiles` tiles: `rows` is the first of four rows of 2 * tiles + 2 pixels of `channels` elements,
// which stand `row_stride` elements apart. Tap t goes to out + t * tap_stride, as [tiles][channels].
void winograd_inputs(const int16_t* rows, int64_t row_stride, int64_t channels, int64_t tiles, int64_t tap_stride,
                     int16_t* out);

// A^T m A / 4 of a row of tiles, for a panel of output channels: products [tiles][kWinogradTaps][kDotPanel] to
// out [2][width][kDotPanel], of which the last column of the last tile is left out where the width is odd.
void winograd_outputs(const int32_t* products, int64_t width, int32_t* out);

}  // namespace qdq::kernel
