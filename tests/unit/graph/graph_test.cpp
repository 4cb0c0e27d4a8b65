#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "graph/program.h"
#include "graph/schema.h"
#include "graph/shown_module.h"

namespace qdq::graph_test {
namespace {

using testing::ElementsAre;

Program conv_relu() {
  Program program;
  Graph& graph = *program.graph;
  program.add_attribute({"conv.weight", Tensor::empty({1, 1, 1, 1}, DType::kF32), Attribute::Kind::kParameter});
  Node* weight = graph.get_attr("conv.weight", node_name_of("conv.weight"));
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  Node* conv = graph.call("torch.ops.aten.conv2d.default", {x, weight, {}, Argument::List{1, 1}}, {}, "conv2d");
  Node* relu = graph.call("torch.ops.aten.relu.default", {conv}, {}, "relu");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{relu})});
  return program;
}

TEST(Graph, PrintsLikePyTorch) {
  EXPECT_EQ(
      to_text(*conv_relu().graph),
      "graph():\n"
      "    %conv_weight : [num_users=1] = get_attr[target=conv.weight]\n"
      "    %x : [num_users=1] = placeholder[target=x]\n"
      "    %conv2d : [num_users=1] = call_function[target=torch.ops.aten.conv2d.default]"
      "(args = (%x, %conv_weight, None, [1, 1]), kwargs = {})\n"
      "    %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%conv2d,), kwargs = {})\n"
      "    return (relu,)\n");
  EXPECT_EQ(to_text(Argument(0.1)), "0.1");
  EXPECT_EQ(to_text(Argument(1e-5)), "1e-05");
  EXPECT_EQ(to_text(Argument(1e15)), "1000000000000000.0");
  EXPECT_EQ(to_text(Argument(2.0)), "2.0");
}

TEST(Graph, NamesFollowPyTorchsRule) {
  Graph graph;
  EXPECT_EQ(graph.call("torch.ops.aten.add.Tensor", {})->name(), "add_tensor");
  EXPECT_EQ(graph.call("torch.ops.aten.relu.default", {}, {}, "relu")->name(), "relu");
  EXPECT_EQ(graph.call("torch.ops.aten.relu.default", {}, {}, "relu")->name(), "relu_1");
  Node* last = graph.call("torch.ops.aten.relu.default", {}, {}, "relu");
  EXPECT_EQ(last->name(), "relu_2");
  graph.erase(last);
  EXPECT_EQ(graph.call("torch.ops.aten.relu.default", {}, {}, "relu")->name(), "relu_3");
  EXPECT_EQ(graph.call("torch.ops.aten.relu.default", {}, {}, "relu_1")->name(), "relu_4");
  graph.call("torch.ops.aten.add.Tensor", {}, {}, "sum_2");
  EXPECT_EQ(graph.call("torch.ops.aten.add.Tensor", {}, {}, "sum")->name(), "sum");
  EXPECT_EQ(graph.call("torch.ops.aten.add.Tensor", {}, {}, "sum")->name(), "sum_3");
  EXPECT_EQ(graph.get_attr("0.weight", node_name_of("0.weight"))->name(), "_0_weight");
  EXPECT_EQ(graph.get_attr("normLayer.fcABc")->name(), "norm_layer_fc_abc");
  EXPECT_EQ(node_name_of("normLayer.weight"), "norm_layer_weight");
}

// torch.export calls the frame after the variable that held the module.
TEST(Graph, PathsOfModulesHaveNoFrame) {
  EXPECT_EQ(without_frame("L['self'].layer1.0"), "layer1.0");
  EXPECT_EQ(without_frame("L['model'].layer1"), "layer1");
  EXPECT_EQ(without_frame("L['s']"), "");
  EXPECT_EQ(without_frame("getattr(L['s'].layer1, '0')"), "layer1.0");
  EXPECT_EQ(without_frame("getattr(getattr(L['fn'], '0').parts, '12').conv"), "0.parts.12.conv");
  EXPECT_EQ(without_frame("getattr(L['s'].l[2], '0')"), "l.2.0");
  EXPECT_EQ(without_frame("L['s'].parts['head'].fc"), "parts.head.fc");
  EXPECT_EQ(without_frame("getattr(x, '0')"), "getattr(x, '0')");
  EXPECT_EQ(without_frame("layer1.0"), "layer1.0");
  EXPECT_EQ(without_frame("L['open"), "L['open");
}

