// CumProd, which came with opset 26.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_cumprod_test {
namespace {

Tensor run(format::OnnxNode node, const Tensor& x, DType result, const Tensor& axis) {
  format::OnnxFile file;
  file.ir_version = 13;
  file.opsets = {{"", 26}};
  const auto info = [](const std::string& name, DType dtype, const Tensor& like) {
    format::OnnxValueInfo out;
    out.name = name;
    out.dtype = dtype;
    out.dims.emplace();
    for (const int64_t size : like.sizes()) out.dims->push_back({size, ""});
    return out;
  };
  file.inputs = {info("x", x.dtype(), x)};
  file.outputs = {info("y", result, x)};
  file.initializers = {{"axis", axis}};
  file.nodes = {std::move(node)};
  const Program program = load_onnx(format::write_onnx_file(file));
  return Interpreter(program, {}).run({{x}})[0].contiguous();
}

TEST(OnnxCumProd, MultipliesAlongAnAxis) {
  struct Case {
    bool exclusive, reverse;
    std::vector<float> wanted;
  };
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const Case& each : {Case{false, false, {1, 2, 6, 4, 20, 120}}, Case{true, false, {1, 1, 2, 1, 4, 20}},
                           Case{false, true, {6, 6, 3, 120, 30, 6}}, Case{true, true, {6, 3, 1, 30, 6, 1}}})
    for (const DType dtype : {DType::kF32, DType::kS32}) {
      format::OnnxNode node = onnx_node("CumProd", {"x", "axis"}, "y");
      node.attributes = {onnx_integer("exclusive", each.exclusive), onnx_integer("reverse", each.reverse)};
      const Tensor found = run(node, x.to(dtype), dtype, Tensor::of<int64_t>({}, {1}));
      EXPECT_EQ(found.dtype(), dtype);
      EXPECT_TRUE(bitwise_equal(found.to(DType::kF32), Tensor::of<float>({2, 3}, std::span<const float>(each.wanted))));
    }
}

}  // namespace
}  // namespace qdq::onnx_cumprod_test
