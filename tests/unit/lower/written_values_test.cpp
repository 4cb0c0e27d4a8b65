// Graphs that write to values which others may read: what is folded, what is fused around them, and that the numbers
// stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "graph_builder.h"
#include "lower/fold_constants.h"
#include "lower/fuse.h"
#include "lower/fuse_nodes.h"
#include "lower/mutable_buffers.h"

namespace qdq::written_values_test {
namespace {

using testing::HasSubstr;

Argument list(std::vector<int64_t> numbers) { return Argument::List(numbers.begin(), numbers.end()); }

std::vector<std::string> targets_of(const Program& program) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out.push_back(node->target());
  return out;
}

// The steps that read or make `a` and its views run one by one, the others together.
TEST(WrittenValues, AreLeftOutOfPlans) {
  for (const bool reads_before : {false, true}) {
    GraphBuilder g;
    Node* x = g.round(g.input({1, 8, 6, 6}), 0.03, 128);
    Node* first = g.round(g.conv(x, {8, 8, 1, 1}), 0.03, 128);
    Node* a = g.conv(first, {8, 8, 1, 1});
    Node* part = g.call("torch.ops.aten.slice.Tensor", {a, 2, 0, 3});
    Node* before = reads_before ? g.call("torch.ops.aten.add.Tensor", {a, first}) : first;
    Node* written = g.call("torch.ops.aten.mul_.Tensor", {part, 3.0});
    Node* after = g.call("torch.ops.aten.add.Tensor", {a, first});
    Node* last = g.round(g.conv(g.round(after, 0.1, 128), {8, 8, 1, 1}), 0.1, 128);
    Program program = g.done({last, before, written});
    const Program given = program.clone();
    const Fusion fusion = fuse_program(program);
    EXPECT_GE(fusion.plans.size(), 1u);
    for (const NodeFate& fate : fusion.fates) {
      if (fate.node == a->name() || fate.node == part->name() || fate.node == written->name() ||
          fate.node == after->name() || (reads_before && fate.node == before->name()))
        EXPECT_THAT(fate.refusal, HasSubstr("node mul__tensor writes to a value that it reads or makes")) << fate.node;
      else EXPECT_GE(fate.plan, 0) << fate.node << ": " << fate.refusal;
    }
    EXPECT_LE(difference_from("simd", given, {1, 8, 6, 6}).largest, 0.11);
  }
}

// Swin's mask of shifted windows, made anew in every run.
Program masked_network(bool fills_by_input) {
  GraphBuilder g;
  Node* x = g.round(g.input({2, 8, 6, 6}), 0.03, 128);
  Node* y = g.conv(x, {6, 8, 1, 1});
  Node* mask = g.call("torch.ops.aten.new_zeros.default", {y, list({6, 6})});
  for (int i = 0; i < 2; ++i) {
    Node* rows = g.call("torch.ops.aten.slice.Tensor", {mask, 0, 3 * i, 3 * i + 3});
    Node* columns = g.call("torch.ops.aten.slice.Tensor", {rows, 1, 1 + i, 5});
    if (fills_by_input && i == 1) {
      Node* image = g.call("torch.ops.aten.select.int", {g.call("torch.ops.aten.select.int", {x, 0, 0}), 0, 0});
      Node* corner = g.call("torch.ops.aten.slice.Tensor", {image, 0, 0, 3});
      g.call("torch.ops.aten.copy_.default", {columns, g.call("torch.ops.aten.slice.Tensor", {corner, 1, 0, 3})});
    } else {
      g.call("torch.ops.aten.fill_.Scalar", {columns, i + 1});
    }
  }
  Node* larger = g.call("torch.ops.aten.ne.Scalar", {mask, 0});
  Node* added = g.call("torch.ops.aten.masked_fill.Scalar", {mask, larger, -2.0});
  Node* sum = g.round(g.call("torch.ops.aten.add.Tensor", {g.round(y, 0.05, 128), added}), 0.05, 128);
  return g.done({g.round(g.conv(sum, {8, 6, 1, 1}), 0.05, 128)});
}

TEST(WrittenValues, OfConstantsAreFolded) {
  Program program = masked_network(false);
  EXPECT_LE(difference_from("simd", program, {2, 8, 6, 6}).largest, 0.051);
  fold_written_constants(program);
  for (const std::string& target : targets_of(program)) {
    EXPECT_EQ(target.find("fill"), std::string::npos) << target;
    EXPECT_EQ(target.find("new_zeros"), std::string::npos) << target;
  }
  EXPECT_EQ(fusion_obstacle(*program.graph), "");
}

TEST(WrittenValues, OfInputsAreNotFolded) {
  const Program program = masked_network(true);
  Program folded = program.clone();
  fold_written_constants(folded);
  EXPECT_EQ(targets_of(folded), targets_of(program));
  EXPECT_LE(difference_from("simd", program, {2, 8, 6, 6}).largest, 0.051);
}

// Swin v2 clears a third of a bias in every run, which changes nothing from the first on; adding to it would.
TEST(WrittenValues, OfAttributesAreFoldedWhereAnotherRunWritesTheSame) {
  for (const bool clears : {true, false}) {
    GraphBuilder g;
    Node* x = g.input({2, 8});
    Node* bias = g.floats({6});
    Node* part = g.call("torch.ops.aten.slice.Tensor", {bias, 0, 2, 4});
    if (clears) g.call("torch.ops.aten.zero_.default", {part});
    else g.call("torch.ops.aten.add_.Scalar", {part, 1});
    const Program program = g.done({g.call("torch.ops.aten.linear.default", {x, g.floats({6, 8}), bias})});
    const Tensor before = program.attributes[0].tensor.clone();
    Program folded = program.clone();
    fold_written_constants(folded);
    EXPECT_TRUE(bitwise_equal(program.attributes[0].tensor, before));
    EXPECT_EQ(targets_of(folded).size(), clears ? 1u : 3u);
    if (clears) {
      EXPECT_LE(difference_from("simd", program, {2, 8}).largest, 1e-5);
    }
  }
}

// Whoever takes an output may write to it.
TEST(WrittenValues, OfOutputsThatAreConstantsChangeNoLaterRun) {
  GraphBuilder g;
  Node* x = g.input({2, 4});
  Node* zeros = g.call("torch.ops.aten.zeros.default", {list({4})});
  Node* mask = g.call("torch.ops.aten.zeros.default", {list({4})});
  g.call("torch.ops.aten.fill_.Scalar", {mask, 1});
  Node* sum = g.call("torch.ops.aten.add.Tensor", {g.call("torch.ops.aten.add.Tensor", {x, zeros}), mask});
  Session session = lower(g.done({sum, zeros, mask}));
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> found = session.run({{Tensor::full({2, 4}, DType::kF32, 2)}});
    EXPECT_TRUE(bitwise_equal(found[0].contiguous(), Tensor::full({2, 4}, DType::kF32, 3))) << i;
    EXPECT_TRUE(bitwise_equal(found[1], Tensor::full({4}, DType::kF32, 0))) << i;
    EXPECT_TRUE(bitwise_equal(found[2], Tensor::full({4}, DType::kF32, 1))) << i;
    for (size_t k = 1; k < 3; ++k) Tensor(found[k]).data<float>()[0] = 7;
  }
}

