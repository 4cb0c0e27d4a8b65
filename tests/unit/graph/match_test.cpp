// Subgraph matching and replacement.
#include "graph/match.h"

#include <gtest/gtest.h>

namespace qdq {
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
  EXPECT_EQ(matches[0].output, last);
  EXPECT_EQ(matches[0].placeholders.at(pattern.find("a")).node(), relu);
  EXPECT_EQ(matches[0].placeholders.at(pattern.find("b")), Argument(2.0));
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
  replacement.create(Node::Op::kOutput, "output", {Argument::List{replacement.call("torch.ops.aten.maximum.default", {b, a})}});
  EXPECT_EQ(replace_pattern(graph, add_relu(pattern), replacement), 2u);
  std::vector<std::string> targets;
  for (const Node* node : graph.nodes()) targets.push_back(node->target());
  EXPECT_EQ(targets, (std::vector<std::string>{"x", "y", "torch.ops.aten.maximum.default", "torch.ops.aten.maximum.default", "output"}));
  const Node* outer = graph.output_node()->arg(0).list()[0].node();
  EXPECT_EQ(outer->arg(0).node(), y);
  EXPECT_EQ(outer->arg(1).node()->arg(1).node(), x);
}

}  // namespace
}  // namespace qdq
