// Bias correction by what batch norms tell, beside PyTorch and NumPy (tests/golden/recover/formulas.json, made by
// make_recover.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "format/json.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recover/statistics.h"
#include "source_dir.h"
#include "unit/quant/program_builder.h"

namespace qdq::analytic_test {
namespace {

Prepared prepared_of_four_bits(Program program) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(
      get_symmetric_quantization_config({.is_per_channel = true, .weight_qmin = -8, .weight_qmax = 7}));
  return prepare_pt2e(std::move(program), quantizer);
}

// conv -> batch norm -> ReLU6 -> depthwise conv -> batch norm -> ReLU -> conv, whose parameters are golden; with
// `sigmoid` in the place of the ReLU6, if wanted.
Program normed(const format::Json& parameters, bool sigmoid = false) {
  ProgramBuilder b;
  const auto parameter = [&](const std::string& name, const Shape& sizes) {
    const auto values = parameters.at(name).get<std::vector<float>>();
    return b.parameter(name, Tensor::of<float>(sizes, std::span<const float>(values)));
  };
  const auto norm = [&](Node* value, const std::string& name) {
    return b.call("batch_norm.default", {value, parameter(name + ".weight", {8}), parameter(name + ".bias", {8}),
                                         parameter(name + ".running_mean", {8}), parameter(name + ".running_var", {8}),
                                         false, 0.1, 1e-5, true});
  };
  Node* x = b.input("x", {2, 3, 9, 9});
  Node* first = norm(
      b.call("conv2d.default", {x, parameter("first.weight", {8, 3, 3, 3}), parameter("first.bias", {8})}), "norm1");
  Node* clipped = sigmoid ? b.call("sigmoid.default", {first}) : b.call("hardtanh.default", {first, 0.0, 6.0});
  const Argument::List one{1, 1}, none{0, 0};
  Node* second =
      norm(b.call("conv2d.default", {clipped, parameter("second.weight", {8, 1, 3, 3}), Argument(), one, none, one, 8}),
           "norm2");
  Node* third = b.call("conv2d.default", {b.call("relu.default", {second}), parameter("third.weight", {5, 8, 1, 1}),
                                          parameter("third.bias", {5})});
  return b.finish({third});
}

format::Json golden_norms() {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/recover/formulas.json");
  return format::Json::parse(file).at("norms");
}

std::vector<float> bias_of(const Program& program, const std::string& name) {
  const Tensor bias = program.find_attribute(name)->tensor.contiguous();
  return {bias.span<float>().begin(), bias.span<float>().end()};
}

TEST(RecoverWithoutData, AddsWhatTheMeansOfClampedNormalsGive) {
  const format::Json golden = golden_norms();
  Prepared prepared = prepared_of_four_bits(normed(golden.at("parameters")));
  ASSERT_TRUE(recovers_without_data(prepared));
  const std::vector<std::string> names = {"second.weight_bias", "third.bias"};
  std::vector<std::vector<float>> before;
  for (const std::string& name : names) before.push_back(bias_of(prepared.program(), name));
  const std::vector<float> first = bias_of(prepared.program(), "first.bias");
  const AppliedRemedy applied = recover_without_data(prepared);
  EXPECT_EQ(applied.remedy, "bias correction");
  EXPECT_EQ(applied.changes, 2);
  EXPECT_EQ(bias_of(prepared.program(), "first.bias"), first);  // nothing tells what the input is like
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<float> now = bias_of(prepared.program(), names[i]);
    const auto shifts = golden.at("shifts")[i].get<std::vector<float>>();
    ASSERT_EQ(now.size(), shifts.size());
    for (size_t c = 0; c < now.size(); ++c) EXPECT_NEAR(now[c] - before[i][c], shifts[c], 2e-6) << names[i] << " " << c;
  }
}

TEST(RecoverWithoutData, LeavesLayersBehindWhatItDoesNotKnow) {
  Prepared prepared = prepared_of_four_bits(normed(golden_norms().at("parameters"), /*sigmoid=*/true));
  const std::vector<float> second = bias_of(prepared.program(), "second.weight_bias");
  EXPECT_EQ(recover_without_data(prepared).changes, 1);
  EXPECT_EQ(bias_of(prepared.program(), "second.weight_bias"), second);
}

