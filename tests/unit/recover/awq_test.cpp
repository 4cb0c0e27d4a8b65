// Activation-aware scales for weights in groups (tests/golden/recover/awq.json, made by make_awq.py).
#include "recover/awq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "exec/interpreter.h"
#include "format/json.h"
#include "quant/quantizers/pattern_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recover/gptq.h"
#include "source_dir.h"
#include "unit/format/expect_error.h"
#include "unit/quant/program_builder.h"
#include "unit/quant/weights_in_groups.h"

namespace qdq::awq_test {
namespace {

using format::Json;

constexpr int64_t kRows = 24, kWidth = 64, kGroup = 32;

Json golden() {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/recover/awq.json");
  return Json::parse(file);
}

Tensor tensor_of(const Json& values, const Shape& sizes) {
  return Tensor::of<float>(sizes, std::span<const float>(values.get<std::vector<float>>()));
}

QuantizationConfig in_groups(bool is_per_token) {
  QuantizationConfig config;
  config.weight = weight_in_groups("PerGroupMinMaxObserver", kGroup);
  if (is_per_token) config.input_activation = activation_by_token();
  return config;
}

Prepared prepared_of(Program program, bool is_per_token = false) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(in_groups(is_per_token));
  return prepare_pt2e(std::move(program), quantizer);
}

// layer norm -> two linear layers
Program two_readers(const Json& values) {
  ProgramBuilder b;
  Node* x = b.input("x", {kRows, kWidth});
  Node* norm =
      b.call("layer_norm.default", {x, Argument::List{kWidth}, b.parameter("norm", tensor_of(values["norm"], {kWidth})),
                                    b.parameter("bias", tensor_of(values["bias"], {kWidth}))});
  Argument::List outputs;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t rows = std::ssize(values["weights"][i]) / kWidth;
    outputs.emplace_back(
        b.call("linear.default",
               {norm, b.parameter("w" + std::to_string(i), tensor_of(values["weights"][i], {rows, kWidth}))}));
  }
  return b.finish(outputs);
}

std::vector<Tensor> run(const Program& program, const Tensor& input) {
  return Interpreter(program, {}).run(std::vector<Tensor>{input});
}

// The squares of the differences over those of the values.
double noise_of(const Tensor& wanted, const Tensor& found) {
  double off = 0, all = 0;
  const Tensor a = wanted.contiguous(), b = found.contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    off += std::pow(static_cast<double>(a.data<float>()[i]) - static_cast<double>(b.data<float>()[i]), 2);
    all += std::pow(static_cast<double>(a.data<float>()[i]), 2);
  }
  return off / all;
}
double error(const std::vector<Tensor>& wanted, const std::vector<Tensor>& found) {
  double sum = 0;
  for (size_t k = 0; k < wanted.size(); ++k) sum += noise_of(wanted[k], found[k]);
  return sum;
}

TEST(Awq, FindsTheScalesOfTheFormula) {
  const Json values = golden();
  const Tensor x = tensor_of(values["x"], {kRows, kWidth});
  const std::vector<Tensor> exact = run(two_readers(values), x);
  Prepared prepared = prepared_of(two_readers(values));
  EXPECT_NEAR(error(exact, run(convert_pt2e(prepared), x)) / values["errors"][0].get<double>(), 1, 1e-3);
  ASSERT_EQ(awq(prepared, {{x}}), 1);
  const Tensor norm = prepared.program().find_attribute("norm")->tensor,
               weight = prepared.program().find_attribute("w1")->tensor;
  for (size_t i = 0; i < kWidth; ++i) {
    const auto factor = values["factors"][i].get<float>();
    EXPECT_NEAR(norm.span<float>()[i] * factor / values["norm"][i].get<float>(), 1, 1e-4) << i;
    EXPECT_NEAR(weight.span<float>()[i] / factor, values["weights"][1][i].get<float>(), 1e-4) << i;
  }
  const auto best = static_cast<size_t>(std::lround(values["alpha"].get<double>() * 20));
  EXPECT_NEAR(error(exact, run(convert_pt2e(prepared), x)) / values["errors"][best].get<double>(), 1, 1e-3);
}

