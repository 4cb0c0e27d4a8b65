// Integer convolutions against plain loops, integer for integer, on every road that the machine has.
#include "kernel/conv_int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "int8_problems.h"
#include "plain.h"

#if !defined(__EMSCRIPTEN__)
#include "hwy/targets.h"
#endif

namespace qdq::kernel::conv_int8_test {
namespace {

// Half of the values are extremes, where sums of products overflow whatever could overflow.
std::vector<uint8_t> activations(Random& random, int64_t n) {
  std::vector<uint8_t> x(static_cast<size_t>(n));
  for (uint8_t& v : x) {
    const uint64_t r = random.next() >> 20;
    v = static_cast<uint8_t>(r % 4 == 0 ? 255 : r % 4 == 1 ? 0 : r >> 8);
  }
  return x;
}

std::vector<int8_t> weights(Random& random, int64_t n) {
  std::vector<int8_t> w(static_cast<size_t>(n));
  for (int8_t& v : w) {
    const uint64_t r = random.next() >> 20;
    v = static_cast<int8_t>(r % 4 == 0 ? 127 : r % 4 == 1 ? -128 : static_cast<int>(r >> 8 & 255) - 128);
  }
  return w;
}

struct Data {
  std::vector<uint8_t> x, residual;
  std::vector<float> float_residual;
  std::vector<int8_t> w;
  int32_t zero_point = 0;
  Requantize requantize;

  Data(const Int8Problem& p, uint64_t seed, int32_t x_zero_point) : zero_point(x_zero_point) {
    Random random(seed);
    const Conv2d& c = p.conv;
    x = activations(random, p.batch * p.in_h * p.in_w * c.in_channels);
    residual = activations(random, p.batch * p.out_h() * p.out_w() * c.out_channels);
    float_residual = random.floats(static_cast<int64_t>(residual.size()), -100, 100);
    const int64_t depth = c.in_channels / c.groups * c.kernel_h * c.kernel_w;
    w = weights(random, c.out_channels * depth);
    // About a third of the results saturate.
    const float spread = 1.0f / (100.0f * std::sqrt(static_cast<float>(depth)));
    requantize.multiplier = random.floats(c.out_channels, 0.5f * spread, spread);
    requantize.offset = random.floats(c.out_channels, -20, 20);
    requantize.zero_point = 117;
  }
};

// What kernel/requantize.h says, for one sum.
float plain_real(const Requantize& q, int32_t acc, int64_t channel, uint8_t residual, float float_residual) {
  float t = static_cast<float>(acc) * at(q.multiplier, channel);
  t = t + (q.offset.empty() ? 0.0f : at(q.offset, channel));
  if (q.has_residual) {
    const float r = q.residual_is_float ? float_residual : static_cast<float>(residual - q.residual_zero_point);
    const float product = r * q.residual_multiplier;
    t = t + product;
  }
  if (q.activation) q.activation(&t, 1, &t);
  return t;
}

uint8_t plain_quantize(const Requantize& q, float y) {
  const float rounded = std::nearbyint(y * q.inverse_scale) + static_cast<float>(q.zero_point);
  return static_cast<uint8_t>(std::min(std::max(rounded, static_cast<float>(q.low)), static_cast<float>(q.high)));
}

std::vector<float> plain_conv(const Int8Problem& p, const Data& data) {
  const Conv2d& c = p.conv;
  const int64_t ic = c.in_channels / c.groups, oc = c.out_channels / c.groups;
  std::vector<float> out;
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t oh = 0; oh < p.out_h(); ++oh) {
      for (int64_t ow = 0; ow < p.out_w(); ++ow) {
        for (int64_t o = 0; o < c.out_channels; ++o) {
          int32_t acc = 0;
          for (int64_t kh = 0; kh < c.kernel_h; ++kh) {
            for (int64_t kw = 0; kw < c.kernel_w; ++kw) {
              const int64_t ih = oh * c.stride_h - c.pad_h + kh * c.dilation_h;
              const int64_t iw = ow * c.stride_w - c.pad_w + kw * c.dilation_w;
              if (ih < 0 || ih >= p.in_h || iw < 0 || iw >= p.in_w) continue;
              for (int64_t i = 0; i < ic; ++i) {
                const int64_t channel = o / oc * ic + i;
                const int32_t x = at(data.x, ((n * p.in_h + ih) * p.in_w + iw) * c.in_channels + channel);
                acc += (x - data.zero_point) * at(data.w, ((o * ic + i) * c.kernel_h + kh) * c.kernel_w + kw);
              }
            }
          }
          const auto i = static_cast<int64_t>(out.size());
          out.push_back(plain_real(data.requantize, acc, o, at(data.residual, i), at(data.float_residual, i)));
        }
      }
    }
  }
  return out;
}

