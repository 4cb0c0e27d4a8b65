// What is written of operators that choose and write places of a tensor.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "op/infer.h"
#include "unit/format/expect_error.h"

namespace qdq::onnx_places_test {
namespace {

// y = scatter_reduce(x, 1, places, values, reduction), as networks of graphs join what their edges bring.
Program joined(const std::string& reduction, bool include_self, DType dtype = DType::kF32) {
  Program out;
  const auto input = [&](const std::string& name, Shape sizes, DType type) {
    Node* node = out.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    node->meta.val.value = TensorMeta{type, SymShape(sizes.begin(), sizes.end()), {}, false};
    return node;
  };
  Node* x = input("x", {2, 4}, dtype);
  Node* places = input("places", {2, 3}, DType::kS64);
  Node* values = input("values", {2, 3}, dtype);
  Node* y = out.graph->call("torch.ops.aten.scatter_reduce.two", {x, int64_t{1}, places, values, reduction},
                            {{"include_self", include_self}});
  out.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
  return out;
}

TEST(OnnxScatter, EveryReductionIsWrittenWithAndWithoutWhatWasThere) {
  const Tensor places = Tensor::of<int64_t>({2, 3}, {0, 2, 0, 3, 3, 1});
  for (const std::string reduction : {"sum", "prod", "mean", "amax", "amin"})
    for (const bool include_self : {false, true})
      for (const DType dtype : {DType::kF32, DType::kS64}) {
        if (reduction == "mean" && dtype == DType::kS64) continue;
        SCOPED_TRACE(reduction + (include_self ? " with what was there" : ""));
        const Program program = joined(reduction, include_self, dtype);
        const std::vector<Tensor> inputs = {Tensor::of<float>({2, 4}, {9, -9, 5, 1, -8, 8, 4, 2}).to(dtype), places,
                                            Tensor::of<float>({2, 3}, {-3, 2, -5, 7, 6, -1}).to(dtype)};
        const Tensor wanted = Interpreter(program, {}).run(inputs)[0].contiguous();
        const Program again = load_onnx(save_onnx(program));
        EXPECT_TRUE(bitwise_equal(Interpreter(again, {}).run(inputs)[0].contiguous(), wanted));
      }
}

TEST(OnnxScatter, MeansOfIntegersAreRefused) {
  expect_error(ErrorCode::kUnsupported, "joins integers by mean, which ONNX cannot",
               [] { save_onnx(joined("mean", true, DType::kS64)); });
}

// A program that gives x, None, a number of each kind and the size of x.
TEST(OnnxOutputs, NumbersAreWrittenAndNoneIsLeftOut) {
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, SymShape{SymInt(2), SymInt(3)}, {}, false};
  Node* size = program.graph->call("torch.ops.aten.sym_size.int", {x, 1});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{x, {}, int64_t{7}, 0.5, true, size})}, {},
                        "output");
  const Tensor input = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<std::byte> bytes = save_onnx(program);
  const format::OnnxFile file = format::read_onnx_file(bytes);
  ASSERT_EQ(file.outputs.size(), 5U);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(file.outputs[i].name, concat("output_", i));
  const std::vector<Tensor> wanted = Interpreter(program, {}).run({{input}}),
                            found = Interpreter(load_onnx(bytes), {}).run({{input}});
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].dtype(), wanted[i].dtype());
    EXPECT_TRUE(bitwise_equal(found[i].contiguous(), wanted[i].contiguous())) << i;
  }
}

TEST(OnnxSave, WritesToInputsAndBuffersAreRefusedWithARemedy) {
  for (const bool is_buffer : {false, true}) {
    Program program;
    Graph& graph = *program.graph;
    const Tensor zeros = Tensor::full({2, 3}, DType::kF32, 0);
    if (is_buffer) program.add_attribute({"cache", zeros, Attribute::Kind::kBuffer});
    Node* state = is_buffer ? graph.get_attr("cache") : graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
    state->meta.val.value = meta_of(zeros);
    Node* row = graph.call("torch.ops.aten.select.int", {state, int64_t{0}, int64_t{1}});
    Node* written = graph.call("torch.ops.aten.add_.Scalar", {row, 1.0});
    graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{written, state})}, {}, "output");
    infer_shapes(program);
    try {
      save_onnx(program);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      const std::string remedy = is_buffer ? "writes to the buffer cache, which an ONNX model cannot do; let the model "
                                             "take the buffer as an input and return its new value"
                                           : "writes to the input x; let the model write to a clone of it";
      EXPECT_NE(error.message.find(remedy), std::string::npos) << error.message;
    }
  }
}

}  // namespace
}  // namespace qdq::onnx_places_test
