// Accuracy that comes back by sums over what layers read.
#include "recover/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/quantizers/pattern_quantizer.h"
#include "quant/prepared_impl.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recover/moments.h"
#include "recover/recovery.h"
#include "unit/format/expect_error.h"
#include "unit/quant/program_builder.h"

namespace qdq::statistics_test {
namespace {

Prepared observed(Program program, const std::vector<Batch>& batches, int64_t weight_bits = 8) {
  XNNPACKQuantizer quantizer;
  const int64_t limit = int64_t{1} << (weight_bits - 1);
  quantizer.set_global(get_symmetric_quantization_config(
      {.is_per_channel = true, .weight_qmin = -limit + (weight_bits == 8), .weight_qmax = limit - 1}));
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  observe_layers(prepared);
  for (const Batch& batch : batches) prepared.run(batch);
  return prepared;
}

int64_t changes_of(const std::vector<AppliedRemedy>& applied, const std::string& remedy) {
  for (const AppliedRemedy& one : applied)
    if (one.remedy == remedy) return one.changes;
  return -1;
}

std::vector<Batch> batches_of(const Shape& sizes, float offset = 0) {
  std::vector<Batch> out;
  for (uint32_t seed = 1; seed < 5; ++seed) {
    const Tensor x = sample(sizes, seed);
    for (float& value : x.span<float>()) value += offset;
    out.push_back({x});
  }
  return out;
}

// x[8, 16] -> linear -> relu -> linear -> [8, 4]; channels between both are made larger by up to 1000, and as much
// smaller in the weights that read them.
Program damaged() {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* first = b.call("linear.default", {x, b.weight("first.weight", {12, 16}), b.weight("first.bias", {12})});
  Node* relu = b.call("relu.default", {first});
  Program program =
      b.finish({b.call("linear.default", {relu, b.weight("second.weight", {4, 12}), b.weight("second.bias", {4})})});
  for (const char* name : {"first.weight", "first.bias", "second.weight"}) {
    const Tensor tensor = program.find_attribute(name)->tensor;
    const bool is_first = std::string(name).starts_with("first");
    const int64_t inner = is_first && tensor.dim() == 2 ? 16 : 1;
    for (int64_t i = 0; i < tensor.numel(); ++i)
      tensor.data<float>()[i] *= std::pow(10.0f, (is_first ? 1.0f : -1.0f) * static_cast<float>(i / inner % 12 % 4));
  }
  return program;
}

TEST(RecoverByStatistics, EqualizesChannelsOfVeryDifferentSizes) {
  const std::vector<Batch> batches = batches_of({8, 16});
  Prepared prepared = observed(damaged(), batches), plain = observed(damaged(), batches);
  const std::vector<AppliedRemedy> applied = recover_by_statistics(prepared);
  EXPECT_EQ(changes_of(applied, "equalization"), 1);
  EXPECT_EQ(changes_of(applied, "rounding"), 0);
  EXPECT_EQ(changes_of(applied, "bias correction"), 2);
  Recovery before(plain, batches), after(prepared, batches);
  EXPECT_GT(after.decibels(), before.decibels() + 6);
}

// A convolution with padding and groups, whose kernel sees other means at the borders.
Program padded() {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 4, 6, 6});
  const Argument::List one{1, 1};
  return b.finish(
      {b.call("conv2d.default", {x, b.weight("weight", {6, 2, 3, 3}), Argument(), Argument::List{2, 1}, one, one, 2})});
}

TEST(RecoverByStatistics, BiasesTakeBackWhatTheRoundingOfWeightsMoves) {
  const std::vector<Batch> batches = batches_of({2, 4, 6, 6}, 2);
  Prepared prepared = observed(padded(), batches);
  const Tensor weight = prepared.program().find_attribute("weight")->tensor;
  const auto means = [&](const Tensor& of_weight, const Program& program) {
    std::vector<double> out(6);
    Program copy = program.clone();
    copy.find_attribute("weight")->tensor = of_weight;
    Interpreter interpreter(copy, {});
    interpreter.set_module_handler(
        [](const Node&, std::span<const Value> args, const kernel::MinMax*) { return args[0]; });
    for (const Batch& batch : batches) {
      const Tensor y = interpreter.run(batch)[0];
      for (int64_t i = 0; i < y.numel(); ++i)
        out[static_cast<size_t>(i / (y.size(2) * y.size(3)) % 6)] += y.data<float>()[i];
    }
    for (double& value : out) value /= 8 * 3 * 6;
    return out;
  };
  const std::vector<double> wanted = means(weight, prepared.program());
  Simulation simulation(prepared);
  const size_t observer =
      *Prepared::Impl::of(prepared).group_of_module(*prepared.program().graph->find("conv2d")->arg(1).node());
  const Tensor rounded = simulation.rounded(observer, weight);
  const std::vector<double> moved = means(rounded, prepared.program());
  EXPECT_EQ(changes_of(recover_by_statistics(prepared), "bias correction"), 1);
  const std::vector<double> corrected = means(rounded, prepared.program());
  for (size_t c = 0; c < 6; ++c) {
    EXPECT_GT(std::fabs(moved[c] - wanted[c]), 1e-5);
    EXPECT_NEAR(corrected[c], wanted[c], 2e-6);
  }
}

TEST(RecoverByStatistics, RoundsFewIntegersForWhatLayersMakeOfThem) {
  const std::vector<Batch> batches = batches_of({8, 16});
  Prepared prepared = observed(damaged(), batches, 4), plain = observed(damaged(), batches, 4);
  MomentsOfLayers moments = moments_of_layers(prepared);
  Recovery before(plain, batches);
  EXPECT_EQ(round_weights_by(prepared, moments), 2);
  Recovery after(prepared, batches);
  EXPECT_GT(after.decibels(), before.decibels() + 2);
}

TEST(RecoverByStatistics, WantsStatistics) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  Prepared prepared = prepare_pt2e(damaged(), quantizer);
  expect_error(ErrorCode::kNotCalibrated, "calibrat", [&] { recover_by_statistics(prepared); });
  for (const Batch& batch : batches_of({8, 16})) prepared.run(batch);
  expect_error(ErrorCode::kNotCalibrated, "qdq calibrate --recover", [&] { recover_by_statistics(prepared); });
  expect_error(ErrorCode::kNotCalibrated, "qdq calibrate --recover", [&] { gptq_by_statistics(prepared); });
  PatternQuantizer nothing("nothing", {});
  Prepared without = prepare_pt2e(damaged(), nothing);
  expect_error(ErrorCode::kInvalidArgument, "no convolution or linear layer", [&] { observe_layers(without); });
}

}  // namespace
}  // namespace qdq::statistics_test
