// Conversion: quantize / dequantize pairs, their duplication, integer weights, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/interpreter.h"
#include "quant/constant_fold.h"
#include "quant/fold_batch_norm.h"
#include "quant/explain.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "program_builder.h"

namespace qdq::convert_test {
namespace {

XNNPACKQuantizer per_channel() {
  SymmetricConfigOptions options;
  options.is_per_channel = true;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  return quantizer;
}

// x -> conv (bias) -> relu -> conv
Program two_convs() {
  ProgramBuilder b;
  Node* w1 = b.weight("a.weight", {4, 3, 3, 3});
  Node* b1 = b.weight("a.bias", {4});
  Node* w2 = b.weight("b.weight", {2, 4, 1, 1});
  Node* x = b.input("x", {1, 3, 6, 6});
  Node* conv = b.call("conv2d.default", {x, w1, b1}, "a");
  Node* relu = b.call("relu.default", {conv}, "act");
  Node* last = b.call("conv2d.default", {relu, w2}, "b");
  return b.finish({last});
}

std::vector<Tensor> run(const Program& program, const Tensor& x) {
  Interpreter interpreter(program, {});
  return interpreter.run(std::vector<Tensor>{x});
}

TEST(Convert, WeightsBecomeIntegersAndFloatOnesGo) {
  XNNPACKQuantizer quantizer = per_channel();
  Prepared prepared = prepare_pt2e(two_convs(), quantizer);
  for (uint32_t seed = 0; seed < 3; ++seed) prepared.run({sample({1, 3, 6, 6}, seed)});
  const Program converted = convert_pt2e(prepared);
  verify_program(converted);
  EXPECT_EQ(converted.find_attribute("a.weight"), nullptr);
  ASSERT_NE(converted.find_attribute("_frozen_param0"), nullptr);
  EXPECT_EQ(converted.find_attribute("_frozen_param0")->tensor.dtype(), DType::kS8);
  EXPECT_EQ(converted.find_attribute("_scale_0")->tensor.numel(), 4);
  EXPECT_NE(converted.find_attribute("a.bias"), nullptr);
  const std::vector<std::string> expected = {"_scale_0",
                                             "_zero_point_0",
                                             "_frozen_param0",
                                             "dequantize_per_channel.default",
                                             "a.bias",
                                             "_scale_1",
                                             "_zero_point_1",
                                             "_frozen_param1",
                                             "dequantize_per_channel.default",
                                             "x",
                                             "quantize_per_tensor.default",
                                             "dequantize_per_tensor.default",
                                             "conv2d.default",
                                             "relu.default",
                                             "quantize_per_tensor.default",
                                             "dequantize_per_tensor.default",
                                             "conv2d.default",
                                             "quantize_per_tensor.default",
                                             "dequantize_per_tensor.default",
                                             "output"};
  EXPECT_EQ(targets(*converted.graph), expected);

  const Tensor x = sample({1, 3, 6, 6}, 7);
  const Tensor before = run(two_convs(), x)[0], after = run(converted, x)[0];
  double signal = 0, noise = 0;
  for (int64_t i = 0; i < before.numel(); ++i) {
    const double a = before.data<float>()[i], b = after.data<float>()[i];
    signal += a * a;
    noise += (a - b) * (a - b);
  }
  EXPECT_GT(10 * std::log10(signal / noise), 25.0);
}

TEST(Convert, KeepsFloatWeightsWithoutFolding) {
  XNNPACKQuantizer quantizer = per_channel();
  Prepared prepared = prepare_pt2e(two_convs(), quantizer);
  prepared.run({sample({1, 3, 6, 6}, 0)});
  const Program converted = convert_pt2e(prepared, {false, false});
  EXPECT_NE(converted.find_attribute("a.weight"), nullptr);
  EXPECT_EQ(converted.find_attribute("_frozen_param0"), nullptr);
}

TEST(Convert, CanBeRepeatedAndCalibrationContinued) {
  XNNPACKQuantizer quantizer = per_channel();
  Prepared prepared = prepare_pt2e(two_convs(), quantizer);
  prepared.run({sample({1, 3, 6, 6}, 0)});
  const Program first = convert_pt2e(prepared), again = convert_pt2e(prepared);
  EXPECT_EQ(to_text(*first.graph), to_text(*again.graph));
  Tensor wide = sample({1, 3, 6, 6}, 1);
  for (float& value : wide.span<float>()) value *= 10;
  prepared.run({wide});
  EXPECT_NE(to_text(*convert_pt2e(prepared).graph), to_text(*first.graph));
}

TEST(Convert, ChangesNoObserver) {
  XNNPACKQuantizer quantizer = per_channel();
  const Prepared prepared = [&] {
    Prepared calibrated = prepare_pt2e(two_convs(), quantizer);
    calibrated.run({sample({1, 3, 6, 6}, 1)});
    return calibrated;
  }();
  const auto states = [&] {
    std::vector<Tensor> out;
    for (const ObserverGroup& group : prepared.observers())
      for (const Tensor& state : {group.observer->min_val(), group.observer->max_val(), group.observer->histogram()})
        if (state.defined()) out.push_back(state.clone());
    return out;
  };
  const std::vector<Tensor> before = states();
  convert_pt2e(prepared);
  const std::vector<Tensor> after = states();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(bitwise_equal(after[i], before[i])) << i;
}

TEST(Convert, WeightsAreSeenWithoutData) {
  XNNPACKQuantizer quantizer = per_channel();
  const Prepared prepared = prepare_pt2e(two_convs(), quantizer);
  int weights = 0;
  for (const ObserverGroup& group : prepared.observers())
    if (group.observer->class_name() == "PerChannelMinMaxObserver") {
      ++weights;
      EXPECT_TRUE(group.observer->calibrated());
    } else {
      EXPECT_FALSE(group.observer->calibrated()) << group.observer->class_name();
    }
  EXPECT_EQ(weights, 2);
}

// As weight norm and .to(dtype) leave them. Who follows PyTorch keeps the operators until convert_pt2e.
TEST(Convert, WeightsThatOperatorsMakeOfConstantsAreSeenWithoutDataToo) {
  ProgramBuilder b;
  Node* v = b.weight("a.v", {4, 3, 3, 3});
  Node* g = b.weight("a.g", {4, 1, 1, 1});
  Node* bias = b.weight("a.bias", {4});
  Node* x = b.input("x", {1, 3, 6, 6});
  Node* weight = b.call("_weight_norm.default", {v, g});
  Node* conv = b.call("conv2d.default", {x, weight, b.call("to.dtype", {bias, DType::kF32})});
  const Program program = b.finish({conv});
  for (const Compat compat : {Compat::kNone, Compat::kTorch26}) {
    QConfigMappingQuantizer fx(get_default_qconfig_mapping("x86"), compat);
    XNNPACKQuantizer quantizer(compat);
    quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
    const Prepared prepared = prepare_pt2e(program.clone(), quantizer);
    const bool is_folded = compat == Compat::kNone;
    EXPECT_EQ(prepare_pt2e(program.clone(), fx).program().graph->find("_weight_norm") == nullptr, is_folded);
    EXPECT_EQ(prepared.program().graph->find("_weight_norm") == nullptr, is_folded);
    EXPECT_EQ(prepared.program().graph->find("to") == nullptr, is_folded);
    for (const ObserverGroup& group : prepared.observers())
      EXPECT_EQ(group.observer->calibrated(), is_folded && group.observer->class_name() == "PerChannelMinMaxObserver");
    if (!is_folded) continue;
    ASSERT_NE(prepared.program().find_attribute("_frozen_param0"), nullptr);
    EXPECT_EQ(prepared.program().find_attribute("_frozen_param0")->tensor.sizes(), (Shape{4, 3, 3, 3}));
  }
}

TEST(Convert, RefusesWithoutCalibrationNamingTheTensors) {
  XNNPACKQuantizer quantizer = per_channel();
  const Prepared prepared = prepare_pt2e(two_convs(), quantizer);
  EXPECT_TRUE(prepared.needs_data());
  try {
    convert_pt2e(prepared);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kNotCalibrated);
    EXPECT_NE(error.message.find("that of x, that of relu, that of conv2d_1"), std::string::npos) << error.message;
  }
}

// As behind a detector: rows of a layer's result that a gate lets through go through another one.
TEST(Convert, LeavesWhatNoDataHasReachedInFloat) {
  ProgramBuilder b;
  Node* w1 = b.weight("a.weight", {8, 4});
  Node* w2 = b.weight("b.weight", {3, 8});
  Node* x = b.input("x", {6, 4});
  Node* gate = b.input("gate", {6});
  Node* rows = b.call("linear.default", {x, w1}, "a");
  Node* places = b.call("squeeze.dim", {b.call("nonzero.default", {gate}), 1});
  Node* last = b.call("linear.default", {b.call("index_select.default", {rows, 0, places}), w2}, "b");
  XNNPACKQuantizer quantizer = per_channel();
  Prepared prepared = prepare_pt2e(b.finish({rows, last}), quantizer);
  const std::vector<Tensor> shut = {sample({6, 4}, 1), Tensor::full({6}, DType::kF32, 0)},
                            open = {shut[0], Tensor::full({6}, DType::kF32, 1)};
  EXPECT_TRUE(prepared.needs_data());
  prepared.run(shut);
  EXPECT_FALSE(prepared.needs_data());
  EXPECT_EQ(prepared.values_without_data(), (std::vector<std::string>{"index_select", "linear_1"}));
  const Program converted = convert_pt2e(prepared);
  verify_program(converted);
  const auto is_rounded = [](const Program& program, const char* of) {
    const std::vector<Node*>& users = program.graph->find(of)->users();
    return std::any_of(users.begin(), users.end(), [](const Node* user) {
      return user->target() == "torch.ops.quantized_decomposed.quantize_per_tensor.default";
    });
  };
  EXPECT_TRUE(is_rounded(converted, "linear"));
  EXPECT_FALSE(is_rounded(converted, "linear_1"));
  EXPECT_EQ(Interpreter(converted, {}).run(open).at(1).sizes(), (Shape{6, 3}));

  prepared.run(open);
  EXPECT_TRUE(prepared.values_without_data().empty());
  EXPECT_TRUE(is_rounded(convert_pt2e(prepared), "linear_1"));
}

TEST(Convert, DynamicQuantizationNeedsNoCalibration) {
  ProgramBuilder b;
  Node* weight = b.weight("fc.weight", {5, 8});
  Node* x = b.input("x", {2, 8});
  Node* linear = b.call("linear.default", {x, weight}, "fc");
  SymmetricConfigOptions options;
  options.is_dynamic = true;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  const Prepared prepared = prepare_pt2e(b.finish({linear}), quantizer);
  EXPECT_FALSE(prepared.needs_data());
  const Program converted = convert_pt2e(prepared);
  const std::vector<std::string> expected = {"_frozen_param0",
                                             "dequantize_per_tensor.default",
                                             "x",
                                             "choose_qparams.tensor",
                                             "operator.getitem",
                                             "operator.getitem",
                                             "quantize_per_tensor.tensor",
                                             "dequantize_per_tensor.tensor",
                                             "linear.default",
                                             "output"};
  EXPECT_EQ(targets(*converted.graph), expected);
}

// As the queries of a DETR: integers without the operator that finds their range would have no form in ONNX. PyTorch
// stores them all the same.
TEST(Convert, ConstantsThatAreQuantizedDynamicallyKeepTheirRange) {
  ProgramBuilder b;
  Node* weight = b.weight("fc.weight", {5, 8});
  Node* queries = b.weight("queries", {2, 8});
  Node* x = b.input("x", {2, 5});
  Node* linear = b.call("linear.default", {queries, weight}, "fc");
  const Program program = b.finish({b.call("add.Tensor", {x, linear})});
  for (const Compat compat : {Compat::kNone, Compat::kTorch26}) {
    XNNPACKQuantizer quantizer(compat);
    quantizer.set_global(get_symmetric_quantization_config({.is_dynamic = true}));
    const Program converted = convert_pt2e(prepare_pt2e(program.clone(), quantizer));
    const Node* integers = converted.graph->find("quantize_per_tensor_tensor");
    ASSERT_EQ(integers != nullptr, compat == Compat::kNone);
    EXPECT_NE(converted.graph->find("choose_qparams_tensor"), nullptr);
    if (integers != nullptr) {
      EXPECT_EQ(integers->arg(0).node()->target(), "queries");
    }
  }
}

TEST(Convert, EveryAnnotatedUserGetsADequantizeOfItsOwn) {
  ProgramBuilder b;
  Node* w1 = b.weight("a.weight", {4, 3, 1, 1});
  Node* w2 = b.weight("b.weight", {4, 3, 1, 1});
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* first = b.call("conv2d.default", {x, w1}, "a");
  Node* second = b.call("conv2d.default", {x, w2}, "b");
  XNNPACKQuantizer quantizer = per_channel();
  Prepared prepared = prepare_pt2e(b.finish({first, second}), quantizer);
  prepared.run({sample({1, 3, 4, 4}, 3)});
  const Program converted = convert_pt2e(prepared);
  const Node* a = converted.graph->find("conv2d")->arg(0).node();
  const Node* c = converted.graph->find("conv2d_1")->arg(0).node();
  EXPECT_NE(a, c);
  EXPECT_EQ(a->arg(0), c->arg(0));
}

TEST(Convert, TellsWhatStayedInFloatAndWhy) {
  ProgramBuilder b;
  Node* w1 = b.weight("a.weight", {4, 3, 1, 1});
  Node* w2 = b.weight("b.weight", {4, 4, 1, 1});
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* first = b.call("conv2d.default", {x, w1}, "a");
  Node* second = b.call("conv2d.default", {first, w2}, "b");
  XNNPACKQuantizer quantizer = per_channel();
  quantizer.set_module_name("b", std::nullopt);
  Prepared prepared = prepare_pt2e(b.finish({second}), quantizer);
  prepared.run({sample({1, 3, 4, 4}, 3)});
  const std::vector<LeftInFloat> left = left_in_float(prepared, convert_pt2e(prepared));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].node, "conv2d_1");
  EXPECT_EQ(left[0].module, "b");
  EXPECT_EQ(left[0].op, "aten.conv2d.default");
  EXPECT_FALSE(left[0].reason.empty());
}

