// Pools against plain loops, bit for bit.
#include "kernel/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::pool_test {
namespace {

// Calls body(plane, oh, ow, y, x) for the taps of every window that lie inside the image, and finish(output index)
// after each window.
template <class Body, class Finish> void slide(const Pool2d& p, Body&& body, Finish&& finish) {
  int64_t index = 0;
  for (int64_t plane = 0; plane < p.planes; ++plane)
    for (int64_t oh = 0; oh < p.out_h; ++oh)
      for (int64_t ow = 0; ow < p.out_w; ++ow, ++index) {
        for (int64_t kh = 0; kh < p.kernel_h; ++kh)
          for (int64_t kw = 0; kw < p.kernel_w; ++kw) {
            const int64_t y = oh * p.stride_h - p.pad_h + kh * p.dilation_h,
                          x = ow * p.stride_w - p.pad_w + kw * p.dilation_w;
            if (y >= 0 && y < p.in_h && x >= 0 && x < p.in_w) body((plane * p.in_h + y) * p.in_w + x);
          }
        finish(index, oh, ow);
      }
}

Pool2d make(int64_t planes, int64_t in_h, int64_t in_w, int64_t out_h, int64_t out_w, int64_t k, int64_t stride,
            int64_t pad, int64_t dilation = 1) {
  Pool2d p;
  p.planes = planes, p.in_h = in_h, p.in_w = in_w, p.out_h = out_h, p.out_w = out_w;
  p.kernel_h = p.kernel_w = k, p.stride_h = p.stride_w = stride, p.pad_h = p.pad_w = pad,
  p.dilation_h = p.dilation_w = dilation;
  return p;
}

const Pool2d kCases[] = {
    // the last in ceil mode
    make(5, 14, 17, 7, 9, 3, 2, 1),
    make(3, 8, 8, 4, 4, 2, 2, 0),
    make(2, 9, 9, 5, 5, 2, 2, 0),
    make(4, 12, 10, 8, 6, 3, 1, 0, 2),
    make(1, 5, 5, 5, 5, 5, 1, 2),
    make(2, 7, 40, 3, 14, 3, 3, 1),
    make(3, 20, 21, 20, 21, 13, 1, 6),
    make(2, 19, 17, 13, 11, 4, 1, 0, 2),
    // windows that lie apart; those of the last reach beyond the image
    make(3, 15, 61, 3, 12, 5, 5, 0),
    make(2, 12, 14, 3, 3, 3, 4, 0),
    make(2, 13, 13, 4, 4, 4, 4, 0),
};

TEST(Pool, MaxIsTheLargestOfTheWindow) {
  Random random(1);
  for (const Pool2d& p : kCases) {
    auto x = random.floats(p.planes * p.in_h * p.in_w);
    // Zeros of both signs are equal; the first of a window is its largest.
    for (int64_t i = 0; i < p.planes * p.in_h * p.in_w; ++i)
      if (at(x, i) > 0 && i % 3 != 0) at(x, i) = i % 2 == 0 ? 0.0f : -0.0f;
    at(x, 3) = NAN;
    std::vector<float> want(static_cast<size_t>(p.planes * p.out_h * p.out_w));
    std::vector<int64_t> want_places(want.size());
    float largest = -INFINITY;
    int64_t place = -1;
    slide(
        p,
        [&](int64_t i) {
          if (at(x, i) > largest || std::isnan(at(x, i))) largest = at(x, i), place = i % (p.in_h * p.in_w);
        },
        [&](int64_t i, int64_t, int64_t) {
          at(want, i) = largest, at(want_places, i) = place;
          largest = -INFINITY, place = -1;
        });
    const bool has_empty = std::count(want_places.begin(), want_places.end(), -1) > 0;
    for (int threads : {1, 3}) {
      set_num_threads(threads);
      std::vector<float> out(want.size());
      max_pool2d_f32(x.data(), p, out.data());
      EXPECT_TRUE(same_bits(out, want));
      if (has_empty) continue;
      std::vector<int64_t> places(want.size());
      max_pool2d_places_f32(x.data(), p, out.data(), places.data());
      EXPECT_TRUE(same_bits(out, want));
      EXPECT_EQ(places, want_places);
    }
  }
  set_num_threads(1);
}

TEST(Pool, AverageDividesAsPyTorchDoes) {
  Random random(2);
  for (Pool2d p : kCases) {
    if (p.dilation_h != 1) continue;
    for (bool include_pad : {true, false}) {
      for (int64_t override : {0, 3}) {
        p.count_include_pad = include_pad;
        p.divisor_override = override;
        const auto x = random.floats(p.planes * p.in_h * p.in_w);
        std::vector<float> want(static_cast<size_t>(p.planes * p.out_h * p.out_w)), out(want.size());
        float sum = 0;
        const auto count = [&](int64_t o, int64_t stride, int64_t pad, int64_t k, int64_t extent) {
          const int64_t begin = o * stride - pad, end = std::min(begin + k, extent + pad);
          return include_pad ? end - begin : std::min(end, extent) - std::max<int64_t>(begin, 0);
        };
        slide(
            p, [&](int64_t i) { sum += at(x, i); },
            [&](int64_t i, int64_t oh, int64_t ow) {
              const int64_t divisor = override ? override
                                               : count(oh, p.stride_h, p.pad_h, p.kernel_h, p.in_h) *
                                                     count(ow, p.stride_w, p.pad_w, p.kernel_w, p.in_w);
              at(want, i) = sum / static_cast<float>(divisor);
              sum = 0;
            });
        avg_pool2d_f32(x.data(), p, out.data());
        EXPECT_TRUE(same_bits(out, want));
      }
    }
  }
}

TEST(Pool, AdaptiveAverage) {
  Random random(3);
  for (auto [in, out_extent] : {std::pair<int64_t, int64_t>{7, 1}, {7, 7}, {7, 3}, {8, 2}, {5, 6}, {56, 1}}) {
    const Pool2d p = make(6, in, in, out_extent, out_extent, 1, 1, 0);
    const auto x = random.floats(6 * in * in);
    std::vector<float> out(static_cast<size_t>(6 * out_extent * out_extent));
    adaptive_avg_pool2d_f32(x.data(), p, out.data());
    for (int64_t i = 0; i < 6 * out_extent * out_extent; ++i) {
      const int64_t ow = i % out_extent, oh = i / out_extent % out_extent, plane = i / out_extent / out_extent;
      const int64_t top = oh * in / out_extent, bottom = ((oh + 1) * in + out_extent - 1) / out_extent;
      const int64_t left = ow * in / out_extent, right = ((ow + 1) * in + out_extent - 1) / out_extent;
      double exact = 0;
      float sum = 0;
      for (int64_t y = top; y < bottom; ++y)
        for (int64_t z = left; z < right; ++z)
          exact += at(x, (plane * in + y) * in + z), sum += at(x, (plane * in + y) * in + z);
      EXPECT_NEAR(at(out, i), exact / static_cast<double>((bottom - top) * (right - left)), 1e-6);
      if (out_extent > 1) {
        EXPECT_EQ(at(out, i), sum / static_cast<float>(bottom - top) / static_cast<float>(right - left));
      }
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::pool_test
