// Quantizers made of rows: the one of docs/quantizers.md, and what rows may not say.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "accelerator_quantizer.h"
#include "program_builder.h"
#include "quant/explain.h"
#include "source_dir.h"

namespace qdq::patterns_test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(kSourceDir) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// conv2d (a) -> add -> relu_ -> max_pool2d -> flatten -> linear (head) -> softmax, and tanh of the input added
Program residual() {
  ProgramBuilder b;
  Node* weight = b.weight("a.weight", {3, 3, 1, 1});
  Node* head = b.weight("head.weight", {5, 12});
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* other = b.call("tanh.default", {x});
  Node* conv = b.call("conv2d.default", {x, weight}, "a", "torch.nn.modules.conv.Conv2d");
  Node* add = b.call("add.Tensor", {other, conv});
  Node* relu = b.call("relu_.default", {add});
  Node* pool = b.call("max_pool2d.default", {relu, Argument::List{2, 2}});
  Node* linear = b.call("linear.default", {b.call("flatten.using_ints", {pool, 1}), head}, "head");
  return b.finish({b.call("softmax.int", {linear, 1})});
}

TEST(PatternQuantizer, TheOneOfTheDocument) {
  const std::string quoted = "```cpp\n" + text_of("tests/unit/quant/accelerator_quantizer.h") + "```";
  EXPECT_NE(text_of("docs/quantizers.md").find(quoted), std::string::npos)
      << "docs/quantizers.md shows another quantizer than tests/unit/quant/accelerator_quantizer.h";
  PatternQuantizer quantizer = accelerator_quantizer();
  const Prepared prepared = prepare_pt2e(residual(), quantizer);
  const auto expect = [&](const std::string& node, const std::string& pattern, const std::string& reason) {
    const Explanation explanation = explain(prepared, node);
    EXPECT_EQ(explanation.pattern, pattern) << node;
    EXPECT_EQ(explanation.reason, reason) << node;
  };
  expect("conv2d", "conv_add_relu", "the global setting asks for it, together with add and relu_");
  expect("add", "conv_add_relu", "it is computed together with conv2d");
  expect("relu_", "conv_add_relu", "it is computed together with conv2d");
  expect("max_pool2d", "moves numbers", "it passes on the values of relu_ with the same scale and zero point");
  expect("flatten", "moves numbers", "it passes on the values of max_pool2d with the same scale and zero point");
  expect("linear", "linear", "the global setting asks for it");
  expect("softmax", "", "AcceleratorQuantizer has no pattern for aten.softmax.int");
  const QuantizationAnnotation& add = prepared.annotations().at(prepared.program().graph->find("add"));
  ASSERT_EQ(add.input_qspec_map.size(), 1u);  // the value that is added to the convolution
  EXPECT_EQ(add.input_qspec_map[0].first->name(), "tanh");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(add.output_qspec));
  EXPECT_EQ(quantizer.quantization_capabilities().patterns[0].operators[2],
            (std::vector<std::string>{"aten.relu.default", "aten.relu_.default"}));
}

TEST(PatternQuantizer, SettingsAndModes) {
  PatternQuantizer quantizer = accelerator_quantizer();
  QuantizationConfig dynamic;
  dynamic.input_activation = default_activation_spec(DType::kS8, -128, 127, false, true);
  dynamic.weight = default_weight_spec(-127, 127, true, false);
  quantizer.set_module_name("a", std::nullopt).set_global(dynamic);
  const Prepared prepared = prepare_pt2e(residual(), quantizer);
  EXPECT_EQ(explain(prepared, "conv2d").reason, "the settings leave a in float");
  EXPECT_EQ(explain(prepared, "linear").reason, "the global setting asks for it, with qparams chosen at run time");
  EXPECT_EQ(explain(prepared, "add").reason,
            "AcceleratorQuantizer quantizes it only as part of the patterns that it knows: conv_add_relu");
}

// conv2d (a) -> silu -> conv2d (b) -> silu_; tanh and then silu_ of its values, which exp reads, too
Program with_silu() {
  ProgramBuilder b;
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* first = b.call("conv2d.default", {x, b.weight("a.weight", {3, 3, 1, 1})}, "a");
  Node* silu = b.call("silu.default", {first}, "act");
  Node* second = b.call("conv2d.default", {silu, b.weight("b.weight", {3, 3, 1, 1})}, "b");
  Node* in_place = b.call("silu_.default", {second}, "b.act");
  Node* tanh = b.call("tanh.default", {x});
  return b.finish({in_place, b.call("silu_.default", {tanh}, "c"), b.call("exp.default", {tanh})});
}

std::vector<std::string> functions_of(const Prepared& prepared) {
  std::vector<std::string> out;
  for (const Node* node : prepared.program().graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out.push_back(node->name());
  return out;
}

TEST(PatternQuantizer, SplitsSiluWhereItIsAskedAndNothingElseReadsWhatIsOverwritten) {
  using Names = std::vector<std::string>;
  PatternQuantizer quantizer = accelerator_quantizer();
  EXPECT_EQ(functions_of(prepare_pt2e(with_silu(), quantizer)),
            (Names{"conv2d", "silu", "conv2d_1", "silu_", "tanh", "silu__1", "exp"}));
  quantizer.set_split_silu(true);
  const Prepared prepared = prepare_pt2e(with_silu(), quantizer);
  EXPECT_EQ(functions_of(prepared),
            (Names{"conv2d", "sigmoid", "mul", "conv2d_1", "sigmoid_1", "mul_1", "tanh", "silu__1", "exp"}));
  const Node* product = prepared.program().graph->find("mul");
  EXPECT_EQ(product->meta.module_path(), "act");
  EXPECT_EQ(product->meta.val.tensor()->sizes.size(), 4u);
  // What a setting leaves in float stays as it is.
  quantizer.set_module_name("b.act", std::nullopt);
  EXPECT_EQ(functions_of(prepare_pt2e(with_silu(), quantizer)),
            (Names{"conv2d", "sigmoid", "mul", "conv2d_1", "silu_", "tanh", "silu__1", "exp"}));
}

TEST(PatternQuantizer, RefusesRowsThatCannotMatch) {
  const auto message = [](std::vector<PatternRow> rows) {
    try {
      PatternQuantizer("Q", std::move(rows));
    } catch (const Error& error) {
      return error.message;
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({{.name = "conv", .places = {{{"aten.conv2s"}}}}}),
            "the pattern 'conv' of Q names the operator 'aten.conv2s', which qdq does not have; wanted a name like "
            "aten.conv2d or aten.conv2d.default");
  EXPECT_EQ(message({{.name = "none", .places = {}}}), "the pattern 'none' of Q has no operators");
}

}  // namespace
}  // namespace qdq::patterns_test
