#include "format/image.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include <stb/stb_image.h>
#include <stb/stb_image_write.h>

#include "format/json.h"
#include "format/stb.h"

namespace qdq::format {

namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26;
constexpr int64_t kMaxSide = 1 << 15;

// How many pixels a byte of a file can stand for at most. JPEG: every block of 64 takes a bit. PNG: deflate shrinks
// 1032 : 1 at best, and a pixel is at least one bit. So a small file cannot make qdq take hundreds of megabytes.
int64_t most_pixels(ByteSpan bytes) {
  const bool jpeg = bytes.size() > 2 && bytes[0] == std::byte{0xFF} && bytes[1] == std::byte{0xD8};
  return static_cast<int64_t>(bytes.size()) * (jpeg ? 512 : 8 * 1032);
}

// The front of a JPEG: the kind of its frame (the low bits of the marker SOF0 to SOF15), and where its first scan
// begins; each is missing where it is not found.
struct JpegFront {
  std::optional<int> frame;
  std::optional<size_t> scan;
};
JpegFront jpeg_front(std::string_view text) {
  JpegFront front;
  for (size_t at = 2; at + 4 <= text.size() && text[at] == '\xFF';) {
    const auto marker = static_cast<uint8_t>(text[at + 1]);
    if (marker == 0xFF) {  // a byte of padding
      ++at;
      continue;
    }
    const bool is_table = marker == 0xC4 || marker == 0xC8 || marker == 0xCC;
    if (marker >= 0xC0 && marker <= 0xCF && !is_table) front.frame = marker & 15;
    if (marker == 0xDA) {
      front.scan = at;
      break;
    }
    at += 2 + static_cast<size_t>(static_cast<uint8_t>(text[at + 2]) << 8 | static_cast<uint8_t>(text[at + 3]));
  }
  return front;
}

bool is_jpeg(std::string_view text) { return text.starts_with("\xFF\xD8"); }

// Whether a JPEG's scans begin and never end, which Pillow refuses, too; stb_image fills up what is missing with gray.
bool is_cut_off_jpeg(std::string_view text) {
  if (!is_jpeg(text)) return false;
  const std::optional<size_t> scan = jpeg_front(text).scan;
  return scan && text.find("\xFF\xD9", *scan) == std::string_view::npos;
}

// Why bytes that stb_image refuses are no image, as far as the bytes tell: its own word for it is shared by all threads
// of WebAssembly.
std::string fault_of(ByteSpan bytes) {
  const std::string_view text = text_of(bytes);
  const auto has = [&](std::string_view signature, size_t at = 0) {
    return text.size() > at && text.substr(at).starts_with(signature);
  };
  if (text.empty()) return "it is empty";
  struct Other {
    std::string_view signature, name;
    size_t at = 0;
  };
  static constexpr Other kOthers[] = {{"GIF8", "GIF"},        {"WEBP", "WebP", 8},    {"ftypavi", "AVIF", 4},
                                      {"ftyphe", "HEIC", 4},  {"ftypmif", "HEIC", 4}, {"II*", "TIFF"},
                                      {{"MM\0*", 4}, "TIFF"}, {"%PDF", "PDF"},        {"<", "text, XML or HTML file"}};
  for (const Other& other : kOthers)
    if (has(other.signature, other.at)) return concat("it is a ", other.name, "; convert it to PNG or JPEG");
  bool cut_off = false;
  if (is_jpeg(text)) {
    const int frame = jpeg_front(text).frame.value_or(0);
    if (frame > 2)
      return concat("it is a ",
                    frame == 3  ? "lossless"
                    : frame > 7 ? "arithmetically coded"
                                : "hierarchical",
                    " JPEG; convert it to PNG");
    cut_off = text.rfind("\xFF\xD9") == std::string_view::npos || is_cut_off_jpeg(text);
  } else if (has("\x89PNG\r\n\x1A\n")) {
    const auto size_at = [&](size_t at) {
      uint64_t out = 0;
      for (size_t i = 0; i < 4; ++i) out = out << 8 | std::to_integer<uint64_t>(bytes[at + i]);
      return out;
    };
    if (bytes.size() >= 24 && size_at(16) * size_at(20) > uint64_t{kMaxPixels})
      return concat("it has ", size_at(16), " x ", size_at(20), " pixels, and at most ", kMaxPixels, " are read");
    cut_off = text.rfind("IEND") == std::string_view::npos;
  } else if (has("BM")) {
    if (bytes.size() >= 34 && bytes[30] != std::byte{0} && bytes[30] != std::byte{3})
      return "it is a compressed BMP; convert it to PNG";
    cut_off = bytes.size() < 6 || ByteReader(bytes.subspan(2), "").number<uint32_t>() > bytes.size();
  } else {
    return "its first bytes are those of another kind of file; wanted a PNG, JPEG or BMP";
  }
  return cut_off ? "its end is missing, so it was probably cut off" : "its data is damaged, or of a rare kind";
}

// [H, W, 3] -> [H, W, 1] with the 16-bit weights of Pillow's convert("L") (libImaging/Convert.c, L24).
Tensor gray_of(const Tensor& image) {
  Tensor out = Tensor::empty({image.size(0), image.size(1), 1}, DType::kU8);
  const uint8_t* from = image.data<uint8_t>();
  uint8_t* to = out.data<uint8_t>();
  for (int64_t i = 0; i < out.numel(); ++i, from += 3)
    to[i] = static_cast<uint8_t>((from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 0x8000u) >> 16);
  return out;
}

// A resampling filter of Pillow: its weight at a distance from the centre, zero beyond the support.
struct Kernel {
  double support;
  double (*weight)(double distance);
};
Kernel kernel_of(Preprocess::Filter filter) {
  if (filter == Preprocess::Filter::kArea) return {0.5, [](double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }};
  if (filter == Preprocess::Filter::kBilinear) return {1, [](double x) { return std::max(1 - std::fabs(x), 0.0); }};
  return {2, [](double signed_x) {  // Keys' cubic with a = -0.5
            constexpr double kSharpness = -0.5;
            const double x = std::fabs(signed_x);
            if (x < 1) return ((kSharpness + 2) * x - (kSharpness + 3)) * x * x + 1;
            return x < 2 ? (((x - 5) * x + 8) * x - 4) * kSharpness : 0.0;
          }};
}

// What one output pixel of a row is made of: input pixels from `first` on and their weights in units of 2^-22.
struct ResizeWindow {
  int64_t first;
  std::vector<int32_t> weights;
};
constexpr int kWeightBits = 22;

// The windows of all output pixels. Weights are those of Pillow (libImaging/Resample.c, precompute_coeffs): cut off at
// the border and made to sum up to one.
std::vector<ResizeWindow> windows_of(int64_t in, int64_t out, Preprocess::Filter filter) {
  const Kernel kernel = kernel_of(filter);
  const double ratio = static_cast<double>(in) / static_cast<double>(out), stretch = std::max(ratio, 1.0);
  const double support = kernel.support * stretch;
  std::vector<ResizeWindow> windows;
  std::vector<double> weights;
  for (int64_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(centre + support + 0.5), in);
    weights.clear();
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      weights.push_back(kernel.weight((static_cast<double>(x) - centre + 0.5) * (1 / stretch)));
      sum += weights.back();
    }
    ResizeWindow window{first, {}};
    for (const double weight : weights) {
      const double units = (sum != 0 ? weight / sum : weight) * (1 << kWeightBits);
      window.weights.push_back(static_cast<int32_t>(units + (units < 0 ? -0.5 : 0.5)));
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

// [rows, in, step] -> [rows, out, step], the middle axis resampled: columns with step = C, rows with step = W * C.
Tensor resampled(const Tensor& image, int64_t rows, int64_t in, int64_t out, int64_t step, Preprocess::Filter filter,
                 Shape sizes) {
  Tensor result = Tensor::empty(sizes, DType::kU8);
  const std::vector<ResizeWindow> windows = windows_of(in, out, filter);
  const uint8_t* from = image.data<uint8_t>();
  uint8_t* to = result.data<uint8_t>();
  std::vector<int64_t> sums(static_cast<size_t>(step));
  for (int64_t row = 0; row < rows; ++row, from += in * step)
    for (const ResizeWindow& window : windows) {
      std::fill(sums.begin(), sums.end(), int64_t{1} << (kWeightBits - 1));
      const uint8_t* pixel = from + window.first * step;
      for (const int32_t weight : window.weights)
        for (int64_t& sum : sums) sum += int64_t{weight} * *pixel++;
      for (const int64_t sum : sums) *to++ = static_cast<uint8_t>(std::clamp<int64_t>(sum >> kWeightBits, 0, 255));
    }
  return result;
}

// The input pixel under the centre of each output pixel. Pillow adds the ratio up (libImaging/Geometry.c), which
// decides ties.
std::vector<int64_t> nearest_pixels(int64_t in, int64_t out) {
  const double ratio = static_cast<double>(in) / static_cast<double>(out);
  std::vector<int64_t> pixels;
  double at = ratio * 0.5;
  for (int64_t i = 0; i < out; ++i, at += ratio) pixels.push_back(std::min(static_cast<int64_t>(at), in - 1));
  return pixels;
}

Tensor nearest(const Tensor& image, int64_t H, int64_t W) {
  const int64_t C = image.size(2);
  Tensor out = Tensor::empty({H, W, C}, DType::kU8);
  const std::vector<int64_t> columns = nearest_pixels(image.size(1), W);
  uint8_t* to = out.data<uint8_t>();
  for (const int64_t y : nearest_pixels(image.size(0), H))
    for (const int64_t x : columns) to = std::copy_n(image.data<uint8_t>() + (y * image.size(1) + x) * C, C, to);
  return out;
}

// Two-tap sampling without averaging (torch interpolate, align_corners = False): an output pixel lies at
// (i + 0.5) * in / out - 0.5, between two input pixels.
struct BilinearTaps {
  int64_t first, second;
  float weight;  // of the second
};
std::vector<BilinearTaps> bilinear_taps(int64_t in, int64_t out) {
  std::vector<BilinearTaps> taps;
  const float ratio = static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    const float at = std::max((static_cast<float>(i) + 0.5f) * ratio - 0.5f, 0.0f);
    const int64_t first = std::min(static_cast<int64_t>(at), in - 1);
    taps.push_back({first, std::min(first + 1, in - 1), at - static_cast<float>(first)});
  }
  return taps;
}

void sample_bilinear(const Tensor& image, const Tensor& out) {
  const int64_t C = image.size(2);
  const std::vector<BilinearTaps> rows = bilinear_taps(image.size(0), out.size(0));
  const std::vector<BilinearTaps> columns = bilinear_taps(image.size(1), out.size(1));
  const uint8_t* pixels = image.data<uint8_t>();
  uint8_t* to = out.data<uint8_t>();
  for (const BilinearTaps& y : rows)
    for (const BilinearTaps& x : columns)
      for (int64_t c = 0; c < C; ++c) {
        const auto at = [&](int64_t row, int64_t column) {
          return static_cast<float>(pixels[(row * image.size(1) + column) * C + c]);
        };
        const float upper = at(y.first, x.first) * (1 - x.weight) + at(y.first, x.second) * x.weight;
        const float lower = at(y.second, x.first) * (1 - x.weight) + at(y.second, x.second) * x.weight;
        *to++ = static_cast<uint8_t>(std::nearbyint(upper * (1 - y.weight) + lower * y.weight));
      }
}

// Columns first, then rows, each rounded to whole values: Pillow's order. Its arithmetic is followed to the bit,
// because models are trained on its pixels and other resamplers differ by ten levels and more at borders and for other
// ratios than whole ones.
Tensor resized(const Tensor& image, int64_t H, int64_t W, const Preprocess& how) {
  const int64_t C = image.size(2);
  if (how.filter == Preprocess::Filter::kNearest) return nearest(image, H, W);
  if (how.filter == Preprocess::Filter::kBilinear && !how.antialias) {
    Tensor out = Tensor::empty({H, W, C}, DType::kU8);
    sample_bilinear(image, out);
    return out;
  }
  Tensor out = image;
  if (W != image.size(1)) out = resampled(out, image.size(0), image.size(1), W, C, how.filter, {image.size(0), W, C});
  if (H != image.size(0)) out = resampled(out, 1, image.size(0), H, W * C, how.filter, {H, W, C});
  return out;
}

Tensor letterboxed(const Tensor& image, const Preprocess& how) {
  const auto [H, W] = *how.letterbox;
  QDQ_CHECK(H <= kMaxPixels / W && image.size(0) <= kMaxPixels / W, kInvalidArgument, "a letterbox of ", H, " x ", W,
            " for an image of ", image.size(0), " x ", image.size(1), " pixels is too large; give a smaller one");
  const double ratio = std::min(static_cast<double>(H) / static_cast<double>(image.size(0)),
                                static_cast<double>(W) / static_cast<double>(image.size(1)));
  const auto side = [&](int64_t old, int64_t most) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(static_cast<double>(old) * ratio)), 1, most);
  };
  const auto margin = [&](int64_t all, int64_t part) {
    constexpr double kTowardsTheStart = 0.1;  // where the two margins differ by a pixel
    if (how.pads_at_end) return int64_t{0};
    const double half = static_cast<double>(all - part) / 2;
    return std::max<int64_t>(static_cast<int64_t>(std::nearbyint(half - kTowardsTheStart)), 0);
  };
  const int64_t h = side(image.size(0), H), w = side(image.size(1), W);
  const Tensor picture = h == image.size(0) && w == image.size(1) ? image : resized(image, h, w, how);
  const Tensor out = Tensor::full({H, W, image.size(2)}, DType::kU8, how.pad);
  const int64_t top = margin(H, h), left = margin(W, w), row = w * image.size(2);
  for (int64_t y = 0; y < h; ++y)
    std::copy_n(picture.data<uint8_t>() + y * row, row, out.data<uint8_t>() + ((top + y) * W + left) * image.size(2));
  return out;
}