ConvInt8Images images_of(const Int8Problem& p, const Data& data, void* out) {
  ConvInt8Images images{p.batch, p.in_h, p.in_w, p.out_h(),          p.out_w(), data.x.data(), p.conv.in_channels,
                        nullptr, 0,      out,    p.conv.out_channels};
  if (data.requantize.has_residual) {
    images.residual = data.residual.data();
    if (data.requantize.residual_is_float) images.residual = data.float_residual.data();
    images.residual_stride = p.conv.out_channels;
  }
  return images;
}

void expect_equal(const Int8Problem& p, const Data& data, DotRoad road) {
  const std::vector<float> real = plain_conv(p, data);
  const PackedConvInt8 packed = pack_conv2d_int8(p.conv, data.w.data(), data.zero_point, data.requantize, road);
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    if (data.requantize.out_is_float) {
      std::vector<float> out(real.size(), NAN);
      conv2d_int8(packed, images_of(p, data, out.data()));
      EXPECT_TRUE(same_bits(out, real)) << p.name << " by " << packed.description() << " on " << threads << " threads";
    } else {
      std::vector<uint8_t> out(real.size(), 99), want;
      for (float v : real) want.push_back(plain_quantize(data.requantize, v));
      conv2d_int8(packed, images_of(p, data, out.data()));
      EXPECT_TRUE(same_bits(out, want)) << p.name << " by " << packed.description() << " on " << threads << " threads";
    }
  }
  set_num_threads(1);
}

// Calls the test for every road, and natively on every instruction set.
template <class Test> void on_every_road(Test&& test) {
  const auto roads = [&] {
    for (DotRoad road : std::set<DotRoad>{DotRoad::kPairs, dot_road()}) test(road);
  };
#if defined(__EMSCRIPTEN__)
  roads();
#else
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t target : {int64_t{HWY_AVX3_DL}, int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SSE2}}) {
    if (!(supported & target)) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    roads();
  }
  hwy::SetSupportedTargetsForTest(0);
#endif
}

TEST(ConvInt8, EqualsPlainLoopsForAnyShape) {
  on_every_road([](DotRoad road) {
    for (const Int8Problem& p : kInt8Corners)
      for (int32_t zero_point : {0, 131, 255}) expect_equal(p, Data(p, 1, zero_point), road);
  });
}

TEST(ConvInt8, EqualsPlainLoopsForLayersOfNetworks) {
  for (const Int8Problem& p : kInt8Layers) {
    if (p.work() > 20e6) continue;  // the plain loops take too long; the shapes above have the same paths
    expect_equal(p, Data(p, 2, 128), dot_road());
    if (dot_road() != DotRoad::kPairs) expect_equal(p, Data(p, 2, 128), DotRoad::kPairs);
  }
}

TEST(ConvInt8, SumsOfExtremesAreExact) {
  const Int8Problem p{"extremes", 1, 2, 2, square(500, 24, 1, 1, 1)};
  on_every_road([&](DotRoad road) {
    for (uint8_t x : {uint8_t{0}, uint8_t{127}, uint8_t{128}, uint8_t{255}}) {
      for (int8_t w : {int8_t{-128}, int8_t{-127}, int8_t{-32}, int8_t{32}, int8_t{127}}) {
        Data data(p, 3, 5);
        std::fill(data.x.begin(), data.x.end(), x);
        std::fill(data.w.begin(), data.w.end(), w);
        data.requantize.out_is_float = true;
        std::fill(data.requantize.multiplier.begin(), data.requantize.multiplier.end(), 1.0f);
        std::fill(data.requantize.offset.begin(), data.requantize.offset.end(), 0.0f);
        std::vector<float> out(4 * 24);
        conv2d_int8(pack_conv2d_int8(p.conv, data.w.data(), 5, data.requantize, road), images_of(p, data, out.data()));
        for (float v : out) EXPECT_EQ(v, static_cast<float>(500 * (x - 5) * w)) << +x << " * " << +w;
      }
    }
  });
}

