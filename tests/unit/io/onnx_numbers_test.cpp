// Numbers of ONNX models come back as they were, the largest integers too.
#include <gtest/gtest.h>

#include "format/onnx_file.h"
#include "io/onnx.h"

namespace qdq::onnx_numbers_test {
namespace {

format::OnnxNode node(const char* op, std::vector<std::string> inputs, const char* output) {
  return {output, op, "", std::move(inputs), {output}, {}, {}};
}

format::OnnxFile model(std::vector<format::OnnxNode> nodes) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.nodes = std::move(nodes);
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return file;
}

using Dims = std::vector<format::OnnxDimension>;

// The integers of one element that the model has when qdq has read and written it.
std::vector<int64_t> written(const format::OnnxFile& file) {
  const format::OnnxFile out = format::read_onnx_file(save_onnx(load_onnx(format::write_onnx_file(file))));
  std::vector<int64_t> numbers;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.dtype() == DType::kS64 && tensor.numel() == 1) numbers.push_back(tensor.item_int());
  };
  for (const auto& [name, tensor] : out.initializers) add(tensor);
  for (const format::OnnxNode& one : out.nodes)
    for (const format::OnnxAttribute& attribute : one.attributes)
      if (attribute.kind == format::OnnxKind::kTensor) add(attribute.t);
  return numbers;
}

constexpr int64_t kNumbers[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1, (int64_t{1} << 53) + 1, -(int64_t{1} << 62) - 1};

TEST(OnnxNumbers, OperandsKeepEveryBit) {
  for (const int64_t number : kNumbers)
    for (const char* op : {"Add", "Mul", "Equal", "Clip", "Min"}) {
      format::OnnxFile file = model({node(op, {"x", "n"}, "y")});
      file.inputs.push_back({"x", DType::kS64, Dims{{3, ""}}});
      file.initializers.emplace_back("n", Tensor::scalar(number));
      const std::vector<int64_t> found = written(file);
      EXPECT_EQ(std::count(found.begin(), found.end(), number), 1) << op << " " << number;
    }
}

TEST(OnnxNumbers, FillsKeepEveryBit) {
  for (const int64_t number : kNumbers) {
    format::OnnxFile file = model({node("ConstantOfShape", {"size"}, "y"), node("Shape", {"x"}, "size")});
    std::swap(file.nodes[0], file.nodes[1]);
    file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "n"}}});
    format::OnnxAttribute value;
    value.name = "value";
    value.kind = format::OnnxKind::kTensor;
    value.t = Tensor::of<int64_t>({1}, {number});
    file.nodes[1].attributes.push_back(value);
    const std::vector<int64_t> found = written(file);
    EXPECT_EQ(std::count(found.begin(), found.end(), number), 1) << number;
  }
}

// As torchvision exports it: as many boxes as there are.
TEST(OnnxNumbers, NonMaxSuppressionKeepsItsNumberOfBoxes) {
  format::OnnxFile file = model({node("NonMaxSuppression", {"boxes", "scores", "most", "overlap"}, "y")});
  file.inputs.push_back({"boxes", DType::kF32, Dims{{1, ""}, {5, ""}, {4, ""}}});
  file.inputs.push_back({"scores", DType::kF32, Dims{{1, ""}, {1, ""}, {5, ""}}});
  file.initializers.emplace_back("most", Tensor::of<int64_t>({1}, {INT64_MAX}));
  file.initializers.emplace_back("overlap", Tensor::of<float>({1}, {0.5f}));
  EXPECT_EQ(written(file), std::vector<int64_t>{INT64_MAX});
}

}  // namespace
}  // namespace qdq::onnx_numbers_test
