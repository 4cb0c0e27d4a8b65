// Float convolutions against a plain loop that adds in the documented order, bit for bit.
#include "kernel/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::conv_test {
namespace {

struct ConvCase {
  Conv2d conv;
  int64_t batch, in_h, in_w, out_h, out_w;
};

std::vector<float> plain_conv(const ConvCase& p, const std::vector<float>& x, const std::vector<float>& w,
                              const std::vector<float>* bias) {
  const Conv2d& c = p.conv;
  const int64_t ic_group = c.in_channels / c.groups, oc_group = c.out_channels / c.groups;
  std::vector<float> out;
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t oc = 0; oc < c.out_channels; ++oc)
      for (int64_t oh = 0; oh < p.out_h; ++oh)
        for (int64_t ow = 0; ow < p.out_w; ++ow) {
          BlockSum sum;
          for (int64_t ic = 0; ic < ic_group; ++ic)
            for (int64_t kh = 0; kh < c.kernel_h; ++kh)
              for (int64_t kw = 0; kw < c.kernel_w; ++kw) {
                const int64_t y = oh * c.stride_h - c.pad_h + kh * c.dilation_h,
                              z = ow * c.stride_w - c.pad_w + kw * c.dilation_w;
                const bool inside = y >= 0 && y < p.in_h && z >= 0 && z < p.in_w;
                const int64_t channel = n * c.in_channels + oc / oc_group * ic_group + ic;
                sum.add(at(w, ((oc * ic_group + ic) * c.kernel_h + kh) * c.kernel_w + kw),
                        inside ? at(x, (channel * p.in_h + y) * p.in_w + z) : 0.0f);
              }
          out.push_back(bias ? sum.total() + at(*bias, oc) : sum.total());
        }
  return out;
}

// in_channels, out_channels, groups, kernel, stride, padding, dilation; image; batch.
ConvCase make(int64_t ic, int64_t oc, int64_t groups, int64_t kh, int64_t kw, int64_t sh, int64_t sw, int64_t ph,
              int64_t pw, int64_t dh, int64_t dw, int64_t h, int64_t w, int64_t batch) {
  const Conv2d c{ic, oc, groups, kh, kw, sh, sw, ph, pw, dh, dw};
  return {c, batch, h, w, (h + 2 * ph - dh * (kh - 1) - 1) / sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) / sw + 1};
}

const std::vector<ConvCase>& cases() {
  static const std::vector<ConvCase> all = {
      make(3, 8, 1, 3, 3, 1, 1, 1, 1, 1, 1, 9, 11, 2),     // direct
      make(3, 20, 1, 7, 7, 2, 2, 3, 3, 1, 1, 23, 19, 1),   // pixel lanes, strided
      make(30, 20, 1, 3, 3, 1, 1, 1, 1, 1, 1, 14, 14, 2),  // blocks of the sum, the last one is shorter
      make(60, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1, 7, 7, 1),    // channel lanes, three blocks
      make(5, 33, 1, 3, 3, 2, 2, 1, 1, 1, 1, 7, 7, 2),
      make(12, 12, 12, 3, 3, 1, 1, 1, 1, 1, 1, 10, 13, 2),  // depthwise
      make(12, 12, 12, 5, 5, 2, 2, 2, 2, 1, 1, 15, 9, 1),
      // several pieces of a channel, rows of whole vectors and an end
      make(5, 5, 5, 3, 3, 1, 1, 1, 1, 1, 1, 120, 37, 2),
      make(2, 2, 2, 5, 5, 1, 1, 2, 2, 1, 1, 9, 150, 1),    // rows of several vectors for any number of taps
      make(3, 3, 3, 17, 17, 1, 1, 8, 8, 1, 1, 20, 20, 1),  // two blocks of the sum of a channel
      make(4, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1, 9, 3, 1),      // rows shorter than a vector
      make(8, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1, 30, 33, 2),    // one channel of two
      make(6, 12, 6, 3, 3, 1, 1, 2, 2, 2, 2, 10, 10, 1),   // depthwise with a multiplier, dilated
      make(8, 20, 2, 3, 3, 1, 2, 0, 1, 2, 3, 12, 17, 2),
      make(40, 48, 1, 1, 1, 1, 1, 0, 0, 1, 1, 7, 9, 2),  // pointwise, the input is its own planes
      make(40, 48, 1, 1, 1, 2, 2, 0, 0, 1, 1, 9, 9, 2),  // strided pointwise
      make(24, 5, 1, 1, 1, 1, 1, 0, 0, 1, 1, 5, 5, 1),
      // pointwise, two blocks of the sum, panels that come four at a time and the rest
      make(300, 40, 1, 1, 1, 1, 1, 0, 0, 1, 1, 15, 15, 2), make(10, 24, 1, 1, 5, 1, 3, 0, 2, 1, 1, 1, 200, 2),  // 1-d
      make(80, 32, 1, 1, 11, 1, 1, 0, 5, 1, 1, 1, 600, 1),  // a row longer than a block of pixels
      make(40, 8, 1, 3, 3, 1, 1, 1, 1, 1, 1, 6, 6, 1),      // direct with two blocks
      make(32, 32, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8, 8, 1),
      make(2, 3, 1, 3, 3, 3, 3, 5, 5, 1, 1, 4, 4, 1),  // windows wholly outside the image
      make(1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1), make(4, 18, 1, 2, 3, 1, 1, 3, 0, 4, 1, 5, 40, 3),
      make(3, 130, 1, 1, 3, 1, 2, 0, 1, 1, 1, 1, 2400, 2),  // several pieces of one row, split channels
  };
  return all;
}

