// Float convolutions against a plain loop that adds in the documented order, bit for bit.
#include "kernel/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel {
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
      make(30, 20, 1, 3, 3, 1, 1, 1, 1, 1, 1, 14, 14, 2),  // two blocks of the sum
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

TEST(Conv, TellsEachStretchOnceItIsComplete) {
  Random random(3);
  std::vector<ConvCase> problems = cases();
  // stretches of an image, of several pieces each
  problems.push_back(make(6, 40, 1, 1, 1, 1, 1, 0, 0, 1, 1, 40, 40, 9));
  problems.push_back(make(96, 96, 96, 3, 3, 1, 1, 1, 1, 1, 1, 20, 20, 3));  // stretches of many groups
  for (const ConvCase& p : problems) {
    const Conv2d& c = p.conv;
    const auto x = random.floats(p.batch * c.in_channels * p.in_h * p.in_w);
    const auto w = random.floats(c.out_channels * (c.in_channels / c.groups) * c.kernel_h * c.kernel_w);
    const PackedConv2d packed = pack_conv2d_f32(c, w.data());
    const size_t numel = static_cast<size_t>(p.batch * c.out_channels * p.out_h * p.out_w);
    std::vector<float> want(numel);
    conv2d_f32(x.data(), p.batch, p.in_h, p.in_w, packed, nullptr, p.out_h, p.out_w, want.data());
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      std::vector<float> out(numel, NAN), seen(numel, NAN);
      std::vector<int> times(numel);
      std::mutex mutex;
      conv2d_f32(x.data(), p.batch, p.in_h, p.in_w, packed, nullptr, p.out_h, p.out_w, out.data(),
                 [&](int64_t begin, int64_t count) {
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
}  // namespace qdq::kernel
