// The runner of ONNX's backend tests on small cases written here: what passes, what is refused, what differs, and how a
// list of expected failures is held against that.
#include "onnx_backend/onnx_backend.h"

#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include <sstream>

#include "format/onnx_file.h"
#include "unit/memory_files.h"

namespace qdq {
namespace {

class BackendTests : public testing::Test {
 protected:
  // A model of one operator from x [2] to y [2], with one data set.
  void add(const std::string& name, const std::string& op, std::vector<float> x, std::vector<float> y) {
    const format::OnnxValueInfo input{"x", DType::kF32, {{{2, ""}}}};
    format::OnnxValueInfo output = input;
    output.name = "y";
    format::OnnxFile file;
    file.ir_version = 8;
    file.opsets = {{"", 17}};
    file.inputs = {input};
    file.outputs = {output};
    format::OnnxNode& node = file.nodes.emplace_back();
    node.op_type = op;
    node.inputs = {"x"};
    node.outputs = {"y"};
    const format::Bytes bytes = format::write_onnx_file(file);
    files_.contents["all/" + name + "/model.onnx"] = bytes;
    files_.add("all/" + name + "/test_data_set_0/input_0.pb", tensor(x));
    files_.add("all/" + name + "/test_data_set_0/output_0.pb", tensor(y));
  }

  // The exit status; what was printed is in out_.
  int run(BackendTestOptions options = {}) {
    options.folders = {"all"};
    std::ostringstream out;
    const int status = run_backend_tests(options, files_, out);
    out_ = out.str();
    return status;
  }

  // A TensorProto.
  static std::string tensor(const std::vector<float>& values) {
    std::string out;
    protozero::pbf_writer writer(out);
    writer.add_int64(1, static_cast<int64_t>(values.size()));
    writer.add_int64(2, 1);
    writer.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return out;
  }

  bool says(const std::string& text) const { return out_.find(text) != std::string::npos; }

  MemoryFiles files_;
  std::string out_;
};

TEST_F(BackendTests, ToleratesWhatOnnxTolerates) {
  add("node/test_abs", "Abs", {-1, 2}, {1.0009f, 2});
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(says("1 passed,    0 refused,    0 differing, 0 disputed")) << out_;
  add("node/test_abs", "Abs", {-1, 2}, {1.002f, 2});
  EXPECT_EQ(run(), 1);
  EXPECT_TRUE(says("differs: output 0 of the session[0] is 1, ONNX's is 1.002; 1 of 2 elements differ")) << out_;
}

TEST_F(BackendTests, ComparesShapes) {
  add("node/test_abs", "Abs", {-1, 2}, {1, 2, 3});
  EXPECT_EQ(run(), 1);
  EXPECT_TRUE(says("has shape [2], ONNX's has [3]")) << out_;
}

TEST_F(BackendTests, ARefusalIsNoDifferenceAndStopsNothing) {
  add("node/test_a", "NoSuchOperator", {1, 2}, {1, 2});
  add("node/test_b", "Abs", {1, 2}, {1, 2});
  files_.add("all/node/test_c/model.onnx", "no model");
  EXPECT_EQ(run(), 1);  // of the file that is none
  EXPECT_TRUE(says("node/test_a: refused: ")) << out_;
  EXPECT_TRUE(says("node/test_c: differs: broke: ")) << out_;
  EXPECT_TRUE(says("in node                                1 passed,    1 refused,    1 differing, 0 disputed"))
      << out_;
  BackendTestOptions options;
  options.only = "*/test_a";
  EXPECT_EQ(run(options), 0);
  EXPECT_FALSE(says("test_b")) << out_;
}

TEST_F(BackendTests, ListsAreExact) {
  add("node/test_a", "NoSuchOperator", {1, 2}, {1, 2});
  add("node/test_b", "Abs", {1, 2}, {1, 2});
  BackendTestOptions options;
  options.list = "failing";
  EXPECT_EQ(run(options), 0);
  EXPECT_TRUE(out_.starts_with("node/test_a: refused: ")) << out_;
  files_.add("list.txt", "# what fails\n" + out_);
  options.expected = "list.txt";
  EXPECT_EQ(run(options), 0) << out_;
  EXPECT_TRUE(says("[  PASSED  ] 1 tests\n[  SKIPPED ] 1 tests\n")) << out_;
  files_.add("list.txt", "node/test_a: refused\nnode/test_b: refused\n");
  EXPECT_EQ(run(options), 1);
  EXPECT_TRUE(says("error: node/test_b passes, but is listed")) << out_;
  EXPECT_TRUE(says("[  FAILED  ] 1 tests\n")) << out_;
  files_.add("list.txt", "\n");
  EXPECT_EQ(run(options), 1);
  EXPECT_TRUE(says("error: node/test_a: refused: ")) << out_;
}

TEST_F(BackendTests, DisputedCasesDoNotDiffer) {
  add("node/test_qlinearmatmul_2D_int8_float32", "Abs", {1, 2}, {1, 3});
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(says("disputed: output 0 of the session[1] is 2, ONNX's is 3")) << out_;
}

TEST_F(BackendTests, BindsConstants) {
  const format::OnnxValueInfo input{"x", DType::kF32, {{{2, ""}}}}, axes{"axes", DType::kS64, {{{1, ""}}}};
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs = {input, axes};
  file.outputs = {{"y", DType::kF32, {{{1, ""}}}}};
  format::OnnxNode& node = file.nodes.emplace_back();
  node.op_type = "ReduceSum";
  node.inputs = {"x", "axes"};
  node.outputs = {"y"};
  files_.contents["all/test_sum/model.onnx"] = format::write_onnx_file(file);
  files_.add("all/test_sum/test_data_set_0/input_0.pb", tensor({1, 2}));
  std::string zero;
  protozero::pbf_writer writer(zero);
  writer.add_int64(1, 1);
  writer.add_int64(2, 7);
  writer.add_int64(7, 0);
  files_.add("all/test_sum/test_data_set_0/input_1.pb", zero);
  files_.add("all/test_sum/test_data_set_0/output_0.pb", tensor({3}));
  BackendTestOptions options;
  options.binds_constants = true;
  EXPECT_EQ(run(options), 0);
  EXPECT_TRUE(says("1 passed,    0 refused")) << out_;
}

TEST_F(BackendTests, TrainingCountsApart) {
  add("node/test_adam", "Abs", {1, 2}, {1, 3});
  add("node/test_b", "Abs", {1, 2}, {1, 2});
  EXPECT_EQ(run(), 1);
  EXPECT_TRUE(says("all but training and random numbers     1 passed,    0 refused,    0 differing, 0 disputed"))
      << out_;
}

TEST_F(BackendTests, NothingToRunIsNoSuccess) {
  files_.add("all/readme.txt", "");
  EXPECT_EQ(run(), 1);
}

}  // namespace
}  // namespace qdq
