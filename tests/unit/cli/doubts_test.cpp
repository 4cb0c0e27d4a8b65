// What the command line doubts: float models at chance, samples that are zero, numbers that integers do not have.
#include <algorithm>
#include <cmath>
#include <limits>

#include "format/bytes.h"
#include "format/json.h"
#include "report/evaluation.h"
#include "unit/cli/cli_fixture.h"
#include "unit/cli/onnx_node.h"

namespace qdq::doubts_test {
namespace {

using format::Json;

struct DoubtsTest : CliTest {
  bool says(const std::string& part) const { return host.err.find(part) != std::string::npos; }
};

TEST_F(DoubtsTest, AFloatModelThatGivesOneClassOrIsNearChance) {
  const Tensor one = noise({1, 2, 4, 4}, 5), same = Tensor::empty({20, 2, 4, 4}, DType::kF32);
  for (size_t i = 0; i < 20; ++i) std::copy_n(one.span<float>().data(), 32, same.span<float>().data() + 32 * i);
  host.contents["same.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", same}});
  std::string labels;
  for (int i = 0; i < 20; ++i) labels += concat(i, ",", i % 3, "\n");
  host.add("twenty.csv", labels);
  ASSERT_EQ(run({"evaluate", "model.pt2", "--data", "same.npz", "--labels", "twenty.csv"}), 0) << host.err;
  EXPECT_TRUE(says("warning: model.pt2 gives all 20 samples the class ")) << host.err;
  ASSERT_EQ(run(quantize({"--report", "r.html", "--test", "same.npz", "--labels", "twenty.csv"})), 0) << host.err;
  EXPECT_TRUE(says("warning: The float model gives all 20 samples the class ")) << host.err;

  host.contents["noise.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", noise({60, 2, 4, 4}, 6)}});
  ASSERT_EQ(run({"run", "model.pt2", "--inputs", "noise.npz", "-o", "a.npz"}), 0) << host.err;
  const auto scores = format::read_npz(host.contents["a.npz"]);
  std::string right, wrong;
  for (int i = 0; i < 60; ++i) {
    const float* row = scores[0].tensor.span<float>().data() + 3 * i;
    const auto best = std::max_element(row, row + 3) - row;
    right += concat(i, ",", best, "\n");
    wrong += concat(i, ",", (best + 1 + i % 2) % 3, "\n");
  }
  host.add("right.csv", right);
  host.add("wrong.csv", wrong);
  ASSERT_EQ(run({"evaluate", "model.pt2", "--data", "noise.npz", "--labels", "wrong.csv"}), 0) << host.err;
  EXPECT_TRUE(says("is right about 0.0 % of the samples, where chance is right about 33.3 %")) << host.err;
  ASSERT_EQ(run({"evaluate", "model.pt2", "--data", "noise.npz", "--labels", "right.csv"}), 0) << host.err;
  EXPECT_FALSE(says("warning")) << host.err;
  // Few samples are enough if not one of them is right; of fewer still nothing can be said.
  for (const auto& [limit, doubts] : {std::pair("15", true), std::pair("8", true), std::pair("7", false)}) {
    host.err.clear();
    ASSERT_EQ(run({"evaluate", "model.pt2", "--data", "noise.npz", "--labels", "wrong.csv", "--limit", limit}), 0)
        << host.err;
    EXPECT_EQ(says(concat("model.pt2 is right about none of the ", limit, " samples; is the preprocessing")), doubts)
        << host.err;
  }
}

TEST(Doubts, ManySamplesOfOneClassAmongManyAreDoubtedWithoutLabels) {
  const auto doubts = [](int64_t classes, int64_t same, std::span<const int64_t> labels = {}) {
    const Tensor scores = Tensor::empty({20, classes}, DType::kF32);
    for (int64_t i = 0; i < 20; ++i) scores.span<float>()[static_cast<size_t>(i * classes + (i < same ? 7 : i))] = 1;
    Answers answers;
    answers.add({scores}, "m");
    return doubts_about(answers, labels, classes);
  };
  const std::vector<std::string> found = doubts(100, 14);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("gives 14 of 20 samples the same of its 100 classes, class 7; is the preproc"))
      << found[0];
  EXPECT_TRUE(doubts(100, 13).empty());
  EXPECT_TRUE(doubts(99, 14).empty());
  // Labels say more: these samples are of that class.
  EXPECT_TRUE(doubts(100, 14, std::vector<int64_t>(20, 7)).empty());
}

TEST_F(DoubtsTest, SamplesThatAreZero) {
  const Tensor zeros = noise({10, 2, 4, 4}, 1, 0);
  host.contents["zeros.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", zeros}});
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "zeros.npz", "-o", "out.pt2"}), 0) << host.err;
  EXPECT_TRUE(says("the input x is zero in all samples of the calibration")) << host.err;
  ASSERT_EQ(run(quantize()), 0) << host.err;
  EXPECT_FALSE(says("zero in all samples")) << host.err;
}

