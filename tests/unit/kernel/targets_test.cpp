// Every kernel gives the same bits on every instruction set, natively and in WASM: one hash each, pinned here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "base/parallel.h"
#include "kernel/compare.h"
#include "kernel/conv.h"
#include "kernel/math.h"
#include "kernel/observe.h"
#include "kernel/order.h"
#include "kernel/pointwise.h"
#include "kernel/pool.h"
#include "kernel/quantize.h"
#include "kernel/rows.h"
#include "unit/kernel/plain.h"

#if !defined(__EMSCRIPTEN__)
#include "hwy/targets.h"
#endif

namespace qdq::kernel::targets_test {
namespace {

void append(std::vector<float>& all, const std::vector<float>& part) {
  all.insert(all.end(), part.begin(), part.end());
}

std::vector<float> convolutions(Random& random) {
  const Conv2d convs[] = {{48, 40, 1, 3, 3, 1, 1, 1, 1, 1, 1},
                          {40, 40, 40, 3, 3, 2, 2, 1, 1, 1, 1},
                          {300, 32, 1, 1, 1, 1, 1, 0, 0, 1, 1},
                          {3, 12, 1, 5, 5, 2, 2, 2, 2, 1, 1}};
  std::vector<float> all;
  for (const Conv2d& c : convs) {
    for (int64_t extent : {7, 20}) {
      const int64_t out = (extent + 2 * c.pad_h - c.kernel_h) / c.stride_h + 1;
      const auto x = random.floats(2 * c.in_channels * extent * extent);
      const auto w = random.floats(c.out_channels * c.in_channels / c.groups * c.kernel_h * c.kernel_w),
                 bias = random.floats(c.out_channels);
      std::vector<float> y(static_cast<size_t>(2 * c.out_channels * out * out));
      conv2d_f32(x.data(), 2, extent, extent, pack_conv2d_f32(c, w.data()), bias.data(), out, out, y.data());
      append(all, y);
    }
  }
  return all;
}

// 300 channels are two blocks of a sum, 17 and 40 no whole panels of 16.
std::vector<float> winograd_convolutions(Random& random) {
  std::vector<float> all;
  for (const Conv2d& c : {Conv2d{48, 40, 1, 3, 3, 1, 1, 1, 1, 1, 1}, Conv2d{300, 17, 1, 3, 3, 1, 1, 0, 1, 1, 1},
                          Conv2d{64, 32, 2, 3, 3, 1, 1, 2, 1, 1, 1}}) {
    for (int64_t extent : {8, 21}) {
      const int64_t out_h = extent + 2 * c.pad_h - 2, out_w = extent + 2 * c.pad_w - 2;
      const auto x = random.floats(3 * c.in_channels * extent * extent);
      const auto w = random.floats(c.out_channels * c.in_channels / c.groups * 9), bias = random.floats(c.out_channels);
      std::vector<float> y(static_cast<size_t>(3 * c.out_channels * out_h * out_w));
      winograd_conv2d_f32(c, x.data(), 3, extent, extent, w.data(), bias.data(), out_h, out_w, y.data());
      append(all, y);
    }
  }
  return all;
}

std::vector<float> products(Random& random) {
  std::vector<float> all;
  for (int64_t m : {1, 3, 50}) {
    const auto x = random.floats(m * 600), w = random.floats(77 * 600), bias = random.floats(77);
    std::vector<float> y(static_cast<size_t>(m * 77));
    linear_f32(x.data(), m, pack_rows({w.data(), 600, 1}, 77, 600), bias.data(), y.data());
    append(all, y);
    matmul_f32(1, m, 77, 600, {x.data(), 600, 1}, 0, {w.data(), 1, 600}, 0, y.data());
    append(all, y);
  }
  return all;
}

std::vector<float> arrays(Random& random) {
  const int64_t n = 5003;
  const auto a = random.floats(n, -9, 9), b = random.floats(n, -9, 9);
  std::vector<float> all, y(a.size());
  hardswish_f32(a.data(), n, y.data());
  append(all, y);
  div_f32(a.data(), b.data(), n, y.data());
  append(all, y);
  fake_quantize_f32(a.data(), n, {0.0371, 5, 0, 255}, y.data(), nullptr);
  append(all, y);
  const MinMax range = min_max_f32(a.data(), n);
  std::vector<uint64_t> counts(500);
  histogram_f32(a.data(), n, range.min, range.max, 500, true, counts.data());
  for (uint64_t count : counts) all.push_back(static_cast<float>(count));
  std::vector<int8_t> q(a.size());
  quantize_f32(a.data(), n, {0.05, -3, -128, 127}, q.data());
  for (int8_t v : q) all.push_back(v);
  Pool2d pool{5, 31, 30, 15, 15, 3, 3, 2, 2, 0, 1};
  y.resize(5 * 15 * 15);
  max_pool2d_f32(a.data(), pool, y.data());
  append(all, y);
  avg_pool2d_f32(a.data(), pool, y.data());
  append(all, y);
  return all;
}

std::vector<float> curves(Random& random) {
  const int64_t n = 5003;
  const auto a = random.floats(n, -95, 95), b = random.floats(n, -9, 9);
  std::vector<float> all, y(a.size());
  for (const auto curve : {exp_f32,     expm1_f32, log_f32,  log1p_f32,     tanh_f32,  erf_f32,   sin_f32,
                           sigmoid_f32, silu_f32,  gelu_f32, gelu_tanh_f32, mish_f32,  tan_f32,   asin_f32,
                           acos_f32,    atan_f32,  sinh_f32, cosh_f32,      asinh_f32, acosh_f32, atanh_f32}) {
    for (const auto* x : {&a, &b}) {
      curve(x->data(), n, y.data());
      for (float& value : y) value = value == value ? value : -1;
      append(all, y);
    }
  }
  softplus_f32(a.data(), n, 1.5f, 20, y.data());
  append(all, y);
  elu_f32(b.data(), n, 1.5f, 1.1f, 0.7f, y.data());
  append(all, y);
  std::vector<float> sizes(a.size());
  abs_f32(a.data(), n, sizes.data());
  pow_f32(sizes.data(), b.data(), n, y.data());
  append(all, y);
  return all;
}

void expect_pinned_bits(const char* target) {
  for (int threads : {1, 2}) {
    set_num_threads(threads);
    Random random(11);
    const uint64_t conv = hash_bits(convolutions(random)), gemm = hash_bits(products(random)),
                   array = hash_bits(arrays(random)), winograd = hash_bits(winograd_convolutions(random)),
                   curve = hash_bits(curves(random));
    EXPECT_EQ(conv, 0x21b6dd58885c167cull) << std::hex << "conv 0x" << conv << " on " << target;
    EXPECT_EQ(gemm, 0x93c091773760884bull) << std::hex << "gemm 0x" << gemm << " on " << target;
    EXPECT_EQ(array, 0xdbcc13c8b26e2f95ull) << std::hex << "array 0x" << array << " on " << target;
    EXPECT_EQ(curve, 0xddb2c1381a14d5b8ull) << std::hex << "curves 0x" << curve << " on " << target;
    EXPECT_EQ(winograd, 0x5a628f2d0d16fed3ull) << std::hex << "winograd 0x" << winograd << " on " << target;
  }
  set_num_threads(1);
}

// Sums, norms, extremes, comparisons and reversals of rows of lengths around those of vectors.
void expect_rows_of_plain_loops(const char* target) {
  Random random(13);
  constexpr int64_t kRows = 5;
  for (const int64_t n : {1, 3, 15, 16, 37, 130}) {
    const std::vector<float> x = random.floats(kRows * n, -3, 3);
    std::vector<float> sums(kRows), norms(x.size());
    sum_rows_f32(x.data(), kRows, n, sums.data());
    layer_norm_f32(x.data(), kRows, n, nullptr, nullptr, 1e-5f, norms.data(), nullptr, nullptr);
    const auto plain_sum = [&](auto&& element) {
      float strands[16] = {};
      for (int64_t i = 0; i < n; ++i) strands[i % 16] += element(i);
      for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; ++j) strands[j] += strands[j + half];
      return strands[0];
    };
    for (int64_t r = 0; r < kRows; ++r) {
      const float *row = x.data() + r * n, *norm = norms.data() + r * n;
      const float sum = plain_sum([&](int64_t i) { return row[i]; }), mean = sum / static_cast<float>(n),
                  squares = plain_sum([&](int64_t i) { return (row[i] - mean) * (row[i] - mean); }),
                  factor = 1.0f / std::sqrt(squares / static_cast<float>(n) + 1e-5f);
      EXPECT_EQ(sums[static_cast<size_t>(r)], sum) << target << " " << n;
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(norm[i], (row[i] - mean) * factor) << target << " " << n << " " << i;
      float largest = 0, smallest = 0;
      EXPECT_TRUE(extreme_f32(row, n, true, &largest) && extreme_f32(row, n, false, &smallest)) << target;
      EXPECT_EQ(largest, *std::max_element(row, row + n)) << target << " " << n;
      EXPECT_EQ(smallest, *std::min_element(row, row + n)) << target << " " << n;
    }
    // Magnitudes of rows, of columns, and of each element.
    for (const auto& [outer, depth, inner] : {std::tuple{kRows, n, int64_t{1}}, std::tuple{int64_t{1}, kRows, n},
                                              std::tuple{kRows * n, int64_t{1}, int64_t{1}}}) {
      std::vector<float> magnitudes(static_cast<size_t>(outer * inner));
      sum_magnitudes_f32(x.data(), outer, depth, inner, magnitudes.data());
      for (int64_t i = 0; i < outer * inner; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += std::fabs(static_cast<double>(x[static_cast<size_t>((i / inner * depth + k) * inner + i % inner)]));
        EXPECT_EQ(magnitudes[static_cast<size_t>(i)], static_cast<float>(sum)) << target << " " << n;
      }
    }
    std::vector<int64_t> a(x.size()), backwards(x.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int64_t>(i) * 7 % 5 + (int64_t{1} << 40);
    const auto count = static_cast<int64_t>(a.size());
    reverse(reinterpret_cast<const uint64_t*>(a.data()), count, reinterpret_cast<uint64_t*>(backwards.data()));
    EXPECT_TRUE(std::equal(a.rbegin(), a.rend(), backwards.begin())) << target << " " << n;
    const std::unique_ptr<bool[]> is_less(new bool[a.size()]);
    compare(Comparison::kLess, a.data(), 1, backwards.data(), 1, count, is_less.get());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(is_less[i], a[i] < backwards[i]) << target << " " << n;
  }
}

// Rows and columns with ties, zeros of both signs and NaN, of lengths around those of vectors.
void expect_orders_of_plain_loops(const char* target) {
  Random random(12);
  for (const int64_t count : {1, 3, 16, 37, 130})
    for (const int64_t inner : {1, 5, 33})
      for (const bool has_nan : {false, true}) {
        std::vector<float> x = random.floats(2 * count * inner, -3, 3);
        for (size_t i = 0; i < x.size(); ++i) x[i] = i % 7 == 0 ? -0.0f : std::floor(x[i]);
        if (has_nan) x[x.size() / 3] = x.back() = NAN;
        std::vector<int64_t> places(static_cast<size_t>(2 * inner));
        for (const bool largest : {false, true}) {
          extreme_places_f32(x.data(), 2, count, inner, largest, places.data());
          for (size_t j = 0; j < places.size(); ++j) {
            const auto width = static_cast<size_t>(inner);
            const float* column = x.data() + j / width * static_cast<size_t>(count) * width + j % width;
            int64_t best = 0;
            for (int64_t i = 1; i < count; ++i) {
              const float a = column[best * inner], b = column[i * inner];
              if (a == a && (b != b || (largest ? b > a : b < a))) best = i;
            }
            EXPECT_EQ(places[j], best) << target << " " << count << " " << inner << " " << j;
          }
        }
        std::vector<int32_t> keys(x.size());
        const auto n = static_cast<int64_t>(x.size());
        for (const bool flips : {false, true}) {
          order_keys_f32(x.data(), n, flips, keys.data());
          for (size_t i = 1; i < x.size(); ++i) {
            const float a = flips ? x[i] : x[i - 1], b = flips ? x[i - 1] : x[i];
            EXPECT_EQ(keys[i - 1] < keys[i], a < b || (a == a && b != b)) << target << " " << a << " " << b;
          }
        }
        for (const int64_t begin : {int64_t{0}, n / 2}) {
          int64_t want = begin;
          while (want < n && keys[static_cast<size_t>(want)] >= -5) ++want;
          EXPECT_EQ(find_below(keys.data(), begin, n, -5), want) << target;
        }
      }
}

TEST(Targets, AllGiveTheSameBits) {
#if defined(__EMSCRIPTEN__)
  expect_pinned_bits("WASM");
  expect_orders_of_plain_loops("WASM");
  expect_rows_of_plain_loops("WASM");
#else
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SSE2}}) {
    if (!(supported & target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    expect_pinned_bits(hwy::TargetName(target));
    expect_orders_of_plain_loops(hwy::TargetName(target));
    expect_rows_of_plain_loops(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
#endif
}

#if !defined(__EMSCRIPTEN__)
// A pointer that is taken before asks the processor at every row: 40 us each in a virtual machine.
TEST(Targets, AreChosenBeforeTheFirstRow) {
  hwy::GetChosenTarget().DeInit();
  softmax_f32(nullptr, 0, 4, nullptr);
  EXPECT_TRUE(hwy::GetChosenTarget().IsInitialized());
}
#endif

}  // namespace
}  // namespace qdq::kernel::targets_test
