// Weights in groups: packing, and activations per token.
#include "kernel/gemm_groups.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/parallel.h"
#include "kernel/observe.h"

namespace qdq::kernel {
namespace {

// Where neighbour k of a panel's channel stands behind the start of its block's words, and how far up in that byte.
struct CodePlace {
  int64_t byte;
  int shift;
};
CodePlace place_of(int64_t k, int64_t channel, int bits) {
  if (bits == 8) return {(k / 4 * kGroupPanel + channel) * 4 + k % 4, 0};
  return {(k / 8 * kGroupPanel + channel) * 4 + k % 4, k % 8 < 4 ? 0 : 4};
}

const uint8_t* block_of(const GroupWeights& weights, int64_t panel, int64_t group) {
  return weights.blocks.data<uint8_t>() + (panel * weights.groups() + group) * weights.block_bytes();
}
int32_t zero_point_of(const GroupWeights& weights, const uint8_t* block, int64_t channel) {
  if (!weights.has_zero_points) return weights.bits == 4 ? 8 : 128;
  return block[kGroupPanel * 4 + channel];
}

}  // namespace

std::string GroupWeights::description() const { return concat(bits, "-bit weights in groups of ", group); }

std::string group_weights_obstacle(int64_t depth, int64_t group) {
  if (group < 1 || depth < 1 || depth % group != 0) return concat("rows of ", depth, " weights in groups of ", group);
  if (group % 8 != 0 || group > kMaxGroup) return concat("groups of ", group, " weights");
  return {};
}

GroupWeights pack_group_weights(const int8_t* q, const float* scales, const int32_t* zero_points, int64_t channels,
                                int64_t depth, int64_t group) {
  GroupWeights packed;
  packed.channels = channels;
  packed.depth = depth;
  packed.group = group;
  const auto [least, most] = std::minmax_element(q, q + channels * depth);
  int32_t base = channels == 0 || (*least >= -8 && *most <= 7) ? -8 : *least;
  const auto fits = [&](int32_t largest) {
    return zero_points == nullptr || std::all_of(zero_points, zero_points + channels * (depth / group), [&](int32_t z) {
             return static_cast<int64_t>(z) - base >= 0 && static_cast<int64_t>(z) - base <= largest;
           });
  };
  if ((channels > 0 && *most - base > 15) || base > 0 || !fits(15)) {
    packed.bits = 8;
    base = -128;
    QDQ_CHECK(fits(255), kUnsupported, "a zero point of the weights lies outside of what 8 bits hold");
  }
  const int32_t middle = packed.bits == 4 ? 8 : 128;
  const int64_t groups = packed.groups();
  packed.has_zero_points = zero_points == nullptr ? base + middle != 0
                                                  : std::any_of(zero_points, zero_points + channels * groups,
                                                                [&](int32_t z) { return z - base != middle; });
  packed.blocks = Tensor::empty({packed.panels() * groups * packed.block_bytes()}, DType::kU8);
  packed.corrections = Tensor::empty({packed.panels() * kGroupPanel}, DType::kF32);
  const int64_t words_at = kGroupPanel * (packed.has_zero_points ? 5 : 4);
  parallel_for(channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t channel = n % kGroupPanel;
      for (int64_t g = 0; g < groups; ++g) {
        uint8_t* block = const_cast<uint8_t*>(block_of(packed, n / kGroupPanel, g));
        const float scale = scales[n * groups + g];
        std::memcpy(block + channel * 4, &scale, sizeof scale);
        const int32_t zero_point = (zero_points != nullptr ? zero_points[n * groups + g] : 0) - base;
        if (packed.has_zero_points) block[kGroupPanel * 4 + channel] = static_cast<uint8_t>(zero_point);
        int32_t sum = 0;
        for (int64_t k = 0; k < group; ++k) {
          const int32_t code = q[n * depth + g * group + k] - base;
          sum += code - zero_point;
          const CodePlace place = place_of(k, channel, packed.bits);
          // Neighbours in both halves of a byte belong to one channel, and a channel to one thread.
          block[words_at + place.byte] |= static_cast<uint8_t>(code << place.shift);
        }
        packed.corrections.data<float>()[n] += static_cast<float>(sum) * scale;
      }
    }
  });
  return packed;
}

void unpack_group_weights(const GroupWeights& weights, int32_t* out) {
  const int64_t words_at = kGroupPanel * (weights.has_zero_points ? 5 : 4);
  for (int64_t n = 0; n < weights.channels; ++n) {
    const int64_t channel = n % kGroupPanel;
    for (int64_t k = 0; k < weights.depth; ++k) {
      const uint8_t* block = block_of(weights, n / kGroupPanel, k / weights.group);
      const CodePlace place = place_of(k % weights.group, channel, weights.bits);
      const int32_t code = block[words_at + place.byte] >> place.shift & (weights.bits == 4 ? 15 : 255);
      out[n * weights.depth + k] = code - zero_point_of(weights, block, channel);
    }
  }
}

float group_scale(const GroupWeights& weights, int64_t channel, int64_t group) {
  float scale;
  std::memcpy(&scale, block_of(weights, channel / kGroupPanel, group) + channel % kGroupPanel * 4, sizeof scale);
  return scale;
}

void quantize_tokens_s8(const float* x, int64_t rows, int64_t depth, int8_t* out, TokenQParams* tokens) {
  parallel_for(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(depth, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* row = x + r * depth;
      const MinMax range = min_max_f32(row, depth);
      QDQ_CHECK(!range.has_nan, kInvalidArgument, "a linear layer that quantizes its input per token got a NaN");
      const float low = std::min(range.min, 0.0f), high = std::max(range.max, 0.0f);
      const float scale = std::max((high - low) / 255.0f, std::numeric_limits<float>::epsilon());
      const float from_low = low / scale, from_high = high / scale;
      const float wanted = (-128.0f + from_low) + (127.0f + from_high) > 0 ? -128.0f - from_low : 127.0f - from_high;
      // An infinite range has no end that is nearer; PyTorch's conversion makes the least integer of it.
      const float zero_point = wanted == wanted ? std::nearbyint(std::clamp(wanted, -128.0f, 127.0f)) : -128.0f;
      tokens[r] = {scale, static_cast<int32_t>(zero_point)};
      const double steps = 1.0 / static_cast<double>(scale), shift = static_cast<double>(zero_point);
      // Adding it rounds half to even: the sum has no bits for a fraction.
      constexpr double kRound = 0x1.8p52;
      for (int64_t k = 0; k < depth; ++k) {
        double q = static_cast<double>(row[k]) * steps + shift;
        q = q > -128.0 ? q : -128.0;
        q = q < 127.0 ? q : 127.0;
        out[r * depth + k] = static_cast<int8_t>(static_cast<int32_t>((q + kRound) - kRound));
      }
    }
  });
}

}  // namespace qdq::kernel