// What reads a mask between two writes to it sees the first alone.
TEST(WrittenValues, ReadBetweenWritesAreNotFolded) {
  GraphBuilder g;
  Node* x = g.input({2, 4});
  Node* mask = g.call("torch.ops.aten.zeros.default", {list({4})});
  g.call("torch.ops.aten.fill_.Scalar", {mask, 1});
  Node* first = g.call("torch.ops.aten.add.Tensor", {x, mask});
  g.call("torch.ops.aten.fill_.Scalar", {mask, 5});
  const Program program = g.done({first, g.call("torch.ops.aten.add.Tensor", {x, mask})});
  const std::vector<Tensor> zeros = {Tensor::full({2, 4}, DType::kF32, 0)};
  const std::vector<Tensor> found = lower(program).run(zeros);
  EXPECT_EQ(found[0].contiguous().data<float>()[0], 1);
  EXPECT_EQ(found[1].contiguous().data<float>()[0], 5);
}

// Each is written by the next, and the last by the input: it takes all of them to see that the first changes.
TEST(WrittenValues, OfConstantsThatChangeByEachOtherAreFoundAtOnce) {
  GraphBuilder g;
  constexpr int kValues = 10000;
  Node* x = g.input({4});
  std::vector<Node*> values;
  for (int i = 0; i < kValues; ++i) values.push_back(g.call("torch.ops.aten.ones.default", {list({4})}));
  for (int i = 0; i + 1 < kValues; ++i)
    g.call("torch.ops.aten.add_.Tensor", {values[static_cast<size_t>(i)], values[static_cast<size_t>(i) + 1]});
  g.call("torch.ops.aten.add_.Tensor", {values.back(), x});
  Program program = g.done({values[0]});
  const size_t nodes = program.graph->nodes().size();
  const std::clock_t begin = std::clock();
  fold_constants(program);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  EXPECT_EQ(program.graph->nodes().size(), nodes);
}

// Many buffers, whose nodes must not be numbered anew for each, and more views of a view than a stack has frames for.
TEST(WrittenValues, AreAsManyAsAFileMakesThem) {
  GraphBuilder g;
  const auto part_of = [&](Node* x) { return g.call("torch.ops.aten.slice.Tensor", {x, 0, 0, 2}); };
  Node *x = g.input({4, 2}, "x", false), *view = g.floats({4, 2});
  for (int i = 0; i < 3000; ++i) g.call("torch.ops.aten.copy_.default", {part_of(g.floats({4, 2})), part_of(x)});
  for (int i = 0; i < 100000; ++i) view = part_of(view);
  g.call("torch.ops.aten.relu_.default", {view->arg(0).node()});
  Program program = g.done({x, view});
  const std::clock_t begin = std::clock();
  make_functional(program);
  EXPECT_TRUE(program.buffer_mutations.empty()) << "the last write is seen by a view";
  program.graph->erase(program.graph->output_node()->prev());
  make_functional(program);
  EXPECT_EQ(program.buffer_mutations.size(), 3000U);
  write_in_place(program);
  EXPECT_TRUE(program.buffer_mutations.empty());
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
}

}  // namespace
}  // namespace qdq::written_values_test
