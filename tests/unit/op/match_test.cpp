// Subgraph matching and replacement.
#include "op/match.h"

#include <gtest/gtest.h>

namespace qdq::match_test {
namespace {

const char* kAdd = "torch.ops.aten.add.Tensor";
const char* kRelu = "torch.ops.aten.relu.default";

// in0, in1 -> add -> relu
Graph& add_relu(Graph& pattern) {
  Node* a = pattern.create(Node::Op::kPlaceholder, "a");
  Node* b = pattern.create(Node::Op::kPlaceholder, "b");
  Node* relu = pattern.call(kRelu, {pattern.call(kAdd, {a, b})});
  pattern.create(Node::Op::kOutput, "output", {Argument(Argument::List{relu})});
  return pattern;
}

TEST(Match, FindsWhatNobodyElseUses) {
  Graph graph, pattern;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* y = graph.create(Node::Op::kPlaceholder, "y");
  Node* first = graph.call(kAdd, {x, y});
  Node* relu = graph.call(kRelu, {first});
  Node* second = graph.call(kAdd, {relu, 2.0});
  Node* last = graph.call(kRelu, {second});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{last, first})});
  const std::vector<Match> matches = find_matches(graph, add_relu(pattern));
  ASSERT_EQ(matches.size(), 1u);  // `first` is returned too, so its relu cannot swallow it
  EXPECT_EQ(matches[0].returning_nodes[0], last);
  EXPECT_EQ(matches[0].placeholder_nodes[0].node(), relu);
  EXPECT_EQ(matches[0].placeholder_nodes[1], Argument(2.0));
}

TEST(Match, OneNodeDoesNotStandForTwo) {
  Graph graph, pattern;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  graph.create(Node::Op::kOutput, "output", {Argument::List{graph.call(kRelu, {graph.call(kAdd, {x, x})})}});
  EXPECT_TRUE(find_matches(graph, add_relu(pattern)).empty());
}

TEST(Match, APacketMatchesEveryOverloadAndLiteralsMustBeEqual) {
  Graph graph, pattern, other;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  graph.create(Node::Op::kOutput, "output", {Argument::List{graph.call("torch.ops.aten.clamp.default", {x, 0, 6})}});
  Node* in = pattern.create(Node::Op::kPlaceholder, "in");
  pattern.create(Node::Op::kOutput, "output", {Argument::List{pattern.call("torch.ops.aten.clamp", {in, 0, 6})}});
  EXPECT_EQ(find_matches(graph, pattern).size(), 1u);
  Node* in2 = other.create(Node::Op::kPlaceholder, "in");
  other.create(Node::Op::kOutput, "output", {Argument::List{other.call("torch.ops.aten.clamp", {in2, 0, 1})}});
  EXPECT_TRUE(find_matches(graph, other).empty());
  EXPECT_EQ(find_matches(graph, other, {true}).size(), 1u);
}

TEST(Match, ReplacesChainsOfMatches) {
  Graph graph, pattern, replacement;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* y = graph.create(Node::Op::kPlaceholder, "y");
  Node* first = graph.call(kRelu, {graph.call(kAdd, {x, y})});
  Node* second = graph.call(kRelu, {graph.call(kAdd, {first, y})});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{second})});
  Node* a = replacement.create(Node::Op::kPlaceholder, "a");
  Node* b = replacement.create(Node::Op::kPlaceholder, "b");
  replacement.create(Node::Op::kOutput, "output",
                     {Argument::List{replacement.call("torch.ops.aten.maximum.default", {b, a})}});
  EXPECT_EQ(replace_pattern(graph, add_relu(pattern), replacement), 2u);
  std::vector<std::string> targets;
  for (const Node* node : graph.nodes()) targets.push_back(node->target());
  EXPECT_EQ(targets, (std::vector<std::string>{"x", "y", "torch.ops.aten.maximum.default",
                                               "torch.ops.aten.maximum.default", "output"}));
  const Node* outer = graph.output_node()->arg(0).list()[0].node();
  EXPECT_EQ(outer->arg(0).node(), y);
  EXPECT_EQ(outer->arg(1).node()->arg(1).node(), x);
}

