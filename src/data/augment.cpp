#include "data/augment.h"

#include <algorithm>
#include <cmath>

#include "format/json.h"

namespace qdq {
namespace {

// An image in its batch: where the element of a channel, a row and a column lies.
struct PixelGrid {
  int64_t channels, height, width, channel_step, row_step, column_step;
  int64_t at(int64_t c, int64_t y, int64_t x) const { return c * channel_step + y * row_step + x * column_step; }
};

PixelGrid grid_of(const Tensor& images, bool channels_last) {
  if (channels_last) {
    const int64_t c = images.size(3), w = images.size(2);
    return {c, images.size(1), w, 1, w * c, c};
  }
  const int64_t h = images.size(2), w = images.size(3);
  return {images.size(1), h, w, h * w, w, 1};
}

float of_channel(const std::vector<float>& values, int64_t c, float otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(c)];
}

// out[y, x] = in[y + up, x + left] of the padded image, from right to left if flipped.
void move_pixels(const float* in, const PixelGrid& grid, int64_t up, int64_t left, bool flipped, float black, int64_t c,
                 float* out) {
  for (int64_t y = 0; y < grid.height; ++y)
    for (int64_t x = 0; x < grid.width; ++x) {
      const int64_t row = y + up, column = (flipped ? grid.width - 1 - x : x) + left;
      const bool inside = 0 <= row && row < grid.height && 0 <= column && column < grid.width;
      out[grid.at(c, y, x)] = inside ? in[grid.at(c, row, column)] : black;
    }
}

double factor(SampleRandom& random, double strength) {
  const double low = std::max(0.0, 1 - strength);
  return low + (1 + strength - low) * random.uniform();
}

// Pixel values between 0 and `white`, one image.
class Pixels {
 public:
  Pixels(float* x, const PixelGrid& grid, const format::Preprocess& how) : x_(x), grid_(grid), how_(how) {}

  double grey(int64_t y, int64_t x) const {
    const auto channel = [&](int64_t c) { return value(c, y, x); };
    if (grid_.channels < 3) return channel(0);
    return 0.2989 * channel(how_.bgr ? 2 : 0) + 0.587 * channel(1) + 0.114 * channel(how_.bgr ? 0 : 2);
  }
  double mean_grey() const {
    double sum = 0;
    for (int64_t y = 0; y < grid_.height; ++y)
      for (int64_t x = 0; x < grid_.width; ++x) sum += grey(y, x);
    return sum / static_cast<double>(grid_.height * grid_.width);
  }
  // Each value becomes f value + (1 - f) other, where `other` is asked for once a pixel.
  template <class Other> void mix(double f, const Other& other) {
    const double white = 255 * how_.scale;
    for (int64_t y = 0; y < grid_.height; ++y)
      for (int64_t x = 0; x < grid_.width; ++x) {
        const double with = other(y, x);
        for (int64_t c = 0; c < grid_.channels; ++c) {
          const double mixed = std::clamp(f * value(c, y, x) + (1 - f) * with, 0.0, white);
          x_[grid_.at(c, y, x)] = static_cast<float>((mixed - mean(c)) / std(c));
        }
      }
  }

 private:
  double mean(int64_t c) const { return of_channel(how_.mean, c, 0.0f); }
  double std(int64_t c) const { return of_channel(how_.std, c, 1.0f); }
  double value(int64_t c, int64_t y, int64_t x) const { return x_[grid_.at(c, y, x)] * std(c) + mean(c); }

  float* x_;
  const PixelGrid& grid_;
  const format::Preprocess& how_;
};

void check_images(const Tensor& images, const format::Preprocess& how, std::span<const int64_t> samples) {
  QDQ_CHECK(images.dtype() == DType::kF32 && images.dim() == 4, kInvalidArgument,
            "augmentation changes images as "
            "float32 [N, C, H, W] or [N, H, W, C], and was given ",
            to_string(images.dtype()), " ", to_string(images.sizes()));
  QDQ_CHECK(static_cast<int64_t>(samples.size()) == images.size(0), kInvalidArgument, "there are ", images.size(0),
            " images, but numbers for ", samples.size(), " samples");
  const int64_t channels = grid_of(images, how.channels_last).channels;
  for (const auto* values : {&how.mean, &how.std})
    QDQ_CHECK(values->size() <= 1 || static_cast<int64_t>(values->size()) == channels, kInvalidArgument,
              "the preprocessing has a mean or std of ", values->size(), " channels, but the images have ", channels);
}

}  // namespace