TEST(Conv, MatchesTheDocumentedOrderForAnyShapeAndThreads) {
  Random random(1);
  for (const ConvCase& p : cases()) {
    const Conv2d& c = p.conv;
    const auto x = random.floats(p.batch * c.in_channels * p.in_h * p.in_w);
    const auto w = random.floats(c.out_channels * (c.in_channels / c.groups) * c.kernel_h * c.kernel_w);
    const auto bias = random.floats(c.out_channels);
    const PackedConv2d packed = pack_conv2d_f32(c, w.data());
    const auto want = plain_conv(p, x, w, &bias);
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      std::vector<float> out(want.size(), NAN);
      conv2d_f32(x.data(), p.batch, p.in_h, p.in_w, packed, bias.data(), p.out_h, p.out_w, out.data());
      EXPECT_TRUE(same_bits(out, want)) << "case " << &p - cases().data() << " threads " << threads;
    }
    std::vector<float> out(want.size(), NAN);
    conv2d_f32(x.data(), p.batch, p.in_h, p.in_w, packed, nullptr, p.out_h, p.out_w, out.data());
    EXPECT_TRUE(same_bits(out, plain_conv(p, x, w, nullptr)));
  }
  set_num_threads(1);
}

// Six inputs, three weights and six products of kernel/winograd_f32.h, `step` apart.
void plain_inputs(float* d, int64_t step) {
  const float d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
  const float p = d4 - d2 * 2.25f, q = (d3 - d1 * 2.25f) * 0.75f, r = d4 - d2 * 0.5625f;
  const float s = (d3 - d1 * 0.5625f) * 1.5f;
  d[0] = (d0 * 1.265625f - d2 * 2.8125f) + d4;
  d[step] = p + q;
  d[2 * step] = p - q;
  d[3 * step] = r + s;
  d[4 * step] = r - s;
  d[5 * step] = (d1 * 1.265625f - d3 * 2.8125f) + d5;
}

void plain_weights(double* g, int64_t step) {
  const double g0 = g[0], g1 = g[step], g2 = g[2 * step];
  g[0] = g0 * (64.0 / 81.0);
  g[step] = ((g0 + g2 * 0.5625) + g1 * 0.75) * (-128.0 / 243.0);
  g[2 * step] = ((g0 + g2 * 0.5625) - g1 * 0.75) * (-128.0 / 243.0);
  g[3 * step] = ((g0 + g2 * 2.25) + g1 * 1.5) * (32.0 / 243.0);
  g[4 * step] = ((g0 + g2 * 2.25) - g1 * 1.5) * (32.0 / 243.0);
  g[5 * step] = g2;
}