Tensor resized(const Tensor& image, const Preprocess& how) {
  if (how.letterbox) return letterboxed(image, how);
  if (how.resize.empty()) return image;
  int64_t H = image.size(0), W = image.size(1);
  if (how.resize.size() == 2) {
    H = how.resize[0];
    W = how.resize[1];
  } else if (H < W) {
    W = how.resize[0] * W / H;
    H = how.resize[0];
  } else {
    H = how.resize[0] * H / W;
    W = how.resize[0];
  }
  H = std::max<int64_t>(H, 1);
  W = std::max<int64_t>(W, 1);
  // The picture between the two passes has the old height and the new width.
  QDQ_CHECK(H <= kMaxPixels / W && image.size(0) <= kMaxPixels / W, kInvalidArgument, "resizing an image of ",
            image.size(0), " x ", image.size(1), " pixels would give ", H, " x ", W,
            ", which is too large; give a smaller resize");
  return resized(image, H, W, how);
}

// torchvision's center_crop: the margin is halved and rounded half to even.
Tensor cropped(const Tensor& image, const Preprocess& how) {
  if (!how.crop) return image;
  const auto [H, W] = *how.crop;
  QDQ_CHECK(H <= image.size(0) && W <= image.size(1), kInvalidArgument, "a crop of ", H, " x ", W,
            " is larger than the image of ", image.size(0), " x ", image.size(1), " pixels; give a resize before it");
  const auto start = [](int64_t all, int64_t part) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(all - part) / 2));
  };
  const int64_t top = start(image.size(0), H), left = start(image.size(1), W);
  return image.slice(0, top, top + H).slice(1, left, left + W);
}

