// Products with weights in groups against plain loops that add in the documented order, bit for bit.
#include "kernel/gemm_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

#if !defined(__EMSCRIPTEN__)
#include "hwy/targets.h"
#endif

namespace qdq::kernel::gemm_groups_test {
namespace {

// Integers of a range, a scale for each group, and zero points if there are any.
struct GroupCase {
  int64_t channels, depth, group;
  int least, most;
  bool zero_points;
};
constexpr GroupCase kCases[] = {
    {1, 16, 16, -8, 7, false},       {33, 64, 32, -8, 7, false},    {70, 192, 64, 0, 15, true},
    {32, 96, 16, -8, 7, true},       {50, 256, 256, -8, 7, false},  {37, 64, 32, -128, 127, false},
    {65, 128, 128, -128, 127, true}, {40, 64, 16, -100, 20, false}, {68, 640, 32, -8, 7, false}};

struct Layer {
  std::vector<int8_t> q;
  std::vector<float> scales, bias;
  std::vector<int32_t> zero_points;
  GroupWeights packed;
};

Layer layer_of(const GroupCase& p, Random& random) {
  Layer layer;
  const int64_t groups = p.channels * (p.depth / p.group);
  for (const float value : random.floats(p.channels * p.depth, static_cast<float>(p.least), static_cast<float>(p.most)))
    layer.q.push_back(static_cast<int8_t>(std::lrint(value)));
  layer.q.front() = static_cast<int8_t>(p.least);
  layer.q.back() = static_cast<int8_t>(p.most);
  layer.scales = random.floats(groups, 0.01f, 0.2f);
  layer.bias = random.floats(p.channels);
  if (p.zero_points)
    for (const float value : random.floats(groups, static_cast<float>(p.least), static_cast<float>(p.most)))
      layer.zero_points.push_back(static_cast<int32_t>(std::lrint(value)));
  layer.packed = pack_group_weights(layer.q.data(), layer.scales.data(),
                                    p.zero_points ? layer.zero_points.data() : nullptr, p.channels, p.depth, p.group);
  return layer;
}

int32_t zero_point_of(const Layer& layer, int64_t group) {
  return layer.zero_points.empty() ? 0 : at(layer.zero_points, group);
}

std::vector<float> plain_f32(const GroupCase& p, const Layer& layer, const std::vector<float>& x, int64_t rows) {
  std::vector<float> out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < p.channels; ++n) {
      float acc = 0;
      for (int64_t g = 0; g < p.depth / p.group; ++g) {
        const int64_t group = n * (p.depth / p.group) + g;
        float sum = 0;
        for (int64_t k = g * p.group; k < (g + 1) * p.group; ++k) {
          const float product =
              at(x, r * p.depth + k) * static_cast<float>(at(layer.q, n * p.depth + k) - zero_point_of(layer, group));
          sum = sum + product;
        }
        const float part = sum * at(layer.scales, group);
        acc = acc + part;
      }
      out.push_back(acc + at(layer.bias, n));
    }
  return out;
}

std::vector<float> plain_s8(const GroupCase& p, const Layer& layer, const std::vector<int8_t>& a,
                            const std::vector<TokenQParams>& tokens) {
  std::vector<float> out;
  for (size_t r = 0; r < tokens.size(); ++r)
    for (int64_t n = 0; n < p.channels; ++n) {
      float acc = 0, correction = 0;
      for (int64_t g = 0; g < p.depth / p.group; ++g) {
        const int64_t group = n * (p.depth / p.group) + g;
        int32_t sum = 0, of_weights = 0;
        for (int64_t k = g * p.group; k < (g + 1) * p.group; ++k) {
          const int32_t weight = at(layer.q, n * p.depth + k) - zero_point_of(layer, group);
          sum += weight * at(a, static_cast<int64_t>(r) * p.depth + k);
          of_weights += weight;
        }
        const float part = static_cast<float>(sum) * at(layer.scales, group),
                    off = static_cast<float>(of_weights) * at(layer.scales, group);
        acc = acc + part;
        correction = correction + off;
      }
      const float off = static_cast<float>(tokens[r].zero_point) * correction;
      const float t = (acc - off) * tokens[r].scale;
      out.push_back(t + at(layer.bias, n));
    }
  return out;
}

// Runs `check` on every instruction set of this machine.
template <class Check> void on_every_target(Check check) {
#if defined(__EMSCRIPTEN__)
  check();
#else
  const int64_t supported = hwy::SupportedTargets();
  for (const int64_t target : {int64_t{HWY_AVX3_DL}, int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SSE2}}) {
    if (!(supported & target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
#endif
}

TEST(GroupWeights, UnpackToTheIntegersThatWerePacked) {
  Random random(1);
  for (const GroupCase& p : kCases) {
    const Layer layer = layer_of(p, random);
    EXPECT_EQ(layer.packed.bits, p.most - p.least <= 15 ? 4 : 8);
    std::vector<int32_t> back(layer.q.size());
    unpack_group_weights(layer.packed, back.data());
    const int64_t groups = p.depth / p.group;
    for (int64_t i = 0; i < p.channels * p.depth; ++i) {
      const int64_t group = i / p.depth * groups + i % p.depth / p.group;
      ASSERT_EQ(at(back, i), at(layer.q, i) - zero_point_of(layer, group)) << i;
      ASSERT_EQ(group_scale(layer.packed, i / p.depth, i % p.depth / p.group), at(layer.scales, group));
    }
  }
}

TEST(GroupWeights, OfFourBitsTakeHalfAByteAndTheirScales) {
  Random random(1);
  const Layer layer = layer_of({64, 256, 32, -8, 7, false}, random);
  EXPECT_EQ(layer.packed.blocks.numel(), 64 * 256 / 2 + 64 * 8 * 4);
  EXPECT_EQ(layer.packed.description(), "4-bit weights in groups of 32");
}

TEST(GroupLinear, FloatsHaveTheDocumentedOrderOnEveryInstructionSet) {
  on_every_target([] {
    Random random(2);
    for (const GroupCase& p : kCases) {
      const Layer layer = layer_of(p, random);
      for (const int64_t rows : {1, 2, 9, 67}) {
        const auto x = random.floats(rows * p.depth);
        const auto want = plain_f32(p, layer, x, rows);
        for (const int threads : {1, 2}) {
          set_num_threads(threads);
          std::vector<float> out(want.size(), NAN);
          linear_groups_f32(x.data(), rows, layer.packed, layer.bias.data(), out.data());
          EXPECT_TRUE(same_bits(out, want)) << p.channels << "x" << p.depth << "/" << p.group << " rows " << rows;
        }
        set_num_threads(1);
      }
    }
  });
}

TEST(GroupLinear, IntegersHaveTheDocumentedOrderOnEveryInstructionSet) {
  on_every_target([] {
    Random random(3);
    for (const GroupCase& p : kCases) {
      const Layer layer = layer_of(p, random);
      for (const int64_t rows : {1, 3, 11}) {
        std::vector<int8_t> a(static_cast<size_t>(rows * p.depth));
        std::vector<TokenQParams> tokens(static_cast<size_t>(rows));
        quantize_tokens_s8(random.floats(rows * p.depth, -3, 5).data(), rows, p.depth, a.data(), tokens.data());
        a.front() = -128;
        a.back() = 127;
        const auto want = plain_s8(p, layer, a, tokens);
        std::vector<float> out(want.size(), NAN);
        linear_groups_s8(a.data(), tokens.data(), rows, layer.packed, layer.bias.data(), out.data());
        EXPECT_TRUE(same_bits(out, want)) << p.channels << "x" << p.depth << "/" << p.group << " rows " << rows;
      }
    }
  });
}

TEST(GroupLinear, ExtremesOfBothOperandsDoNotSaturate) {
  on_every_target([] {
    for (const int most : {15, 127}) {
      const int64_t depth = 256;
      std::vector<int8_t> q(static_cast<size_t>(32 * depth), static_cast<int8_t>(most));
      q.front() = most == 15 ? 0 : -128;
      const std::vector<float> scales(32, 1.0f);
      const GroupWeights packed = pack_group_weights(q.data(), scales.data(), nullptr, 32, depth, depth);
      for (const int a : {-128, 127}) {
        const std::vector<int8_t> row(static_cast<size_t>(depth), static_cast<int8_t>(a));
        const TokenQParams token;
        std::vector<float> out(32);
        linear_groups_s8(row.data(), &token, 1, packed, nullptr, out.data());
        EXPECT_EQ(out[1], static_cast<float>(depth * most * a));
      }
    }
  });
}

TEST(Tokens, AreRoundedByTheirOwnRanges) {
  const std::vector<float> x = {0, 1, 2, 3, -1, -0.5f, 0, 0.25f, 0, 0, 0, 0};
  std::vector<int8_t> q(x.size());
  std::vector<TokenQParams> tokens(3);
  quantize_tokens_s8(x.data(), 3, 4, q.data(), tokens.data());
  EXPECT_EQ(q, (std::vector<int8_t>{-128, -43, 42, 127, -128, -26, 76, 127, 127, 127, 127, 127}));
  EXPECT_EQ(tokens[0].scale, 3.0f / 255);
  EXPECT_EQ(tokens[1].zero_point, 76);
}

}  // namespace
}  // namespace qdq::kernel::gemm_groups_test
