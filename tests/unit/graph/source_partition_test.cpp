// Grouping of nodes by what export recorded about their source.
#include "graph/source_partition.h"

#include <gtest/gtest.h>

namespace qdq::source_partition_test {
namespace {

Node* call(Graph& graph, const std::string& target, std::vector<Argument> args, const std::string& name,
           const std::string& source) {
  Node* node = graph.call(target, std::move(args));
  node->meta.source_fn_stack = {{name, source}};
  return node;
}

// A module of two nodes, then an addition written with + and one in place.
struct Sample {
  Graph graph;
  Node *x, *first, *second, *sum, *again;
  Sample() {
    x = graph.create(Node::Op::kPlaceholder, "x");
    first = call(graph, "torch.ops.aten.mul.Tensor", {x, 2.0}, "block", "my.Block");
    second = call(graph, "torch.ops.aten.relu.default", {first}, "block", "my.Block");
    sum = call(graph, "torch.ops.aten.add.Tensor", {second, x}, "add", "_operator.add");
    again = call(graph, "torch.ops.aten.add_.Tensor", {sum, x}, "add_1", "_operator.iadd");
    graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{again})});
  }
};

TEST(SourcePartition, GroupsTheNodesOfOneCall) {
  Sample s;
  const auto partitions = get_source_partitions(s.graph, {"my.Block"});
  ASSERT_EQ(partitions.size(), 1u);
  EXPECT_EQ(partitions[0].nodes, (std::vector<Node*>{s.first, s.second}));
  EXPECT_EQ(partitions[0].input_nodes, (std::vector<Node*>{s.x}));
  EXPECT_EQ(partitions[0].output_nodes, (std::vector<Node*>{s.second}));
}

TEST(SourcePartition, AFilterMustHoldForAllNodes) {
  Sample s;
  EXPECT_TRUE(get_source_partitions(s.graph, {"my.Block"}, [&](const Node& node) { return &node != s.first; }).empty());
}

TEST(SourcePartition, SequencesFollowUsesAndEquivalents) {
  Sample s;
  const auto chains = find_sequential_partitions(s.graph, {"my.Block", "torch.add"});
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0][1].nodes[0], s.sum);
  EXPECT_THROW(find_sequential_partitions(s.graph, {"torch.add", "_operator.add"}), Error);
}

TEST(SourcePartition, WithoutARecordTheTorchFunctionCounts) {
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* sum = graph.call("torch.ops.aten.add.Tensor", {x, x});
  sum->meta.torch_fn = "add_3;method_descriptor.add";
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})});
  EXPECT_EQ(get_source_partitions(graph, {"add"}).size(), 1u);
  EXPECT_EQ(get_source_partitions(graph, {"_operator.add"}).size(), 0u);
}

TEST(SourcePartition, PublicNames) {
  EXPECT_EQ(source_name("torch.nn.Conv2d"), "torch.nn.modules.conv.Conv2d");
  EXPECT_EQ(source_name("torch.nn.functional.linear"), "torch._C._nn.linear");
  EXPECT_EQ(source_name("torch.matmul"), "torch.matmul");
}

}  // namespace
}  // namespace qdq::source_partition_test