float per_channel(const std::vector<float>& values, int64_t c, float otherwise) {
  return values.empty() ? otherwise : values.size() == 1 ? values[0] : values[static_cast<size_t>(c)];
}

std::vector<int64_t> sizes_field(const Fields& fields, std::string_view key) {
  const Json* value = fields.find(key);
  if (!value || value->is_null()) return {};
  std::vector<int64_t> out;
  if (value->is_array()) out = json_as<std::vector<int64_t>>(*value, fields.where(key));
  else out = {json_as<int64_t>(*value, fields.where(key))};
  QDQ_CHECK(!out.empty() && out.size() <= 2, kInvalidArgument, fields.where(key), " has ", out.size(),
            " numbers, wanted one or [H, W]");
  for (const int64_t size : out)
    QDQ_CHECK(size >= 1 && size <= kMaxSide, kInvalidArgument, fields.where(key), " is ", size, ", wanted 1 to ",
              kMaxSide);
  return out;
}

std::vector<float> channels_field(const Fields& fields, std::string_view key, bool grayscale) {
  const Json* value = fields.find(key);
  if (!value || value->is_null()) return {};
  std::vector<float> out;
  if (value->is_array()) out = json_as<std::vector<float>>(*value, fields.where(key));
  else out = {json_as<float>(*value, fields.where(key))};
  const size_t channels = grayscale ? 1 : 3;
  QDQ_CHECK(out.size() == 1 || out.size() == channels, kInvalidArgument, fields.where(key), " has ", out.size(),
            " numbers for ", channels, " channels; wanted one, or one for each channel");
  for (const float number : out)
    QDQ_CHECK(std::isfinite(number) && (key != "std" || number != 0), kInvalidArgument, fields.where(key), " holds ",
              number, key == "std" ? ", wanted finite numbers other than 0" : ", wanted finite numbers");
  return out;
}