// conv -> batch_norm, folded by hand: weight 2, mean 1, variance 3, gamma 4, beta 5, eps 1.
TEST(FoldBatchNorm, Formula) {
  ProgramBuilder b;
  Node* weight = b.parameter("c.weight", Tensor::of<float>({1, 1, 1, 1}, {2.0f}));
  Node* gamma = b.parameter("n.weight", Tensor::of<float>({1}, {4.0f}));
  Node* beta = b.parameter("n.bias", Tensor::of<float>({1}, {5.0f}));
  Node* mean = b.parameter("n.running_mean", Tensor::of<float>({1}, {1.0f}));
  Node* var = b.parameter("n.running_var", Tensor::of<float>({1}, {3.0f}));
  Node* x = b.input("x", {1, 1, 2, 2});
  Node* conv = b.call("conv2d.default", {x, weight}, "c");
  Node* norm = b.call("batch_norm.default", {conv, gamma, beta, mean, var, false, 0.1, 1.0, true}, "n");
  Program program = b.finish({norm});
  fold_batch_norms(program, Compat::kNone);
  verify_program(program);
  EXPECT_EQ(targets(*program.graph),
            (std::vector<std::string>{"c.weight", "x", "c.weight_bias", "conv2d.default", "output"}));
  EXPECT_EQ(program.find_attribute("c.weight")->tensor.item(), 4.0);       // 2 * 4 / sqrt(4)
  EXPECT_EQ(program.find_attribute("c.weight_bias")->tensor.item(), 3.0);  // (0 - 1) / 2 * 4 + 5
  EXPECT_EQ(program.find_attribute("n.running_var"), nullptr);
}