SampleRandom::SampleRandom(uint64_t seed, uint64_t epoch, uint64_t sample) : state_(seed) {
  state_ = next() ^ epoch;
  state_ = next() ^ sample;
}

uint64_t SampleRandom::next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double SampleRandom::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

int64_t SampleRandom::below(int64_t count) { return static_cast<int64_t>(uniform() * static_cast<double>(count)); }

Augmentation parse_augmentation(const format::Json& json, const std::string& what) {
  const format::Fields fields(json, what);
  Augmentation out;
  if (const format::Json* crop = fields.find("crop")) {
    const std::string where = concat("field 'crop' of ", what);
    if (crop->is_array()) {
      const auto both = format::json_as<std::vector<int64_t>>(*crop, where);
      QDQ_CHECK(both.size() == 2, kInvalidArgument, where, " has ", both.size(),
                " numbers; wanted the padding, or that of height and of width");
      out.crop = {both[0], both[1]};
    } else {
      out.crop.fill(format::json_as<int64_t>(*crop, where));
    }
    QDQ_CHECK(out.crop[0] >= 0 && out.crop[1] >= 0 && out.crop[0] <= 65536 && out.crop[1] <= 65536, kInvalidArgument,
              where, " is ", out.crop[0], " x ", out.crop[1], " pixels; wanted paddings from 0 to 65536");
  }
  if (const format::Json* flip = fields.find("flip")) {
    if (flip->is_boolean()) out.flip = flip->get<bool>() ? 0.5 : 0.0;
    else out.flip = format::json_as<double>(*flip, concat("field 'flip' of ", what));
    QDQ_CHECK(out.flip >= 0 && out.flip <= 1, kInvalidArgument, "field 'flip' of ", what, " is ", out.flip,
              "; wanted how likely it is, from 0 to 1");
  }
  for (const auto& [name, value] :
       {std::pair("brightness", &out.brightness), {"contrast", &out.contrast}, {"saturation", &out.saturation}}) {
    *value = fields.optional<double>(name, 0);
    QDQ_CHECK(*value >= 0 && std::isfinite(*value), kInvalidArgument, "field '", name, "' of ", what, " is ", *value,
              "; wanted how far the factor may be from 1, 0 or more");
  }
  fields.reject_unknown();
  return out;
}

Tensor augment(const Tensor& images, const Augmentation& how, const format::Preprocess& preprocess, uint64_t seed,
               uint64_t epoch, std::span<const int64_t> samples) {
  check_images(images, preprocess, samples);
  const Tensor from = images.contiguous(), out = Tensor::empty(images.sizes(), DType::kF32);
  const PixelGrid grid = grid_of(images, preprocess.channels_last);
  const int64_t each = grid.channels * grid.height * grid.width;
  for (size_t i = 0; i < samples.size(); ++i) {
    SampleRandom random(seed, epoch, static_cast<uint64_t>(samples[i]));
    const float* in = from.data<float>() + static_cast<int64_t>(i) * each;
    float* to = out.data<float>() + static_cast<int64_t>(i) * each;
    int64_t up = 0, left = 0;
    if (how.crop[0] > 0 || how.crop[1] > 0) {
      up = random.below(2 * how.crop[0] + 1) - how.crop[0];
      left = random.below(2 * how.crop[1] + 1) - how.crop[1];
    }
    const bool flipped = how.flip > 0 && random.uniform() < how.flip;
    for (int64_t c = 0; c < grid.channels; ++c) {
      const double black = -of_channel(preprocess.mean, c, 0.0f) / of_channel(preprocess.std, c, 1.0f);
      move_pixels(in, grid, up, left, flipped, static_cast<float>(black), c, to);
    }
    Pixels pixels(to, grid, preprocess);
    if (how.brightness > 0) pixels.mix(factor(random, how.brightness), [](int64_t, int64_t) { return 0.0; });
    if (how.contrast > 0) {
      const double f = factor(random, how.contrast), mean = pixels.mean_grey();
      pixels.mix(f, [&](int64_t, int64_t) { return mean; });
    }
    if (how.saturation > 0 && grid.channels >= 3)
      pixels.mix(factor(random, how.saturation), [&](int64_t y, int64_t x) { return pixels.grey(y, x); });
  }
  return out;
}

}  // namespace qdq
