// Images: decoding, and preprocessing that equals Pillow's and torchvision's.
#include "format/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "format/json.h"
#include "format/npz.h"
#include "golden_bytes.h"
#include "unit/format/expect_error.h"

namespace qdq::format::image_test {
namespace {

Tensor golden(std::string_view name) {
  static const std::vector<NamedTensor> arrays = read_npz(golden_bytes("format/image.npz"));
  for (const NamedTensor& entry : arrays)
    if (entry.name == name) return entry.tensor;
  throw Error(ErrorCode::kInternal, "no array " + std::string(name));
}

Preprocess steps(const std::string& json) { return parse_preprocess(parse_json(json, "j"), "pre.json"); }

// Preprocessed pixels as they are, without scale.
Tensor pixels_after(const std::string& json) {
  Preprocess how = steps(json);
  how.scale = 1;
  return preprocess(golden("pixels"), how);
}

TEST(Image, PngAndBmpDecodeToTheirPixels) {
  for (const char* name : {"gradient.png", "gradient.bmp", "gradient_rgba.png"})
    EXPECT_TRUE(bitwise_equal(decode_image(golden_bytes(std::string("format/") + name), name), golden("pixels")))
        << name;
  const Tensor gray = decode_image(golden_bytes("format/gradient_gray.png"));
  for (int64_t c = 0; c < 3; ++c) EXPECT_TRUE(bitwise_equal(gray.select(2, c), golden("gray").select(0, 0)));
}

TEST(Image, JpegDecodesWithinThreeLevelsOfLibjpeg) {
  const Tensor image = decode_image(golden_bytes("format/gradient.jpg")), expected = golden("jpeg");
  ASSERT_EQ(image.sizes(), expected.sizes());
  int worst = 0;
  for (int64_t i = 0; i < image.numel(); ++i)
    worst = std::max(worst, std::abs(int{image.data<uint8_t>()[i]} - int{expected.data<uint8_t>()[i]}));
  EXPECT_LE(worst, 3);
}

TEST(Image, ResizingEqualsPillow) {
  for (const std::string filter : {"nearest", "bilinear", "bicubic", "area"}) {
    const std::string end = ", \"filter\": \"" + filter + "\"}";
    const Tensor down = golden(filter + "_down").to(DType::kF32), up = golden(filter + "_up").to(DType::kF32);
    EXPECT_TRUE(bitwise_equal(pixels_after("{\"resize\": [11, 13]" + end), down)) << filter;
    EXPECT_TRUE(bitwise_equal(pixels_after("{\"resize\": [41, 50]" + end), up)) << filter;
  }
}

TEST(Image, ShortSideAndCropEqualTorchvision) {
  EXPECT_TRUE(bitwise_equal(pixels_after(R"({"resize": 17})"), golden("short_side").to(DType::kF32)));
  EXPECT_TRUE(bitwise_equal(pixels_after(R"({"crop": [9, 12]})"), golden("crop").to(DType::kF32)));
  EXPECT_TRUE(bitwise_equal(pixels_after(R"({"grayscale": true})"), golden("gray").to(DType::kF32)));
}

TEST(Image, NormalizingEqualsTorchvision) {
  const Tensor expected = golden("normalized");
  const std::string numbers = R"("mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225])";
  EXPECT_TRUE(bitwise_equal(preprocess(golden("pixels"), steps("{" + numbers + "}")), expected));
  EXPECT_TRUE(bitwise_equal(preprocess(golden("pixels"), steps("{\"layout\": \"NHWC\", " + numbers + "}")),
                            expected.permute({1, 2, 0})));
}

TEST(Image, ThePixelScaleIsRoundedOnce) {
  const Tensor image = Tensor::empty({1, 256, 3}, DType::kU8);
  for (int64_t i = 0; i < image.numel(); ++i) image.data<uint8_t>()[i] = static_cast<uint8_t>(i / 3);
  const Tensor out = preprocess(image, {});
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out.data<float>()[i], static_cast<float>(i) / 255.0f);
}

TEST(Image, BgrSwapsTheChannelsBeforeMeanAndStd) {
  const Tensor image = Tensor::of<uint8_t>({1, 1, 3}, {10, 20, 30});
  const Tensor out = preprocess(image, steps(R"({"channel_order": "BGR", "scale": 1, "mean": [1, 2, 3], "std": 2})"));
  EXPECT_TRUE(bitwise_equal(out, Tensor::of<float>({3, 1, 1}, {14.5f, 9.0f, 3.5f})));
}

