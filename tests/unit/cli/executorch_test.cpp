// What `--for executorch` writes, held against the rules by which ExecuTorch's XNNPACK partitioner takes patterns. The
// rules stand here as data of their own, read from backends/xnnpack/partition/config of github.com/pytorch/executorch
// (August 2026): GEMMConfig of gemm_configs.py, GenericNodePartitionerConfig and its classes with STATIC_QUANT of
// generic_node_configs.py, check_common_constraints of xnnpack_config.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "format/json.h"
#include "format/onnx_file.h"
#include "io/model.h"
#include "io/onnx.h"
#include "op/facts.h"
#include "op/targets.h"
#include "profile/runtime_verdicts.h"
#include "quant/explain.h"
#include "quant/pt2e.h"
#include "quant/quantizers/patterns.h"
#include "recipe/recipe.h"
#include "source_dir.h"
#include "unit/cli/onnx_node.h"

namespace qdq::executorch_test {
namespace {

using Path = std::filesystem::path;

// The call's sizes, -1 for open ones; empty if it is no tensor.
std::vector<int64_t> sizes_of(const Node* node) {
  std::vector<int64_t> out;
  if (const TensorMeta* meta = node ? node->meta.val.tensor() : nullptr)
    for (const SymInt& size : meta->sizes) out.push_back(size.constant().value_or(-1));
  return out;
}
bool is_known(const Node* node) {
  const std::vector<int64_t> sizes = sizes_of(node);
  return std::find(sizes.begin(), sizes.end(), -1) == sizes.end();
}
// The numbers of an argument that is a list or one for both axes.
std::pair<int64_t, int64_t> pair_of(const Argument& argument, int64_t otherwise) {
  if (!argument.is_list()) {
    const int64_t one = argument.integer().value_or(otherwise);
    return {one, one};
  }
  const Argument::List& list = argument.list();
  if (list.empty()) return {otherwise, otherwise};
  return {*list.front().integer(), *list.back().integer()};
}

bool gives_one(const Node& pool) { return pair_of(pool.arg(1), 0) == std::pair<int64_t, int64_t>(1, 1); }
bool is_plain_mean(const Node& mean) {
  std::vector<int64_t> axes;
  for (const Argument& axis : mean.arg(1).list()) axes.push_back((*axis.integer() + 4) % 4);
  std::sort(axes.begin(), axes.end());
  return sizes_of(mean.arg(0).node()).size() == 4 && axes == std::vector<int64_t>{2, 3} &&
         mean.arg(2).integer().value_or(0) == 1 && mean.kwarg("dtype") == nullptr;
}
bool has_dense_windows(const Node& pool) {
  const auto window = pair_of(pool.arg(1), 0), stride = pair_of(pool.arg(2), 0);
  const bool is_dense = stride.first <= window.first && stride.second <= window.second;
  return is_dense && (pool.arg(5).integer().value_or(0) == 0 || is_known(&pool));
}
bool is_plain_slice(const Node& slice) {
  return slice.arg(4).integer().value_or(1) == 1 && is_known(&slice) && is_known(slice.arg(0).node());
}
bool adds_last_axis(const Node& unsqueeze) {
  const int64_t axis = unsqueeze.arg(1).integer().value_or(0);
  return axis == -1 || axis == static_cast<int64_t>(sizes_of(unsqueeze.arg(0).node()).size());
}
bool has_known_sizes(const Node& view) { return is_known(&view); }
bool joins_two(const Node& cat) { return cat.input_nodes().size() >= 2; }

// Of transposed convolutions: scales of the results' channels, and no groups.
bool has_plain_scales(const Node& transposed) {
  const Node* weight = transposed.arg(1).node();
  const bool is_whole = weight && weight->is(op::kDequantize);
  return is_whole || (weight && weight->arg(3).integer() == 1 && transposed.arg(6).integer().value_or(1) == 1);
}

// A class of the partitioner's that takes quantized patterns: the operators as they are exported, those that it
// computes along with them (`fused_acts`), and `check_constraints`.
struct Config {
  std::string_view name, operators;
  bool is_gemm = false;
  std::string_view fused = {};
  bool (*holds)(const Node&) = nullptr;
  bool moves = false;  // what gives the numbers that it read: it may stay float where nobody computes with it
};
constexpr std::string_view kClips = "aten.relu aten.relu6 aten.hardtanh";
constexpr Config kConfigs[] = {
    {.name = "ConvolutionConfig", .operators = "aten.conv1d aten.conv2d", .is_gemm = true, .fused = kClips},
    {.name = "ConvolutionConfig of transposed ones",
     .operators = "aten.conv_transpose1d aten.conv_transpose2d",
     .is_gemm = true,
     .fused = kClips,
     .holds = has_plain_scales},
    {.name = "LinearConfig", .operators = "aten.linear", .is_gemm = true, .fused = kClips},
    {.name = "AddConfig", .operators = "aten.add.Tensor", .fused = "aten.relu"},
    {.name = "SubConfig", .operators = "aten.sub.Tensor"},
    {.name = "MulConfig", .operators = "aten.mul.Tensor"},
    {.name = "MeanDimConfig, what a pool to 1 x 1 becomes",
     .operators = "aten.adaptive_avg_pool2d",
     .holds = gives_one},
    {.name = "MeanDimConfig", .operators = "aten.mean.dim", .holds = is_plain_mean},
    {.name = "CatConfig", .operators = "aten.cat", .holds = joins_two},
    {.name = "MaxPool2dConfig", .operators = "aten.max_pool2d", .holds = has_dense_windows, .moves = true},
    {.name = "HardtanhConfig", .operators = "aten.hardtanh aten.relu6", .moves = true},
    {.name = "ReLUConfig", .operators = "aten.relu", .moves = true},
    {.name = "ClampConfig", .operators = "aten.clamp", .moves = true},
    {.name = "PermuteConfig", .operators = "aten.permute aten.transpose", .moves = true},
    {.name = "ViewCopyConfig",
     .operators = "aten.view aten.reshape aten.flatten",
     .holds = has_known_sizes,
     .moves = true},
    {.name = "SliceCopyConfig", .operators = "aten.slice", .holds = is_plain_slice, .moves = true},
    {.name = "UnsqueezeCopyConfig", .operators = "aten.unsqueeze", .holds = adds_last_axis, .moves = true},
};

const Config* config_of(const Node& node) {
  for (const Config& config : kConfigs)
    if (is_one_of(node, config.operators)) return &config;
  return nullptr;
}

bool quantizes(const Node* node) { return node && is_a(*node, Family::kQuantize); }
bool dequantizes(const Node* node) { return node && is_a(*node, Family::kDequantize); }

// The inputs of a call that are values: a GEMM's activation, all others'.
std::vector<Node*> values_of(const Node& node, const Config& config) {
  if (!config.is_gemm) return node.input_nodes();
  Node* input = node.arg(0).node();
  const bool is_pad = input && is_one_of(*input, "aten.pad aten.constant_pad_nd") && input->users().size() == 1;
  return {is_pad ? input->arg(0).node() : input};
}

// The quantize node behind a call, past what is computed along with it; null where the partitioner wants one reader and
// there are more, or none quantizes.
const Node* result_of(const Node& node, const Config& config) {
  if (node.users().size() != 1) return nullptr;
  const Node* reader = node.users()[0];
  if (!config.fused.empty() && is_one_of(*reader, config.fused) && reader->users().size() == 1)
    reader = reader->users()[0];
  return quantizes(reader) ? reader : nullptr;
}

bool has_parameters(const Node& node) {
  const Node *weight = node.arg(1).node(), *bias = node.arg(2).node();
  const bool has_weight = dequantizes(weight) && weight->arg(0).node()->op() == Node::Op::kGetAttr;
  return has_weight && (bias == nullptr || bias->op() == Node::Op::kGetAttr);
}

// Whether the partitioner computes the call in integers.
bool takes(const Node& node) {
  const Config* config = config_of(node);
  if (config == nullptr || (config->holds && !config->holds(node))) return false;
  const std::vector<Node*> values = values_of(node, *config);
  if (values.empty() || !std::all_of(values.begin(), values.end(), dequantizes)) return false;
  return (!config->is_gemm || has_parameters(node)) && result_of(node, *config) != nullptr;
}

// Activations, and weights with a scale for each channel, are int8: check_common_constraints.
void expect_int8(const Node& node) {
  const bool is_weight = dequantizes(&node) && node.arg(0).node()->op() == Node::Op::kGetAttr;
  if (!is_weight) {
    EXPECT_NE(node.target().find("per_tensor.default"), std::string::npos) << node.target();
  }
  const auto dtype = std::find_if(node.args().begin(), node.args().end(),
                                  [](const Argument& argument) { return argument.is<DType>(); });
  ASSERT_NE(dtype, node.args().end());
  EXPECT_EQ(dtype->as<DType>(), DType::kS8) << node.name();
}

std::vector<Tensor> inputs_of(const Program& program) {
  std::vector<Tensor> out;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kPlaceholder) continue;
    Shape sizes;
    for (const int64_t size : sizes_of(node)) sizes.push_back(size < 0 ? 2 : size);
    const DType dtype = node->meta.val.tensor()->dtype;
    const Tensor floats = Tensor::empty(sizes, DType::kF32);
    for (int64_t i = 0; i < floats.numel(); ++i)
      floats.data<float>()[i] =
          dtype == DType::kF32 ? static_cast<float>(i * 7 % 23) / 8 - 1 : static_cast<float>(i % 3);
    out.push_back(floats.to(dtype));
  }
  return out;
}

