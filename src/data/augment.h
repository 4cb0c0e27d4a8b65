// Images changed at random for training, so that no epoch shows the same ones: cropped, flipped, with other colours.
// The same bits natively and in WASM.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "format/image.h"
#include "format/json_fwd.h"
#include "tensor/tensor.h"

namespace qdq {

struct Augmentation {
  // What torchvision's RandomCrop(size, padding) does: this many black pixels {above and below, left and right}, and of
  // that a crop of the old size at a random place.
  std::array<int64_t, 2> crop = {0, 0};
  double flip = 0;  // RandomHorizontalFlip: how likely left and right change places
  // ColorJitter, in this order: the factor of each is drawn evenly from max(0, 1 - value) to 1 + value, and mixes the
  // pixel with black, with the mean of the image's grey values (0.2989 R + 0.587 G + 0.114 B, or its only channel), and
  // with the pixel's own grey value. Pixels stay between black and white.
  double brightness = 0, contrast = 0, saturation = 0;

  bool changes() const { return crop[0] + crop[1] > 0 || flip + brightness + contrast + saturation > 0; }
};

// From JSON, every field may be left out: {"crop": 4 | [H, W], "flip": 0.5 | true (the same), "brightness": 0.2,
// "contrast": 0.2, "saturation": 0.2}. Throws Error{kInvalidArgument} for an unknown field or a value that makes no
// sense.
Augmentation parse_augmentation(const format::Json& json, const std::string& what = "the augmentation");

// Numbers that depend on what they are for alone: SplitMix64 (Steele, Lea and Flood, 2014). next() adds
// 0x9e3779b97f4a7c15 to the state and mixes it: z = (s ^ s >> 30) 0xbf58476d1ce4e5b9, z = (z ^ z >> 27)
// 0x94d049bb133111eb, z ^ z >> 31. The state begins with the seed; then for the epoch and for the sample, in turn, it
// becomes next() ^ number.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t epoch, uint64_t sample);
  uint64_t next();
  double uniform();              // from 0 to below 1: the upper 53 bits of next() times 2^-53
  int64_t below(int64_t count);  // uniform() times count, rounded down

 private:
  uint64_t state_;
};

// Images [N, C, H, W], or [N, H, W, C] where the preprocessing says so, in float32, as the preprocessing made them:
// its scale, mean and std lead back to pixels and give black and white. `samples` names each image; it and the epoch
// choose what happens to it, whatever the batch. Numbers are drawn in the order of the fields of Augmentation (a crop
// draws the row and then the column), and only for those that are not 0. Throws Error{kInvalidArgument} for other
// tensors.
Tensor augment(const Tensor& images, const Augmentation& how, const format::Preprocess& preprocess, uint64_t seed,
               uint64_t epoch, std::span<const int64_t> samples);

}  // namespace qdq
