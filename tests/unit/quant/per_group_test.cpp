// Weights in groups along their rows: observers, and what convert_pt2e makes of them and of activations per token.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/interpreter.h"
#include "op/targets.h"
#include "quant/pt2e.h"
#include "quant/quantizers/pattern_quantizer.h"
#include "unit/format/expect_error.h"
#include "unit/quant/program_builder.h"
#include "unit/quant/weights_in_groups.h"

namespace qdq::per_group_test {
namespace {

Tensor noise(const Shape& sizes) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  uint32_t state = 7;
  for (float& value : out.span<float>()) {
    state = state * 1664525U + 1013904223U;
    const float part = static_cast<float>(state >> 8) / (1U << 24) - 0.5F;
    value = part * part * part;
  }
  return out;
}

std::shared_ptr<Observer> observer_of(const char* name, int64_t group, QScheme scheme = QScheme::kPerChannelSymmetric) {
  ObserverArgs args;
  args.dtype = DType::kS8;
  args.qscheme = scheme;
  args.quant_min = -8;
  args.quant_max = 7;
  args.group_size = group;
  return make_observer(name, args);
}

double error_of(const Tensor& weight, const QParams& qparams, int64_t group) {
  double sum = 0;
  for (int64_t i = 0; i < weight.numel(); ++i) {
    const auto at = static_cast<size_t>(i / group);
    const float scale = qparams.scale[at], zero = static_cast<float>(qparams.zero_point[at]),
                value = weight.data<float>()[i];
    const float back = (std::min(std::max(std::nearbyint(value / scale) + zero, -8.0F), 7.0F) - zero) * scale;
    sum += static_cast<double>((back - value) * (back - value));
  }
  return sum;
}

TEST(PerGroupObserver, EachGroupHasItsOwnScale) {
  const auto observer = observer_of("PerGroupMinMaxObserver", 2);
  observer->forward(Tensor::of<float>({2, 4}, {1, -7.5F, 3, 0, 0.5F, 15, -2, -30}));
  const QParams qparams = observer->calculate_qparams();
  EXPECT_EQ(qparams.scale, (std::vector<float>{1, 0.4F, 2, 4}));
  EXPECT_EQ(qparams.zero_point, std::vector<int64_t>(4, 0));
  EXPECT_EQ(observer->min_val().sizes(), (Shape{4}));
}

TEST(PerGroupObserver, TheScaleOfLeastErrorIsBetter) {
  const Tensor weight = noise({16, 96});
  for (const QScheme scheme : {QScheme::kPerChannelSymmetric, QScheme::kPerChannelAffine}) {
    const auto plain = observer_of("PerGroupMinMaxObserver", 32, scheme);
    const auto best = observer_of("PerGroupMSEObserver", 32, scheme);
    plain->forward(weight);
    best->forward(weight);
    EXPECT_LT(error_of(weight, best->calculate_qparams(), 32), 0.9 * error_of(weight, plain->calculate_qparams(), 32));
  }
}

TEST(PerGroupObserver, RefusesWhatHasNoGroups) {
  expect_error(ErrorCode::kInvalidArgument, "group_size of 0", [] { observer_of("PerGroupMinMaxObserver", 0); });
  expect_error(ErrorCode::kInvalidArgument, "per_tensor_affine",
               [] { observer_of("PerGroupMSEObserver", 32, QScheme::kPerTensorAffine); });
  const auto observer = observer_of("PerGroupMSEObserver", 32);
  expect_error(ErrorCode::kInvalidArgument, "groups of 32", [&] { observer->forward(noise({2, 40})); });
  expect_error(ErrorCode::kNotCalibrated, "no weight", [&] { observer->calculate_qparams(); });
}

// x [3, 64] -> linear 64 to 8 -> linear 8 to 4, whose rows are too short for groups.
Program two_layers() {
  ProgramBuilder builder;
  Node* x = builder.input("x", {3, 64});
  Node* first = builder.call("linear.default", {x, builder.parameter("w0", noise({8, 64}))});
  return builder.finish({builder.call("linear.default", {first, builder.parameter("w1", noise({4, 8}))})});
}

Program converted(bool with_activations) {
  QuantizationConfig config;
  config.weight = weight_in_groups("PerGroupMinMaxObserver", 32);
  if (with_activations) config.input_activation = activation_by_token();
  PatternRow row;
  row.name = "linear";
  row.places[0].operators = "aten.linear";
  row.output = Output::kFloat;
  row.modes = kStatic | kDynamic;
  PatternQuantizer quantizer("groups", {row});
  quantizer.set_global(config);
  return convert_pt2e(prepare_pt2e(two_layers(), quantizer));
}

int64_t count(const Program& program, std::string_view target) {
  int64_t out = 0;
  for (const Node* node : program.graph->nodes()) out += node->is(target);
  return out;
}

double decibels(const Program& program) {
  const std::vector<Tensor> x = {noise({3, 64})};
  const Program floats = two_layers();
  const Tensor wanted = Interpreter(floats, {}).run(x)[0], found = Interpreter(program, {}).run(x)[0];
  double signal = 0, error = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const double a = static_cast<double>(wanted.data<float>()[i]), b = static_cast<double>(found.data<float>()[i]);
    signal += a * a;
    error += (a - b) * (a - b);
  }
  return 10 * std::log10(signal / error);
}

TEST(PerGroup, WeightsBecomeIntegersInGroups) {
  const Program program = converted(false);
  EXPECT_EQ(count(program, op::kDequantizeGroups), 1);
  EXPECT_EQ(count(program, "torch.ops.quantized_decomposed.quantize_per_channel_group.default"), 0) << "not folded";
  for (const Node* node : program.graph->nodes()) {
    if (!node->is(op::kDequantizeGroups)) continue;
    EXPECT_EQ(program.attribute_of(*node->arg(0).node()).dtype(), DType::kS8);
    EXPECT_EQ(program.attribute_of(*node->arg(1).node()).sizes(), (Shape{8, 2}));
    EXPECT_EQ(node->arg(6), Argument(32));
  }
  const double found = decibels(program);
  EXPECT_GT(found, 12);
  EXPECT_LT(found, 60) << "nothing was rounded";
}

TEST(PerGroup, ActivationsHaveAScaleForEachToken) {
  const Program program = converted(true);
  EXPECT_EQ(count(program, op::kChooseQParamsPerToken), 1);
  EXPECT_EQ(count(program, "torch.ops.quantized_decomposed.quantize_per_token.default"), 1);
  EXPECT_EQ(count(program, "torch.ops.quantized_decomposed.dequantize_per_token.default"), 1);
  EXPECT_EQ(count(program, op::kDequantizeGroups), 1);
  EXPECT_GT(decibels(program), 12);
}

}  // namespace
}  // namespace qdq::per_group_test