// A converted program, and what the quantizer took: the names of the first operators of its patterns.
struct Quantized {
  Program program;
  std::set<std::string> taken;
};
Quantized quantized(Program program, const format::Json& recipe) {
  const std::vector<Tensor> inputs = inputs_of(program);
  Prepared prepared = prepare_pt2e(std::move(program), *parse_recipe(recipe, "executorch"));
  prepared.run(inputs);
  Quantized out{convert_pt2e(prepared), {}};
  for (const Explanation& each : explain(prepared))
    if (each.outcome == Explanation::Outcome::kQuantized) out.taken.insert(each.node);
  return out;
}

// Quantizes the model for ExecuTorch and looks at each call of what would be its .pt2.
void expect_taken(const Path& path, int64_t* products) {
  SCOPED_TRACE(path.string());
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.good());
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  const RuntimeProfile& profile = runtime_profile("executorch");
  const auto [converted, taken] = quantized(load_program(std::as_bytes(std::span(bytes))), recipe_of(profile));
  std::map<std::string, RuntimeVerdict> verdicts;
  for (const RuntimeVerdict& verdict : runtime_verdicts(converted, profile)) verdicts[verdict.node] = verdict;
  for (const Node* node : converted.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction) continue;
    if (quantizes(node) || dequantizes(node)) {
      expect_int8(*node);
      continue;
    }
    const Config* config = config_of(*node);
    const bool is_clip = is_one_of(*node, kClips);  // perhaps behind the operator that it belongs to
    if (taken.contains(node->name()) && !is_clip && (config == nullptr || !config->moves)) {
      EXPECT_TRUE(takes(*node)) << "the partitioner leaves " << node->name();
      *products += config && config->is_gemm;
    }
    if (config && config->is_gemm) {
      EXPECT_EQ(dequantizes(node->arg(1).node()), takes(*node)) << node->name();
    }
    if (const auto verdict = verdicts.find(node->name()); verdict != verdicts.end()) {
      EXPECT_EQ(verdict->second.in_integers, takes(*node)) << node->name() << ": " << verdict->second.reason;
    }
  }
}

