// Models as ONNX Runtime's optimizers write them.
#include <gtest/gtest.h>

#include "cli/cli.h"
#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "unit/cli/memory_host.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_runtime_test {
namespace {

Tensor ramp(const Shape& sizes) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i % 11) / 4 - 1;
  return out;
}

// x [1, 4, 5, 3] -> y, of this operator with a weight [2, 3, 3, 3] and paddings of 1.
format::OnnxFile convolution(const std::string& domain, const std::string& op) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}, {domain, 1}};
  format::OnnxValueInfo x, y;
  x.name = "x";
  y.name = "y";
  x.dtype = y.dtype = DType::kF32;
  x.dims = {{1, ""}, {4, ""}, {5, ""}, {3, ""}};
  y.dims = {{1, ""}, {4, ""}, {5, ""}, {2, ""}};
  file.inputs = {x};
  file.outputs = {y};
  file.initializers = {{"weight", ramp({2, 3, 3, 3})}, {"bias", ramp({2})}};
  format::OnnxNode node = onnx_node(op, {"x", "weight", "bias"}, "y");
  node.domain = domain;
  format::OnnxAttribute pads;
  pads.name = "pads";
  pads.kind = format::OnnxKind::kInts;
  pads.ints = {1, 1, 1, 1};
  node.attributes = {pads};
  file.nodes = {node};
  return file;
}

Tensor channels(const Tensor& x, const std::vector<int64_t>& order) { return x.permute(order).contiguous(); }

TEST(OnnxRuntime, ConvolutionsMayHaveChannelsLast) {
  const Program program = load_onnx(format::write_onnx_file(convolution("com.microsoft", "NhwcConv")));
  const Tensor x = ramp({1, 4, 5, 3});
  const Tensor found = Interpreter(program, {}).run(std::vector<Tensor>{x})[0];
  format::OnnxFile first = convolution("com.microsoft", "Conv");
  first.nodes[0].domain.clear();
  first.inputs[0].dims = {{1, ""}, {3, ""}, {4, ""}, {5, ""}};
  first.outputs[0].dims = {{1, ""}, {2, ""}, {4, ""}, {5, ""}};
  first.initializers[0].second = channels(first.initializers[0].second, {0, 3, 1, 2});
  const Program as_usual = load_onnx(format::write_onnx_file(first));
  const Tensor wanted = Interpreter(as_usual, {}).run(std::vector<Tensor>{channels(x, {0, 3, 1, 2})})[0];
  EXPECT_TRUE(bitwise_equal(found.contiguous(), channels(wanted, {0, 2, 3, 1})));
}

TEST(OnnxRuntime, LayoutsOfOneProcessorAreRefusedWithARemedy) {
  MemoryHost host;
  host.contents["model.onnx"] = format::write_onnx_file(convolution("com.microsoft.nchwc", "Conv"));
  host.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", ramp({1, 4, 5, 3})}});
  EXPECT_NE(run_cli(std::vector<std::string>{"run", "model.onnx", "--inputs", "x.npz", "-o", "y.npz"}, host), 0);
  EXPECT_NE(host.err.find("(node conv): ONNX Runtime changed the layout for one kind of processor"), std::string::npos)
      << host.err;
  EXPECT_NE(host.err.find("save it at the level ORT_ENABLE_EXTENDED"), std::string::npos) << host.err;
}

}  // namespace
}  // namespace qdq::onnx_runtime_test