TEST(Match, ArgumentsLeftOutCountWithTheirDefaults) {
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* w = graph.create(Node::Op::kPlaceholder, "w");
  const Argument::List ones{1, 1}, twos{2, 2};
  Node* plain = graph.call("torch.ops.aten.conv2d.default", {x, w});
  Node* strided = graph.call("torch.ops.aten.conv2d.default", {plain, w, Argument(), twos});
  graph.create(Node::Op::kOutput, "output", {Argument::List{strided}});
  Pattern pattern;
  Node* a = pattern.graph->create(Node::Op::kPlaceholder, "a");
  Node* b = pattern.graph->create(Node::Op::kPlaceholder, "b");
  Node* conv = pattern.graph->call("torch.ops.aten.conv2d.default", {a, b, Argument(), ones});
  pattern.graph->create(Node::Op::kOutput, "output", {Argument::List{conv}});
  pattern.names = {{"conv", conv}, {"weight", b}};
  const std::vector<Match> matches = find_matches(graph, pattern);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].named("conv"), plain);
  EXPECT_EQ(matches[0].named("weight"), w);
  EXPECT_THROW(matches[0].named("bias"), Error);
  EXPECT_EQ(find_matches(graph, pattern, {.ignore_literals = true}).size(), 2u);
}

// Two results: the pattern's sum and product of the same operands.
TEST(Match, SeveralResultsAndCircles) {
  const char* mul = "torch.ops.aten.mul.Tensor";
  Pattern pattern;
  Node* a = pattern.graph->create(Node::Op::kPlaceholder, "a");
  Node* b = pattern.graph->create(Node::Op::kPlaceholder, "b");
  Node* sum = pattern.graph->call(kAdd, {a, b});
  Node* product = pattern.graph->call(mul, {a, b});
  pattern.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{sum, product})});
  pattern.names = {{"sum", sum}, {"product", product}};
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* y = graph.create(Node::Op::kPlaceholder, "y");
  Node* first = graph.call(kAdd, {x, y});
  Node* second = graph.call(mul, {x, y});
  Node* other = graph.call(mul, {y, x});  // operands are not exchanged
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{first, second, other})});
  const std::vector<Match> matches = find_matches(graph, pattern);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].named("sum"), first);
  EXPECT_EQ(matches[0].named("product"), second);

  // x -> relu -> neg -> add(relu, neg): relu and add alone, with neg between them outside.
  Pattern outer;
  Node* p = outer.graph->create(Node::Op::kPlaceholder, "p");
  Node* q = outer.graph->create(Node::Op::kPlaceholder, "q");
  Node* relu = outer.graph->call(kRelu, {p});
  outer.graph->create(Node::Op::kOutput, "output",
                      {Argument(Argument::List{relu, outer.graph->call(kAdd, {relu, q})})});
  Graph circle;
  Node* in = circle.create(Node::Op::kPlaceholder, "in");
  Node* inner = circle.call(kRelu, {in});
  Node* between = circle.call("torch.ops.aten.neg.default", {inner});
  circle.create(Node::Op::kOutput, "output", {Argument(Argument::List{circle.call(kAdd, {inner, between})})});
  EXPECT_TRUE(find_matches(circle, outer).empty());
}

TEST(Match, AttributesAndRefusals) {
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* weight = graph.get_attr("fc.weight");
  Node* linear = graph.call("torch.ops.aten.linear.default", {x, weight});
  graph.create(Node::Op::kOutput, "output", {Argument::List{linear}});
  Pattern pattern;
  Node* a = pattern.graph->create(Node::Op::kPlaceholder, "a");
  Node* w = pattern.graph->get_attr("weight");
  pattern.graph->create(Node::Op::kOutput, "output",
                        {Argument::List{pattern.graph->call("torch.ops.aten.linear.default", {a, w})}});
  pattern.names = {{"weight", w}};
  ASSERT_EQ(find_matches(graph, pattern).size(), 1u);
  EXPECT_EQ(find_matches(graph, pattern)[0].named("weight"), weight);
  graph.call(kRelu, {weight});  // somebody else reads the attribute, which the pattern does not return
  EXPECT_TRUE(find_matches(graph, pattern).empty());
  Pattern dead;
  Node* unused = dead.graph->create(Node::Op::kPlaceholder, "unused");
  Node* used = dead.graph->create(Node::Op::kPlaceholder, "used");
  dead.graph->create(Node::Op::kOutput, "output", {Argument::List{dead.graph->call(kRelu, {used})}});
  EXPECT_THROW(find_matches(graph, dead), Error);
  EXPECT_TRUE(unused->users().empty());
}

}  // namespace
}  // namespace qdq::match_test