// Numbers of fuse_conv_bn_weights of PyTorch 2.6, whose kernel rounds 1 / sqrt(x) once in vectors of 32, and twice
// behind them.
TEST(FoldBatchNorm, RoundsHalvesAsPyTorchDoes) {
  struct Case {
    DType dtype;
    double weight, gamma, beta, mean, var, folded[2], bias[2];  // of the first 32 channels and of the last
  };
  for (const Case& each : {Case{DType::kF16,
                                0.1494140625,
                                0.90478515625,
                                1.421875,
                                0.40869140625,
                                0.434326171875,
                                {0.2052001953125, 0.2049560546875},
                                {0.86083984375, 0.861328125}},
                           Case{DType::kBF16,
                                -0.21875,
                                1.6328125,
                                0.189453125,
                                1.0390625,
                                1.3984375,
                                {-0.30078125, -0.302734375},
                                {-1.2421875, -1.25}}}) {
    constexpr int64_t kChannels = 33;
    ProgramBuilder b;
    const auto channels = [&](const char* name, double value) {
      return b.parameter(name, Tensor::full({kChannels}, each.dtype, value));
    };
    Node* weight = b.parameter("c.weight", Tensor::full({kChannels, 1, 1, 1}, each.dtype, each.weight));
    Node *gamma = channels("n.weight", each.gamma), *beta = channels("n.bias", each.beta),
         *mean = channels("n.running_mean", each.mean), *var = channels("n.running_var", each.var);
    Node* conv = b.call("conv2d.default", {b.input("x", {1, 1, 2, 2}, each.dtype), weight}, "c");
    Program program = b.finish({b.call("batch_norm.default", {conv, gamma, beta, mean, var, false, 0.1, 1e-5, true})});
    fold_batch_norms(program, Compat::kTorch26);
    verify_program(program);
    for (const auto& [name, wanted] : {std::pair("c.weight", each.folded), std::pair("c.weight_bias", each.bias)}) {
      const Tensor found = program.find_attribute(name)->tensor;
      EXPECT_EQ(found.dtype(), each.dtype);
      EXPECT_EQ(found.slice(0, 31, 32).item(), wanted[0]) << name;
      EXPECT_EQ(found.slice(0, 32, 33).item(), wanted[1]) << name;
    }
  }
}