TEST(Graph, ThePlaceholderOfPyTorchIsNoModuleToShow) {
  NodeMeta meta;
  EXPECT_EQ(shown_module(meta), std::nullopt);
  meta.nn_module_stack = {{"L__self__", "", "model.Net"}};
  EXPECT_EQ(shown_module(meta), "");
  const std::string none(kNoModule);
  meta.nn_module_stack = {{none, none, none}};
  EXPECT_EQ(meta.module_path(), none);
  EXPECT_EQ(shown_module(meta), std::nullopt);
}

TEST(Graph, UsersFollowEveryChange) {
  Program program = conv_relu();
  Graph& graph = *program.graph;
  Node* x = graph.find("x");
  Node* conv = graph.find("conv2d");
  Node* relu = graph.find("relu");
  Node* clone = nullptr;
  {
    const auto point = graph.insert_after(x);
    clone = graph.call("torch.ops.aten.clone.default", {x});
  }
  EXPECT_EQ(clone->prev(), x);
  x->replace_all_uses_with(clone);
  EXPECT_THAT(x->users(), ElementsAre(clone));
  EXPECT_THAT(clone->users(), ElementsAre(conv));
  verify_program(program);
  relu->set_args({x});
  EXPECT_THAT(x->users(), ElementsAre(clone, relu));
  EXPECT_TRUE(graph.eliminate_dead_code());
  EXPECT_EQ(graph.find("conv2d"), nullptr);
  EXPECT_EQ(graph.find("conv_weight"), nullptr);
  verify_program(program);
  EXPECT_THROW(graph.erase(x), Error);
}

TEST(Graph, ClonesAreIndependent) {
  const Program program = conv_relu();
  std::unordered_map<const Node*, Node*> copies;
  Program copy = program.clone(&copies);
  EXPECT_EQ(to_text(*copy.graph), to_text(*program.graph));
  EXPECT_EQ(copies.at(program.graph->find("relu")), copy.graph->find("relu"));
  copy.graph->find("relu")->set_target("torch.ops.aten.tanh.default");
  EXPECT_NE(to_text(*copy.graph), to_text(*program.graph));
  verify_program(copy);
}

TEST(Program, VerifyNamesTheNodeThatIsWrong) {
  Program program = conv_relu();
  program.graph->move_before(program.graph->find("relu"), program.graph->find("x"));
  try {
    verify_program(program);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.node, "relu");
    EXPECT_EQ(error.message, "node relu uses conv2d before it is defined");
  }
  Program missing = conv_relu();
  missing.erase_attribute("conv.weight");
  EXPECT_THROW(verify_program(missing), Error);
}

// The inputs of the concatenation listed anew for each of them take most of a minute for this many.
TEST(Program, AWideNodeIsVerifiedInTimeThatGrowsWithItsInputs) {
  constexpr size_t kInputs = 20000;
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Argument::List parts;
  for (size_t i = 0; i < kInputs; ++i) parts.emplace_back(graph.call("torch.ops.aten.relu.default", {x}));
  Node* joined = graph.call("torch.ops.aten.cat.default", {Argument(std::move(parts)), 0});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{joined})});
  const std::clock_t begin = std::clock();
  verify_program(program);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
}