// Weights of every size, which share sums of 16 bits in all ways that kMatchedBytes has, with inputs that make the sums
// of some channel as large and as small as they get.
TEST(ConvInt8, SharedSumsOfExtremesAreExact) {
  on_every_road([&](DotRoad road) {
    for (int64_t depth : {16, 33, 64, 147, 500}) {
      for (int most : {127, 64, 50, 32, 31, 16}) {
        const Int8Problem p{"shared", 1, 8, 4, square(depth, 24, 1, 1, 1)};
        Data data(p, static_cast<uint64_t>(most), 7);
        Random random(static_cast<uint64_t>(depth + most));
        for (int8_t& w : data.w)
          w = static_cast<int8_t>(static_cast<int>((random.next() >> 20) % static_cast<uint64_t>(2 * most + 1)) - most);
        for (int64_t pixel = 0; pixel < 32; ++pixel) {
          for (int64_t i = 0; i < depth; ++i) {
            const bool is_above = at(data.w, pixel / 2 * depth + i) > 0;
            data.x[static_cast<size_t>(pixel * depth + i)] = is_above == (pixel % 2 == 0) ? 255 : 0;
          }
        }
        data.requantize.out_is_float = true;
        expect_equal(p, data, road);
      }
    }
  });
}

// As many channels as each transform takes, and eight more, which take the next smaller one or the plain way.
TEST(ConvInt8, SumsOfExtremesByWinogradAreExact) {
  struct Extreme {
    int64_t channels, side, tile;
  };
  on_every_road([&](DotRoad road) {
    for (const auto& [ic, side, tile] : {Extreme{112, 12, 4}, {120, 12, 2}, {1824, 4, 2}, {1832, 4, 0}}) {
      const Int8Problem p{"extremes", 1, side, side, square(ic, 16, 1, 3, 1)};
      for (const auto& [x, w, zero_point] : {std::tuple{255, -128, 0}, {0, -128, 255}, {255, 127, 0}}) {
        Data data(p, 3, zero_point);
        std::fill(data.x.begin(), data.x.end(), static_cast<uint8_t>(x));
        std::fill(data.w.begin(), data.w.end(), static_cast<int8_t>(w));
        data.w[0] += w < 0 ? 1 : -1;  // so that the last bits matter
        data.requantize.out_is_float = true;
        const PackedConvInt8 packed = pack_conv2d_int8(p.conv, data.w.data(), zero_point, data.requantize, road);
        const int64_t want = road == DotRoad::kPairs ? tile : 0;
        EXPECT_EQ(w == -128 ? winograd_tile(packed, images_of(p, data, nullptr)) : want, want);
        expect_equal(p, data, road);
      }
    }
  });
}

// The transforms of both sizes on inputs and weights that make every step of them as large as it gets.
TEST(ConvInt8, WinogradOfAlternatingExtremesIsExact) {
  on_every_road([&](DotRoad road) {
    for (const auto& [channels, side] : {std::pair<int64_t, int64_t>{32, 9}, {32, 14}}) {
      for (int period : {1, 2, 3, 5}) {
        const Int8Problem p{"alternating", 1, side, side, square(channels, 20, 1, 3, 1)};
        Data data(p, 3, 255);
        for (size_t i = 0; i < data.x.size(); ++i) {
          const auto pixel = static_cast<int64_t>(i) / channels;
          data.x[i] = (pixel % side / period + pixel / side / period) % 2 == 0 ? 255 : 0;
        }
        for (size_t i = 0; i < data.w.size(); ++i) data.w[i] = i / static_cast<size_t>(period) % 2 == 0 ? 127 : -128;
        data.requantize.out_is_float = true;
        expect_equal(p, data, road);
      }
    }
  });
}

TEST(ConvInt8, WinogradIsForWindowsOf3x3ThatOverlap) {
  const auto winograd = [](const Int8Problem& p, DotRoad road) {
    const Data data(p, 1, 0);
    return winograd_tile(pack_conv2d_int8(p.conv, data.w.data(), 0, data.requantize, road),
                         images_of(p, data, nullptr)) > 0;
  };
  for (const Int8Problem& p : kInt8Corners)
    EXPECT_EQ(winograd(p, DotRoad::kPairs), std::string(p.name).starts_with("winograd")) << p.name;
  EXPECT_FALSE(winograd({"stride", 1, 8, 8, square(16, 16, 1, 3, 2)}, DotRoad::kPairs));
  EXPECT_FALSE(winograd({"5x5", 1, 8, 8, square(16, 16, 1, 5, 1)}, DotRoad::kPairs));
  EXPECT_FALSE(winograd({"dilated", 1, 8, 8, {16, 16, 1, 3, 3, 1, 1, 2, 2, 2, 2}}, DotRoad::kPairs));
  EXPECT_FALSE(winograd({"depthwise", 1, 8, 8, square(32, 32, 32, 3, 1)}, DotRoad::kPairs));
  EXPECT_FALSE(winograd({"8-bit road", 1, 8, 8, square(16, 16, 1, 3, 1)}, DotRoad::kUnsignedBytes));
}

