// Slices of ONNX models: where they end, and the sizes that they leave.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "lower/lower.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_slices_test {
namespace {

// ONNX wants the least integers as the end of what goes backwards to the front; exporters write the largest, too, which
// ONNX Runtime takes for the same.
TEST(OnnxSlices, ASliceBackwardsEndsAtTheFront) {
  for (const int64_t end : {int64_t{INT32_MAX}, INT64_MAX, int64_t{INT32_MIN}, INT64_MIN})
    for (const bool is_open : {false, true}) {
      format::OnnxFile file;
      file.ir_version = 8;
      file.opsets = {{"", 17}};
      using Dims = std::vector<format::OnnxDimension>;
      file.inputs.push_back({"x", DType::kF32, is_open ? Dims{{{}, "n"}} : Dims{{3, ""}}});
      for (const auto& [name, value] : {std::pair("start", int64_t{-1}), {"end", end}, {"axis", 0}, {"step", -1}})
        file.initializers.emplace_back(name, Tensor::of<int64_t>({1}, {value}));
      file.nodes = {onnx_node("Slice", {"x", "start", "end", "axis", "step"}, "y")};
      file.outputs.push_back({"y", std::nullopt, std::nullopt});
      const Program program = load_onnx(format::write_onnx_file(file));
      const std::vector<Tensor> inputs = {Tensor::of<float>({3}, {1, 2, 3})};
      const Tensor y = Interpreter(program, {}).run(inputs).at(0).contiguous();
      EXPECT_TRUE(bitwise_equal(y, Tensor::of<float>({3}, {3, 2, 1}))) << end << ' ' << is_open;
    }
}

// An open axis may be shorter than the bounds of a slice; the sizes of what is there are told all the same.
TEST(OnnxSlices, ASliceOfAnOpenAxisHasWhatIsThere) {
  constexpr int64_t kBounds[] = {0, 1, 3, 9999, INT32_MAX, INT64_MAX, -1, -2, -4, -9999, INT64_MIN};
  for (const int64_t start : kBounds)
    for (const int64_t end : kBounds)
      for (const int64_t step : {1, 2}) {
        format::OnnxFile file;
        file.ir_version = 8;
        file.opsets = {{"", 17}};
        file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{{}, "n"}}});
        for (const auto& [name, value] : {std::pair("start", start), {"end", end}, {"axis", 0}, {"step", step}})
          file.initializers.emplace_back(name, Tensor::of<int64_t>({1}, {value}));
        file.nodes = {onnx_node("Slice", {"x", "start", "end", "axis", "step"}, "part"),
                      onnx_node("Shape", {"part"}, "shape"), onnx_node("ConstantOfShape", {"shape"}, "zeros"),
                      onnx_node("Add", {"part", "zeros"}, "y")};
        file.outputs.push_back({"y", std::nullopt, std::nullopt});
        file.outputs.push_back({"shape", std::nullopt, std::nullopt});
        const Program program = load_onnx(format::write_onnx_file(file));
        for (const int64_t n : {1, 2, 5}) {
          const auto place = [&](int64_t bound) {
            return std::clamp<int64_t>(bound < 0 ? std::max(bound, -n) + n : bound, 0, n);
          };
          std::vector<float> x, wanted;
          for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i));
          for (int64_t i = place(start); i < place(end); i += step) wanted.push_back(x[static_cast<size_t>(i)]);
          const auto length = static_cast<int64_t>(wanted.size());
          const std::vector<Tensor> inputs = {Tensor::of<float>({n}, std::span<const float>(x))};
          const std::vector<Tensor> found = Interpreter(program, {}).run(inputs);
          SCOPED_TRACE(concat(start, ':', end, ':', step, " of ", n));
          EXPECT_TRUE(
              bitwise_equal(found.at(0).contiguous(), Tensor::of<float>({length}, std::span<const float>(wanted))));
          EXPECT_TRUE(bitwise_equal(found.at(1), Tensor::of<int64_t>({1}, {length})));
        }
      }
}

