// Winograd's F(4x4, 3x3) in floats: 16 outputs of a 3x3 convolution of stride 1 from 36 products a channel instead of
// 144. The bits are fixed as those of kernel/gemm.h are, in an order of their own. With * element by element:
//
//   Y = A^T [sum over channels of U * V] A,  U = G g G^T,  V = B^T d B;   d: 6x6 inputs, g: 3x3 weights, Y: 4x4 outputs
//
// for the points 0, +-3/4, +-3/2 and infinity, whose rounding errors are a quarter of those of 0, +-1, +-2
// (Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020).
// Each transform goes down the columns first, then along the rows. Of six inputs d, three weights g, six products m:
//
//   B^T d   v0 = (d0 * 81/64 - d2 * 45/16) + d4                                       every operation rounded to f32
//           v1, v2 = p +- q    p = d4 - d2 * 9/4     q = (d3 - d1 * 9/4) * 3/4
//           v3, v4 = r +- s    r = d4 - d2 * 9/16    s = (d3 - d1 * 9/16) * 3/2
//           v5 = (d1 * 81/64 - d3 * 45/16) + d5
//   G g     u0 = g0 * (64/81)                                                in f64, rounded to f32 once at the end
//           u1, u2 = ((g0 + g2 * 9/16) +- g1 * 3/4) * (-128/243)
//           u3, u4 = ((g0 + g2 * 9/4) +- g1 * 3/2) * (32/243)
//           u5 = g2
//   A^T m   y0 = (m0 + (m1 + m2)) + (m3 + m4)                                         every operation rounded to f32
//           y1 = (m1 - m2) * 3/4 + (m3 - m4) * 3/2
//           y2 = (m1 + m2) * 9/16 + (m3 + m4) * 9/4
//           y3 = ((m1 - m2) * 27/64 + (m3 - m4) * 27/8) + m5
//
// The sum over channels goes along ic in blocks of 32 (kTileChannels), each sequential from 0, which are added in order
// as those of kernel/gemm.h; they are shorter because the products are larger than the outputs, and with them their
// rounding errors. Then Y, + bias. Tiles begin at multiples of four rows and columns of the output; what lies outside
// the image is +0. So an input that is not finite reaches all outputs of its tiles.
// Seen only inside the room.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// Input channels of a block of the sum.
inline constexpr int64_t kTileChannels = 32;
// Outputs of a tile along an axis, inputs of it, and products of all; weights of a channel.
inline constexpr int64_t kTileOutputs = 4, kTileInputs = 6, kTileProducts = 36, kTaps = 9;

// U of 16 output channels: `weight` is [channels][3][3][16], and product t goes to out + t * product_stride as
// [channels][16].
void winograd_weights_f32(const float* weight, int64_t channels, int64_t product_stride, float* out);

// V of a row of tiles, of 16 channels: `rows` are six rows of 4 * tiles + 2 pixels [16], row_stride apart. Product t of
// tile i goes to out + t * product_stride + i * tile_stride, [16]. `scratch` has room for six such rows.
void winograd_inputs_f32(const float* rows, int64_t row_stride, int64_t tiles, int64_t tile_stride,
                         int64_t product_stride, float* scratch, float* out);

// Y of a row of tiles, of 16 channels: from products + t * product_stride + i * tile_stride, [16], to out [4][4 *
// tiles][16].
void winograd_outputs_f32(const float* products, int64_t tile_stride, int64_t product_stride, int64_t tiles,
                          float* out);

}  // namespace qdq::kernel