void plain_outputs(float* m, int64_t step) {
  const float m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step], m4 = m[4 * step], m5 = m[5 * step];
  m[0] = (m0 + (m1 + m2)) + (m3 + m4);
  m[step] = (m1 - m2) * 0.75f + (m3 - m4) * 1.5f;
  m[2 * step] = (m1 + m2) * 0.5625f + (m3 + m4) * 2.25f;
  m[3 * step] = ((m1 - m2) * 0.421875f + (m3 - m4) * 3.375f) + m5;
}

// Applies `transform` down the columns of a matrix whose rows are six long, then along its rows.
template <class T> void both_ways(T* matrix, int64_t columns, int64_t rows, void (*transform)(T*, int64_t)) {
  for (int64_t i = 0; i < columns; ++i) transform(matrix + i, 6);
  for (int64_t i = 0; i < rows; ++i) transform(matrix + i * 6, 1);
}

std::vector<float> plain_winograd(const ConvCase& p, const std::vector<float>& x, const std::vector<float>& w,
                                  const std::vector<float>& bias) {
  const Conv2d& c = p.conv;
  const int64_t ic_group = c.in_channels / c.groups, oc_group = c.out_channels / c.groups;
  std::vector<float> out(static_cast<size_t>(p.batch * c.out_channels * p.out_h * p.out_w), NAN);
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t oc = 0; oc < c.out_channels; ++oc)
      for (int64_t top = 0; top < p.out_h; top += 4)
        for (int64_t left = 0; left < p.out_w; left += 4) {
          std::vector<BlockSum> sums(36, BlockSum(32));
          for (int64_t ic = 0; ic < ic_group; ++ic) {
            float d[36];
            double g[36] = {};
            for (int64_t i = 0; i < 36; ++i) {
              const int64_t y = top - c.pad_h + i / 6, z = left - c.pad_w + i % 6;
              const int64_t channel = n * c.in_channels + oc / oc_group * ic_group + ic;
              const bool inside = y >= 0 && y < p.in_h && z >= 0 && z < p.in_w;
              d[i] = inside ? at(x, (channel * p.in_h + y) * p.in_w + z) : 0.0f;
              if (i / 6 < 3 && i % 6 < 3) g[i] = double{at(w, (oc * ic_group + ic) * 9 + i / 6 * 3 + i % 6)};
            }
            both_ways(d, 6, 6, plain_inputs);
            both_ways(g, 3, 6, plain_weights);
            for (int64_t i = 0; i < 36; ++i) at(sums, i).add(static_cast<float>(g[i]), d[i]);
          }
          float m[36];
          for (int64_t i = 0; i < 36; ++i) m[i] = at(sums, i).total();
          both_ways(m, 6, 4, plain_outputs);
          for (int64_t i = 0; i < std::min<int64_t>(4, p.out_h - top); ++i)
            for (int64_t j = 0; j < std::min<int64_t>(4, p.out_w - left); ++j)
              at(out, ((n * c.out_channels + oc) * p.out_h + top + i) * p.out_w + left + j) =
                  m[i * 6 + j] + at(bias, oc);
        }
  return out;
}

const std::vector<ConvCase>& winograd_cases() {
  static const std::vector<ConvCase> all = {
      make(16, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1, 8, 8, 1),
      make(64, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1, 7, 7, 5),     // images to a block, the last one has fewer
      make(20, 40, 1, 3, 3, 1, 1, 1, 1, 1, 1, 13, 14, 2),   // channels and a chunk that are not whole
      make(24, 50, 1, 3, 3, 1, 1, 0, 0, 1, 1, 11, 9, 1),    // without padding
      make(16, 33, 1, 3, 3, 1, 1, 3, 2, 1, 1, 6, 7, 2),     // tiles wholly outside the image
      make(300, 17, 1, 3, 3, 1, 1, 1, 1, 1, 1, 7, 7, 2),    // blocks of the sum, the last one is shorter
      make(48, 96, 2, 3, 3, 1, 1, 1, 1, 1, 1, 8, 10, 3),    // groups
      make(16, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1, 90, 41, 1),   // several blocks of rows
      make(16, 20, 1, 3, 3, 1, 1, 2, 5, 1, 1, 9, 700, 2),   // and of columns, with zeros around
      make(16, 200, 1, 3, 3, 1, 1, 1, 1, 1, 1, 3, 500, 1),  // a row of more tiles than a block, split channels
  };
  return all;
}