// x [n, 2] up to the size m of another input, in floats or in a plan; n may be smaller.
TEST(OnnxSlices, ASliceUpToTheSizeOfAnotherInputHasWhatIsThere) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  file.inputs.push_back({"x", DType::kF32, Dims{{{}, "n"}, {2, ""}}});
  file.inputs.push_back({"y", DType::kF32, Dims{{{}, "m"}}});
  file.initializers.emplace_back("zero", Tensor::of<int64_t>({1}, {0}));
  file.initializers.emplace_back("kept", Tensor::of<int64_t>({4}, {0, 0, 1, 1}));
  file.initializers.emplace_back("w", Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  file.nodes = {onnx_node("Shape", {"y"}, "m"),
                onnx_node("Slice", {"x", "zero", "m", "zero"}, "part"),
                onnx_node("Shape", {"part"}, "shape"),
                onnx_node("MatMul", {"part", "w"}, "product"),
                onnx_node("ConstantOfShape", {"shape"}, "zeros"),
                onnx_node("Add", {"product", "zeros"}, "sum"),
                onnx_node("Unsqueeze", {"sum", "zero"}, "batch"),
                onnx_node("Transpose", {"batch"}, "turned"),
                onnx_node("Reshape", {"turned", "kept"}, "out")};
  for (const char* name : {"out", "shape"}) file.outputs.push_back({name, std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  Session session = lower(program);
  Session again = lower(load_onnx(save_onnx(program)));
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{3, 2}, {2, 3}, {2, 2}, {1, 4}}) {
    const int64_t length = std::min(n, m);
    const std::vector<Tensor> inputs = {Tensor::full({n, 2}, DType::kF32, 1), Tensor::full({m}, DType::kF32, 0)};
    for (const auto& found : {Interpreter(program, {}).run(inputs), session.run(inputs), again.run(inputs)}) {
      SCOPED_TRACE(concat(n, " up to ", m));
      EXPECT_EQ(found.at(0).sizes(), (Shape{2, length, 1, 1}));
      EXPECT_TRUE(bitwise_equal(found.at(1), Tensor::of<int64_t>({2}, {length, 2})));
    }
  }
}

// A detector of images of open sizes computes how many anchors it has, in sums of rounded quotients of such sums. What
// would divide them or take the smaller one, only a run tells.
TEST(OnnxSlices, ARunTellsSizesWhoseExpressionsAreTooLong) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  for (const auto& [name, value] :
       {std::pair("zero", int64_t{0}), {"end", INT64_MAX}, {"two", 2}, {"three", 3}, {"rest", -1}})
    file.initializers.emplace_back(name, Tensor::of<int64_t>({1}, {value}));
  const auto join = [&](const std::vector<std::string>& parts, const std::string& output) {
    file.nodes.push_back(onnx_node("Concat", parts, output));
    file.nodes.back().attributes.push_back(onnx_integer("axis", 0));
  };
  for (const std::string name : {"x", "y"}) {
    file.inputs.push_back({name, DType::kF32, std::vector<format::OnnxDimension>{{{}, "n_" + name}}});
    std::string last = name;
    for (int round = 0; round < 5; ++round) {
      const std::string sum = concat(name, "_sum", round);
      for (const std::string step : {"two", "three"})
        file.nodes.push_back(onnx_node("Slice", {last, "zero", "end", "zero", step}, sum + step));
      join({sum + "two", sum + "three"}, sum);
      last = sum;
    }
    file.nodes.push_back(onnx_node("Shape", {last}, name + "_size"));
  }
  join({"y_size", "rest"}, "shape");
  file.nodes.push_back(onnx_node("Reshape", {"x_sum4", "shape"}, "rows"));
  file.nodes.push_back(onnx_node("Slice", {"x_sum4", "zero", "y_size", "zero"}, "part"));
  for (const char* name : {"rows", "part"}) file.outputs.push_back({name, std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const Program again = load_onnx(save_onnx(program));
  const std::vector<Tensor> inputs = {Tensor::full({9}, DType::kF32, 1), Tensor::full({9}, DType::kF32, 0)};
  for (const Program* one : {&program, &again})
    for (const auto& found : {Interpreter(*one, {}).run(inputs), lower(*one).run(inputs)}) {
      EXPECT_EQ(found.at(0).sizes(), (Shape{found.at(1).numel(), 1}));
      EXPECT_GT(found.at(1).numel(), 0);
    }
}

}  // namespace
}  // namespace qdq::onnx_slices_test
