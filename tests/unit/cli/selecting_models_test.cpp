// Models that select, as NonMaxSuppression does: the number of their results changes from run to run.

#include "format/onnx_file.h"
#include "unit/cli/cli_fixture.h"
#include "unit/cli/onnx_node.h"

namespace qdq::selecting_models_test {
namespace {

using format::Json;

format::OnnxNode conv(const std::string& input, const std::string& weight, const std::string& output) {
  return onnx_node("Conv", {input, weight}, output);
}

// x [1, 3, 8, 8]: the boxes of 64 places, selected by two scores each. The results are what `outputs` name: "selected"
// (integers, as many as there are), "boxes_of" (floats, as many) or "scores" [1, 2, 64].
std::vector<std::byte> detector(const std::vector<std::string>& outputs) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{1, ""}, {3, ""}, {8, ""}, {8, ""}}});
  file.initializers = {{"w", noise({8, 3, 1, 1}, 11)},
                       {"wb", noise({4, 8, 1, 1}, 12)},
                       {"ws", noise({2, 8, 1, 1}, 13)},
                       {"four", Tensor::of<int64_t>({3}, {1, 4, 64})},
                       {"two", Tensor::of<int64_t>({3}, {1, 2, 64})},
                       {"most", Tensor::of<int64_t>({1}, {60})},
                       {"overlap", Tensor::of<float>({1}, {0.9F})},
                       {"least", Tensor::of<float>({1}, {0.8F})},
                       {"last", Tensor::of<int64_t>({}, {2})}};
  format::OnnxNode transpose = onnx_node("Transpose", {"b4"}, "boxes");
  format::OnnxAttribute& perm = transpose.attributes.emplace_back();
  perm.name = "perm";
  perm.kind = format::OnnxKind::kInts;
  perm.ints = {0, 2, 1};
  format::OnnxNode places = onnx_node("Gather", {"selected", "last"}, "places");
  format::OnnxNode boxes_of = onnx_node("Gather", {"boxes", "places"}, "boxes_of");
  for (format::OnnxNode* gather : {&places, &boxes_of}) {
    format::OnnxAttribute& axis = gather->attributes.emplace_back();
    axis.name = "axis";
    axis.kind = format::OnnxKind::kInt;
    axis.i = 1;
  }
  file.nodes = {conv("x", "w", "c"),
                onnx_node("Relu", {"c"}, "r"),
                conv("r", "wb", "b"),
                conv("r", "ws", "s"),
                onnx_node("Sigmoid", {"s"}, "shares"),
                onnx_node("Reshape", {"b", "four"}, "b4"),
                transpose,
                onnx_node("Reshape", {"shares", "two"}, "scores"),
                onnx_node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, "selected")};
  for (const std::string& output : outputs) {
    if (output == "boxes_of") file.nodes.insert(file.nodes.end(), {places, boxes_of});
    file.outputs.push_back({output, std::nullopt, std::nullopt});
  }
  return format::write_onnx_file(file);
}

struct SelectingModels : CliTest {
  SelectingModels() {
    host.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", noise({6, 3, 8, 8}, 14, 2)}});
  }
  int quantize_by(const std::vector<std::string>& outputs, std::vector<std::string> more) {
    host.contents["m.onnx"] = detector(outputs);
    std::vector<std::string> args{"quantize", "m.onnx", "--calibrate", "x.npz", "-o", "out.onnx"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
  Json last_json() { return format::parse_json(host.out, "the output"); }
};

const std::vector<std::string> kOutputs[] = {{"selected"}, {"boxes_of"}, {"selected", "scores"}};

TEST_F(SelectingModels, TheNumberOfTheirResultsChanges) {
  host.contents["m.onnx"] = detector({"boxes_of"});
  ASSERT_EQ(run({"run", "m.onnx", "--inputs", "x.npz", "-o", "y.npz"}), 0) << host.err;
  const auto arrays = format::read_npz(host.contents["y.npz"], "y.npz");
  ASSERT_EQ(arrays.size(), 6u);
  EXPECT_EQ(arrays[0].name, "b0_output_0");
  EXPECT_NE(arrays[0].tensor.sizes(), arrays[1].tensor.sizes());
}

TEST_F(SelectingModels, RecoverTheirAccuracyByTheFloatsInFront) {
  for (const auto& outputs : kOutputs) {
    ASSERT_EQ(quantize_by(outputs, {"--recover", "--json"}), 0) << host.err;
    const Json out = last_json();
    const double before = out["recovery"]["remedies"][0]["before"].get<double>();
    const double after = out["recovery"]["remedies"].back()["after"].get<double>();
    EXPECT_GT(before, 5);
    EXPECT_LT(before, 100);  // 200 is what nothing to judge by gives
    EXPECT_GE(after, before);
  }
}

TEST_F(SelectingModels, AreSearchedForTheirSensitivityAndPrecision) {
  for (const auto& outputs : kOutputs) {
    ASSERT_EQ(quantize_by(outputs, {"--max-size", "1MB", "--json"}), 0) << host.err;
    ASSERT_EQ(run({"sensitivity", "m.onnx", "--calibrate", "x.npz", "--json"}), 0) << host.err;
    EXPECT_LT(last_json()["all"].get<double>(), 100);
  }
}

TEST_F(SelectingModels, HaveReportsThatCompareWhatCompares) {
  for (const auto& outputs : kOutputs) {
    ASSERT_EQ(quantize_by(outputs, {"--report", "r.html"}), 0) << host.err;
    const Json report = report_in(host.contents["r.html"]);
    EXPECT_TRUE(report.contains("speed"));
    EXPECT_FALSE(report.contains("accuracy"));
    EXPECT_EQ(report.contains("sqnr"), outputs.back() == "scores");
    EXPECT_FALSE(report["errors"].empty());
  }
}

TEST_F(SelectingModels, AreEvaluatedAndCompared) {
  for (const auto& outputs : kOutputs) {
    ASSERT_EQ(quantize_by(outputs, {}), 0) << host.err;
    EXPECT_EQ(run({"evaluate", "m.onnx", "out.onnx", "--data", "x.npz", "--json"}), 0) << host.err;
    EXPECT_FALSE(last_json()[1].contains("agreement"));
    EXPECT_TRUE(last_json()[1]["sqnr"].is_null());
    EXPECT_NE(host.err.find("differs from run to run, so that they are not compared; give --metric box-f1"),
              std::string::npos)
        << host.err;
    EXPECT_EQ(run({"compare", "m.onnx", "out.onnx", "--data", "x.npz"}), 0) << host.err;
  }
}

}  // namespace
}  // namespace qdq::selecting_models_test
