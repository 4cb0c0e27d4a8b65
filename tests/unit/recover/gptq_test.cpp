// Weights in groups, rounded by what layers read.
#include "recover/gptq.h"
#include "recover/statistics.h"

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "exec/interpreter.h"
#include "op/targets.h"
#include "quant/quantizers/pattern_quantizer.h"
#include "unit/format/expect_error.h"
#include "unit/quant/program_builder.h"
#include "unit/quant/weights_in_groups.h"

namespace qdq::gptq_test {
namespace {

constexpr int64_t kWidth = 64;

// Rows whose elements hang together, as those of real layers do.
Tensor rows(int64_t count, uint32_t seed) {
  const Tensor parts = sample({count, 6}, seed), mix = sample({6, kWidth}, 99),
               noise = sample({count, kWidth}, seed + 1);
  const Tensor out = Tensor::empty({count, kWidth}, DType::kF32);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < kWidth; ++j) {
      float sum = 0.1F * noise.data<float>()[i * kWidth + j];
      for (int64_t k = 0; k < 6; ++k) sum += parts.data<float>()[i * 6 + k] * mix.data<float>()[k * kWidth + j];
      out.data<float>()[i * kWidth + j] = sum;
    }
  return out;
}

// x [16, 64] -> linear -> relu -> linear
Program two_layers() {
  ProgramBuilder builder;
  Node* x = builder.input("x", {16, kWidth});
  Node* first = builder.call("linear.default", {x, builder.parameter("w0", sample({kWidth, kWidth}, 3))});
  Node* relu = builder.call("relu.default", {first});
  return builder.finish({builder.call("linear.default", {relu, builder.parameter("w1", sample({8, kWidth}, 4))})});
}

Prepared prepared_in_groups(QScheme scheme, int64_t group, Program program = two_layers()) {
  QuantizationConfig config;
  config.weight = weight_in_groups("PerGroupMSEObserver", group, scheme);
  PatternRow row;
  row.name = "linear";
  row.places[0].operators = "aten.linear";
  row.output = Output::kFloat;
  PatternQuantizer quantizer("groups", {row});
  quantizer.set_global(config);
  return prepare_pt2e(std::move(program), quantizer);
}

double squares_of(const Program& program, const Tensor& input) {
  const Tensor output = Interpreter(program, {}).run(std::vector<Tensor>{input})[0];
  double sum = 0;
  for (const float value : output.span<float>()) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

double error_of(const Program& program, const Tensor& input, const Program& floats = two_layers()) {
  const Tensor wanted = Interpreter(floats, {}).run(std::vector<Tensor>{input})[0],
               found = Interpreter(program, {}).run(std::vector<Tensor>{input})[0];
  double sum = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const double error = static_cast<double>(wanted.data<float>()[i]) - static_cast<double>(found.data<float>()[i]);
    sum += error * error;
  }
  return sum;
}

TEST(Gptq, HalvesTheErrorOfTheNearestIntegers) {
  std::vector<Batch> batches;
  for (uint32_t i = 0; i < 16; ++i) batches.push_back({rows(16, 10 + i)});
  for (const QScheme scheme : {QScheme::kPerChannelSymmetric, QScheme::kPerChannelAffine}) {
    Prepared prepared = prepared_in_groups(scheme, 32);
    const Tensor unseen = rows(16, 1000);
    const double nearest = error_of(convert_pt2e(prepared), unseen);
    EXPECT_EQ(gptq(prepared, batches), 2);
    const Program converted = convert_pt2e(prepared);
    EXPECT_LT(error_of(converted, unseen), nearest / 2);
    for (const Node* node : converted.graph->nodes()) {
      if (!node->is(op::kDequantizeGroups)) continue;
      const Tensor& integers = converted.attribute_of(*node->arg(0).node());
      for (const int8_t value : integers.span<int8_t>()) EXPECT_TRUE(-8 <= value && value <= 7);
    }
  }
}

TEST(Gptq, ByStatisticsComesNearIt) {
  for (const QScheme scheme : {QScheme::kPerChannelSymmetric, QScheme::kPerChannelAffine}) {
    Prepared prepared = prepared_in_groups(scheme, 32);
    const Tensor unseen = rows(16, 1000);
    const double nearest = error_of(convert_pt2e(prepared), unseen);
    observe_layers(prepared);
    for (uint32_t i = 0; i < 16; ++i) prepared.run({rows(16, 10 + i)});
    EXPECT_EQ(gptq_by_statistics(prepared), 2);
    EXPECT_LT(error_of(convert_pt2e(prepared), unseen), nearest / 2);
  }
}

TEST(Gptq, GivesTheSameBitsWithAnyNumberOfThreads) {
  const std::vector<Batch> batches = {{rows(16, 10)}, {rows(16, 11)}};
  std::vector<Tensor> found;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    Prepared prepared = prepared_in_groups(QScheme::kPerChannelSymmetric, 16);
    gptq(prepared, batches);
    found.push_back(prepared.program().find_attribute("w0")->tensor);
    found.push_back(prepared.observers()[0].observer->max_val());
  }
  set_num_threads(1);
  EXPECT_TRUE(bitwise_equal(found[0], found[2]));
  EXPECT_TRUE(bitwise_equal(found[1], found[3]));
}