TEST(Executorch, TakesAllThatIsQuantizedForIt) {
  int64_t products = 0;
  const Path golden = Path(kSourceDir) / "tests/golden";
  for (const char* model :
       {"models/bert.pt2", "models/functional.pt2", "models/functional_non_strict.pt2", "models/gpt.pt2",
        "models/gru.pt2", "models/lstm.pt2", "models/reused.pt2", "models/vit.pt2", "models/vit_non_strict.pt2",
        "bf16/mobile.pt2", "bf16/transformer.pt2", "suite/dense.pt2", "suite/images.pt2", "onnx/vision.onnx"})
    expect_taken(golden / model, &products);
  EXPECT_GT(products, 40);
}

// x [1, 3, 4, 4] -> conv -> x * x -> relu
Program gated() {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  const auto info = [](const std::string& name) {
    format::OnnxValueInfo out;
    out.name = name;
    out.dtype = DType::kF32;
    out.dims = std::vector<format::OnnxDimension>{{1, ""}, {3, ""}, {4, ""}, {4, ""}};
    return out;
  };
  file.inputs = {info("x")};
  file.initializers = {{"w", Tensor::full({3, 3, 1, 1}, DType::kF32, 0.5)}, {"b", Tensor::full({3}, DType::kF32, 0.1)}};
  file.nodes = {onnx_node("Conv", {"x", "w", "b"}, "conv"), onnx_node("Mul", {"conv", "conv"}, "square"),
                onnx_node("Relu", {"square"}, "y")};
  file.outputs = {info("y")};
  return load_onnx(format::write_onnx_file(file));
}

// PyTorch's XNNPACKQuantizer quantizes a product with the ReLU behind it, which MulConfig does not fuse: the
// partitioner would leave both in float. That the rules above see it shows that they can fail.
TEST(Executorch, DoesNotTakeAllOfXnnpacksRecipe) {
  const auto multiplication = [](const Program& program) {
    for (const Node* node : program.graph->nodes())
      if (node->is(op::kMul)) return node;
    return static_cast<const Node*>(nullptr);
  };
  const RuntimeProfile& profile = runtime_profile("executorch");
  const Program theirs =
      quantized(gated(), format::parse_json(R"({"quantizer": "XNNPACKQuantizer", "global": {}})", "the recipe"))
          .program;
  EXPECT_FALSE(takes(*multiplication(theirs)));
  for (const RuntimeVerdict& verdict : runtime_verdicts(theirs, profile))
    if (verdict.op == "aten.mul.Tensor") {
      EXPECT_FALSE(verdict.in_integers);
    }
  const Program ours = quantized(gated(), recipe_of(profile)).program;
  EXPECT_TRUE(takes(*multiplication(ours)));
}

TEST(Executorch, TakesAllThatIsQuantizedOfOtherModels) {
  const char* folder = std::getenv("QDQ_MODELS");
  if (folder == nullptr) GTEST_SKIP() << "QDQ_MODELS names no folder with models, NAME/model.pt2";
  int64_t products = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (std::filesystem::exists(entry.path() / "model.pt2")) expect_taken(entry.path() / "model.pt2", &products);
  EXPECT_GT(products, 0);
}

}  // namespace
}  // namespace qdq::executorch_test
