// `qdq fuse` on a network of golden data.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "exec/interpreter.h"
#include "format/json.h"
#include "io/model.h"
#include "op/facts.h"
#include "source_dir.h"
#include "unit/cli/cli_fixture.h"

namespace qdq::fuse_test {
namespace {

TEST_F(CliTest, FuseFoldsBatchNormsAndChangesNothingElse) {
  std::ifstream in(std::filesystem::path(kSourceDir) / "tests/golden/bf16/mobile.pt2", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  host.add("mobile.pt2", bytes);
  ASSERT_EQ(run({"fuse", "mobile.pt2", "fused.pt2", "--fx", "x86", "--json"}), 0) << host.err;
  EXPECT_EQ(format::parse_json(host.out, "the output")["folded"], 3);
  const Program before = load_model("mobile.pt2", host.files).program,
                after = load_model("fused.pt2", host.files).program;
  for (const Node* node : after.graph->nodes()) EXPECT_FALSE(is_a(*node, Family::kBatchNorm)) << node->name();
  Tensor x = Tensor::empty({2, 3, 16, 16}, DType::kF32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 17) / 8 - 1;
  const std::vector<Tensor> inputs{x};
  const Tensor wanted = Interpreter(before, {}).run(inputs)[0].contiguous(),
               found = Interpreter(after, {}).run(inputs)[0].contiguous();
  for (int64_t i = 0; i < wanted.numel(); ++i) EXPECT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-5) << i;
  EXPECT_EQ(run({"fuse", "mobile.pt2", "fused.pt2", "--fx", "x68"}), 2);
  EXPECT_NE(host.err.find("x86"), std::string::npos) << host.err;
  EXPECT_EQ(run({"fuse", "mobile.pt2", "mobile.pt2"}), 2);
  EXPECT_NE(host.err.find("would be overwritten"), std::string::npos) << host.err;
}

}  // namespace
}  // namespace qdq::fuse_test
