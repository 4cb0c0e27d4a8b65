// Float sessions and sessions in bfloat16 against what PyTorch 2.6 computes (tests/golden/bf16, made by make_bf16.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "format/bytes.h"
#include "format/json.h"
#include "golden_bytes.h"
#include "io/pt2.h"
#include "lower/step_backend.h"
#include "lower/lower.h"

namespace qdq::bf16_test {
namespace {

using format::Json;

const LowerOptions kInBf16{.backends = {}, .fuse = true, .bf16 = true};

Tensor tensor_of(const Json& values, const Json& shape) {
  Tensor out = Tensor::empty(shape.get<Shape>(), DType::kF32);
  for (size_t i = 0; i < values.size(); ++i) out.data<float>()[i] = values[i].get<float>();
  return out;
}

// The largest difference in parts of the second's largest value.
double difference(const Tensor& found, const Tensor& wanted) {
  EXPECT_EQ(found.sizes(), wanted.sizes());
  EXPECT_EQ(found.dtype(), DType::kF32);
  const Tensor a = found.contiguous(), b = wanted.contiguous();
  double most = 0, largest = 0;
  for (int64_t i = 0; i < b.numel(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a.data<float>()[i]) - static_cast<double>(b.data<float>()[i])));
    largest = std::max(largest, std::fabs(static_cast<double>(b.data<float>()[i])));
  }
  return most / largest;
}

class Bf16 : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::vector<std::byte> bytes = golden_bytes("bf16/bf16.json");
    facts_ = format::parse_json(format::text_of(bytes), "bf16.json").at(GetParam());
    x_ = tensor_of(facts_["input"], facts_["input_shape"]);
  }
  Program program(const char* ending) { return load_pt2(golden_bytes("bf16/" + GetParam() + ending)); }
  Tensor expected(const char* kind, const char* dtype) { return tensor_of(facts_[kind][dtype], facts_[kind]["shape"]); }

  Json facts_;
  Tensor x_;
};

TEST_P(Bf16, FloatSessionsGivePyTorchsNumbers) {
  EXPECT_LE(difference(lower(program(".pt2")).run({{x_}})[0], expected("float", "f32")), 1e-5);
}

TEST_P(Bf16, IsThatOfAutocast) {
  const auto onednn = make_onednn_steps();
  if (onednn == nullptr) return;
  for (const char* kind : {"float", "int8"}) {
    const Program model = program(std::string_view(kind) == "float" ? ".pt2" : ".int8.pt2");
    Session session = lower(model, kInBf16);
    const Tensor found = session.run({{x_}})[0];
    EXPECT_EQ(session.warnings().empty(), onednn->bf16_obstacle().empty());
    // Autocast rounds in other places of a fused step than one primitive does: both are some roundings away from f32.
    EXPECT_LE(difference(found, expected(kind, "bf16")), 0.02) << kind;
    // All of the quantized "mobile" but a gate is integers: bf16 there moves none of them.
    if (std::string_view(kind) == "float" || GetParam() == "transformer") {
      EXPECT_GE(difference(found, expected(kind, "f32")), 1e-4) << kind << " was computed in float32";
    }
    for (const Session::Placement& placement : session.placements())
      EXPECT_NE(placement.backend, "reference") << placement.node << " is left to plain loops: " << placement.target;
  }
}

// What builds without oneDNN do.
TEST_P(Bf16, IsEmulatedToAutocastsRoundings) {
  LowerOptions options = kInBf16;
  options.backends = {"simd"};
  for (const char* kind : {"float", "int8"}) {
    Session session = lower(program(std::string_view(kind) == "float" ? ".pt2" : ".int8.pt2"), options);
    ASSERT_FALSE(session.warnings().empty());
    EXPECT_EQ(session.warnings()[0],
              "bfloat16 was asked for, but its kernels compute no bfloat16; plain loops give the same numbers, and are "
              "slower than float32");
    const Tensor found = session.run({{x_}})[0];
    // A step of bf16 is 0.004 of the largest value. Inductor multiplies integers as they are; PyTorch's graph of int8
    // layers rounds dequantized activations and weights first.
    const bool is_float = std::string_view(kind) == "float";
    EXPECT_LE(difference(found, expected(kind, is_float ? "bf16" : "inductor")), 0.004) << kind;
    EXPECT_LE(difference(found, expected(kind, "bf16")), 0.012) << kind;
    for (const float value : found.span<float>())
      EXPECT_EQ(value, static_cast<float>(BF16(value))) << kind << " gives more than the bfloat16 of its last layer";
    if (is_float) {
      EXPECT_GE(difference(found, expected(kind, "f32")), 1e-4) << kind << " was computed in float32";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Bf16, testing::Values("mobile", "transformer"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace qdq::bf16_test