// 8-bit products of 128 bits are slower than Winograd's tiles of 4x4 where channels and pixels are many.
TEST(ConvInt8, TakesTilesInPlaceOfShortByteProducts) {
  const auto road_of = [](const Int8Problem& p) {
    const Data data(p, 1, 0);
    return pack_conv2d_int8(p.conv, data.w.data(), 0, data.requantize, images_of(p, data, nullptr)).road;
  };
#if defined(__EMSCRIPTEN__)
  constexpr bool kShort = true;
#else
  constexpr bool kShort = false;
#endif
  const bool is_tiled = kShort || dot_road() == DotRoad::kMatchedBytes;
  EXPECT_EQ(road_of({"many", 1, 28, 28, square(64, 32, 1, 3, 1)}), is_tiled ? DotRoad::kPairs : dot_road());
  if (!kShort) return;
  EXPECT_EQ(road_of({"few channels", 1, 28, 28, square(16, 32, 1, 3, 1)}), dot_road());
  EXPECT_EQ(road_of({"few pixels", 1, 7, 7, square(64, 32, 1, 3, 1)}), dot_road());
}

// Without VNNI weights are matched, unless Winograd's transform or 16-bit products take fewer instructions.
TEST(ConvInt8, MatchesChannelsWhereThatPays) {
  on_every_road([](DotRoad) {
    const auto road_of = [](const Conv2d& c, int8_t most) {
      std::vector<int8_t> w(static_cast<size_t>(c.out_channels * c.in_channels / c.groups * c.kernel_h * c.kernel_w));
      Random random(1);
      for (int8_t& v : w) v = random.next() >> 20 & 1 ? most : int8_t{1};
      Requantize q;
      q.multiplier.assign(static_cast<size_t>(c.out_channels), 1.0f);
      return pack_conv2d_int8(c, w.data(), 3, q).road;
    };
    const bool matches = dot_road() == DotRoad::kMatchedBytes;
    const DotRoad otherwise = matches ? DotRoad::kPairs : dot_road();
    EXPECT_EQ(road_of(square(128, 32, 1, 1, 1), 64), dot_road());
    EXPECT_EQ(road_of(square(64, 32, 1, 3, 2), 64), dot_road());
    EXPECT_EQ(road_of(square(32, 32, 1, 1, 1), 64), otherwise);
    EXPECT_EQ(road_of(square(3, 32, 1, 3, 2), 64), otherwise);
    EXPECT_EQ(road_of(square(128, 32, 1, 1, 1), 127), otherwise);
    EXPECT_EQ(road_of(square(64, 32, 1, 3, 1), 64), otherwise);
#if defined(__EMSCRIPTEN__)
    EXPECT_EQ(road_of(square(64, 64, 64, 3, 1), 64), dot_road());
#else
    EXPECT_EQ(road_of(square(64, 64, 64, 3, 1), 64), DotRoad::kPairs);
#endif
  });
}

TEST(ConvInt8, FollowsTheFormulaWithResidualActivationAndBounds) {
  const Int8Problem problems[] = {{"dense", 2, 6, 5, square(20, 27, 1, 3, 1)},
                                  {"dense to few", 2, 6, 5, square(20, 11, 1, 3, 1)},
                                  {"depthwise", 1, 6, 5, square(27, 27, 27, 3, 1)}};
  on_every_road([&](DotRoad road) {
    for (const Int8Problem& p : problems) {
      for (int residual : {0, 1, 2}) {
        for (bool activation : {false, true}) {
          for (bool out_is_float : {false, true}) {
            Data data(p, 4, 77);
            Requantize& q = data.requantize;
            q.has_residual = residual > 0;
            q.residual_is_float = residual == 2;
            q.residual_multiplier = 0.37f;
            q.residual_zero_point = 200;
            if (activation) q.activation = silu_f32, q.curve.kind = Activation::Kind::kSilu;
            q.out_is_float = out_is_float;
            q.inverse_scale = 1.31f;
            q.low = 100;
            q.high = 222;
            expect_equal(p, data, road);
          }
        }
      }
    }
  });
}

