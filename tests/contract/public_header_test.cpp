// The flow as README shows it, with nothing but the public header, on the model of examples/shapes.
#include "qdq.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

namespace {

std::vector<std::byte> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(chars));
  return {bytes.begin(), bytes.end()};
}

TEST(PublicHeader, QuantizesAndRuns) {
  const auto bytes = read(QDQ_SOURCE_DIR "/examples/shapes/model.pt2");
  const qdq::Tensor batch = qdq::Tensor::empty({2, 3, 40, 40}, qdq::DType::kF32);
  float value = 0;
  for (float& element : batch.span<float>()) element = std::fmod(value += 0.37F, 2.0F) - 1;

  qdq::XNNPACKQuantizer quantizer;
  quantizer.set_global(qdq::get_symmetric_quantization_config({.is_per_channel = true}));
  auto prepared = qdq::prepare_pt2e(qdq::load_pt2(bytes), quantizer);
  const auto expected = prepared.run({batch});
  const qdq::Program quantized = qdq::convert_pt2e(prepared);
  const auto written = qdq::save_pt2(quantized);
  EXPECT_LT(written.size(), bytes.size() / 2);
  auto session = qdq::lower(qdq::load_pt2(written));
  const auto outputs = session.run(std::vector<qdq::Tensor>{batch});
  ASSERT_EQ(outputs.size(), 1U);
  ASSERT_EQ(outputs[0].sizes(), expected[0].sizes());
  const auto logits = outputs[0].contiguous(), wanted = expected[0].contiguous();
  const auto [low, high] = std::minmax_element(wanted.span<float>().begin(), wanted.span<float>().end());
  for (int64_t i = 0; i < logits.numel(); ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_NEAR(logits.span<float>()[at], wanted.span<float>()[at], (*high - *low) / 5);
  }
}

}  // namespace
