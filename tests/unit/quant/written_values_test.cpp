// Tensors that operators write into: buffers keep the file's values, and written views stay float.
#include <gtest/gtest.h>

#include <ctime>

#include "exec/interpreter.h"
#include "program_builder.h"
#include "quant/explain.h"
#include "quant/pt2e.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "quant/written_values.h"

namespace qdq::written_values_test {
namespace {

XNNPACKQuantizer xnnpack() {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  return quantizer;
}
X86InductorQuantizer x86() {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_default_x86_inductor_quantization_config());
  return quantizer;
}

Node* buffer(ProgramBuilder& b, const std::string& name, const Tensor& tensor) { return b.parameter(name, tensor); }

// linear(x); y[:, 0:2] = y[:, 0:2] * 8; then another linear layer.
Program decode(bool reads_again) {
  ProgramBuilder b;
  Node* y = b.call("linear.default", {b.input("x", {3, 4}), b.weight("w", {4, 4})});
  Node* part = b.call("slice.Tensor", {y, 1, 0, 2});
  Node* product = b.call("mul.Tensor", {part, 8.0});
  Node* view = b.call("slice.Tensor", {y, 1, 0, 2});
  b.call("copy_.default", {view, product});
  if (!reads_again) return b.finish({y});
  return b.finish({b.call("linear.default", {y, b.weight("v", {2, 4})}), y});
}

float largest_difference(const Tensor& a, const Tensor& b) {
  float out = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    out = std::max(out, std::abs(a.contiguous().data<float>()[i] - b.contiguous().data<float>()[i]));
  return out;
}

std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& inputs) {
  return Interpreter(program, {}).run(inputs);
}

template <class Q> void expect_written_parts(Q quantizer) {
  for (const bool reads_again : {false, true}) {
    const Tensor x = sample({3, 4}, 1);
    const Program floats = decode(reads_again);
    const std::vector<Tensor> wanted = run(floats, {x});
    Prepared prepared = prepare_pt2e(decode(reads_again), quantizer);
    prepared.run({x});
    const Program converted = convert_pt2e(prepared);
    const std::vector<Tensor> found = run(converted, {x});
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float largest = largest_difference(wanted[i], Tensor::empty(wanted[i].sizes(), DType::kF32));
      EXPECT_LT(largest_difference(wanted[i], found[i]), 0.05f * largest) << reads_again << i;
    }
    // The layer in front still has integers.
    EXPECT_EQ(explain(prepared, "linear").outcome, Explanation::Outcome::kQuantized);
    if (!reads_again) continue;
    const Explanation behind = explain(prepared, "linear_1");
    EXPECT_EQ(behind.outcome, Explanation::Outcome::kFloat);
    EXPECT_NE(behind.reason.find("writes into through a view"), std::string::npos) << behind.reason;
  }
}

TEST(WrittenValues, ViewsThatAreWrittenStayFloat) {
  expect_written_parts(xnnpack());
  expect_written_parts(x86());
}

TEST(WrittenValues, AnActivationInPlaceIsQuantizedAsEver) {
  ProgramBuilder b;
  Node* y = b.call("linear.default", {b.input("x", {3, 4}), b.weight("w", {4, 4})});
  Node* relu = b.call("relu_.default", {b.call("view.default", {y, Argument(Argument::List{2, 6})})});
  Program program = b.finish({relu});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  for (const Explanation& explanation : explain(prepared))
    for (const Decision& decision : explanation.decisions) EXPECT_NE(decision.quantizer, "prepare_pt2e");
}

// h = tanh(linear(x) + h), through a view where the state is one.
Program recurrent(bool through_view) {
  ProgramBuilder b;
  Node* h = buffer(b, "h", Tensor::full({3, 4}, DType::kF32, 0.5));
  Node* y = b.call("linear.default", {b.input("x", {3, 4}), b.weight("w", {4, 4})});
  Node* next = b.call("tanh.default", {b.call("add.Tensor", {y, h})});
  b.call("copy_.default", {through_view ? b.call("slice.Tensor", {h, 0, 0, 3}) : h, next});
  return b.finish({b.call("linear.default", {next, b.weight("v", {2, 4})})});
}

