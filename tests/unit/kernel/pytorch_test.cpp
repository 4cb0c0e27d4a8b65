// Kernels against PyTorch 2.6, bit for bit: tests/golden/kernel.py computed the hashes for the same seeded inputs.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernel/observe.h"
#include "kernel/pointwise.h"
#include "kernel/pool.h"
#include "kernel/quantize.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::pytorch_test {
namespace {

using PoolLoop = void (*)(const float*, const Pool2d&, float*);

uint64_t pooled(const std::vector<float>& images, PoolLoop loop, Pool2d pool) {
  pool.planes = 6, pool.in_h = 13, pool.in_w = 18;
  std::vector<float> out(static_cast<size_t>(6 * pool.out_h * pool.out_w));
  loop(images.data(), pool, out.data());
  return hash_bits(out);
}

Pool2d pool_of(int64_t out_h, int64_t out_w, int64_t kernel, int64_t stride, int64_t pad) {
  Pool2d pool;
  pool.out_h = out_h, pool.out_w = out_w, pool.kernel_h = pool.kernel_w = kernel;
  pool.stride_h = pool.stride_w = stride, pool.pad_h = pool.pad_w = pad;
  return pool;
}

// The inputs are drawn in the script's order: first the images, then the array, then the scales.
std::vector<float> images(Random& random) { return random.floats(2 * 3 * 13 * 18, -2, 2); }

TEST(PyTorch, Pools) {
  Random random(21);
  const auto x = images(random);
  EXPECT_EQ(pooled(x, max_pool2d_f32, pool_of(7, 9, 3, 2, 1)), 0x9039622362f706c6ull);
  Pool2d dilated = pool_of(10, 15, 2, 1, 0);
  dilated.dilation_h = dilated.dilation_w = 3;
  EXPECT_EQ(pooled(x, max_pool2d_f32, dilated), 0xdbeb8397b6993963ull);
  EXPECT_EQ(pooled(x, max_pool2d_f32, pool_of(7, 9, 2, 2, 0)), 0x016f1c6d6c3bd28full);
  Pool2d average = pool_of(7, 9, 3, 2, 1);
  EXPECT_EQ(pooled(x, avg_pool2d_f32, average), 0xae9e11aeba2f8188ull);
  average.count_include_pad = false;
  EXPECT_EQ(pooled(x, avg_pool2d_f32, average), 0xc7341cf2a616933cull);
  EXPECT_EQ(pooled(x, avg_pool2d_f32, pool_of(7, 10, 3, 2, 1)), 0xb6c3bc09e243cff9ull);
  average = pool_of(11, 16, 3, 1, 0);
  average.divisor_override = 7;
  EXPECT_EQ(pooled(x, avg_pool2d_f32, average), 0x249ac68f87548439ull);
  EXPECT_EQ(pooled(x, adaptive_avg_pool2d_f32, pool_of(5, 7, 1, 1, 0)), 0x53add69285e9e06bull);
}

TEST(PyTorch, Arrays) {
  Random random(21);
  images(random);
  const int64_t n = 3 * 7 * 50;
  const auto x = random.floats(n, -20, 20);
  std::vector<float> y(x.size());

  const MinMax range = min_max_f32(x.data(), n);
  std::vector<uint64_t> counts(2048);
  histogram_f32(x.data(), n, range.min, range.max, 2048, true, counts.data());
  EXPECT_EQ(hash_bits(counts), 0x32e54972de0445c3ull);
  counts.assign(100, 0);
  histogram_f32(x.data(), n, -7.3f, 11.1f, 100, false, counts.data());
  EXPECT_EQ(hash_bits(counts), 0x1ea9ac9805c11427ull);

  hardswish_f32(x.data(), n, y.data());
  EXPECT_EQ(hash_bits(y), 0xd793456033d069efull);
  hardsigmoid_f32(x.data(), n, y.data());
  EXPECT_EQ(hash_bits(y), 0x218679c243137e50ull);
  leaky_relu_f32(x.data(), n, 0.01f, y.data());
  EXPECT_EQ(hash_bits(y), 0x54da769389398a6eull);
}

TEST(PyTorch, Quantization) {
  Random random(21);
  images(random);
  const int64_t n = 3 * 7 * 50;
  const auto x = random.floats(n, -20, 20);
  const double scale = static_cast<double>(0.0713f);
  std::vector<float> y(x.size());
  std::vector<uint8_t> u8(x.size());
  std::vector<int8_t> s8(x.size());
  std::vector<int16_t> s16(x.size());
  quantize_f32(x.data(), n, {scale, 117, 0, 255}, u8.data());
  EXPECT_EQ(hash_bits(u8), 0xd83a45578c102485ull);
  quantize_f32(x.data(), n, {scale, -3, -127, 127}, s8.data());
  EXPECT_EQ(hash_bits(s8), 0x72cd8b91b1ac79fdull);
  quantize_f32(x.data(), n, {scale / 256, 0, -32768, 32767}, s16.data());
  EXPECT_EQ(hash_bits(s16), 0xe5481939fbbb0302ull);
  dequantize_f32(u8.data(), n, {scale, 117, 0, 255}, y.data());
  EXPECT_EQ(hash_bits(y), 0xa158d1715da14944ull);
  fake_quantize_f32(x.data(), n, {scale, 117, 0, 255}, y.data(), nullptr);
  EXPECT_EQ(hash_bits(y), 0xa158d1715da14944ull);

  const auto scales = random.floats(7, 0.01f, 0.2f);
  std::vector<int64_t> zero_points(7);
  std::iota(zero_points.begin(), zero_points.end(), -3);
  const ChannelAffine affine{scales.data(), zero_points.data(), 3, 7, 50, -128, 127, Scaling::kMultiply};
  quantize_channels_f32(x.data(), affine, s8.data());
  EXPECT_EQ(hash_bits(s8), 0xfcc0ccd9cf6503afull);
  dequantize_channels_f32(s8.data(), affine, y.data());
  EXPECT_EQ(hash_bits(y), 0x6de3ff80e2caf425ull);
  fake_quantize_channels_f32(x.data(), affine, y.data(), nullptr);
  EXPECT_EQ(hash_bits(y), 0x6de3ff80e2caf425ull);
}

}  // namespace
}  // namespace qdq::kernel::pytorch_test
