// Training of prepared programs. What PyTorch computes step by step stands in the conformance cases; here is what they
// do not show.
#include "exec/interpreter.h"
#include "train/trainer.h"

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "quant/observers/fake_quantize.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/quant/program_builder.h"

namespace qdq {
namespace {

XNNPACKQuantizer qat_quantizer(Compat compat = Compat::kNone) {
  XNNPACKQuantizer quantizer(compat);
  SymmetricConfigOptions options;
  options.is_qat = true;
  options.is_per_channel = true;
  quantizer.set_global(get_symmetric_quantization_config(options));
  return quantizer;
}

Prepared prepare(Program program) {
  XNNPACKQuantizer quantizer = qat_quantizer();
  return prepare_qat_pt2e(std::move(program), quantizer);
}

// x[4, 3] -> linear -> relu (in place, if asked) -> linear -> [4, 2]
Program two_linears(const std::string& relu = "relu.default") {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3});
  Node* first = b.call("linear.default", {x, b.weight("a.weight", {5, 3}), b.weight("a.bias", {5})}, "a");
  Node* middle = b.call(relu, {first}, "");
  return b.finish({b.call("linear.default", {middle, b.weight("b.weight", {2, 5}), b.weight("b.bias", {2})}, "b")});
}

// x[4, 2, 5, 5] -> conv -> batch norm -> relu_ -> mean -> [4, 3]
Program conv_net(double eps = 1e-3) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 2, 5, 5});
  Node* conv =
      b.call("conv2d.default",
             {x, b.weight("conv.weight", {3, 2, 3, 3}), b.weight("conv.bias", {3}), Argument::List{1, 1}}, "conv");
  Node* gamma = b.parameter("bn.weight", Tensor::of<float>({3}, {1.0f, 0.5f, 2.0f}));
  Node* mean = b.weight("bn.running_mean", {3});
  Node* var = b.parameter("bn.running_var", Tensor::of<float>({3}, {1.0f, 0.25f, 1.5f}));
  Node* norm =
      b.call("batch_norm.default", {conv, gamma, b.weight("bn.bias", {3}), mean, var, false, 0.1, eps, true}, "bn");
  Node* relu = b.call("relu_.default", {norm}, "");
  Program program = b.finish({b.call("mean.dim", {relu, Argument::List{2, 3}})});
  for (const char* statistic : {"bn.running_mean", "bn.running_var"}) {
    Attribute& attribute = *program.find_attribute(statistic);
    attribute.kind = Attribute::Kind::kBuffer;
    attribute.requires_grad = false;
  }
  return program;
}

std::vector<double> losses(Prepared& prepared, const TrainingOptions& options, const Tensor& x, const Tensor& target,
                           int steps) {
  Trainer trainer(prepared, options);
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) out.push_back(trainer.step({x}, target));
  return out;
}

Tensor value_of(const Prepared& prepared, const std::string& name) {
  return prepared.program().find_attribute(name)->tensor;
}

TEST(Trainer, LearnsWhatItIsShown) {
  Prepared prepared = prepare(conv_net());
  const Tensor x = sample({4, 2, 5, 5}, 3), target = Tensor::of<int64_t>({4}, {0, 1, 2, 1});
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kAdam}) {
    Prepared fresh = prepare(conv_net());
    const std::vector<double> found = losses(fresh, {Loss::kCrossEntropy, optimizer, 0.05, 0.9}, x, target, 40);
    EXPECT_LT(found.back(), 0.5 * found.front());
  }
}

TEST(Trainer, AnInPlaceOperatorTrainsAsItsFunctionalForm) {
  Prepared in_place = prepare(two_linears("relu_.default")), functional = prepare(two_linears());
  const Tensor x = sample({4, 3}, 1), target = sample({4, 2}, 2);
  EXPECT_EQ(losses(in_place, {Loss::kMse, Optimizer::kSgd, 0.1}, x, target, 3),
            losses(functional, {Loss::kMse, Optimizer::kSgd, 0.1}, x, target, 3));
  EXPECT_TRUE(bitwise_equal(value_of(in_place, "a.weight"), value_of(functional, "a.weight")));
}