TEST(Gptq, WantsSamplesAndGroups) {
  Prepared grouped = prepared_in_groups(QScheme::kPerChannelSymmetric, 32);
  expect_error(ErrorCode::kInvalidArgument, "no samples", [&] { gptq(grouped, {}); });
  PatternQuantizer nothing("nothing", {});
  Prepared plain = prepare_pt2e(two_layers(), nothing);
  EXPECT_EQ(gptq(plain, {{rows(16, 1)}}), 0);
}

// Rows whose elements do not hang together, fewer than these are: what they have in common is chance.
TEST(Gptq, FewRowsHarmNoMoreThanTheNearestIntegersDo) {
  Prepared prepared = prepared_in_groups(QScheme::kPerChannelSymmetric, 32);
  const Tensor unseen = sample({16, kWidth}, 1000);
  const double nearest = error_of(convert_pt2e(prepared), unseen);
  gptq(prepared, {{sample({16, kWidth}, 10)}, {sample({16, kWidth}, 11)}, {sample({16, kWidth}, 12)}});
  EXPECT_LT(error_of(convert_pt2e(prepared), unseen), 1.25 * nearest);
}

// x [256, 64] -> linear -> the rows whose first number is positive -> linear -> the mean of their squares
Program routed() {
  ProgramBuilder builder;
  Node* first = builder.call("linear.default",
                             {builder.input("x", {256, kWidth}), builder.parameter("w0", sample({kWidth, kWidth}, 3))});
  Node* is_wanted = builder.call("gt.Scalar", {builder.call("select.int", {first, 1, 0}), 0.0});
  Node* rows = builder.call("index.Tensor", {first, Argument::List{is_wanted}});
  Node* last = builder.call("linear.default", {rows, builder.parameter("w1", sample({8, kWidth}, 4))});
  return builder.finish({builder.call("mean.dim", {builder.call("mul.Tensor", {last, last}), Argument::List{0}})});
}

// Behind rounded weights the router selects other rows, and another number of them.
TEST(Gptq, RowsThatARouterSelectsMayBeOthersThanInFloats) {
  std::vector<Batch> batches;
  for (uint32_t i = 0; i < 16; ++i) batches.push_back({rows(256, 10 + i)});
  Prepared prepared = prepared_in_groups(QScheme::kPerChannelSymmetric, 32, routed());
  EXPECT_EQ(gptq(prepared, batches), 2);
  EXPECT_LT(error_of(convert_pt2e(prepared), rows(256, 1000), routed()), 0.05 * squares_of(routed(), rows(256, 1000)));
}

// Who gives up leaves everything as it was.
TEST(Gptq, GivesUpWhole) {
  Prepared prepared = prepared_in_groups(QScheme::kPerChannelSymmetric, 32);
  const Tensor before = prepared.program().find_attribute("w0")->tensor;
  EXPECT_ANY_THROW(gptq(prepared, {{rows(16, 1)}}, [](int64_t done, int64_t) {
    if (done == 1) fail(ErrorCode::kInvalidArgument, "enough");
  }));
  EXPECT_TRUE(bitwise_equal(prepared.program().find_attribute("w0")->tensor, before));
}

}  // namespace
}  // namespace qdq::gptq_test
