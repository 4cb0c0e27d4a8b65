// Weights for the road kMatchedBytes (kernel/gemm_int8.h), whose instruction adds two products of u8 * s8 in 16 bits
// and saturates. 255 * (w0 + w1) fits there if |w0 + w1| <= 128, which two weights of different signs always keep. So
// the depth is not taken in its order but in pairs that fit in all channels of a panel; what finds no partner is
// multiplied alone. A step reads its four bytes from anywhere within 16, so partners are looked for among these. Two
// pairs whose weights of either sign add up to 128 at most are added in 16 bits, too, before they are widened: a second
// instruction less for two steps, which are called double then. Shifted ones are double steps that ask for less: that
// the absolute weights of two pairs add up to 254 at most. Their sums lie within 65,536 numbers, which a constant
// brings to those of s16; it is taken out of the sums of 32 bits again.
//
// Seen only inside the room: conv_int8.cpp packs panels with it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/gemm_int8.h"

namespace qdq::kernel {

struct MatchedWeights {
  std::vector<int8_t> weights;  // [steps][kDotPanel][4]
  // Behind each two shifted steps comes one that only has weights: s16 of [kDotPanel][2] to be added to their sums.
  std::vector<DotStep> steps;
  // Three of every run: its first double step, its first shifted step behind those, and the first of the others.
  std::vector<int32_t> first;
};

// Appends one run of a panel: weights are [length][kDotPanel]. The steps read bytes [0, length) of a run, and up to 16
// if that is more. To start[kDotPanel] goes what the shifted steps take out of the panel's sums. DotBand wants one more
// number behind `first`, which who appended the last run adds.
void append_matched_run(const int8_t* weights, int64_t length, MatchedWeights& out, int32_t* start);

}  // namespace qdq::kernel