// Rows of x that begin above 100 are multiplied by w, and so is x itself. No sample has such rows.
TEST_F(DoubtsTest, PartsOfTheModelThatNoSampleReaches) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{10, ""}, {4, ""}}});
  file.initializers = {{"hundred", Tensor::full({}, DType::kF32, 100)},
                       {"zero", Tensor::full({}, DType::kS64, 0)},
                       {"w", noise({4, 8}, 1)}};
  format::OnnxNode begins = onnx_node("Gather", {"x", "zero"}, "begins"),
                   rows = onnx_node("Compress", {"x", "is_above"}, "rows");
  begins.attributes = {onnx_integer("axis", 1)};
  rows.attributes = {onnx_integer("axis", 0)};
  file.nodes = {begins, onnx_node("Greater", {"begins", "hundred"}, "is_above"), rows,
                onnx_node("MatMul", {"rows", "w"}, "few"), onnx_node("MatMul", {"x", "w"}, "all")};
  for (const char* name : {"few", "all"}) file.outputs.push_back({name, std::nullopt, std::nullopt});
  host.contents["gate.onnx"] = format::write_onnx_file(file);
  host.contents["some.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", noise({10, 4}, 2)}});
  const char* wanted = "warning: no sample of the calibration has reached ";
  ASSERT_EQ(run({"quantize", "gate.onnx", "--calibrate", "some.npz", "--observers", "seen.json", "-o", "a.onnx"}), 0)
      << host.err;
  EXPECT_TRUE(says(wanted)) << host.err;
  ASSERT_EQ(run({"quantize", "gate.onnx", "--calibrate", "seen.json", "-o", "b.onnx"}), 0) << host.err;
  EXPECT_TRUE(says(wanted)) << host.err;
  EXPECT_EQ(host.contents["a.onnx"], host.contents["b.onnx"]);
}

// x + (x above 0 ? x : the value), as masks are added to scores.
std::vector<std::byte> masks_by(double value) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{10, ""}, {4, ""}}});
  file.initializers = {{"none", Tensor::full({}, DType::kF32, 0)}, {"value", Tensor::full({}, DType::kF32, value)}};
  file.nodes = {onnx_node("Greater", {"x", "none"}, "is_above"), onnx_node("Where", {"is_above", "x", "value"}, "mask"),
                onnx_node("Add", {"x", "mask"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return format::write_onnx_file(file);
}

TEST_F(DoubtsTest, WarnsOnceOfInfinitiesThatIntegersDoNotHave) {
  host.contents["some.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", noise({10, 4}, 1, 1)}});
  const std::vector<std::string> words = {"quantize", "m.onnx", "--calibrate", "some.npz", "-o", "out.onnx"};
  for (const double value : {-std::numeric_limits<double>::infinity(), -8.0}) {
    host.contents["m.onnx"] = masks_by(value);
    ASSERT_EQ(run(words), 0) << host.err;
    EXPECT_EQ(says("has infinities, as masks of attention do"), std::isinf(value)) << host.err;
    const size_t first = host.err.find("has infinities");
    EXPECT_EQ(host.err.find("has infinities", first == std::string::npos ? first : first + 1), std::string::npos);
  }
}

TEST_F(DoubtsTest, NamesTheFirstSampleWithAnInfinity) {
  const Tensor samples = noise({10, 4}, 1, 1);
  for (const size_t row : {9, 6}) samples.span<float>()[row * 4 + 1] = INFINITY;
  host.contents["odd.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", samples}});
  host.contents["m.onnx"] = masks_by(-8);
  ASSERT_EQ(run({"quantize", "m.onnx", "--calibrate", "odd.npz", "-o", "out.onnx"}), 0) << host.err;
  EXPECT_TRUE(says("the input x has infinities in sample 6 of this calibration (counted from 0), and integers"))
      << host.err;
  EXPECT_FALSE(says("sample 9")) << host.err;
}

TEST_F(DoubtsTest, WarnsOnceOfFiniteMasksThatTakeTheRange) {
  host.contents["some.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", noise({10, 4}, 1, 1)}});
  const std::vector<std::string> words = {"quantize", "m.onnx", "--calibrate", "some.npz", "-o", "out.onnx"};
  const std::string what = "far below all others, as masks of attention do";
  for (const double value : {-1e4, double{std::numeric_limits<float>::lowest()} / 2, -900.0}) {
    host.contents["m.onnx"] = masks_by(value);
    ASSERT_EQ(run(words), 0) << host.err;
    EXPECT_EQ(says(what), value < -1000) << host.err;
    const size_t first = host.err.find(what);
    EXPECT_EQ(host.err.find(what, first == std::string::npos ? first : first + 1), std::string::npos);
  }
  // Values of all sizes are no mask.
  std::vector<float> spread;
  for (int i = 0; i < 40; ++i) spread.push_back(-4000 * static_cast<float>(i) / 40);
  const Tensor values = Tensor::of<float>({10, 4}, std::span<const float>(spread));
  host.contents["some.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", values}});
  ASSERT_EQ(run(words), 0) << host.err;
  EXPECT_FALSE(says(what)) << host.err;
}

}  // namespace
}  // namespace qdq::doubts_test
