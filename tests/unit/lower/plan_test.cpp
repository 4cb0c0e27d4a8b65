#include "lower/plan.h"

#include <gtest/gtest.h>

#include <limits>

#include "lower/step_backend.h"

namespace qdq::plan_test {
namespace {

PlanBuffer u8_buffer(std::string name, SymShape sizes, PlanQParams qparams = {}) {
  PlanBuffer buffer;
  buffer.name = std::move(name);
  buffer.symbolic_sizes = std::move(sizes);
  buffer.channels_last = buffer.symbolic_sizes.size() == 4;
  buffer.dtype = DType::kU8;
  buffer.qparams = qparams;
  return buffer;
}

// x -> a -> b = add(a, a2) in place of a -> y, with a2 made of x as well.
Plan diamond() {
  Plan plan;
  const SymShape sizes{SymInt::symbol("s0"), 100};
  for (const char* name : {"x", "a", "a2", "b", "y"}) plan.buffers.push_back(u8_buffer(name, sizes));
  plan.buffers[0].location = PlanBuffer::Location::kInput;
  plan.buffers[4].location = PlanBuffer::Location::kOutput;
  const auto step = [&](PlanStep::Form form, std::vector<size_t> inputs, size_t output, int in_place) {
    PlanStep one;
    one.form = std::move(form);
    one.inputs = std::move(inputs);
    one.output = output;
    one.in_place_input = in_place;
    plan.steps.push_back(one);
  };
  step(PlanStep::Copy{}, {0}, 1, 0);
  step(PlanStep::Copy{}, {0}, 2, 0);
  step(PlanStep::Add{}, {1, 2}, 3, 0);
  step(PlanStep::Copy{}, {3}, 4, 0);
  return plan;
}

TEST(Plan, LaysBuffersOutByTheirLives) {
  const Plan plan = specialize(diamond(), {{"s0", 2}});
  EXPECT_EQ(plan.buffers[1].sizes, (Shape{2, 100}));
  EXPECT_NE(plan.buffers[1].offset, plan.buffers[2].offset);  // both are alive at the addition
  EXPECT_EQ(plan.buffers[3].offset, plan.buffers[1].offset);  // in place
  EXPECT_EQ(plan.arena_bytes, 512u);                          // two buffers of 200 bytes, rounded up to 64
  EXPECT_EQ(specialize(diamond(), {{"s0", 1}}).arena_bytes, 256u);
}

TEST(Plan, NamesTheBufferWhoseSizeIsUnknown) {
  try {
    specialize(diamond(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(error.message, "the size s0 of x cannot be computed from the sizes of the inputs");
  }
}

TEST(Plan, KindsNameTheFormsInTheirOrder) {
  const std::vector<std::pair<PlanStep::Form, std::string>> forms = {
      {PlanStep::Quantize{}, "quantize"},
      {PlanStep::Dequantize{}, "dequantize"},
      {PlanStep::Convolution{}, "convolution"},
      {PlanStep::Linear{}, "linear"},
      {PlanStep::DynamicLinear{}, "dynamic_linear"},
      {PlanStep::GroupLinear{}, "group_linear"},
      {PlanStep::DynamicConvolution{}, "dynamic_convolution"},
      {PlanStep::DynamicRound{}, "dynamic_round"},
      {PlanStep::MaxPool{}, "max_pool"},
      {PlanStep::AveragePool{}, "average_pool"},
      {PlanStep::Add{}, "add"},
      {PlanStep::Mul{}, "mul"},
      {PlanStep::Prelu{}, "prelu"},
      {PlanStep::Concat{}, "concat"},
      {PlanStep::Map{}, "map"},
      {PlanStep::Copy{}, "copy"},
      {PlanStep::Arrange{}, "arrange"},
      {PlanStep::LayerNorm{}, "layer_norm"},
      {PlanStep::Attention{}, "attention"},
      {PlanStep::Rotary{}, "rotary"},
  };
  EXPECT_EQ(forms.size(), std::variant_size_v<PlanStep::Form>);
  for (const auto& [form, name] : forms) {
    PlanStep step;
    step.form = form;
    EXPECT_EQ(to_string(step.kind()), name);
  }
}

TEST(Plan, FoldsClampsIntoTheQuantizedRange) {
  Plan plan;
  plan.buffers = {u8_buffer("a", {4}, {0.5, 10}), u8_buffer("b", {4}, {0.25, 0}), u8_buffer("y", {4}, {0.125, 3})};
  PlanStep add;
  add.form = PlanStep::Add{};
  add.inputs = {0, 1};
  add.output = 2;
  add.activation = {Activation::Kind::kClamp, 0, 6, 0};
  plan.steps.push_back(add);
  plan = specialize(plan, {});
  const Requantization to = requantization(plan, plan.steps[0]);
  EXPECT_EQ(to.multiplier, (std::vector<float>{4, 2}));
  EXPECT_EQ(to.activation.kind, Activation::Kind::kNone);
  EXPECT_EQ(to.low, 3);
  EXPECT_EQ(to.high, 51);  // 6 / 0.125 + 3
  const uint8_t a[4] = {10, 12, 9, 255}, b[4] = {1, 2, 0, 255};
  uint8_t y[4];
  const std::byte* inputs[2] = {reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)};
  auto compiled = make_reference_steps()->compile(plan, plan.steps[0]);
  std::get<0>(compiled)->run(inputs, reinterpret_cast<std::byte*>(y), nullptr);
  EXPECT_EQ(y[0], 5);   // 0 + 0.25 = 2 steps
  EXPECT_EQ(y[1], 15);  // 1 + 0.5 = 12 steps
  EXPECT_EQ(y[2], 3);   // negative
  EXPECT_EQ(y[3], 51);  // beyond 6
}

TEST(Plan, QuantizesHalfToEvenAndNaNToZero) {
  Requantization to;
  to.zero_point = 7;
  to.low = 0;
  to.high = 255;
  EXPECT_EQ(quantize_result(0.5f, to), 7);
  EXPECT_EQ(quantize_result(1.5f, to), 9);
  EXPECT_EQ(quantize_result(1e30f, to), 255);
  EXPECT_EQ(quantize_result(-std::numeric_limits<float>::infinity(), to), 0);
  EXPECT_EQ(quantize_result(std::nanf(""), to), 0);
}

}  // namespace
}  // namespace qdq::plan_test
