// The conformance runner on small cases written here: what counts as passed, what is printed, and which differences are
// found.
#include "conformance/conformance.h"

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

#include "format/npz.h"
#include "unit/memory_files.h"

namespace qdq {
namespace {

constexpr const char* kEntry = R"({"id": "one", "class": "MinMaxObserver", "args": {"dtype": "uint8"}, "batches": ["x"],
  "expected": {"settings": {"class": "MinMaxObserver", "dtype": "uint8", "eps": 1.1920928955078125e-07},
    "after_batch": [{"min_val": -1.0, "max_val": 1.0}], "scale": [0.007843137718737125], "zero_point": [127],
    "zero_point_dtype": "int32"}})";
constexpr const char* kRefused =
    R"({"id": "two", "class": "HistogramObserver", "args": {"dtype": "uint8", "is_dynamic": true}, "batches": [],
  "expected": {"error": {"stage": "construct", "class": "NotImplementedError", "message": "no"}}})";

class ConformanceTest : public testing::Test {
 protected:
  // A case of the given entries.
  void add(const std::string& folder, const std::string& category, const std::string& entries) {
    files_.add(folder + "/case.json", R"({"category": ")" + category + R"(", "entries": [)" + entries + "]}");
    const format::NamedTensor x{"x", Tensor::of<float>({2}, {-1, 1})};
    const format::Bytes bytes = format::write_npz({&x, 1});
    files_.contents[folder + "/data.npz"].assign(bytes.begin(), bytes.end());
  }

  // The exit status; what was printed is in out_.
  int run(const std::string& folder) {
    std::ostringstream out;
    const int status = run_conformance(folder, files_, out);
    out_ = out.str();
    return status;
  }

  MemoryFiles files_;
  std::string out_;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST_F(ConformanceTest, CountsCasesAtAnyDepth) {
  add("all/observers/a", "observers", kEntry);
  add("all/observers/b", "observers", std::string(kEntry) + "," + kRefused);
  files_.add("all/index.json", "[]");
  EXPECT_EQ(run("all"), 0);
  EXPECT_EQ(out_, "2 passed, 0 failed\n");
  EXPECT_EQ(run("all/observers/a/"), 0);
  EXPECT_EQ(out_, "1 passed, 0 failed\n");
}

TEST_F(ConformanceTest, FindsEveryKindOfDifference) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\"min_val\": -1.0", "\"min_val\": -1.5"},
      {"0.007843137718737125", "0.00784313771873713"},
      {"\"zero_point\": [127]", "\"zero_point\": [128]"},
      {"[0.007843137718737125]", "[0.007843137718737125, 1]"},
      {"\"int32\"", "\"int64\""},
      {"\"dtype\": \"uint8\", \"eps\"", "\"dtype\": \"int8\", \"eps\""},
      {"1.1920928955078125e-07", "0.25"},
      {"[\"x\"]", "[\"y\"]"},
      {"\"settings\"", "\"error\": {\"stage\": \"construct\", \"message\": \"refused\"}, \"settings\""}};
  for (const auto& [from, to] : changes) {
    SCOPED_TRACE(to);
    add("c", "observers", replaced(kEntry, from, to));
    EXPECT_EQ(run("c"), 1);
    EXPECT_TRUE(out_.starts_with("FAIL c: entry one: ")) << out_;
    EXPECT_TRUE(out_.ends_with("\n0 passed, 1 failed\n")) << out_;
  }
}

TEST_F(ConformanceTest, AnAcceptedRefusalFails) {
  add("c", "observers", replaced(kRefused, "\"is_dynamic\": true", "\"is_dynamic\": false"));
  EXPECT_EQ(run("c"), 1);
  EXPECT_NE(out_.find("nothing was refused"), std::string::npos) << out_;
}

TEST_F(ConformanceTest, UnknownCategoriesAndBrokenCasesFail) {
  add("all/a", "telepathy", kEntry);
  add("all/b", "observers", "{\"id\": 3}");
  files_.add("all/c/case.json", "{");
  EXPECT_EQ(run("all"), 1);
  EXPECT_NE(out_.find("FAIL a: no runner for the category \"telepathy\"\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("FAIL b: "), std::string::npos) << out_;
  EXPECT_NE(out_.find("FAIL c: "), std::string::npos) << out_;
  EXPECT_TRUE(out_.ends_with("0 passed, 3 failed\n")) << out_;
}

TEST_F(ConformanceTest, NothingToRunIsNoSuccess) {
  files_.add("empty/readme.txt", "");
  EXPECT_EQ(run("empty"), 1);
  EXPECT_THROW(run_conformance("nowhere", files_, std::cerr), Error);
}

TEST_F(ConformanceTest, CallsOperators) {
  const std::string call = R"({"id": "q", "op": "torch.ops.quantized_decomposed.quantize_per_tensor.default",
    "args": [{"tensor": "x"}, 0.5, 1, -128, 127, {"dtype": "int8"}],
    "expected": {"outputs": [{"tensor": "y", "dtype": "int8"}]}})";
  std::vector<format::NamedTensor> right = {{"x", Tensor::of<float>({2}, {-1, 1})},
                                            {"y", Tensor::of<int8_t>({2}, {-1, 3})}};
  std::vector<format::NamedTensor> wrong = right;
  wrong[1].tensor = Tensor::of<int8_t>({2}, {-1, 2});
  for (auto* arrays : {&right, &wrong}) {
    files_.add("c/case.json", R"({"category": "quantize_ops", "entries": [)" + call + "]}");
    const format::Bytes bytes = format::write_npz(*arrays);
    files_.contents["c/data.npz"].assign(bytes.begin(), bytes.end());
    EXPECT_EQ(run("c"), arrays == &right ? 0 : 1);
  }
  EXPECT_NE(out_.find("output 0[1] is 3, PyTorch has 2"), std::string::npos) << out_;
}

}  // namespace
}  // namespace qdq