TEST(Graph, AReplacedInputGoesToTheEndOfTheLineOfItsUsers) {
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* y = graph.create(Node::Op::kPlaceholder, "y");
  Node* first = graph.call("torch.ops.aten.cat.default", {Argument(Argument::List{x, y, x})});
  Node* second = graph.call("torch.ops.aten.add.Tensor", {x, y});
  Node* relu = graph.call("torch.ops.aten.relu.default", {x});
  first->replace_input_with(x, relu);
  EXPECT_EQ(first->arg(0), Argument(Argument::List{relu, y, relu}));
  EXPECT_THAT(x->users(), ElementsAre(second, relu));
  EXPECT_THAT(y->users(), ElementsAre(second, first));
  EXPECT_THAT(relu->users(), ElementsAre(first));
  EXPECT_THROW(second->replace_input_with(y, nullptr), Error);
}

// Names tried one by one for each copy take a minute for this many.
TEST(Graph, CopiesOfNumberedNodesAreNamedInTimeThatGrowsWithTheirNumber) {
  constexpr int64_t kNodes = 20000;
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  for (int64_t i = 0; i < kNodes; ++i) graph.call("torch.ops.aten.relu.default", {x});
  const std::clock_t begin = std::clock();
  int64_t number = kNodes;
  for (const Node* node : graph.nodes()) {
    if (node == x) continue;
    const Node* copy = graph.create(node->op(), node->target(), node->args(), {}, node->name());
    EXPECT_EQ(copy->name(), concat("relu_default_", number++));
  }
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  EXPECT_EQ(graph.unique_name("relu_default_7"), concat("relu_default_", number));
  EXPECT_EQ(graph.unique_name("relu_default_7"), concat("relu_default_", number));  // the question does not take it
}

TEST(Program, AttributesAreFoundAfterOthersWent) {
  Program program;
  for (const char* name : {"a", "b", "b_1", "b_3"}) program.add_attribute({name, Tensor::scalar(1.0f)});
  EXPECT_THROW(program.add_attribute({"b", Tensor::scalar(2.0f)}), Error);
  EXPECT_EQ(program.attributes.size(), 4u);
  EXPECT_EQ(program.unique_attribute_name("b"), "b_2");
  EXPECT_EQ(program.unique_attribute_name("b"), "b_2");  // it is not taken by the question
  program.add_attribute({"b_2", Tensor::scalar(2.0f)});
  EXPECT_EQ(program.unique_attribute_name("b"), "b_4");
  program.erase_attribute("a");
  program.erase_attribute("b_1");
  EXPECT_EQ(program.find_attribute("a"), nullptr);
  ASSERT_NE(program.find_attribute("b_2"), nullptr);
  EXPECT_EQ(program.find_attribute("b_2")->name, "b_2");
  EXPECT_EQ(program.unique_attribute_name("b"), "b_1");
}

// A search among all attributes for each takes minutes for this many.
TEST(Program, ManyAttributesAreAddedInTimeThatGrowsWithTheirNumber) {
  constexpr size_t kAttributes = 100000;
  Program program;
  const std::clock_t begin = std::clock();
  for (size_t i = 0; i < kAttributes; ++i)
    program.add_attribute({program.unique_attribute_name("weight"), Tensor::scalar(1.0f)});
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  EXPECT_EQ(program.attributes[kAttributes - 1].name, concat("weight_", kAttributes - 1));
}