// Two convolutions with norms, added up, a mean over the places, a linear layer: what the linear layer reads on average
// is the sum of both biases.
TEST(RecoverWithoutData, GoesThroughSumsMeansAndViews) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 3, 6, 6});
  const auto branch = [&](const std::string& name, std::vector<float> bias) {
    const auto channels = [&](const char* part, std::vector<float> values) {
      return b.parameter(name + part, Tensor::of<float>({4}, std::span<const float>(values)));
    };
    Node* conv = b.call("conv2d.default", {x, b.weight(name + ".weight", {4, 3, 1, 1})});
    return b.call("batch_norm.default",
                  {conv, channels(".gamma", {1, 2, 3, 4}), channels(".beta", std::move(bias)),
                   channels(".mean", {0, 0, 0, 0}), channels(".var", {1, 1, 1, 1}), false, 0.1, 1e-5, true});
  };
  Node* sum = b.call("add.Tensor", {branch("a", {1, 2, -3, 4}), branch("bb", {0.5f, 1, 1, -1})});
  Node* mean = b.call("adaptive_avg_pool2d.default", {sum, Argument::List{1, 1}});
  Node* flat = b.call("flatten.using_ints", {mean, 1});
  Program program =
      b.finish({b.call("linear.default", {flat, b.weight("last.weight", {3, 4}), b.weight("last.bias", {3})})});
  const Tensor weight = program.find_attribute("last.weight")->tensor.clone();
  const std::vector<float> before = bias_of(program, "last.bias");
  Prepared prepared = prepared_of_four_bits(std::move(program));
  ASSERT_EQ(recover_without_data(prepared).changes, 1);
  const std::vector<float> now = bias_of(prepared.program(), "last.bias"), read = {1.5f, 3, -2, 3};
  for (int64_t row = 0; row < 3; ++row) {
    float most = 0, shift = 0;
    for (int64_t k = 0; k < 4; ++k) most = std::max(most, std::fabs(weight.data<float>()[row * 4 + k]));
    const float scale = most / 7.5f;
    for (int64_t k = 0; k < 4; ++k) {
      const float value = weight.data<float>()[row * 4 + k];
      shift += (value - std::clamp(std::nearbyint(value / scale), -8.0f, 7.0f) * scale) * read[static_cast<size_t>(k)];
    }
    EXPECT_NEAR(now[static_cast<size_t>(row)] - before[static_cast<size_t>(row)], shift, 2e-6) << row;
  }
}

// Four channels, and four rows of an image: what moves the axes about is not taken for the channels.
TEST(RecoverWithoutData, KeepsOffAxesThatMove) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 3, 4, 4});
  const auto channels = [&](const char* name, float value) {
    return b.parameter(name, Tensor::of<float>({4}, {value, value, value, value}));
  };
  Node* norm = b.call("batch_norm.default",
                      {b.call("conv2d.default", {x, b.weight("a.weight", {4, 3, 1, 1})}), channels("gamma", 1),
                       channels("beta", 3), channels("mean", 0), channels("var", 1), false, 0.1, 1e-5, true});
  Node* moved = b.call("permute.default", {norm, Argument::List{0, 2, 1, 3}});
  Node* second = b.call("conv2d.default", {moved, b.weight("second.weight", {2, 4, 1, 1})});
  Node* mean = b.call("mean.dim", {norm, Argument::List{1}});
  Node* third = b.call("conv1d.default", {mean, b.weight("third.weight", {2, 4, 1})});
  Prepared prepared = prepared_of_four_bits(b.finish({second, third}));
  EXPECT_FALSE(recovers_without_data(prepared));
}

TEST(RecoverWithoutData, NeedsBatchNorms) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 8});
  Node* relu =
      b.call("relu.default", {b.call("linear.default", {x, b.weight("a.weight", {8, 8}), b.weight("a.bias", {8})})});
  Prepared prepared = prepared_of_four_bits(b.finish({b.call("linear.default", {relu, b.weight("b.weight", {4, 8})})}));
  EXPECT_FALSE(recovers_without_data(prepared));
  EXPECT_EQ(recover_without_data(prepared).changes, 0);
}

}  // namespace
}  // namespace qdq::analytic_test
