// Winograd's convolutions of 3x3 windows in integers: F(2x2, 3x3) takes 4 neighbouring outputs from 16 products instead
// of 36, F(4x4, 3x3) takes 16 from 36 instead of 144. Seen only inside the room: conv_int8.cpp stages the images and
// divides the work.
//
//   Y = A^T [(G g G^T) * (B^T d B)] A
//   d: inputs of a tile, g: 3x3 weights, Y: the tile's outputs, * element by element, summed over the channels
//
//   F(2x2, 3x3)                        F(4x4, 3x3)
//   B^T = [1  0 -1  0                  B^T = [4  0 -5  0  1  0     G = [1/4     0    0    A^T = [1  1  1  1  1  0
//          0  1  1  0                         0  4  4 -1 -1  0          1/6   1/6  1/6           0  1 -1  2 -2  0
//          0 -1  1  0                         0 -4  4  1 -1  0          1/6  -1/6  1/6           0  1  1  4  4  0
//          0  1  0 -1]                        0 -2 -1  2  1  0         1/24  1/12  1/6           0  1 -1  8 -8  1]
//   G = [1 0 0; 1/2 1/2 1/2;                  0  2 -1 -2  1  0         1/24 -1/12  1/6
//        1/2 -1/2 1/2; 0 0 1]                 0  4  0 -5  0  1]           0     0    1]
//   A^T = [1 1 1 0; 0 1 -1 -1]         (rows 1 and 2 of B^T and G have the other sign than in the paper)
//
// Both are exact. The rows of G are taken without their denominators, so weights of s8 become integers: of at most 9 *
// 128 in magnitude, or 49 * 128; inputs of at most 255 become at most 4 * 255, or 100 * 255. A^T takes the denominators
// of one axis back, but for a common one of each of its rows: what comes out is a multiple of the sum that is wanted, 4
// times for F(2x2, 3x3), 36 * 2^k times with k of 0 to 4 for F(4x4, 3x3). All is computed modulo 2^32, where 9 has an
// inverse and a shift brings back the rest if the multiple by 2^(k + 2) fits 32 bits. That bounds the weights of a
// channel.
// (Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, 2015, arXiv 1509.09308, section 4.1 and 4.3.)
#pragma once

#include <cstdint>

namespace qdq::kernel {

// Outputs of a tile along an axis are `tile`, 2 or 4. Products of a tile, each a matrix product over the channels of
// all tiles:
constexpr int64_t winograd_taps(int64_t tile) { return (tile + 2) * (tile + 2); }
// Input channels are a multiple of this.
inline constexpr int64_t kWinogradChannels = 8;
// The magnitudes of an output channel's weights, together, are at most what keeps 255 times them, times 4 or 64, below
// 2^31.
constexpr int64_t most_winograd_weights(int64_t tile) { return (int64_t{1} << (tile == 2 ? 29 : 25)) / 255 - 1; }

// The transformed weights of a panel of kDotPanel output channels, packed as kernel/gemm_int8.h has them for pairs:
// [3][3][channels / 2][kDotPanel][2]. Tap t goes to out + t * tap_stride, as [channels / 2][kDotPanel][2].
void winograd_weights(int64_t tile, const int8_t* weights, int64_t channels, int64_t tap_stride, int16_t* out);

// B^T d B of a row of `tiles` tiles: `rows` is the first of tile + 2 rows of tile * tiles + 2 pixels of `channels`
// elements, which stand `row_stride` elements apart. Tap t goes to out + t * tap_stride, as [tiles][channels].
void winograd_inputs(int64_t tile, const int16_t* rows, int64_t row_stride, int64_t channels, int64_t tiles,
                     int64_t tap_stride, int16_t* out);

// The sums of a row of tiles, for a panel of output channels: products [tiles][winograd_taps(tile)][kDotPanel] to
// out [tile][width][kDotPanel], of which the last columns of the last tile are left out where width ends.
void winograd_outputs(int64_t tile, const int32_t* products, int64_t width, int32_t* out);

}  // namespace qdq::kernel