TEST(Image, WithoutAntialiasTwoPixelsAreMixed) {
  const Tensor image = Tensor::empty({1, 4, 3}, DType::kU8);
  for (int64_t i = 0; i < 12; ++i) image.data<uint8_t>()[i] = static_cast<uint8_t>(i / 3 * 10);
  const Tensor out = preprocess(image, steps(R"({"resize": [1, 2], "antialias": false, "scale": 1})"));
  EXPECT_TRUE(bitwise_equal(out.select(0, 0), Tensor::of<float>({1, 2}, {5.0f, 25.0f})));
}

TEST(Image, ALetterboxHoldsTheWholeImage) {
  const Tensor image = Tensor::empty({2, 4, 3}, DType::kU8);
  for (int64_t i = 0; i < image.numel(); ++i) image.data<uint8_t>()[i] = static_cast<uint8_t>(i / 3);
  const auto red = [&](const std::string& json) {
    return preprocess(image, steps(R"({"scale": 1, "filter": "nearest", )" + json + "}")).select(0, 0);
  };
  EXPECT_TRUE(bitwise_equal(red(R"("letterbox": 4)"), Tensor::of<float>({4, 4}, {114, 114, 114, 114,  //
                                                                                 0, 1, 2, 3,          //
                                                                                 4, 5, 6, 7,          //
                                                                                 114, 114, 114, 114})));
  // Margins that differ by a pixel: the smaller one is in front.
  EXPECT_TRUE(bitwise_equal(red(R"("letterbox": [3, 5], "pad": 9)"), Tensor::of<float>({3, 5}, {0, 1, 2, 2, 3,  //
                                                                                                4, 5, 6, 6, 7,  //
                                                                                                9, 9, 9, 9, 9})));
  EXPECT_TRUE(bitwise_equal(red(R"("letterbox": 2, "pad": 0, "pad_position": "end")"),
                            Tensor::of<float>({2, 2}, {5, 7, 0, 0})));
  // The sides of a photo of 500 x 375 pixels, as Ultralytics' LetterBox((640, 640)) rounds them.
  const Tensor photo = Tensor::full({375, 500, 3}, DType::kU8, 200);
  const Tensor boxed = preprocess(photo, steps(R"({"letterbox": 640, "antialias": false, "scale": 1})"));
  EXPECT_EQ(boxed.sizes(), (Shape{3, 640, 640}));
  for (const auto& [row, wanted] :
       {std::pair(79, 114.0), std::pair(80, 200.0), std::pair(559, 200.0), std::pair(560, 114.0)})
    EXPECT_EQ(boxed.select(0, 0).slice(0, row, row + 1).select(1, 0).item(), wanted) << row;
}

TEST(Image, BadImagesAreRefused) {
  const auto refuse = [](const Bytes& bytes, std::string_view words, ErrorCode code = ErrorCode::kBadFile) {
    expect_error(code, words, [&] { decode_image(bytes, "cat.jpg"); });
  };
  const std::string none = "cat.jpg is not a JPEG, PNG or BMP image that can be read: ";
  refuse({}, none + "it is empty");
  refuse(Bytes(100, std::byte{7}),
         none + "its first bytes are those of another kind of file; wanted a PNG, JPEG or BMP");
  for (const auto& [beginning, name] : std::initializer_list<std::pair<std::string, std::string>>{
           {"GIF89a.......", "GIF"},
           {"RIFF....WEBPVP8 ", "WebP"},
           {std::string("\0\0\0\x1c", 4) + "ftypheic....", "HEIC"},
           {"<!doctype html>", "text"}})
    refuse(Bytes(bytes_of(beginning).begin(), bytes_of(beginning).end()), none + "it is a " + name);
  Bytes jpeg = golden_bytes("format/gradient.jpg");
  jpeg.resize(12);
  refuse(jpeg, none + "its end is missing");
  // The header and half of the scan are there: the rest of the pixels is not made up.
  jpeg = golden_bytes("format/gradient.jpg");
  jpeg.resize(jpeg.size() - 20);
  refuse(jpeg, "cat.jpg cannot be decoded: its end is missing, so it was probably cut off");
  // Lossless: the marker of the frame is another.
  jpeg = golden_bytes("format/gradient.jpg");
  for (size_t i = 0; i + 1 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xFF} && jpeg[i + 1] == std::byte{0xC0}) jpeg[i + 1] = std::byte{0xC3};
  refuse(jpeg, none + "it is a lossless JPEG; convert it to PNG");
  Bytes bmp = golden_bytes("format/gradient.bmp");
  bmp[30] = std::byte{1};
  refuse(bmp, "it is a compressed BMP; convert it to PNG");
  Bytes png = golden_bytes("format/gradient.png");
  png.resize(60);
  refuse(png, "cat.jpg cannot be decoded: its end is missing, so it was probably cut off");
  png = golden_bytes("format/gradient.png");
  png[60] ^= std::byte{0xFF};
  refuse(png, "cat.jpg cannot be decoded: its data is damaged, or of a rare kind");
  png = golden_bytes("format/gradient.png");
  png[18] = png[22] = std::byte{0x2F};  // the header says 12 thousand pixels each way
  refuse(png, "claims 12067 x 12058 pixels, more than its 315 bytes can hold");
  png.resize(20000);
  refuse(png, "at most 67108864 are read", ErrorCode::kUnsupported);
  // Beyond what stb_image looks at.
  png[16] = png[20] = std::byte{0x7F};
  refuse(png, none + "it has 2130718499 x 2130718490 pixels, and at most 67108864 are read");
}

