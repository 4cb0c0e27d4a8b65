// Halves and floats of arrays beside F16, which converts them one by one.
#include "kernel/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace qdq::half_test {
namespace {

TEST(Half, EveryHalfIsTheFloatOfF16) {
  std::vector<F16> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  kernel::floats_of_halves(halves.data(), 65536, floats.data());
  for (size_t i = 0; i < halves.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(static_cast<float>(halves[i]))) << i;
}

TEST(Half, FloatsRoundAsF16Rounds) {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4999)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  // Between two halves, and on both sides of that.
  for (uint32_t half = 0; half < 65536; ++half) {
    F16 low;
    low.bits = static_cast<uint16_t>(half);
    const uint32_t middle = std::bit_cast<uint32_t>(static_cast<float>(low)) + 0x1000;
    for (const uint32_t bits : {middle - 1, middle, middle + 1}) floats.push_back(std::bit_cast<float>(bits));
  }
  for (const float edge : {65519.99f, 65520.f, 0x1p-14f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0.f,
                           std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    floats.push_back(edge);
    floats.push_back(-edge);
  }
  std::vector<F16> halves(floats.size());
  kernel::halves_of_floats(floats.data(), static_cast<int64_t>(floats.size()), halves.data());
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(halves[i].bits, F16(floats[i]).bits) << floats[i];
}

TEST(Half, BfloatsAreThoseOfBF16) {
  std::vector<BF16> brains(65536);
  for (size_t i = 0; i < brains.size(); ++i) brains[i].bits = static_cast<uint16_t>(i);
  std::vector<float> floats(brains.size());
  kernel::floats_of_halves(brains.data(), 65536, floats.data());
  for (size_t i = 0; i < brains.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(static_cast<float>(brains[i]))) << i;
  // Between two of them, and on both sides of that.
  floats.clear();
  for (uint32_t high = 0; high < 65536; ++high)
    for (const uint32_t low : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      floats.push_back(std::bit_cast<float>(high << 16 | low));
  std::vector<BF16> rounded(floats.size());
  kernel::halves_of_floats(floats.data(), static_cast<int64_t>(floats.size()), rounded.data());
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(rounded[i].bits, BF16(floats[i]).bits) << floats[i];
  for (int64_t n = 0; n < 40; ++n) {
    std::vector<BF16> few(static_cast<size_t>(n + 1), BF16(7.f));
    kernel::halves_of_floats(floats.data(), n, few.data());
    EXPECT_EQ(static_cast<float>(few.back()), 7.f);
  }
}

TEST(Half, NothingIsWrittenBehindTheEnd) {
  for (int64_t n = 0; n < 40; ++n) {
    const std::vector<float> floats(static_cast<size_t>(n), 1.5f);
    std::vector<F16> halves(static_cast<size_t>(n + 1), F16(7.f));
    kernel::halves_of_floats(floats.data(), n, halves.data());
    EXPECT_EQ(static_cast<float>(halves.back()), 7.f);
    std::vector<float> again(static_cast<size_t>(n + 1), 7.f);
    kernel::floats_of_halves(halves.data(), n, again.data());
    EXPECT_EQ(again.back(), 7.f);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(again[static_cast<size_t>(i)], 1.5f);
  }
}

}  // namespace
}  // namespace qdq::half_test
