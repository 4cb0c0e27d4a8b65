#include "exec/footprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "unit/base/limited_memory.h"

namespace qdq::footprint_test {
namespace {

// y = relu(outer(x, x)) and its sum, for a vector of n numbers.
Program square() {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("n")}, {}, false};
  Node* outer = graph.call("torch.ops.aten.outer.default", {x, x}, {}, "outer");
  Node* relu = graph.call("torch.ops.aten.relu.default", {outer}, {}, "relu");
  Node* sum = graph.call("torch.ops.aten.sum.dim_IntList", {relu, Argument::List{0}}, {}, "sum");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})});
  infer_shapes(program);
  return program;
}

TEST(Footprint, CountsWhatIsCertainlyAllocated) {
  const Program program = square();
  EXPECT_EQ(least_bytes_of_results(program, {{"n", 40'000}}), 6'400'000'000u);  // relu may work in place
  EXPECT_EQ(least_bytes_of_results(program, {}), 0u);
  EXPECT_EQ(least_bytes_of_results(program, {{"n", int64_t{1} << 31}}), uint64_t{1} << 62);
}

TEST(Footprint, SumsWhatLivesAtTheSameTime) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt(10)}, {}, false};
  Node* first = graph.call("torch.ops.aten.outer.default", {x, x}, {}, "first");
  Node* second = graph.call("torch.ops.aten.outer.default", {x, x}, {}, "second");
  Node* add = graph.call("torch.ops.aten.add.Tensor", {first, second}, {}, "add");
  Node* third = graph.call("torch.ops.aten.outer.default", {x, x}, {}, "third");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{add, third})});
  infer_shapes(program);
  EXPECT_EQ(least_bytes_of_results(program, {}), 800u);
}

TEST(Footprint, CountsWhatIsMadeOfNoTensor) {
  Program program;
  Graph& graph = *program.graph;
  Node* full = graph.call("torch.ops.aten.full.default", {Argument::List{25'000, 50'000}, 1.0}, {}, "full");
  Node* sum = graph.call("torch.ops.aten.sum.dim_IntList", {full, Argument::List{0}}, {}, "sum");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})});
  infer_shapes(program);
  EXPECT_EQ(least_bytes_of_results(program, {}), 5'000'000'000u);
}

// Forty doublings of a small file's tensor; a view of as many elements takes nothing.
TEST(Footprint, CountsWhatIsJoined) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt(16), SymInt(1)}, {}, false};
  Node* wide = graph.call("torch.ops.aten.expand.default", {x, Argument::List{16, int64_t{1} << 40}}, {}, "wide");
  Node* joined = x;
  for (int i = 0; i < 40; ++i)
    joined = graph.call("torch.ops.aten.cat.default", {Argument::List{joined, joined}, 0}, {}, concat("cat_", i));
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{wide, joined})});
  infer_shapes(program);
  const uint64_t largest = uint64_t{64} << 40;
  EXPECT_EQ(least_bytes_of_results(program, {}), largest + largest / 2);
}

TEST(Footprint, ARunThatCannotFitIsRefusedBeforeItBegins) {
  const LimitedMemory limit(4'000'000'000);
  const Program program = square();
  Interpreter interpreter(program, {});
  EXPECT_EQ(interpreter.run(std::vector<Tensor>{Tensor::empty({3}, DType::kF32)})[0].sizes(), Shape{3});
  try {
    interpreter.run(std::vector<Tensor>{Tensor::empty({40'000}, DType::kF32)});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.message, testing::HasSubstr("a run of the program needs at least 6400 MB of memory"));
  }
}

}  // namespace
}  // namespace qdq::footprint_test