Program conv_with_second_user() {
  ProgramBuilder b;
  Node* weight = b.weight("c.weight", {2, 1, 1, 1});
  Node* gamma = b.weight("n.weight", {2});
  Node* beta = b.weight("n.bias", {2});
  Node* mean = b.weight("n.running_mean", {2});
  Node* var = b.parameter("n.running_var", Tensor::of<float>({2}, {1.0f, 2.0f}));
  Node* x = b.input("x", {1, 1, 2, 2});
  Node* conv = b.call("conv2d.default", {x, weight}, "c");
  Node* norm = b.call("batch_norm.default", {conv, gamma, beta, mean, var, false, 0.1, 1e-5, true}, "n");
  Node* sum = b.call("add.Tensor", {conv, norm});
  return b.finish({sum});
}

TEST(FoldBatchNorm, LeavesAConvolutionWithFurtherUsersUnlessPyTorchIsFollowed) {
  Program program = conv_with_second_user();
  const Tensor x = sample({1, 1, 2, 2}, 5);
  const Tensor before = run(program, x)[0];
  fold_batch_norms(program, Compat::kNone);
  EXPECT_TRUE(bitwise_equal(run(program, x)[0], before));
  Program as_torch = conv_with_second_user();
  fold_batch_norms(as_torch, Compat::kTorch26);
  EXPECT_EQ(as_torch.graph->find("batch_norm"), nullptr);
}

