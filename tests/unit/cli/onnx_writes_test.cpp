// What a program writes in place, in ONNX files, which have no writes.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "io/onnx/export.h"
#include "op/op.h"

namespace qdq::onnx_writes_test {
namespace {

// What is written through a view is in the value, and what is written to the value is in its views; what cannot be told
// so is refused.
TEST(OnnxWrites, ReachValuesAndTheirViewsOrAreRefused) {
  const Tensor x = Tensor::of<float>({2, 4}, {-2, -1.5F, -1, -0.5F, 0, 0.5F, 1, 1.5F});
  const auto is_written = [&](const std::function<std::vector<Node*>(Graph&, Node*)>& write) {
    Program program;
    Graph& graph = *program.graph;
    Node* input = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
    input->meta.val.value = TensorMeta{DType::kF32, {2, 4}, {}, false};
    Argument::List results;
    for (Node* result : write(graph, graph.call("torch.ops.aten.mul.Tensor", {input, 3})))
      results.emplace_back(graph.call("torch.ops.aten.add.Tensor", {result, 0.5}));
    graph.create(Node::Op::kOutput, "output", {Argument(std::move(results))});
    infer_shapes(program);
    std::vector<std::byte> bytes;
    try {
      bytes = save_onnx(program);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("writes to a value that others read"), std::string::npos);
      return false;
    }
    const Program again = load_onnx(bytes);
    const std::vector<Tensor> in = {x}, found = Interpreter(again, {}).run(in);
    const std::vector<Tensor> wanted = Interpreter(program, {}).run(in);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(bitwise_equal(found[i], wanted[i])) << i;
    return true;
  };
  const auto part = [](Graph& g, Node* of, int64_t from) {
    return g.call("torch.ops.aten.slice.Tensor", {of, 1, from, from + 2});
  };
  const auto add = [](Graph& g, Node* to, double number) { return g.call("torch.ops.aten.add_.Tensor", {to, number}); };
  EXPECT_TRUE(is_written([&](Graph& g, Node* y) {  // twice through one view
    Node* view = part(g, y, 0);
    return std::vector<Node*>{add(g, add(g, view, 1), 2), view, y};
  }));
  EXPECT_TRUE(is_written([&](Graph& g, Node* y) {  // to the value, then through a later view
    add(g, y, 1);
    add(g, part(g, y, 1), 2);
    return std::vector<Node*>{y};
  }));
  EXPECT_FALSE(is_written([&](Graph& g, Node* y) {  // to the value behind its view, which is read
    Node* view = add(g, part(g, y, 0), 1);
    add(g, y, 2);
    return std::vector<Node*>{view, y};
  }));
  EXPECT_FALSE(is_written([&](Graph& g, Node* y) {  // the same with a view of another kind, of what was written
    add(g, y, 1);
    Node* view = g.call("torch.ops.aten.t.default", {y});
    add(g, y, 2);
    return std::vector<Node*>{view, y};
  }));
  EXPECT_TRUE(is_written([&](Graph& g, Node* y) {  // beside an older view, which is written to later
    Node* behind = part(g, y, 2);
    add(g, part(g, y, 0), 1);
    Node* seen = g.call("torch.ops.aten.neg.default", {behind});
    add(g, behind, 2);
    return std::vector<Node*>{seen, behind, y};
  }));
  EXPECT_FALSE(is_written([&](Graph& g, Node* y) {  // into an older view
    Node* over = part(g, y, 1);
    add(g, part(g, y, 0), 1);
    return std::vector<Node*>{over, y};
  }));
  for (const bool is_read : {false, true})  // through a transposed form, in whose place others may read
    EXPECT_EQ(!is_read, is_written([&](Graph& g, Node* y) {
      Node* turned = g.call("torch.ops.aten.t.default", {y});
      add(g, g.call("torch.ops.aten.slice.Tensor", {turned, 0, 1, 3}), 1);
      add(g, g.call("torch.ops.aten.select.int", {turned, 0, 0}), 2);
      return std::vector<Node*>{turned, is_read ? y : turned};
    }));
  EXPECT_FALSE(is_written([&](Graph& g, Node* y) {  // through a part of a split
    Node* parts = g.call("torch.ops.aten.split.Tensor", {y, 2, 1});
    add(g, g.call("operator.getitem", {parts, 0}), 1);
    return std::vector<Node*>{y};
  }));
  EXPECT_FALSE(is_written([&](Graph& g, Node* y) {  // to the result of a dropout, which is its input
    add(g, g.call("torch.ops.aten.dropout.default", {y, 0.5, false}), 1);
    return std::vector<Node*>{y};
  }));
}

// Numbering the nodes anew for each write would be quadratic, and a recursion over the views too deep.
TEST(OnnxWrites, TakeTimeThatGrowsWithTheirNumber) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2}, {}, false};
  Node* last = x;
  constexpr int kWrites = 2000;
  for (int i = 0; i < kWrites; ++i) {
    Node* value = graph.call("torch.ops.aten.sin.default", {last});
    graph.call("torch.ops.aten.relu_.default", {value});
    last = graph.call("torch.ops.aten.add.Tensor", {value, value});
  }
  for (int i = 0; i < 100000; ++i) last = graph.call("torch.ops.aten.slice.Tensor", {last, 0, 0, 1});
  graph.call("torch.ops.aten.relu_.default", {last->arg(0).node()});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{last})});
  infer_shapes(program);
  const std::clock_t begin = std::clock();
  prepare_to_write(program);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  int64_t relus = 0;
  for (const Node* node : graph.nodes()) relus += node->is("torch.ops.aten.relu.default");
  EXPECT_EQ(relus, kWrites);
}

// All write to the value itself, which what follows reads as the write before left it.
TEST(OnnxWrites, ToOneValueTakeTimeThatGrowsWithTheirNumber) {
  Program program;
  Graph& graph = *program.graph;
  constexpr int kWrites = 20000;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2}, {}, false};
  Node* value = graph.call("torch.ops.aten.sin.default", {x});
  for (int i = 0; i < kWrites; ++i) graph.call("torch.ops.aten.add_.Tensor", {value, 1});
  Node* read = graph.call("torch.ops.aten.neg.default", {value});
  Node* chain = graph.call("torch.ops.aten.cos.default", {x});
  for (int i = 0; i < kWrites; ++i) chain = graph.call("torch.ops.aten.relu_.default", {chain});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{read, chain})});
  infer_shapes(program);
  const std::clock_t begin = std::clock();
  prepare_to_write(program);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  // The last is read, and each reads the one before it.
  int64_t sums = 0;
  const Node* sum = read->arg(0).node();
  for (; sum->is("torch.ops.aten.add.Tensor"); sum = sum->arg(0).node()) ++sums;
  EXPECT_EQ(sums, kWrites);
  EXPECT_TRUE(sum->is("torch.ops.aten.sin.default"));
}

}  // namespace
}  // namespace qdq::onnx_writes_test
