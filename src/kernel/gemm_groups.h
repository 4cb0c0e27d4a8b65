// Linear layers whose weights are integers of 4 or 8 bits with a scale for each group of a row.
//
// The numbers are the same on every machine, in every build, with any number of threads and of rows. With q - z the
// integer of a weight less its zero point, each operation in f32 rounded on its own:
//
//   float activations  s = 0; over the k of a group in order: s = s + x[k] * float(q - z)
//                      acc = 0; over the groups of a row in order: acc = acc + s * scale
//                      out = acc + bias
//   int8 activations   I = sum over a group of (q - z) * a[k], exact
//                      acc = 0; over the groups in order: acc = acc + float(I) * scale
//                      out = (acc - float(a's zero point) * correction) * float(a's scale) + bias
//                      where correction = 0; over the groups in order: + float(sum of a group's q - z) * scale
#pragma once

#include <cstdint>
#include <string>

#include "tensor/tensor.h"

namespace qdq::kernel {

// Output channels of a panel of weights.
inline constexpr int64_t kGroupPanel = 32;
// Terms of a group at most: s32 holds every sum of so many products of 8 bits.
inline constexpr int64_t kMaxGroup = 65000;

// Weights as the kernels read them, one panel after the other and in it one group after the other: kGroupPanel scales
// in f32; if has_zero_points, as many zero points in u8; then words of 32 bits, kGroupPanel of them for each 8 (4 bits)
// or 4 (8 bits) neighbours of a row. Byte b of a word has neighbour b, and at 4 bits neighbour 4 + b in its upper half.
// Copies share the bytes.
struct GroupWeights {
  int64_t channels = 0, depth = 0, group = 0;
  int bits = 4;
  bool has_zero_points = false;  // if not, all are 8 (4 bits) or 128 (8 bits)
  Tensor blocks;                 // u8
  Tensor corrections;            // f32 [channels, rounded up to panels]

  int64_t groups() const { return depth / group; }
  int64_t panels() const { return (channels + kGroupPanel - 1) / kGroupPanel; }
  int64_t block_bytes() const { return kGroupPanel * (4 + (has_zero_points ? 1 : 0) + group * bits / 8); }
  // "4-bit weights in groups of 32": for people.
  std::string description() const;
};

// Why integers like these cannot be packed; empty if they can.
std::string group_weights_obstacle(int64_t depth, int64_t group);

// q is [channels, depth], scales and zero points [channels, depth / group] (zero points may be null: 0). 4 bits are
// taken where the integers fit 16 neighbouring values. Throws Error{kUnsupported} where a zero point lies outside of
// what 8 bits hold.
GroupWeights pack_group_weights(const int8_t* q, const float* scales, const int32_t* zero_points, int64_t channels,
                                int64_t depth, int64_t group);

// The integers less their zero points, as packed: [channels, depth].
void unpack_group_weights(const GroupWeights& weights, int32_t* out);
float group_scale(const GroupWeights& weights, int64_t channel, int64_t group);

// x [rows, depth], bias [channels] or null, out [rows, channels].
void linear_groups_f32(const float* x, int64_t rows, const GroupWeights& weights, const float* bias, float* out);

// A row of int8 activations stands for (a - zero_point) * scale.
struct TokenQParams {
  float scale = 1;
  int32_t zero_point = 0;
};
// a [rows, depth], tokens [rows].
void linear_groups_s8(const int8_t* a, const TokenQParams* tokens, int64_t rows, const GroupWeights& weights,
                      const float* bias, float* out);

// Rows [rows, depth] as int8 with the range of each, as quantized_decomposed's choose_qparams_per_token_asymmetric and
// quantize_per_token of -128..127 have it: the scale from the range with 0, the zero point from the end of the range
// whose rounding error is smaller, rounding half to even in double. Throws Error{kInvalidArgument} for NaN.
void quantize_tokens_s8(const float* x, int64_t rows, int64_t depth, int8_t* out, TokenQParams* tokens);

}  // namespace qdq::kernel