TEST(Image, StepsThatMakeNoSenseAreRefused) {
  const auto refuse = [](const char* json, std::string_view words) {
    expect_error(ErrorCode::kInvalidArgument, words, [&] { preprocess(golden("pixels"), steps(json)); });
  };
  refuse(R"({"resise": 256})", "unknown field 'resise' in pre.json; did you mean 'resize'?");
  refuse(R"({"resize": 0})", "field 'resize' of pre.json is 0, wanted 1 to 32768");
  refuse(R"({"resize": [1, 2, 3]})", "has 3 numbers");
  refuse(R"({"resize": "big"})", "wanted an integer");
  refuse(R"({"resize": 32768})", "too large");
  refuse(R"({"filter": "lanczos"})", "wanted one of nearest, bilinear, bicubic, area");
  refuse(R"({"filter": "area", "antialias": false})", "bilinear and nearest");
  refuse(R"({"letterbox": 224, "resize": 256})", "pre.json has resize and letterbox, which both set the size");
  refuse(R"({"letterbox": 224, "pad": 256})", "field 'pad' of pre.json is 256, wanted a pixel's value, 0 to 255");
  refuse(R"({"letterbox": 224, "pad_position": "left"})", "wanted one of center, end");
  refuse(R"({"pad": 0})", "field 'pad' of pre.json has no effect without letterbox");
  refuse(R"({"letterbox": 32768})", "too large");
  refuse(R"({"crop": 224})", "a crop of 224 x 224 is larger than the image of 26 x 35 pixels");
  refuse(R"({"mean": [1, 2]})", "has 2 numbers for 3 channels");
  refuse(R"({"grayscale": true, "mean": [1, 2, 3]})", "has 3 numbers for 1 channels");
  refuse(R"({"std": [1, 0, 1]})", "holds 0");
  refuse(R"({"scale": 0})", "is 0");
  refuse(R"({"layout": "CHW"})", "wanted one of NCHW, NHWC");
  refuse(R"({"channel_order": "GBR"})", "wanted one of RGB, BGR");
  expect_error(ErrorCode::kInvalidArgument, "found float32 [2]",
               [] { preprocess(Tensor::empty({2}, DType::kF32), {}); });
}

TEST(Thumbnail, IsASmallJpegOfTheImage) {
  Tensor image = Tensor::empty({60, 240, 3}, DType::kU8);
  for (int64_t i = 0; i < image.numel(); ++i) image.data<uint8_t>()[i] = static_cast<uint8_t>(i % 720 < 360 ? 200 : 40);
  const Tensor small = decode_image(thumbnail(image, 96));
  EXPECT_EQ(small.sizes(), (Shape{24, 96, 3}));
  EXPECT_NEAR(small.data<uint8_t>()[0], 200, 6);
  EXPECT_NEAR(small.data<uint8_t>()[3 * 95], 40, 6);
  EXPECT_EQ(decode_image(thumbnail(image.slice(1, 0, 5), 96)).sizes(), (Shape{60, 5, 3}));
  EXPECT_THROW(thumbnail(Tensor::empty({2, 2}, DType::kU8), 96), Error);
}

TEST(Base64, PadsToGroupsOfFour) {
  EXPECT_EQ(base64(bytes_of("")), "");
  EXPECT_EQ(base64(bytes_of("f")), "Zg==");
  EXPECT_EQ(base64(bytes_of("fo")), "Zm8=");
  EXPECT_EQ(base64(bytes_of("foobar")), "Zm9vYmFy");
  EXPECT_EQ(base64(bytes_of("\xff\xef\xbe")), "/+++");
}

}  // namespace
}  // namespace qdq::format::image_test