size_t choice(const Fields& fields, std::string_view key, const std::vector<std::string>& words, size_t otherwise) {
  const std::string word = fields.optional<std::string>(key, words[otherwise]);
  const auto at = std::find(words.begin(), words.end(), word);
  if (at != words.end()) return static_cast<size_t>(at - words.begin());
  std::string known;
  for (const std::string& one : words) known += (known.empty() ? "" : ", ") + one;
  fail(ErrorCode::kInvalidArgument, fields.where(key), " is '", word, "', wanted one of ", known);
}

}  // namespace

Tensor decode_image(ByteSpan bytes, const std::string& what) {
  QDQ_CHECK(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()), kUnsupported, what,
            " has more than 2 GiB; give a smaller image");
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int length = static_cast<int>(bytes.size());
  int W = 0, H = 0, C = 0;
  const uint64_t refused = refused_to_decoders();
  const auto check = [&](const char* wrong, bool is_right) {
    if (!is_right && refused_to_decoders() != refused) throw std::bad_alloc();
    QDQ_CHECK(is_right, kBadFile, what, wrong, ": ", fault_of(bytes));
  };
  check(" is not a JPEG, PNG or BMP image that can be read",
        stbi_info_from_memory(data, length, &W, &H, &C) != 0 && W > 0 && H > 0);
  QDQ_CHECK(int64_t{W} * H <= most_pixels(bytes), kBadFile, what, " claims ", W, " x ", H, " pixels, more than its ",
            bytes.size(), " bytes can hold; the file is damaged, so copy it again");
  QDQ_CHECK(int64_t{W} * H <= kMaxPixels, kUnsupported, what, " has ", W, " x ", H, " pixels; at most ", kMaxPixels,
            " are read, so make the image smaller");
  stbi_uc* decoded = stbi_load_from_memory(data, length, &W, &H, &C, 3);
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(decoded, stbi_image_free);
  check(" cannot be decoded", pixels != nullptr && !is_cut_off_jpeg(text_of(bytes)));
  const size_t count = size_t{3} * static_cast<size_t>(W) * static_cast<size_t>(H);
  return Tensor::of<uint8_t>({H, W, 3}, std::span<const uint8_t>(pixels.get(), count));
}

