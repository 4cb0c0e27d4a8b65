// Which programs of halves compute in float32.
#include "op/widen_halves.h"

#include <gtest/gtest.h>

#include "unit/quant/program_builder.h"

namespace qdq::widen_halves_test {
namespace {

// Integers that are dequantized, and a sum of the inputs of all runs if there is a state.
Program program_of(DType dtype, bool has_state) {
  ProgramBuilder b;
  Node* x = b.input("x", {4}, DType::kS8);
  Graph& graph = x->graph();
  Node* values = graph.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default",
                            {x, 0.5, 0, -128, 127, DType::kS8}, {{"out_dtype", dtype}});
  Node* state = b.parameter("state", Tensor::full({4}, dtype, 0));
  Node* sum = b.call(has_state ? "add_.Tensor" : "add.Tensor", {state, values});
  return b.finish({b.call("relu.default", {sum})});
}

DType dtype_of(const Program& program) {
  for (const Node* node : program.graph->nodes())
    if (node->is("torch.ops.aten.relu.default")) return node->meta.val.tensor()->dtype;
  return DType::kBool;
}

TEST(WidenHalves, ComputesInFloat32AndReturnsWhatItDid) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Program program = program_of(dtype, false);
    widen_quantized_halves(program);
    verify_program(program);
    EXPECT_EQ(dtype_of(program), DType::kF32);
    EXPECT_EQ(program.find_attribute("state")->tensor.dtype(), DType::kF32);
    const Node* result = program.graph->output_node()->arg(0).list()[0].node();
    EXPECT_EQ(result->meta.val.tensor()->dtype, dtype);
  }
}

TEST(WidenHalves, LeavesProgramsWhoseStateIsHalf) {
  Program program = program_of(DType::kF16, true);
  widen_quantized_halves(program);
  EXPECT_EQ(dtype_of(program), DType::kF16);
  EXPECT_EQ(program.find_attribute("state")->tensor.dtype(), DType::kF16);
}

}  // namespace
}  // namespace qdq::widen_halves_test