// Windowed attention writes its mask so: nothing that is trained moves it, so it may stay as it is.
TEST(Trainer, AnInPlaceOperatorOnWhatIsNotTrainedStays) {
  const auto net = [](bool in_place) {
    ProgramBuilder b;
    Node* x = b.input("x", {4, 3});
    Node* linear = b.call("linear.default", {x, b.weight("a.weight", {2, 3}), b.weight("a.bias", {2})}, "a");
    Node* mask = b.call(in_place ? "new_zeros.default" : "new_ones.default", {linear, Argument::List{4, 2}});
    if (in_place) b.call("fill_.Scalar", {b.call("slice.Tensor", {mask, 0, 0, 4}), 1.0});
    return b.finish({b.call("sub.Tensor", {linear, mask})});
  };
  const Tensor x = sample({4, 3}, 1), target = sample({4, 2}, 2);
  Prepared written = prepare(net(true)), plain = prepare(net(false));
  EXPECT_EQ(losses(written, {Loss::kMse, Optimizer::kSgd, 0.1}, x, target, 3),
            losses(plain, {Loss::kMse, Optimizer::kSgd, 0.1}, x, target, 3));
}

// What is written over a view of a trained value has no functional form.
TEST(Trainer, RefusesToWriteOverViewsOfWhatIsTrained) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3});
  Node* linear = b.call("linear.default", {x, b.weight("a.weight", {2, 3})}, "a");
  Node* part = b.call("slice.Tensor", {linear, 0, 0, 2});
  b.call("relu_.default", {part});
  Prepared prepared = prepare(b.finish({linear}));
  EXPECT_THROW(Trainer(prepared, {Loss::kMse}), Error);
}

TEST(Trainer, TheNumberOfThreadsChangesNoBit) {
  const Tensor x = sample({4, 2, 5, 5}, 3), target = Tensor::of<int64_t>({4}, {0, 1, 2, 1});
  Prepared one = prepare(conv_net()), three = prepare(conv_net());
  losses(one, {Loss::kCrossEntropy, Optimizer::kAdam, 0.05}, x, target, 3);
  set_num_threads(3);
  losses(three, {Loss::kCrossEntropy, Optimizer::kAdam, 0.05}, x, target, 3);
  set_num_threads(1);
  for (const Attribute& attribute : one.program().attributes)
    EXPECT_TRUE(bitwise_equal(attribute.tensor, value_of(three, attribute.name))) << attribute.name;
}

TEST(Trainer, LeavesTheProgramItWasPreparedFromAlone) {
  const Program program = conv_net();
  const Tensor weight = program.find_attribute("conv.weight")->tensor.clone(),
               mean = program.find_attribute("bn.running_mean")->tensor.clone();
  Prepared prepared = prepare(program.clone());
  losses(prepared, {}, sample({4, 2, 5, 5}, 3), Tensor::of<int64_t>({4}, {0, 1, 2, 1}), 2);
  EXPECT_TRUE(bitwise_equal(weight, program.find_attribute("conv.weight")->tensor));
  EXPECT_TRUE(bitwise_equal(mean, program.find_attribute("bn.running_mean")->tensor));
  EXPECT_FALSE(bitwise_equal(weight, value_of(prepared, "conv.weight")));
  EXPECT_FALSE(bitwise_equal(mean, value_of(prepared, "bn.running_mean")));
}

// p = 2, g constant: SGD with momentum moves by lr g, then lr (momentum g + g'), where weight decay adds to g.
TEST(Trainer, OptimizersFollowTheirFormulas) {
  const auto program = [] {
    ProgramBuilder b;
    Node* x = b.input("x", {1, 1});
    return b.finish({b.call("mul.Tensor", {x, b.parameter("p", Tensor::of<float>({1}, {2.0f}))})});
  };
  // The loss is (x p - t)^2, its gradient 2 x (x p - t).
  const Tensor x = Tensor::of<float>({1, 1}, {1.0f}), target = Tensor::of<float>({1, 1}, {1.0f});
  XNNPACKQuantizer nothing;
  Prepared sgd = prepare_qat_pt2e(program(), nothing);
  losses(sgd, {Loss::kMse, Optimizer::kSgd, 0.125, 0.5, 0.25}, x, target, 2);
  const float g1 = 2 * (2 - 1) + 0.25f * 2, p1 = 2 - 0.125f * g1, g2 = 2 * (p1 - 1) + 0.25f * p1;
  EXPECT_FLOAT_EQ(value_of(sgd, "p").data<float>()[0], p1 - 0.125f * (0.5f * g1 + g2));
  Prepared adam = prepare_qat_pt2e(program(), nothing);
  losses(adam, {Loss::kMse, Optimizer::kAdam, 0.125}, x, target, 1);
  // the first step of Adam is lr, whatever the gradient
  EXPECT_NEAR(value_of(adam, "p").data<float>()[0], 2 - 0.125, 1e-6);
}