TEST(WrittenValues, BuffersOfTheConvertedProgramAreThoseOfTheFile) {
  for (const bool through_view : {false, true}) {
    Program program = recurrent(through_view);
    const Tensor given = program.find_attribute("h")->tensor;
    XNNPACKQuantizer quantizer = xnnpack();
    Prepared prepared = prepare_pt2e(program.clone(), quantizer);
    const Tensor first = prepared.run({sample({3, 4}, 1)}).at(0);
    // Calibration goes on with the state that the batch before left, and the float program has its own.
    EXPECT_GT(largest_difference(prepared.run({sample({3, 4}, 1)}).at(0), first), 0);
    EXPECT_TRUE(bitwise_equal(given, Tensor::full({3, 4}, DType::kF32, 0.5)));
    const Program converted = convert_pt2e(prepared);
    ASSERT_NE(converted.find_attribute("h"), nullptr);
    EXPECT_TRUE(bitwise_equal(converted.find_attribute("h")->tensor, given));
    const std::vector<Tensor> before = run(converted, {sample({3, 4}, 1)});
    EXPECT_LT(largest_difference(before[0], first), 0.05f);
    EXPECT_FALSE(bitwise_equal(converted.find_attribute("h")->tensor, given));
    EXPECT_TRUE(bitwise_equal(convert_pt2e(prepared).find_attribute("h")->tensor, given));
  }
}

// A buffer that a view of it writes to is no constant that could be folded.
TEST(WrittenValues, WhatAViewWritesToIsNoConstant) {
  ProgramBuilder b;
  Node* cache = buffer(b, "cache", Tensor::full({4, 4}, DType::kF32, 0.5));
  Node* x = b.input("x", {4, 4});
  Node* product = b.call("linear.default", {x, cache});
  b.call("copy_.default", {b.call("slice.Tensor", {cache, 0, 0, 2}), b.call("slice.Tensor", {x, 0, 0, 2})});
  Program program = b.finish({product});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  prepared.run({sample({4, 4}, 1)});
  const Program converted = convert_pt2e(prepared);
  const Tensor first = run(converted, {sample({4, 4}, 1)}).at(0), second = run(converted, {sample({4, 4}, 1)}).at(0);
  EXPECT_GT(largest_difference(first, second), 0.01f);
}

// Writes through views of one value, each read by the next: as many as a file makes them.
TEST(WrittenValues, ManyWritesAreToldInTimeThatGrowsWithTheirNumber) {
  ProgramBuilder b;
  constexpr int kWrites = 20000;
  Node* y = b.call("linear.default", {b.input("x", {3, 4}), b.weight("w", {4, 4})});
  Annotations annotations;
  const QuantizationSpec int8;
  annotations[y].output_qspec = int8;
  Node* written = y;
  for (int i = 0; i < kWrites; ++i) {
    written = b.call("relu_.default", {written});
    annotations[written].output_qspec = int8;
  }
  Node* last = b.call("neg.default", {written});
  const Program alone = b.finish({last});
  const std::clock_t begin = std::clock();
  leave_written_in_float(alone, annotations);
  EXPECT_NE(annotations.find(y), annotations.end()) << "each reads what the one before it gives";
  {
    const auto point = alone.graph->insert_after(last);
    last->replace_all_uses_with(alone.graph->call("torch.ops.aten.add.Tensor", {last, y}),
                                [](const Node* user) { return user->op() == Node::Op::kOutput; });
  }
  leave_written_in_float(alone, annotations);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  EXPECT_EQ(annotations.find(y), annotations.end());
  EXPECT_EQ(annotations.find(written), annotations.end());
}

}  // namespace
}  // namespace qdq::written_values_test
