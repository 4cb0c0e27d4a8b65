// Fourier transforms of ONNX that ONNX Runtime does not run.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_signal_test {
namespace {

// x [1, 3, 2], the pairs of a one-sided transform, along the axis 1.
std::vector<float> inverse_onesided(const std::vector<float>& pairs, std::optional<int64_t> length) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{1, ""}, {3, ""}, {2, ""}}});
  format::OnnxNode& node = file.nodes.emplace_back(onnx_node("DFT", {"x", length ? "length" : std::string()}, "y"));
  for (const char* name : {"axis", "inverse", "onesided"}) {
    format::OnnxAttribute& one = node.attributes.emplace_back();
    one.name = name;
    one.kind = format::OnnxKind::kInt;
    one.i = 1;
  }
  if (length) file.initializers.emplace_back("length", Tensor::of<int64_t>({}, {*length}));
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const Tensor x = Tensor::of<float>({1, 3, 2}, std::span<const float>(pairs));
  const Tensor y = Interpreter(program, {}).run(std::vector<Tensor>{x}).at(0).contiguous();
  EXPECT_EQ(y.sizes(), (Shape{1, y.numel(), 1}));
  return {y.data<float>(), y.data<float>() + y.numel()};
}

// Wanted are the numbers of numpy.fft.irfft.
TEST(OnnxSignals, AOneSidedInverseGivesARealSignal) {
  const std::vector<float> pairs = {10, 0, -2, 2, -2, 0};
  const std::pair<std::optional<int64_t>, std::vector<float>> cases[] = {
      {std::nullopt, {1, 2, 3, 4}},
      {4, {1, 2, 3, 4}},
      {5, {0.4F, 1.6391548F, 1.9297718F, 2.8702282F, 3.1608452F}},
      {2, {4, 6}},
      {8, {0.25F, 0.5428932F, 1.25F, 1.25F, 1.25F, 1.9571068F, 2.25F, 1.25F}}};
  for (const auto& [length, wanted] : cases) {
    const std::vector<float> found = inverse_onesided(pairs, length);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace qdq::onnx_signal_test