TEST(Trainer, ParametersThatShareBytesStayOne) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3});
  const Tensor shared = sample({3, 3}, 9);
  Node* first = b.call("linear.default", {x, b.parameter("a.weight", shared)}, "a");
  Prepared prepared = prepare(b.finish({b.call("linear.default", {first, b.parameter("b.weight", shared)}, "b")}));
  Trainer trainer(prepared, {Loss::kMse, Optimizer::kSgd, 0.1});
  EXPECT_EQ(trainer.parameters(), std::vector<std::string>{"a.weight"});
  trainer.step({sample({4, 3}, 1)}, sample({4, 3}, 2));
  EXPECT_EQ(value_of(prepared, "a.weight").storage(), value_of(prepared, "b.weight").storage());
  EXPECT_FALSE(bitwise_equal(value_of(prepared, "a.weight"), shared));
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message;
  }
  return "";
}

TEST(Trainer, NamesAllOperatorsWithoutAGradientAtOnce) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3});
  Node* linear = b.call("linear.default", {x, b.weight("a.weight", {3, 3})}, "a");
  Node* bessel = b.call("i0.default", {linear});
  Prepared prepared = prepare(b.finish({b.call("digamma.default", {bessel})}));
  const std::string message = message_of([&] { Trainer(prepared, {}); });
  EXPECT_NE(message.find("torch.ops.aten.i0.default (i0)"), std::string::npos) << message;
  EXPECT_NE(message.find("torch.ops.aten.digamma.default (digamma)"), std::string::npos) << message;
}

TEST(Trainer, SaysWhatIsWrong) {
  Prepared prepared = prepare(two_linears());
  EXPECT_NE(message_of([&] { Trainer(prepared, {Loss::kMse, Optimizer::kSgd, -1}); }).find("learning rate is -1"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Trainer(prepared, {Loss::kMse, Optimizer::kSgd, 0.1, -1}); }).find("momentum is -1"),
            std::string::npos);
  Trainer trainer(prepared, {Loss::kMse, Optimizer::kSgd, 0.1});
  const Tensor before = value_of(prepared, "a.weight");
  EXPECT_NE(message_of([&] { trainer.step({sample({4, 3}, 1)}, sample({4, 3}, 1)); }).find("wants float32 [4, 2]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { trainer.step({sample({3, 4}, 1)}, sample({4, 2}, 1)); }).find("input 'x'"),
            std::string::npos);
  EXPECT_EQ(before.raw(), value_of(prepared, "a.weight").raw());
  Program frozen = two_linears();
  for (Attribute& attribute : frozen.attributes) attribute.requires_grad = false;
  Prepared without = prepare(std::move(frozen));
  EXPECT_NE(message_of([&] { Trainer(without, {}); }).find("nothing to train"), std::string::npos);
}

TEST(Qat, TheRewriteKeepsEpsUnlessPyTorchIsFollowed) {
  XNNPACKQuantizer ours = qat_quantizer(), strict = qat_quantizer(Compat::kTorch26);
  const auto literals = [](const Prepared& prepared) {
    for (const Node* node : prepared.program().graph->nodes())
      if (node->is("torch.ops.aten.batch_norm.default"))
        return std::tuple(node->arg(5).as<bool>(), node->arg(6).number().value(), node->arg(7).number().value());
    return std::tuple(false, 0.0, 0.0);
  };
  EXPECT_EQ(literals(prepare_qat_pt2e(conv_net(1e-3), ours)), std::tuple(true, 0.1, 1e-3));
  EXPECT_EQ(literals(prepare_qat_pt2e(conv_net(1e-3), strict)), std::tuple(true, 0.1, 1e-5));
}

// x -> (conv -> batch norm) twice -> add
Program two_conv_norms() {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 2, 5, 5});
  std::vector<Node*> norms;
  for (const std::string name : {"a", "b"}) {
    Node* conv = b.call("conv2d.default", {x, b.weight(name + ".weight", {3, 2, 3, 3})}, name);
    Node* var = b.parameter(name + ".var", Tensor::of<float>({3}, {1.0f, 0.25f, 1.5f}));
    norms.push_back(b.call("batch_norm.default",
                           {conv, b.weight(name + ".gamma", {3}), b.weight(name + ".beta", {3}),
                            b.weight(name + ".mean", {3}), var, true, 0.1, 1e-5, true},
                           name));
  }
  return b.finish({b.call("add.Tensor", {norms[0], norms[1]})});
}

