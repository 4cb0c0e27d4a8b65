// Models whose weights lie on disk: the same bytes as in memory, and one layer of them in memory at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/disk_blocks.h"
#include "io/model.h"
#include "quant/pt2e.h"
#include "quant/quantizers/quantizers.h"
#include "unit/base/resident_blocks.h"
#include "unit/cli/cli_fixture.h"

#ifdef __linux__

namespace qdq::large_model_test {
namespace {

constexpr int64_t kWidth = 1024, kLayers = 8;
constexpr uint64_t kLayer = uint64_t{4} * kWidth * kWidth;  // of floats

// x [2, 1024] -> 8 times linear, relu.
Program layers() {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {2, kWidth}, {}, false}};
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string name = concat("layer", i, ".weight");
    Node* weight = nullptr;
    {
      const auto point = graph.insert_before(graph.first());
      weight = parameter(program, name, noise({kWidth, kWidth}, static_cast<unsigned>(i), 0.05F));
    }
    x = graph.call("torch.ops.aten.relu.default", {graph.call("torch.ops.aten.linear.default", {x, weight})});
  }
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(x)})});
  infer_shapes(program);
  return program;
}

class LargeModel : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    files = new std::map<std::string, format::Bytes>;
    for (const std::string path : {"m.pt2", "m.onnx"}) {
      const ModelFiles saved = save_program(layers(), path, {.external_data = true});
      (*files)[path] = saved.model.joined();
      if (!saved.data.empty()) (*files)[saved.data_name] = saved.data.joined();
    }
  }
  static void TearDownTestSuite() { delete files; }

  static Program load(const std::string& path) {
    const auto external = [](const std::string& name) {
      return std::make_shared<format::MemorySource>((*files)[name]);
    };
    return load_program((*files)[path], external);
  }

  // The int8 model, and its float model's outputs; with `most` what was in memory of scratch files at the most.
  static std::vector<std::byte> quantized(const std::string& path, uint64_t* most) {
    const auto look = [&] {
      if (most) *most = std::max(*most, resident_disk_bytes());
    };
    std::optional<BlocksOnDisk> on_disk;
    if (most) on_disk.emplace();
    Program program = load(path);
    on_disk.reset();
    look();
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true, .is_dynamic = GetParam()}));
    Prepared prepared = prepare_pt2e(std::move(program), quantizer);
    look();
    if (!GetParam())
      for (unsigned seed = 0; seed < 2; ++seed)
        prepared.run({noise({2, kWidth}, 100 + seed)}, [&](auto, auto) { look(); });
    const Program converted = convert_pt2e(prepared);
    look();
    const ModelFiles out = save_program(converted, "out." + path.substr(2), {.external_data = true});
    look();
    format::Bytes bytes = out.model.joined();
    format::append(bytes, out.data.joined());
    EXPECT_EQ(has_disk_blocks(), most != nullptr);
    return bytes;
  }

  static std::map<std::string, format::Bytes>* files;
};
std::map<std::string, format::Bytes>* LargeModel::files = nullptr;

TEST_P(LargeModel, IsQuantizedToTheSameBytesWithALayerInMemory) {
  for (const std::string path : {"m.pt2", "m.onnx"}) {
    const std::vector<std::byte> wanted = quantized(path, nullptr);
    uint64_t most = 0;
    EXPECT_TRUE(quantized(path, &most) == wanted) << path;
    EXPECT_GT(wanted.size(), kLayers * kLayer / 4);
    EXPECT_LT(wanted.size(), kLayers * kLayer / 3);
    EXPECT_LE(most, 2 * kLayer) << path;
    EXPECT_FALSE(has_disk_blocks());
  }
}

INSTANTIATE_TEST_SUITE_P(Both, LargeModel, testing::Bool(),
                         [](const auto& info) { return info.param ? "Dynamic" : "Static"; });

}  // namespace
}  // namespace qdq::large_model_test

#endif
