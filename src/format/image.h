// Images: JPEG, PNG and BMP as pixels, and the steps that turn pixels into a model's input. The same bits natively and
// in WASM.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/json_fwd.h"
#include "tensor/tensor.h"

namespace qdq::format {

// The pixels of a JPEG, PNG or BMP file as a u8 tensor [H, W, 3] in the order R, G, B. Grey becomes three equal
// channels, alpha is dropped, 16 bits become 8. `what` names the bytes in errors.
// Throws Error{kBadFile} if they are not such an image or cannot hold as many pixels as they claim, Error{kUnsupported}
// if it has more than 2^26 pixels.
Tensor decode_image(ByteSpan bytes, const std::string& what = "the image");

// The steps from an image to an input, in the order of the fields.
struct Preprocess {
  enum class Filter { kNearest, kBilinear, kBicubic, kArea };
  bool grayscale = false;       // one channel, by the weights of ITU-R 601-2 as in Pillow's "L"
  std::vector<int64_t> resize;  // nothing; {short side}, the other in proportion, rounded down; {H, W}
  Filter filter = Filter::kBilinear;
  bool antialias = true;  // a shrinking bilinear filter averages over all pixels, as in Pillow
  // {H, W}: in the place of `resize` the whole image in proportion, as large as fits, and `pad` around it or, with
  // `pads_at_end`, below and to the right of it. Sides and margins are rounded as Ultralytics' LetterBox does.
  std::optional<std::array<int64_t, 2>> letterbox;
  uint8_t pad = 114;
  bool pads_at_end = false;
  std::optional<std::array<int64_t, 2>> crop;  // {H, W} from the centre
  bool bgr = false;                            // the channels are B, G, R; mean and std are in that order too
  double scale = 1.0 / 255;                    // value = (pixel * scale - mean) / std
  std::vector<float> mean, std;                // one a channel, or one for all; empty: 0 and 1
  bool channels_last = false;                  // [H, W, C] instead of [C, H, W]
};

// From JSON; every field may be left out:
// {"grayscale": false, "resize": 256 | [H, W], "filter": "nearest" | "bilinear" | "bicubic" | "area",
// "antialias": true, "letterbox": 640 | [H, W], "pad": 114, "pad_position": "center" | "end", "crop": 224 | [H, W],
// "channel_order": "RGB" | "BGR", "scale": 0.00392, "mean": [..] | x, "std": [..] | x, "layout": "NCHW" | "NHWC"}
// Throws Error{kInvalidArgument} for an unknown field or a value that makes no sense.
Preprocess parse_preprocess(const Json& json, const std::string& what = "the preprocessing");

// The input that a model wants of an image [H, W, 3]: f32 [C, H, W], or [H, W, C] with channels_last. Resizing rounds
// to whole pixel values, as Pillow does. pixel * scale is rounded once to f32, so the default gives torchvision's
// to_tensor exactly.
// Throws Error{kInvalidArgument} if the crop is larger than the image or mean and std do not fit the channels.
Tensor preprocess(const Tensor& image, const Preprocess& how);

// A u8 image [H, W, 3] as a small JPEG for people to look at: shrunk to `side` pixels if its longer side has more.
// Throws Error{kInvalidArgument} for another tensor.
Bytes thumbnail(const Tensor& image, int64_t side);

}  // namespace qdq::format