Preprocess parse_preprocess(const Json& json, const std::string& what) {
  const Fields fields(json, what);
  Preprocess how;
  how.grayscale = fields.optional<bool>("grayscale", false);
  how.resize = sizes_field(fields, "resize");
  static constexpr Preprocess::Filter kFilters[] = {Preprocess::Filter::kNearest, Preprocess::Filter::kBilinear,
                                                    Preprocess::Filter::kBicubic, Preprocess::Filter::kArea};
  how.filter = kFilters[choice(fields, "filter", {"nearest", "bilinear", "bicubic", "area"}, 1)];
  how.antialias = fields.optional<bool>("antialias", true);
  QDQ_CHECK(how.antialias || how.filter == Preprocess::Filter::kBilinear || how.filter == Preprocess::Filter::kNearest,
            kInvalidArgument, fields.where("antialias"),
            " is false, which only the filters bilinear and nearest can do");
  const std::vector<int64_t> letterbox = sizes_field(fields, "letterbox");
  if (!letterbox.empty()) how.letterbox = {letterbox.front(), letterbox.back()};
  QDQ_CHECK(!how.letterbox || how.resize.empty(), kInvalidArgument, what,
            " has resize and letterbox, which both set the size; leave one of them out");
  for (const char* field : {"pad", "pad_position"})
    QDQ_CHECK(how.letterbox || fields.find(field) == nullptr, kInvalidArgument, fields.where(field),
              " has no effect without letterbox");
  const auto pad = fields.optional<int64_t>("pad", how.pad);
  QDQ_CHECK(pad >= 0 && pad <= 255, kInvalidArgument, fields.where("pad"), " is ", pad,
            ", wanted a pixel's value, 0 to 255");
  how.pad = static_cast<uint8_t>(pad);
  how.pads_at_end = choice(fields, "pad_position", {"center", "end"}, 0) == 1;
  const std::vector<int64_t> crop = sizes_field(fields, "crop");
  if (!crop.empty()) how.crop = {crop.front(), crop.back()};
  how.bgr = choice(fields, "channel_order", {"RGB", "BGR"}, 0) == 1;
  how.scale = fields.optional<double>("scale", how.scale);
  QDQ_CHECK(std::isfinite(how.scale) && how.scale != 0, kInvalidArgument, fields.where("scale"), " is ", how.scale,
            ", wanted a finite number other than 0");
  how.mean = channels_field(fields, "mean", how.grayscale);
  how.std = channels_field(fields, "std", how.grayscale);
  how.channels_last = choice(fields, "layout", {"NCHW", "NHWC"}, 0) == 1;
  fields.reject_unknown();
  return how;
}

