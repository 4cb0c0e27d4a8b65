// Numbers that ONNX models compute from open sizes.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "io/pt2.h"

namespace qdq::onnx_computed_sizes_test {
namespace {

// x [s0, 3]
Node* open_rows(Graph& graph) {
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0"), 3}, {}, false};
  return x;
}
Tensor rows_of(int64_t rows) {
  const Tensor out = Tensor::empty({rows, 3}, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i % 7) / 4 - 0.5F;
  return out;
}

// What decompositions of resizing compute, and the division that rounds up.
TEST(OnnxComputedSizes, FractionsOfSizesAreDoublesAndQuotientsRoundDown) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = open_rows(graph);
  Node* rows = graph.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* number = graph.call("torch.sym_float", {rows});
  Node* ratio = graph.call("operator.truediv", {number, graph.call("operator.mul", {number, 2.5})});
  Node* half = graph.call("operator.mul", {rows, 0.5});
  Node* up = graph.call("operator.neg", {graph.call("operator.floordiv", {graph.call("operator.neg", {rows}), 4})});
  Node* y = graph.call("torch.ops.aten.mul.Tensor", {x, ratio});
  y = graph.call("torch.ops.aten.add.Tensor", {graph.call("torch.ops.aten.add.Tensor", {y, half}), up});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})});
  infer_shapes(program);
  const std::vector<Tensor> in = {rows_of(5)};
  const Tensor wanted = Interpreter(program, {}).run(in)[0];
  EXPECT_FLOAT_EQ(wanted.contiguous().data<float>()[0], in[0].data<float>()[0] * 0.4F + 2.5F + 2);
  EXPECT_TRUE(bitwise_equal(Interpreter(load_onnx(save_onnx(program)), {}).run(in)[0], wanted));
}

// As attention divides by the root of a size.
TEST(OnnxComputedSizes, RootsAndPowersOfSizesAreDoubles) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = open_rows(graph);
  Node* rows = graph.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* root = graph.call("torch._sym_sqrt", {graph.call("torch.sym_float", {rows})});
  Node* y = graph.call("torch.ops.aten.div.Tensor", {x, root});
  y = graph.call("torch.ops.aten.add.Tensor", {y, graph.call("operator.pow", {rows, -0.5})});
  y = graph.call("torch.ops.aten.add.Tensor", {y, graph.call("operator.pow", {rows, 2})});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})});
  infer_shapes(program);
  const std::vector<Tensor> in = {rows_of(4)};
  for (const Program& each : {program.clone(), load_onnx(save_onnx(program)), load_pt2(save_pt2(program))})
    EXPECT_FLOAT_EQ(Interpreter(each, {}).run(in)[0].contiguous().data<float>()[1],
                    in[0].data<float>()[1] / 2 + 0.5F + 16);
}

}  // namespace
}  // namespace qdq::onnx_computed_sizes_test