// Weights with more small values than large ones, as trained layers have them.
Tensor trained(const Shape& sizes, uint32_t seed) {
  Tensor out = sample(sizes, seed);
  for (float& value : out.span<float>()) value *= std::fabs(value);
  return out;
}

// A few channels that are ten times larger than the others behind a norm and behind a gate, as SwiGLU has them.
Program gated() {
  ProgramBuilder b;
  Tensor sizes = Tensor::full({kWidth}, DType::kF32, 1);
  for (int64_t i = 5; i < kWidth; i += 13) sizes.data<float>()[i] = 10;
  Node* x = b.input("x", {kRows, kWidth});
  Node* norm = b.call("rms_norm.default", {x, Argument::List{kWidth}, b.parameter("norm", sizes)});
  Tensor up = trained({kWidth, kWidth}, 6);
  for (int64_t i = 0; i < up.numel(); ++i) up.data<float>()[i] *= sizes.data<float>()[i / kWidth];
  Node* gate = b.call("linear.default", {norm, b.parameter("gate", trained({kWidth, kWidth}, 7))});
  Node* product =
      b.call("mul.Tensor", {b.call("silu.default", {gate}), b.call("linear.default", {norm, b.parameter("up", up)})});
  return b.finish({b.call("linear.default", {product, b.parameter("down", trained({16, kWidth}, 8))})});
}

TEST(Awq, ScalesBehindNormsAndGatesAndKeepsTheFloatProgram) {
  std::vector<Batch> seen, unseen;
  for (uint32_t i = 1; i <= 8; ++i) seen.push_back({sample({kRows, kWidth}, i)});
  for (uint32_t i = 11; i <= 18; ++i) unseen.push_back({sample({kRows, kWidth}, i)});
  const auto noise = [&](const Program& program, const std::vector<Batch>& batches) {
    double sum = 0;
    for (const Batch& batch : batches) sum += error(run(gated(), batch[0]), run(program, batch[0]));
    return sum / static_cast<double>(batches.size());
  };
  for (const bool is_per_token : {false, true}) {
    SCOPED_TRACE(is_per_token);
    Prepared prepared = prepared_of(gated(), is_per_token);
    std::vector<int64_t> told;
    EXPECT_EQ(awq(prepared, seen, [&](int64_t done, int64_t) { told.push_back(done); }), 2);
    EXPECT_EQ(told, (std::vector<int64_t>{0, 1, 2}));
    Program floats = gated();
    for (const char* name : {"norm", "gate", "up", "down"})
      floats.find_attribute(name)->tensor = prepared.program().find_attribute(name)->tensor;
    EXPECT_LT(noise(floats, unseen), 1e-10) << "the floats compute the same";
    const double scaled = noise(convert_pt2e(prepared), unseen);
    EXPECT_EQ(gptq(prepared, seen), 3);
    EXPECT_LT(noise(convert_pt2e(prepared), unseen), scaled) << "rounds the scaled weights";
    expect_error(ErrorCode::kInvalidArgument, "rounded already", [&] { awq(prepared, seen); });
  }
}

TEST(Awq, WantsSamplesAndGivesUpWhole) {
  Prepared prepared = prepared_of(gated());
  expect_error(ErrorCode::kInvalidArgument, "no samples", [&] { awq(prepared, {}); });
  const Tensor before = prepared.program().find_attribute("norm")->tensor;
  EXPECT_ANY_THROW(awq(prepared, {{sample({kRows, kWidth}, 1)}}, [](int64_t done, int64_t) {
    if (done == 1) fail(ErrorCode::kInvalidArgument, "enough");
  }));
  EXPECT_TRUE(bitwise_equal(prepared.program().find_attribute("norm")->tensor, before));
  PatternQuantizer nothing("nothing", {});
  Prepared plain = prepare_pt2e(gated(), nothing);
  EXPECT_EQ(awq(plain, {{sample({kRows, kWidth}, 1)}}), 0);
}

}  // namespace
}  // namespace qdq::awq_test