Tensor preprocess(const Tensor& image, const Preprocess& how) {
  QDQ_CHECK(image.dtype() == DType::kU8 && image.dim() == 3 && image.size(2) == 3 && image.numel() > 0,
            kInvalidArgument, "an image is a uint8 tensor [H, W, 3], found ", to_string(image.dtype()), " ",
            to_string(image.sizes()));
  const Tensor source = how.grayscale ? gray_of(image.contiguous()) : image.contiguous();
  const Tensor pixels = cropped(resized(source, how), how);
  const int64_t H = pixels.size(0), W = pixels.size(1), C = pixels.size(2);
  for (const std::vector<float>* values : {&how.mean, &how.std})
    QDQ_CHECK(values->size() <= 1 || static_cast<int64_t>(values->size()) == C, kInvalidArgument, "mean and std have ",
              values->size(), " numbers for ", C, " channels");
  const Tensor out = Tensor::empty(how.channels_last ? Shape{H, W, C} : Shape{C, H, W}, DType::kF32);
  const Tensor planes = how.channels_last ? out.permute({2, 0, 1}) : out;
  for (int64_t c = 0; c < C; ++c) {
    // A channel has 256 possible values.
    std::array<float, 256> value_of;
    const float mean = per_channel(how.mean, c, 0), std = per_channel(how.std, c, 1);
    for (size_t i = 0; i < value_of.size(); ++i)
      value_of[i] = (static_cast<float>(static_cast<double>(i) * how.scale) - mean) / std;
    const Tensor from = pixels.select(2, how.bgr ? C - 1 - c : c), to = planes.select(0, c);
    const uint8_t* in = from.data<uint8_t>();
    float* at = to.data<float>();
    for_each_index<2>({H, W}, {from.strides().data(), to.strides().data()},
                      [&](const std::array<int64_t, 2>& offset) { at[offset[1]] = value_of[in[offset[0]]]; });
  }
  return out;
}

Bytes thumbnail(const Tensor& image, int64_t side) {
  QDQ_CHECK(image.dtype() == DType::kU8 && image.dim() == 3 && image.size(2) == 3 && image.numel() > 0 && side > 0,
            kInvalidArgument, "a thumbnail is made of u8 pixels [H, W, 3], found ", to_string(image.dtype()),
            to_string(image.sizes()));
  const int64_t longer = std::max(image.size(0), image.size(1)), shown = std::min(longer, side);
  const int64_t H = std::max<int64_t>(1, image.size(0) * shown / longer),
                W = std::max<int64_t>(1, image.size(1) * shown / longer);
  const Tensor pixels = (shown == longer ? image : resized(image, H, W, {})).contiguous();
  constexpr int kQuality = 85;
  Bytes out;
  const auto take = [](void* out, void* data, int size) {
    append(*static_cast<Bytes*>(out), {static_cast<const std::byte*>(data), static_cast<size_t>(size)});
  };
  QDQ_CHECK(stbi_write_jpg_to_func(take, &out, static_cast<int>(W), static_cast<int>(H), 3, pixels.data<uint8_t>(),
                                   kQuality) != 0,
            kInternal, "an image of ", H, " x ", W, " pixels could not be written as JPEG");
  return out;
}

}  // namespace qdq::format
