// The remedies against PyTorch and NumPy (tests/golden/recover/formulas.json, made by make_recover.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "format/json.h"
#include "quant/observers/fake_quantize.h"
#include "quant/observers/range_histogram.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recover/recovery.h"
#include "source_dir.h"
#include "unit/quant/program_builder.h"

namespace qdq::formulas_test {
namespace {

using format::Json;

Json formulas() {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/recover/formulas.json");
  return Json::parse(file);
}

Tensor golden_tensor(const Json& values, const Shape& sizes) {
  return Tensor::of<float>(sizes, std::span<const float>(values.get<std::vector<float>>()));
}

Prepared prepared_layer(const Json& golden, int64_t weight_bits) {
  ProgramBuilder b;
  Node* x = b.input("x", {64, 24});
  Program program =
      b.finish({b.call("linear.default", {x, b.parameter("weight", golden_tensor(golden.at("weight"), {10, 24})),
                                          b.parameter("bias", golden_tensor(golden.at("bias"), {10}))})});
  SymmetricConfigOptions options;
  options.is_per_channel = true;
  if (weight_bits < 8) {
    options.weight_qmin = -(int64_t{1} << (weight_bits - 1));
    options.weight_qmax = -options.weight_qmin - 1;
  }
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  prepared.run({golden_tensor(golden.at("x"), {64, 24})});
  return prepared;
}

TEST(Formulas, BiasCorrection) {
  const Json golden = formulas().at("layer");
  Prepared prepared = prepared_layer(golden, 8);
  Recovery recovery(prepared, {{golden_tensor(golden.at("x"), {64, 24})}});
  ASSERT_EQ(correct_biases(recovery), 1);
  const Tensor found = prepared.program().find_attribute("bias")->tensor;
  for (size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(found.span<float>()[i] - golden.at("bias")[i].get<float>(), golden.at("shift")[i].get<float>(), 2e-6);
}

// The mean squared error of the layer's sums behind the bias that takes back its mean.
double error_of(const Json& golden, const Tensor& weight) {
  const auto x = golden.at("x").get<std::vector<double>>(), rounded = golden.at("rounded_x").get<std::vector<double>>();
  const auto exact = golden.at("weight").get<std::vector<double>>();
  double out = 0;
  for (size_t row = 0; row < 10; ++row) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 64; ++i) {
      double off = 0;
      for (size_t k = 0; k < 24; ++k)
        off += x[i * 24 + k] * exact[row * 24 + k] -
               rounded[i * 24 + k] * static_cast<double>(weight.data<float>()[row * 24 + k]);
      sum += off;
      squares += off * off;
    }
    out += (squares - sum * sum / 64) / 640;
  }
  return out;
}

TEST(Formulas, RoundingIsAsGoodAsGptqs) {
  const Json golden = formulas().at("layer");
  Prepared prepared = prepared_layer(golden, 4);
  Recovery recovery(prepared, {{golden_tensor(golden.at("x"), {64, 24})}});
  ASSERT_EQ(round_weights(recovery), 1);
  const double found = error_of(golden, prepared.program().find_attribute("weight")->tensor);
  const double gptq = golden.at("gptq").get<double>(), nearest = golden.at("nearest").get<double>();
  EXPECT_LT(gptq, 0.7 * nearest);
  EXPECT_LT(found, gptq);
}

TEST(Formulas, Equalization) {
  const Json golden = formulas().at("seams"), &parameters = golden.at("parameters");
  ProgramBuilder b;
  Node* x = b.input("x", {32, 16});
  const auto parameter = [&](const std::string& name, const Shape& sizes) {
    return b.parameter(name, golden_tensor(parameters.at(name), sizes));
  };
  Node* norm = b.call("layer_norm.default",
                      {x, Argument::List{16}, parameter("norm.weight", {16}), parameter("norm.bias", {16})});
  Node* first = b.call("linear.default", {norm, parameter("first.weight", {12, 16}), parameter("first.bias", {12})});
  Node* relu = b.call("relu.default", {first});
  Program program =
      b.finish({b.call("linear.default", {relu, parameter("second.weight", {4, 12}), parameter("second.bias", {4})})});
  SymmetricConfigOptions options;
  options.is_per_channel = true;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  const Batch batch = {golden_tensor(golden.at("x"), {32, 16})};
  prepared.run(batch);
  Recovery recovery(prepared, {batch});
  ASSERT_EQ(equalize(recovery), 2);
  const auto now = [&](const std::string& name, size_t i) {
    return static_cast<double>(prepared.program().find_attribute(name)->tensor.span<float>()[i]);
  };
  const auto was = [&](const std::string& name, size_t i) { return parameters.at(name)[i].get<double>(); };
  // How far the factors are from those of the alpha that they are nearest to.
  const auto distance = [&](size_t seam, const std::vector<double>& found) {
    double least = 1e9;
    for (const Json& factors : golden.at("factors")[seam]) {
      double worst = 0;
      for (size_t i = 0; i < found.size(); ++i)
        worst = std::max(worst, std::fabs(found[i] / factors[i].get<double>() - 1));
      least = std::min(least, worst);
    }
    return least;
  };
  std::vector<double> behind_norm, behind_relu;
  for (size_t i = 0; i < 16; ++i) behind_norm.push_back(was("norm.weight", i) / now("norm.weight", i));
  for (size_t i = 0; i < 12; ++i) behind_relu.push_back(was("first.bias", i) / now("first.bias", i));
  EXPECT_LT(distance(0, behind_norm), 1e-5);
  EXPECT_LT(distance(1, behind_relu), 1e-5);
  for (size_t i = 0; i < 12 * 16; ++i)
    EXPECT_NEAR(now("first.weight", i) / (was("first.weight", i) * behind_norm[i % 16] / behind_relu[i / 16]), 1, 1e-5);
  for (size_t i = 0; i < 4 * 12; ++i)
    EXPECT_NEAR(now("second.weight", i) / (was("second.weight", i) * behind_relu[i % 12]), 1, 1e-5);
}

TEST(Formulas, RangesOfLeastError) {
  const Json golden = formulas().at("ranges");
  const Tensor values = golden_tensor(golden.at("values"), {2048});
  RangeHistogram histogram;
  histogram.add(values);
  for (const bool symmetric : {false, true}) {
    const FloatRange range = range_of_least_error(histogram, 255, symmetric);
    ObserverArgs args;
    args.dtype = DType::kS8;
    args.qscheme = symmetric ? QScheme::kPerTensorSymmetric : QScheme::kPerTensorAffine;
    const IntegerRange limits{-128, 127};
    const QParams qparams = qparams_of_range(std::span(&range.min, 1), std::span(&range.max, 1), args, limits);
    const Tensor rounded = fake_quantized(values, qparams, args, limits);
    double error = 0;
    for (size_t i = 0; i < 2048; ++i) {
      const double off = static_cast<double>(values.span<float>()[i]) - static_cast<double>(rounded.span<float>()[i]);
      error += off * off / 2048;
    }
    // The search knows a histogram, and its integers have zero among them.
    EXPECT_LT(error, 1.1 * golden.at(symmetric ? "symmetric" : "affine").get<double>());
  }
}

TEST(Formulas, ErrorOfOutputs) {
  const Json golden = formulas().at("error");
  OutputError error;
  error.add({golden_tensor(golden.at("x"), {2, 6, 4})}, {golden_tensor(golden.at("y"), {2, 6, 4})});
  EXPECT_NEAR(error.decibels(), golden.at("decibels").get<double>(), 1e-5);
}

}  // namespace
}  // namespace qdq::formulas_test
