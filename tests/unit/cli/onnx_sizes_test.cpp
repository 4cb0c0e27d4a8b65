// Sizes of ONNX models that only a run tells.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "lower/lower.h"
#include "unit/cli/onnx_node.h"

namespace qdq {
namespace {

// The rows f [6, 2] for which x [6] is above 0, but for the first, and 2 at most, as a detector takes its best boxes:
// zeros of their shape are added, and a linear layer follows.
Program best_rows() {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  file.inputs.push_back({"x", DType::kF32, Dims{{6, ""}}});
  file.inputs.push_back({"f", DType::kF32, Dims{{6, ""}, {2, ""}}});
  const auto integers = [&](const std::string& name, int64_t value) {
    file.initializers.emplace_back(name, Tensor::of<int64_t>({1}, {value}));
  };
  integers("zero", 0);
  integers("one", 1);
  integers("three", 3);
  file.initializers.emplace_back("none", Tensor::full({}, DType::kF32, 0));
  file.initializers.emplace_back("w", Tensor::of<float>({2, 3}, {1, 0, 1, 0, 1, 1}));
  file.nodes = {
      onnx_node("Greater", {"x", "none"}, "above"),     onnx_node("NonZero", {"above"}, "places"),
      onnx_node("Squeeze", {"places", "zero"}, "all"),  onnx_node("Slice", {"all", "one", "three", "zero"}, "kept"),
      onnx_node("Gather", {"f", "kept"}, "rows"),       onnx_node("Shape", {"rows"}, "shape"),
      onnx_node("ConstantOfShape", {"shape"}, "zeros"), onnx_node("Add", {"zeros", "rows"}, "same"),
      onnx_node("MatMul", {"same", "w"}, "product"),    onnx_node("Relu", {"product"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return load_onnx(format::write_onnx_file(file));
}

TEST(OnnxSizes, ASliceMayEndBehindWhatARunFinds) {
  const Program program = best_rows();
  Session session = lower(program);
  const Tensor f = Tensor::of<float>({6, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const std::pair<std::vector<float>, std::vector<float>> cases[] = {{{1, 1, 1, 1, 1, 1}, {2, 3, 5, 4, 5, 9}},
                                                                     {{0, 1, 0, 0, 1, 0}, {8, 9, 17}},
                                                                     {{0, 0, 1, 0, 0, 0}, {}},
                                                                     {{0, 0, 0, 0, 0, 0}, {}},
                                                                     {{1, 0, 1, 0, 0, 1}, {4, 5, 9, 10, 11, 21}}};
  for (const auto& [x, wanted] : cases) {
    const std::vector<Tensor> inputs = {Tensor::of<float>({6}, std::span<const float>(x)), f};
    for (const Tensor& y : {session.run(inputs).at(0), Interpreter(program, {}).run(inputs).at(0)}) {
      EXPECT_EQ(y.sizes(), (Shape{static_cast<int64_t>(wanted.size()) / 3, 3}));
      EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + y.numel()), wanted);
    }
  }
}

}  // namespace
}  // namespace qdq