TEST(Conv, WinogradMatchesItsFormulaForAnyShapeAndThreads) {
  Random random(4);
  for (const ConvCase& p : winograd_cases()) {
    const Conv2d& c = p.conv;
    ASSERT_TRUE(takes_winograd(c, p.out_h, p.out_w) || p.out_h == 3);
    const auto x = random.floats(p.batch * c.in_channels * p.in_h * p.in_w), bias = random.floats(c.out_channels);
    const auto w = random.floats(c.out_channels * (c.in_channels / c.groups) * 9);
    const auto want = plain_winograd(p, x, w, bias);
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      std::vector<float> out(want.size(), NAN);
      winograd_conv2d_f32(c, x.data(), p.batch, p.in_h, p.in_w, w.data(), bias.data(), p.out_h, p.out_w, out.data());
      EXPECT_TRUE(same_bits(out, want)) << "case " << &p - winograd_cases().data() << " threads " << threads;
    }
  }
  set_num_threads(1);
}

// Every weight and input at most 1 in magnitude: the error of a sum of n products of direct convolution is some 2^-24 *
// sqrt(n), of Winograd's a few times as much.
TEST(Conv, WinogradIsNearDirectConvolution) {
  Random random(5);
  for (const ConvCase& p : winograd_cases()) {
    const Conv2d& c = p.conv;
    const auto x = random.floats(p.batch * c.in_channels * p.in_h * p.in_w);
    const auto w = random.floats(c.out_channels * (c.in_channels / c.groups) * 9);
    const auto want = plain_conv(p, x, w, nullptr);
    std::vector<float> out(want.size(), NAN);
    winograd_conv2d_f32(c, x.data(), p.batch, p.in_h, p.in_w, w.data(), nullptr, p.out_h, p.out_w, out.data());
    float range = 0.0f, error = 0.0f;
    for (size_t i = 0; i < want.size(); ++i) {
      range = std::max(range, std::abs(want[i]));
      error = std::max(error, std::abs(out[i] - want[i]));
    }
    EXPECT_LT(error, 2e-6f * range) << "case " << &p - winograd_cases().data();
  }
}

TEST(Conv, WinogradIsTakenByShapeAlone) {
  const Conv2d taken{16, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1};
  for (int64_t extent : {6, 7, 8, 13, 56, 224}) EXPECT_TRUE(takes_winograd(taken, extent, extent)) << extent;
  for (int64_t extent : {1, 2, 5}) EXPECT_FALSE(takes_winograd(taken, extent, extent)) << extent;
  EXPECT_FALSE(takes_winograd(taken, 1, 100));
  EXPECT_FALSE(takes_winograd({15, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1}, 8, 8));
  EXPECT_FALSE(takes_winograd({16, 15, 1, 3, 3, 1, 1, 1, 1, 1, 1}, 8, 8));
  EXPECT_FALSE(takes_winograd({32, 32, 32, 3, 3, 1, 1, 1, 1, 1, 1}, 8, 8));
  EXPECT_FALSE(takes_winograd({16, 16, 1, 3, 3, 2, 1, 1, 1, 1, 1}, 8, 8));
  EXPECT_FALSE(takes_winograd({16, 16, 1, 3, 3, 1, 1, 1, 1, 1, 2}, 8, 8));
  EXPECT_FALSE(takes_winograd({16, 16, 1, 3, 5, 1, 1, 1, 1, 1, 1}, 8, 8));
}