TEST(FoldQuantizedConstants, FoldsWhatStandsBetweenConstantAndQuantize) {
  ProgramBuilder b;
  Node* weight = b.weight("w", {2, 3});
  Node* x = b.input("x", {1, 3});
  Node* turned = b.call("t.default", {weight});
  Node* back = b.call("t.default", {turned});
  Node* linear = b.call("linear.default", {x, back});
  Program program = b.finish({linear});
  Graph& graph = *program.graph;
  {
    const auto point = graph.insert_before(graph.find("linear"));
    Node* q = graph.call("torch.ops.quantized_decomposed.quantize_per_tensor.default",
                         {back, 0.01, 0, -127, 127, DType::kS8});
    Node* dq =
        graph.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default", {q, 0.01, 0, -127, 127, DType::kS8});
    linear->set_arg(1, dq);
  }
  fold_quantized_constants(program, Compat::kNone);
  verify_program(program);
  EXPECT_EQ(targets(graph), (std::vector<std::string>{"x", "_frozen_param0", "dequantize_per_tensor.default",
                                                      "linear.default", "output"}));
  EXPECT_EQ(program.attributes.size(), 1u);
}

TEST(Convert, ChainsAreAsLongAsAFileMakesThem) {
  constexpr int kLength = 20000;
  ProgramBuilder b;
  Node* weight = b.weight("w", {4, 4});
  Node* value = b.input("x", {2, 4});
  for (int i = 0; i < kLength; ++i) {
    weight = b.call("neg.default", {weight});
    value = b.call("neg.default", {value});
  }
  XNNPACKQuantizer quantizer = per_channel();
  Prepared prepared = prepare_pt2e(b.finish({b.call("linear.default", {value, weight})}), quantizer);
  prepared.run({sample({2, 4}, 1)});
  const std::vector<std::string> left = targets(*convert_pt2e(prepared).graph);
  EXPECT_EQ(std::count(left.begin(), left.end(), "neg.default"), kLength);
}

}  // namespace
}  // namespace qdq::convert_test
