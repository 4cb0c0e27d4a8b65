// What is written of operators that choose and write places of a tensor.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
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

}  // namespace
}  // namespace qdq::onnx_places_test