TEST(Conv, TellsEachStretchOnceItIsComplete) {
  Random random(3);
  std::vector<ConvCase> problems = cases();
  // stretches of an image, of several pieces each
  problems.push_back(make(6, 40, 1, 1, 1, 1, 1, 0, 0, 1, 1, 40, 40, 9));
  problems.push_back(make(96, 96, 96, 3, 3, 1, 1, 1, 1, 1, 1, 20, 20, 3));  // stretches of many groups
  const size_t direct = problems.size();
  for (const ConvCase& p : winograd_cases()) problems.push_back(p);
  problems.push_back(make(16, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1, 16, 16, 80));  // units of several images
  for (const ConvCase& p : problems) {
    const Conv2d& c = p.conv;
    const auto x = random.floats(p.batch * c.in_channels * p.in_h * p.in_w);
    const auto w = random.floats(c.out_channels * (c.in_channels / c.groups) * c.kernel_h * c.kernel_w);
    const bool is_winograd = &p - problems.data() >= static_cast<int64_t>(direct);
    const PackedConv2d packed = pack_conv2d_f32(c, w.data());
    const auto run = [&](float* out, const std::function<void(int64_t, int64_t)>& written) {
      if (is_winograd) {
        winograd_conv2d_f32(c, x.data(), p.batch, p.in_h, p.in_w, w.data(), nullptr, p.out_h, p.out_w, out, written);
      } else {
        conv2d_f32(x.data(), p.batch, p.in_h, p.in_w, packed, nullptr, p.out_h, p.out_w, out, written);
      }
    };
    const size_t numel = static_cast<size_t>(p.batch * c.out_channels * p.out_h * p.out_w);
    std::vector<float> want(numel);
    run(want.data(), {});
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      std::vector<float> out(numel, NAN), seen(numel, NAN);
      std::vector<int> times(numel);
      std::mutex mutex;
      run(out.data(), [&](int64_t begin, int64_t count) {
        std::lock_guard<std::mutex> lock(mutex);
        for (int64_t i = begin; i < begin + count; ++i) {
          ++at(times, i);
          at(seen, i) = at(out, i);
          at(out, i) = 7.0f;  // whoever is told may write there
        }
      });
      EXPECT_EQ(times, std::vector<int>(numel, 1)) << "case " << &p - problems.data() << " threads " << threads;
      EXPECT_TRUE(same_bits(seen, want)) << "case " << &p - problems.data() << " threads " << threads;
      EXPECT_EQ(out, std::vector<float>(numel, 7.0f)) << "case " << &p - problems.data() << " threads " << threads;
    }
  }
  set_num_threads(1);
}

TEST(Conv, UnevenPaddingNeedsOnlyTheOutputExtents) {
  // padding="same" with an even kernel: one zero column at the right and one zero row below.
  ConvCase p = make(3, 4, 1, 2, 2, 1, 1, 0, 0, 1, 1, 6, 6, 1);
  p.out_h = p.out_w = 6;
  Random random(2);
  const auto x = random.floats(3 * 36), w = random.floats(4 * 3 * 4);
  std::vector<float> out(4 * 36);
  conv2d_f32(x.data(), 1, 6, 6, pack_conv2d_f32(p.conv, w.data()), nullptr, 6, 6, out.data());
  EXPECT_TRUE(same_bits(out, plain_conv(p, x, w, nullptr)));
}

TEST(Conv, TapsOutsideTheImageMultiplyZero) {
  // 0 * inf is NaN at the border, as it is when the padding is written out.
  const ConvCase p = make(1, 1, 1, 1, 3, 1, 1, 0, 1, 1, 1, 1, 4, 1);
  const std::vector<float> x = {1, 2, 3, 4}, w = {INFINITY, 1, 1};
  std::vector<float> out(4);
  conv2d_f32(x.data(), 1, 1, 4, pack_conv2d_f32(p.conv, w.data()), nullptr, 1, 4, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], INFINITY);
}

}  // namespace
}  // namespace qdq::kernel::conv_test
