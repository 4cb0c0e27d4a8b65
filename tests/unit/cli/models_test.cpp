// Transformers, recurrent networks, functional activations, reused modules and non-strict exports against what PyTorch
// 2.6 makes of them (tests/golden/models, made by make_models.py), statically and dynamically quantized, in both modes
// of compatibility.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden_bytes.h"
#include "recipe/recipe.h"
#include "exec/interpreter.h"
#include "format/bytes.h"
#include "format/json.h"
#include "io/pt2.h"
#include "quant/pt2e.h"

namespace qdq::models_test {
namespace {

using format::Json;

const Json& facts() {
  static const Json all = [] {
    const std::vector<std::byte> bytes = golden_bytes("models/models.json");
    return format::parse_json(format::text_of(bytes), "models.json");
  }();
  return all;
}

std::vector<Tensor> tensors_of(const Json& list) {
  std::vector<Tensor> out;
  for (const Json& entry : list) {
    const Tensor wide = Tensor::empty(entry["shape"].get<Shape>(), DType::kF64);
    for (size_t i = 0; i < entry["values"].size(); ++i) wide.data<double>()[i] = entry["values"][i].get<double>();
    out.push_back(wide.to(entry["dtype"] == "int64" ? DType::kS64 : DType::kF32));
  }
  return out;
}

// The largest difference of two lists of float tensors, in parts of the second's largest value.
double relative_difference(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  double worst = 0;
  for (size_t o = 0; o < wanted.size(); ++o) {
    EXPECT_EQ(found[o].sizes(), wanted[o].sizes());
    const Tensor a = found[o].to(DType::kF64).contiguous(), b = wanted[o].to(DType::kF64).contiguous();
    double difference = 0, largest = 1e-30;
    for (int64_t i = 0; i < b.numel(); ++i) {
      difference = std::max(difference, std::fabs(a.data<double>()[i] - b.data<double>()[i]));
      largest = std::max(largest, std::fabs(b.data<double>()[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

Program quantized(const Program& program, Json recipe, const char* compat, const std::vector<Tensor>& inputs) {
  if (compat) recipe["compat"] = compat;
  Prepared prepared = prepare_pt2e(program.clone(), *parse_recipe(recipe, "the recipe"));
  prepared.run(inputs);
  return convert_pt2e(prepared);
}

std::vector<std::string> targets_of(const Program& program) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction && !(node->is("operator.getitem") && node->users().empty()))
      out.push_back(node->target());
  return out;
}

class Models : public testing::TestWithParam<std::string> {
 protected:
  Program program = load_pt2(golden_bytes("models/" + GetParam() + ".pt2"));
  const Json& golden = facts()[GetParam()];
  std::vector<Tensor> inputs = tensors_of(golden["inputs"]);
};

TEST_P(Models, RunInFloat) {
  EXPECT_LT(relative_difference(Interpreter(program, {}).run(inputs), tensors_of(golden["outputs"])), 1e-5);
}

// The converted graph has PyTorch's operators in PyTorch's order. Where a sum of floats falls between two steps, one
// activation moves by one of 255 steps: two such steps are allowed.
TEST_P(Models, QuantizeLikePyTorch) {
  for (const auto& [name, expected] : golden["recipes"].items()) {
    SCOPED_TRACE(name);
    ASSERT_FALSE(expected.contains("error"));
    const Program converted = quantized(program, expected["recipe"], "torch-2.6", inputs);
    EXPECT_EQ(targets_of(converted), expected["targets"].get<std::vector<std::string>>());
    EXPECT_LT(relative_difference(Interpreter(converted, {}).run(inputs), tensors_of(expected["outputs"])), 2.0 / 255);
    const Program again = load_pt2(save_pt2(converted));
    EXPECT_LT(relative_difference(Interpreter(again, {}).run(inputs), tensors_of(expected["outputs"])), 2.0 / 255);
  }
}

bool reads_integers(const Node& node, size_t i) {
  const Node* input = node.arg(i).node();
  return input && input->target().starts_with("torch.ops.quantized_decomposed.dequantize_");
}

// By default every linear and every convolution computes on integers, however the model was exported and its
// activations are written; XNNPACK's dynamic setting is for linears alone.
TEST_P(Models, QuantizeEveryLayerByDefault) {
  for (const auto& [name, expected] : golden["recipes"].items()) {
    SCOPED_TRACE(name);
    const Program converted = quantized(program, expected["recipe"], nullptr, inputs);
    for (const Node* node : converted.graph->nodes()) {
      const bool is_conv = node->is("torch.ops.aten.conv2d.default");
      if (!node->is("torch.ops.aten.linear.default") && (!is_conv || name == "xnnpack_dynamic")) continue;
      EXPECT_TRUE(reads_integers(*node, 0)) << "the input of " << node->name();
      EXPECT_TRUE(reads_integers(*node, 1)) << "the weight of " << node->name();
    }
    EXPECT_LT(relative_difference(Interpreter(converted, {}).run(inputs), tensors_of(golden["outputs"])), 0.1);
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Golden, Models,
                         testing::Values("bert", "gpt", "vit", "lstm", "gru", "functional", "reused", "vit_non_strict",
                                         "functional_non_strict"),
                         name_of);

}  // namespace
}  // namespace qdq::models_test
