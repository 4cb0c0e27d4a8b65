// Lowered programs as fused calls.
#include "report/lowered_graph.h"

#include <gtest/gtest.h>

#include "format/bytes.h"
#include "format/json.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/memory_files.h"
#include "unit/quant/program_builder.h"

namespace qdq::lowered_graph_test {
namespace {

using format::Json;

// x [2, 4] -> linear [3, 4] -> relu -> + 1, of which the last stays float.
LoweredGraph lowered() {
  ProgramBuilder b;
  Node* weight = b.weight("fc.weight", {3, 4});
  Node* x = b.input("x", {2, 4});
  Node* fc = b.call("linear.default", {x, weight}, "fc", "torch.nn.modules.linear.Linear");
  Node* relu = b.call("relu.default", {fc}, "act", "torch.nn.modules.activation.ReLU");
  Node* sum = b.call("sum.default", {relu});
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  Prepared prepared = prepare_pt2e(b.finish({sum}), quantizer);
  prepared.run({sample({2, 4}, 1)});
  return lowered_graph(lower(convert_pt2e(prepared)));
}

const Json* call_of(const Json& graph, const std::string& target) {
  for (const Json& call : graph["calls"])
    if (call["target"] == target) return &call;
  return nullptr;
}

TEST(LoweredGraph, HasFusedCallsWithTheirTensors) {
  const LoweredGraph graph = lowered();
  const Json json = format::parse_json(graph.json, "the graph");
  EXPECT_EQ(json["inputs"], Json::array({"x"}));
  const Json* linear = call_of(json, "fused.linear");
  ASSERT_NE(linear, nullptr) << graph.json;
  EXPECT_EQ((*linear)["activation"]["kind"], "clamp");
  EXPECT_EQ((*linear)["activation"]["low"], 0.0);
  EXPECT_EQ((*linear)["inputs"].size(), 1u);
  const Json& output = json["values"][(*linear)["output"].get<std::string>()];
  EXPECT_EQ(output["dtype"], "uint8");
  EXPECT_EQ(output["shape"], Json::array({2, 3}));
  EXPECT_GT(output["scale"].get<double>(), 0);
  bool has_weight = false;
  for (const format::NamedTensor& tensor : graph.tensors)
    has_weight =
        has_weight || (tensor.name == (*linear)["weight"].get<std::string>() && tensor.tensor.dtype() == DType::kS8);
  EXPECT_TRUE(has_weight);
  // What no backend fuses stays a call of the graph, and reads the value of a fused one.
  const Json* sum = call_of(json, "torch.ops.aten.sum.default");
  ASSERT_NE(sum, nullptr) << graph.json;
  const auto read = (*sum)["args"][0]["node"].get<std::string>();
  bool is_made = false;
  for (const Json& call : json["calls"]) is_made = is_made || (call.contains("output") && call["output"] == read);
  EXPECT_TRUE(is_made) << graph.json;
}

TEST(LoweredGraph, IsSavedBesideItsTensors) {
  MemoryFiles files;
  const LoweredGraph graph = lowered();
  save_lowered_graph(graph, "out.json", files);
  EXPECT_EQ(format::text_of(files.contents.at("out.json")), graph.json);
  EXPECT_EQ(format::read_npz(files.contents.at("out.npz")).size(), graph.tensors.size());
  EXPECT_THROW(save_lowered_graph(graph, "out.txt", files), Error);
}

}  // namespace
}  // namespace qdq::lowered_graph_test
