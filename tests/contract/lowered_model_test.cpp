// The shapes classifier from float to integer steps: lowered sessions against the same program run node by node, by the
// formulas of the reference, and by the float kernels of calibration.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/parallel.h"
#include "format/image.h"
#include "qdq.h"
#include "source_dir.h"

namespace qdq {
namespace {

const std::filesystem::path kShapes = std::filesystem::path(kSourceDir) / "examples" / "shapes";

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

Tensor image(const char* folder, int index) {
  format::Preprocess to_input;  // as in preprocess.json
  to_input.mean = {0.5f};
  to_input.std = {0.215f};
  char name[16];
  std::snprintf(name, sizeof name, "%03d.png", index);
  return format::preprocess(format::decode_image(read_file(kShapes / folder / name)), to_input).unsqueeze(0);
}

Program quantized(Quantizer& quantizer) {
  Prepared prepared = prepare_pt2e(load_pt2(read_file(kShapes / "model.pt2")), quantizer);
  for (int i = 0; i < 32; ++i) prepared.run({image("calibration", i)});
  return convert_pt2e(prepared);
}

int64_t best_of(const Tensor& logits) {
  const auto scores = logits.span<float>();
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

void expect_same_predictions(const Program& program) {
  Session fused = lower(program), plain = lower(program, {{"reference"}, false});
  Session by_kernels = lower(program, {{"simd"}, false});
  set_num_threads(2);
  Session threaded = lower(program);
  set_num_threads(1);
  float largest = 0, difference = 0;
  int same = 0, same_by_kernels = 0;
  constexpr int kImages = 48;
  for (int i = 0; i < kImages; ++i) {
    const Tensor x = image("test", i);
    const Tensor found = fused.run({{x}})[0].contiguous(), expected = plain.run({{x}})[0].contiguous();
    // Quantized logits can tie (image 36 of XNNPACK's test set has two equal largest ones): then either class is the
    // graph's answer.
    same += expected.data<float>()[best_of(found)] == expected.data<float>()[best_of(expected)];
    const Tensor other = by_kernels.run({{x}})[0].contiguous();
    same_by_kernels += other.data<float>()[best_of(found)] == other.data<float>()[best_of(other)];
    for (int64_t j = 0; j < found.numel(); ++j) {
      largest = std::max(largest, std::fabs(expected.data<float>()[j]));
      difference = std::max(difference, std::fabs(found.data<float>()[j] - expected.data<float>()[j]));
    }
    EXPECT_TRUE(bitwise_equal(threaded.run({{x}})[0].contiguous(), found)) << "threads change image " << i;
  }
  EXPECT_EQ(same, kImages);
  EXPECT_EQ(same_by_kernels, kImages);
  // Single roundings that differ travel through the layers behind them.
  EXPECT_LT(difference, 0.02f * largest);
}

TEST(LoweredModel, PredictsAsTheGraphOfXnnpack) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  expect_same_predictions(quantized(quantizer));
}

TEST(LoweredModel, PredictsAsTheGraphOfX86) {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_default_x86_inductor_quantization_config());
  expect_same_predictions(quantized(quantizer));
}

}  // namespace
}  // namespace qdq