// Whole vectors and the ends of rows, pixels that are gathered and a rest of them; results that lie within the
// function's bounds, or beyond them, or are cut to fewer bytes.
TEST(ConvInt8, FollowsTheFormulaWithCurvesOfManyPixels) {
  const Int8Problem problems[] = {{"dense", 1, 6, 5, square(20, 75, 1, 1, 1)},
                                  {"gathered", 1, 9, 11, square(20, 75, 1, 1, 1)},
                                  {"depthwise", 1, 6, 5, square(43, 43, 43, 3, 1)},
                                  {"depthwise gathered", 1, 9, 11, square(20, 20, 20, 5, 1)}};
  struct Rounding {
    float inverse_scale;
    int32_t low, high;
    bool out_is_float;
  };
  const Rounding roundings[] = {
      {40, 0, 255, false}, {5, 0, 255, false}, {40, 0, 222, false}, {40, 114, 255, false}, {1, 0, 255, true}};
  // Arguments up to where the function's cubics overflow, and far beyond.
  std::vector<std::pair<Rounding, float>> cases;
  for (const float factor : {1.0f, 100.0f, 3e3f, 1e5f, 1e9f})
    for (const Rounding& rounding : roundings) cases.emplace_back(rounding, factor);
  on_every_road([&](DotRoad road) {
    for (const Int8Problem& p : problems) {
      for (const auto& [rounding, factor] : cases) {
        Data data(p, 5, 77);
        Requantize& q = data.requantize;
        for (float& multiplier : q.multiplier) multiplier *= factor;
        q.inverse_scale = rounding.inverse_scale;
        q.low = rounding.low;
        q.high = rounding.high;
        q.out_is_float = rounding.out_is_float;
        q.activation = near_silu_f32;
        q.curve.kind = Activation::Kind::kNearSilu;
        expect_equal(p, data, road);
        q.activation = hardswish_f32;
        q.curve.kind = Activation::Kind::kHardSwish;
        expect_equal(p, data, road);
      }
    }
  });
}

TEST(ConvInt8, RoundsHalfToEvenBeforeTheZeroPoint) {
  const Conv2d c = linear_as_conv2d(1, 6);
  const int8_t w[] = {1, 3, 5, -1, -3, -5};
  Requantize q;
  q.multiplier.assign(6, 0.5f);
  q.zero_point = 101;
  const uint8_t x = 1;
  uint8_t out[6];
  conv2d_int8(pack_conv2d_int8(c, w, 0, q), {1, 1, 1, 1, 1, &x, 1, nullptr, 0, out, 6});
  const uint8_t want[] = {101, 103, 103, 101, 99, 99};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], want[i]);
}

TEST(ConvInt8, ReadsAndWritesSlicesOfChannelsAndNothingElse) {
  on_every_road([](DotRoad road) {
    for (const Conv2d& c : {square(8, 5, 1, 3, 1), square(8, 5, 1, 1, 1), square(8, 8, 8, 3, 1), square(8, 10, 2, 1, 2),
                            square(16, 20, 1, 3, 1)}) {
      const Int8Problem p{"slice", 1, 4, 6, c};
      Data data(p, 5, 9);
      const auto packed = pack_conv2d_int8(c, data.w.data(), 9, data.requantize, road);
      const int64_t pixels = p.out_h() * p.out_w();
      std::vector<uint8_t> want(static_cast<size_t>(pixels * c.out_channels));
      conv2d_int8(packed, images_of(p, data, want.data()));
      const int64_t ic = c.in_channels, oc = c.out_channels, x_stride = ic + 3, out_stride = oc + 5;
      std::vector<uint8_t> wide(static_cast<size_t>(24 * x_stride), 255),
          out(static_cast<size_t>(pixels * out_stride), 42);
      for (int64_t i = 0; i < 24; ++i) std::copy_n(data.x.begin() + i * ic, ic, wide.begin() + i * x_stride + 2);
      ConvInt8Images images = images_of(p, data, out.data() + 3);
      images.x = wide.data() + 2;
      images.x_stride = x_stride;
      images.out_stride = out_stride;
      conv2d_int8(packed, images);
      for (int64_t i = 0; i < pixels; ++i) {
        for (int64_t j = 0; j < out_stride; ++j) {
          const bool inside = j >= 3 && j < 3 + oc;
          ASSERT_EQ(+at(out, i * out_stride + j), inside ? +at(want, i * oc + j - 3) : 42) << i << ", " << j;
        }
      }
    }
  });
}

TEST(ConvInt8, RefusesSumsThatMayNotFit) {
  const Conv2d c = linear_as_conv2d(65001, 1);
  const std::vector<int8_t> w(65001, 127);
  Requantize q;
  q.multiplier.assign(1, 1.0f);
  try {
    pack_conv2d_int8(c, w.data(), 0, q);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_STREQ(error.what(), "a sum of 65001 products may not fit 32 bits; at most 65000 do");
  }
}

}  // namespace
}  // namespace qdq::kernel::conv_int8_test
