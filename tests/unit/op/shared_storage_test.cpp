// Which values share their elements, who writes to them, and the calls that stand for a write.
#include "op/shared_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "op/functional_write.h"
#include "op/targets.h"

namespace qdq::shared_storage_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Calls {
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* call(std::string_view name, std::vector<Argument> args) {
    return graph.call(concat("torch.ops.aten.", name), std::move(args));
  }
  Node* attribute() { return graph.get_attr("w"); }
};

TensorMeta floats(std::vector<SymInt> sizes) { return {DType::kF32, std::move(sizes), {}, false}; }

TEST(SharedStorage, ViewsAndWritesHaveTheRootOfTheirFirstArgument) {
  Calls calls;
  Node* parts = calls.call("split.Tensor", {calls.x, 2});
  Node* part = calls.graph.call("operator.getitem", {parts, 0});
  Node* written = calls.call("relu_.default", {calls.call("view.default", {part, Argument(Argument::List{4})})});
  Node* same = calls.call("dropout.default", {written, 0.5, false});
  Node* other = calls.call("relu.default", {same});
  Node *first = calls.attribute(), *second = calls.attribute();
  const SharedStorage storage(calls.graph);
  EXPECT_EQ(storage.root_of(same), calls.x);
  EXPECT_EQ(storage.root_of(other), other);
  EXPECT_EQ(storage.root_of(second), first);
}

TEST(SharedStorage, OperatorsWriteToWhatTheirSchemasMark) {
  Calls calls;
  Node *w = calls.attribute(), *mean = calls.attribute(), *var = calls.attribute();
  EXPECT_THAT(written_by(*calls.call("relu.default", {calls.x})), IsEmpty());
  EXPECT_THAT(written_by(*calls.call("relu_.default", {calls.x})), ElementsAre(calls.x));
  EXPECT_THAT(written_by(*calls.call("_native_batch_norm_legit.default", {calls.x, w, w, mean, var, true, 0.1, 1e-5})),
              ElementsAre(mean, var));
  // Of an operator that qdq does not have nobody knows.
  EXPECT_THAT(written_by(*calls.graph.call("torch.ops.mine.op.default", {calls.x, w})), ElementsAre(calls.x));
  EXPECT_THAT(written_by(*calls.x), IsEmpty());
}

TEST(FunctionalWrite, PutsAPartOfAPartBack) {
  Calls calls;
  Node* rows = calls.call("slice.Tensor", {calls.x, 0, 1, 3});
  Node* row = calls.call("select.int", {rows, 0, 1});
  Node* write = calls.call("mul_.Scalar", {row, 2.0});
  ASSERT_TRUE(has_functional_form(*write) && takes_part(*row) && takes_part(*rows));
  Node* later = calls.call("relu.default", {calls.x});  // what x is in front of the write
  const std::vector<Node*> made = make_written(calls.graph, *write, {row, rows, calls.x}, {row, rows, later});
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[0]->target(), "torch.ops.aten.mul.Scalar");
  EXPECT_THAT(made[0]->args(), ElementsAre(Argument(row), Argument(2.0)));
  EXPECT_TRUE(made[1]->is(op::kSelectScatter));
  EXPECT_THAT(made[1]->args(), ElementsAre(Argument(rows), Argument(made[0]), Argument(0), Argument(1)));
  EXPECT_TRUE(made[2]->is(op::kSliceScatter));
  EXPECT_THAT(made[2]->args(), ElementsAre(Argument(later), Argument(made[1]), Argument(0), Argument(1), Argument(3)));
}

// A source of other sizes or of another dtype is made one of the part's; what is read later is a tensor of its own.
TEST(FunctionalWrite, CopiesASourceThatIsUnlikeThePart) {
  Calls calls;
  calls.x->meta.val.value = floats({8, 4});
  Node* rows = calls.call("slice.Tensor", {calls.x, 0, 1, 3});
  rows->meta.val.value = floats({2, 4});
  Node* y = calls.graph.create(Node::Op::kPlaceholder, "y");
  const auto made_of = [&](const TensorMeta& meta, bool is_read) {
    y->meta.val.value = meta;
    Node* write = calls.call("copy_.default", {rows, y});
    if (is_read) calls.call("relu.default", {write});
    return make_written(calls.graph, *write, {rows, calls.x}, {rows, calls.x});
  };
  EXPECT_EQ(made_of(floats({2, 4}), false)[0], y);
  TensorMeta doubles = floats({2, 4});
  doubles.dtype = DType::kF64;
  for (const auto& made : {made_of(floats({4}), false), made_of(doubles, false), made_of(floats({2, 4}), true)}) {
    EXPECT_EQ(made[0]->target(), "torch.ops.aten.copy.default");
    EXPECT_EQ(made[1]->arg(1).node(), made[0]);
  }
  Node* whole = calls.call("copy_.default", {calls.x, calls.x});
  EXPECT_EQ(make_written(calls.graph, *whole, {calls.x}, {calls.x})[0]->target(), "torch.ops.aten.copy.default");
}

}  // namespace
}  // namespace qdq::shared_storage_test