TEST(Schema, ParsesPyTorchsDeclarations) {
  const Schema conv = Schema::parse(
      "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] "
      "dilation=1, "
      "SymInt groups=1) -> Tensor");
  ASSERT_EQ(conv.arguments.size(), 7u);
  EXPECT_TRUE(conv.arguments[2].is_optional);
  EXPECT_EQ(conv.arguments[3].list_size, 2);
  EXPECT_EQ(conv.arguments[6].default_value, Argument(1));
  const Schema add = Schema::parse("add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  EXPECT_EQ(add.name, "add_.Tensor");
  EXPECT_TRUE(add.arguments[0].is_mutated);
  EXPECT_TRUE(add.arguments[2].kwarg_only);
  EXPECT_EQ(add.num_positional(), 2u);
  const Schema pool = Schema::parse(
      "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
      "bool "
      "ceil_mode=False) -> (Tensor, Tensor)");
  EXPECT_EQ(pool.num_returns, 2u);
  EXPECT_EQ(pool.arguments[2].default_value, Argument(Argument::List{}));
  const Schema split = Schema::parse("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
  EXPECT_TRUE(split.returns_list);
  const Schema index = Schema::parse("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor");
  EXPECT_TRUE(index.arguments[1].elements_optional);
  EXPECT_FALSE(index.arguments[1].is_optional);
  EXPECT_EQ(Schema::parse("gelu(Tensor self, *, str approximate='none') -> Tensor").arguments[1].default_value,
            Argument("none"));
  EXPECT_EQ(
      Schema::parse("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor").arguments[1].default_value,
      Argument(-1));
}

TEST(SchemaLine, IsParsedWhenItIsAskedFor) {
  const SchemaLine line("relu_(Tensor(a!) self) -> Tensor(a!)"), copy = line;
  EXPECT_EQ(line.name(), "relu_");
  EXPECT_TRUE(line.mutates_first());
  EXPECT_EQ(line->arguments[0].name, "self");
  EXPECT_EQ(&*line, &*copy);
  const SchemaLine view("view(Tensor(a) self, SymInt[] size) -> Tensor(a)"), malformed("relu(Tensor self");
  EXPECT_FALSE(view.mutates_first());
  EXPECT_EQ(malformed.name(), "relu");
  for (int i = 0; i < 2; ++i) EXPECT_THROW(*malformed, Error);
}

TEST(SymInt, RefusesExpressionsThatGrowWithoutEnd) {
  std::string text = "Symbol('a')";
  for (const char* other : {"b", "c", "d", "e"}) text = "Pow(Add(" + text + ", Symbol('" + other + "')), 8)";
  EXPECT_THROW(SymInt::parse(text), Error);
  EXPECT_THROW(SymInt::parse("floor(" + std::string(100000, 'x') + ")"), Error);
}

TEST(SymInt, IsAPolynomial) {
  const SymInt s0 = SymInt::symbol("s0");
  EXPECT_EQ((s0 * 2 + 1).to_string(), "2*s0 + 1");
  EXPECT_EQ(s0 * 6 - s0 * 2, SymInt::parse("Mul(Integer(4), Symbol('s0', positive=True, integer=True))"));
  EXPECT_EQ((s0 * 512).floor_div(s0), SymInt(512));
  EXPECT_EQ((s0 * 512).floor_div(512), s0);
  EXPECT_EQ(SymInt(7).floor_div(2), SymInt(3));
  EXPECT_EQ(SymInt::parse((s0 * 3 - 2).to_srepr()), s0 * 3 - 2);
  EXPECT_EQ((s0 * s0 + s0).evaluate({{"s0", 3}}), 12);
  // The anchors of a detector's levels by their pixels.
  const SymInt s1 = SymInt::symbol("s1"), pixels = s0 * s1 + s0.floor_div(2) * s1.floor_div(2);
  EXPECT_EQ((pixels * 9).floor_div(pixels), SymInt(9));
  EXPECT_EQ((pixels * 9).floor_div(pixels * -3), SymInt(-3));
  EXPECT_FALSE((pixels + s0 * s1).floor_div(pixels).is_constant());
  const SymInt half = s0.floor_div(2);
  EXPECT_EQ(half.evaluate({{"s0", 5}}), 2);
  EXPECT_EQ(SymInt::parse(half.to_srepr()), half);
  EXPECT_THROW(SymInt::parse("Mul(Integer(2), "), Error);
  EXPECT_THROW(SymInt::parse("s0)"), Error);
  EXPECT_THROW(s0.floor_div(0), Error);
}

}  // namespace
}  // namespace qdq::graph_test