std::vector<std::string> order_of(const Program& program, std::string_view target) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->target().find(target) != std::string::npos) out.push_back(node->meta.module_path().value_or("?"));
  return out;
}

// Both rewritten parts stand in front of the addition in PyTorch; here each stays where it was.
TEST(Qat, ReadersOfRewrittenNormsNameTheOldOnesInPyTorchOnly) {
  for (const Compat compat : {Compat::kNone, Compat::kTorch26}) {
    XNNPACKQuantizer quantizer = qat_quantizer(compat);
    const Prepared prepared = prepare_qat_pt2e(two_conv_norms(), quantizer);
    int64_t never_inserted = 0;
    for (const ObserverGroup& group : prepared.observers()) never_inserted += group.inserted_as.empty();
    EXPECT_EQ(never_inserted, compat == Compat::kTorch26 ? 2 : 0);  // the two inputs of the addition
  }
}

TEST(Qat, WhatMovesToInferenceBelongsToNoModuleInPyTorch) {
  for (const Compat compat : {Compat::kNone, Compat::kTorch26}) {
    XNNPACKQuantizer quantizer = qat_quantizer(compat);
    Prepared prepared = prepare_qat_pt2e(two_conv_norms(), quantizer);
    EXPECT_EQ(order_of(prepared.program(), "batch_norm"), (std::vector<std::string>{"a", "b"}));
    move_exported_model_to_eval(prepared);
    EXPECT_EQ(order_of(prepared.program(), "batch_norm"),
              compat == Compat::kTorch26 ? (std::vector<std::string>{"", ""}) : (std::vector<std::string>{"a", "b"}));
  }
}

// In inference mode the rewritten graph is the float one but for roundings, and so is the folded one that convert
// gives.
TEST(Qat, RewritingAndFoldingChangeTheValuesByNoMoreThanRounding) {
  const Program program = conv_net();
  const Tensor x = sample({4, 2, 5, 5}, 3);
  const Tensor expected = Interpreter(program, {}).run(std::vector{x})[0];
  Prepared prepared = prepare(program.clone());
  move_exported_model_to_eval(prepared);
  enable_fake_quant(prepared, false);
  const Tensor unrounded = prepared.run({x})[0];
  enable_fake_quant(prepared);
  prepared.run({x});
  enable_observer(prepared, false);
  const Tensor rounded = prepared.run({x})[0];
  const double unit = prepared.observers().back().observer->calculate_qparams().scale[0];  // of the output
  const Program converted = convert_pt2e(prepared);
  const Tensor folded = Interpreter(converted, {}).run(std::vector{x})[0];
  for (int64_t i = 0; i < expected.numel(); ++i) {
    EXPECT_NEAR(unrounded.data<float>()[i], expected.data<float>()[i], 1e-5);
    EXPECT_NEAR(rounded.data<float>()[i], expected.data<float>()[i], 1.5 * unit);
    EXPECT_NEAR(folded.data<float>()[i], rounded.data<float>()[i], 1.01 * unit);
  }
  const std::vector<std::string> left = targets(*converted.graph);
  EXPECT_EQ(std::count(left.begin(), left.end(), "batch_norm.default"), 0);
}

TEST(Qat, SwitchesReachEveryFakeQuantizer) {
  Prepared prepared = prepare(two_linears());
  enable_observer(prepared, false);
  enable_fake_quant(prepared, false);
  const Tensor x = sample({4, 3}, 1);
  const Program program = two_linears();
  const std::unique_ptr<OpBackend> backend = make_simd_ops();
  EXPECT_TRUE(bitwise_equal(prepared.run({x})[0], Interpreter(program, {backend.get()}).run(std::vector{x})[0]));
  for (const ObserverGroup& group : prepared.observers()) EXPECT_FALSE(group.observer->calibrated());
}

TEST(Qat, RefusesObserversThatDoNotRound) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({}));
  EXPECT_NE(message_of([&] { prepare_qat_pt2e(two_linears(), quantizer); }).find("is_qat"), std::string::npos);
}

}  // namespace
}  // namespace qdq
