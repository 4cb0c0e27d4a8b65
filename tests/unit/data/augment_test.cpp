#include "data/augment.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "format/json.h"

namespace qdq::augment_test {
namespace {

constexpr int64_t kSamples = 200;

std::vector<int64_t> first_samples(int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// The same image many times: pixel (c, y, x) is 100 + 20 c + 10 y + x.
Tensor pixels(int64_t count) {
  Tensor out = Tensor::empty({count, 3, 4, 5}, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<float>()[i] = static_cast<float>(100 + 20 * (i / 20 % 3) + 10 * (i / 5 % 4) + i % 5);
  return out;
}

format::Preprocess raw_pixels() {
  format::Preprocess how;
  how.scale = 1;
  return how;
}

float at(const Tensor& images, int64_t n, int64_t c, int64_t y, int64_t x) {
  return images.data<float>()[((n * 3 + c) * 4 + y) * 5 + x];
}

TEST(Augment, TheNumbersAreSplitMix64s) {
  uint64_t state = 0;
  const auto next = [&state] {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  state = next() ^ 5;
  state = next() ^ 7;
  SampleRandom other(0, 5, 7);
  EXPECT_EQ(other.next(), next());
  state = 0;
  EXPECT_EQ(next(), 0xe220a8397b1dcdafu);  // the first number that is published for the seed 0
}

TEST(Augment, FlipsHalfOfTheImages) {
  Augmentation how;
  how.flip = 0.5;
  const Tensor in = pixels(kSamples), out = augment(in, how, raw_pixels(), 1, 0, first_samples(kSamples));
  int64_t flipped = 0;
  for (int64_t n = 0; n < kSamples; ++n) {
    const bool is_flipped = at(out, n, 0, 0, 0) == at(in, n, 0, 0, 4);
    flipped += is_flipped;
    for (int64_t x = 0; x < 5; ++x) EXPECT_EQ(at(out, n, 2, 3, x), at(in, n, 2, 3, is_flipped ? 4 - x : x));
  }
  EXPECT_GT(flipped, 70);
  EXPECT_LT(flipped, 130);
}

TEST(Augment, CropsMoveTheImageAndFillInBlack) {
  Augmentation how;
  how.crop = {1, 2};
  format::Preprocess preprocess = raw_pixels();
  preprocess.mean = {10, 20, 30};
  preprocess.std = {2};
  const Tensor in = pixels(kSamples), out = augment(in, how, preprocess, 1, 0, first_samples(kSamples));
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t n = 0; n < kSamples; ++n) {
    int64_t found = 0;
    for (int64_t up = -1; up <= 1; ++up)
      for (int64_t left = -2; left <= 2; ++left) {
        bool same = true;
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t y = 0; y < 4; ++y)
            for (int64_t x = 0; x < 5; ++x) {
              const bool inside = y + up >= 0 && y + up < 4 && x + left >= 0 && x + left < 5;
              const float black = -static_cast<float>(10 * (c + 1)) / 2;
              same = same && at(out, n, c, y, x) == (inside ? at(in, n, c, y + up, x + left) : black);
            }
        if (same) seen.emplace(up, left);
        found += same;
      }
    EXPECT_EQ(found, 1) << n;
  }
  EXPECT_EQ(seen.size(), 15U);  // all places come up
}

// Brightness by hand: all pixels of an image times one factor, drawn from 0.5 to 1.5, white at most.
TEST(Augment, BrightnessMultipliesAnImage) {
  Augmentation how;
  how.brightness = 0.5;
  const Tensor in = pixels(kSamples), out = augment(in, how, raw_pixels(), 1, 0, first_samples(kSamples));
  double least = 2, most = 0;
  for (int64_t n = 0; n < kSamples; ++n) {
    const double factor = at(out, n, 0, 0, 0) / at(in, n, 0, 0, 0);
    least = std::min(least, factor);
    most = std::max(most, factor);
    for (int64_t x = 0; x < 5; ++x)
      EXPECT_NEAR(at(out, n, 2, 3, x), std::min(255.0, factor * at(in, n, 2, 3, x)), 1e-3);
  }
  EXPECT_GT(least, 0.5);
  EXPECT_LT(least, 0.55);
  EXPECT_LT(most, 1.5);
  EXPECT_GT(most, 1.45);
}

// Whatever the factor: contrast leaves the mean grey, saturation each pixel's own grey.
TEST(Augment, ContrastAndSaturationKeepTheGrey) {
  const Tensor in = pixels(8);
  const auto grey = [](const Tensor& images, int64_t n, int64_t y, int64_t x) {
    return 0.2989 * at(images, n, 0, y, x) + 0.587 * at(images, n, 1, y, x) + 0.114 * at(images, n, 2, y, x);
  };
  Augmentation contrast, saturation;
  contrast.contrast = 0.3;
  saturation.saturation = 0.3;
  const Tensor flat = augment(in, contrast, raw_pixels(), 1, 0, first_samples(8)),
               pale = augment(in, saturation, raw_pixels(), 1, 0, first_samples(8));
  for (int64_t n = 0; n < 8; ++n) {
    double before = 0, after = 0;
    for (int64_t y = 0; y < 4; ++y)
      for (int64_t x = 0; x < 5; ++x) {
        before += grey(in, n, y, x);
        after += grey(flat, n, y, x);
        EXPECT_NEAR(grey(pale, n, y, x), grey(in, n, y, x), 0.02);  // the weights sum up to 0.9999
      }
    EXPECT_NEAR(before, after, 0.1);
    EXPECT_FALSE(at(flat, n, 0, 0, 0) == at(in, n, 0, 0, 0));
    EXPECT_FALSE(at(pale, n, 0, 0, 0) == at(in, n, 0, 0, 0));
  }
}

TEST(Augment, WhatHappensDependsOnSeedEpochAndSampleAlone) {
  const Augmentation how = parse_augmentation(
      format::parse_json(R"({"crop": 1, "flip": true, "brightness": 0.2, "contrast": 0.2, "saturation": 0.2})", "it"));
  const Tensor four = augment(pixels(4), how, raw_pixels(), 3, 2, first_samples(4));
  const std::vector<int64_t> third{2};
  const Tensor one = augment(pixels(1), how, raw_pixels(), 3, 2, third);
  EXPECT_TRUE(bitwise_equal(one, four.slice(0, 2, 3).contiguous()));
  EXPECT_FALSE(bitwise_equal(one, augment(pixels(1), how, raw_pixels(), 3, 1, third)));
  EXPECT_FALSE(bitwise_equal(one, augment(pixels(1), how, raw_pixels(), 4, 2, third)));
}

TEST(Augment, ChannelsCanComeLast) {
  const Augmentation how =
      parse_augmentation(format::parse_json(R"({"crop": [1, 2], "flip": 0.5, "saturation": 0.2})", "it"));
  format::Preprocess last = raw_pixels();
  last.channels_last = true;
  const Tensor in = pixels(6), out = augment(in, how, raw_pixels(), 1, 0, first_samples(6));
  const Tensor turned = augment(in.permute({0, 2, 3, 1}).contiguous(), how, last, 1, 0, first_samples(6));
  EXPECT_TRUE(bitwise_equal(out, turned.permute({0, 3, 1, 2}).contiguous()));
}

TEST(Augment, SaysWhatMakesNoSense) {
  const auto refusal_of = [](const char* text) -> std::string {
    try {
      parse_augmentation(format::parse_json(text, "augment.json"), "augment.json");
    } catch (const Error& error) {
      return error.message;
    }
    return "";
  };
  EXPECT_EQ(refusal_of("{}"), "");
  EXPECT_NE(refusal_of(R"({"flip": 2})").find("field 'flip' of augment.json is 2"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"crop": -1})").find("wanted paddings from 0"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"crop": [1, 2, 3]})").find("3 numbers"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"contrast": -0.1})").find("'contrast'"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"rotate": 1})").find("rotate"), std::string::npos);
  EXPECT_THROW(augment(Tensor::empty({2, 3}, DType::kF32), {}, {}, 0, 0, first_samples(2)), Error);
  EXPECT_THROW(augment(pixels(2), {}, {}, 0, 0, first_samples(3)), Error);
}

}  // namespace
}  // namespace qdq::augment_test
