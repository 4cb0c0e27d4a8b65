// Training of prepared programs. What PyTorch computes step by step stands in the conformance cases; here is what they
// do not show.
#include "exec/interpreter.h"
#include "message_of.h"
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "format/npz.h"
#include "quant/observers/learnable_fake_quantize.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/quant/program_builder.h"

namespace qdq::trainer_test {
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
    const double momentum = optimizer == Optimizer::kSgd ? 0.9 : 0;
    const std::vector<double> found = losses(fresh, {Loss::kCrossEntropy, {optimizer, 0.05, momentum}}, x, target, 40);
    EXPECT_LT(found.back(), 0.5 * found.front());
  }
}

TEST(Trainer, AnInPlaceOperatorTrainsAsItsFunctionalForm) {
  Prepared in_place = prepare(two_linears("relu_.default")), functional = prepare(two_linears());
  const Tensor x = sample({4, 3}, 1), target = sample({4, 2}, 2);
  EXPECT_EQ(losses(in_place, {Loss::kMse, {Optimizer::kSgd, 0.1}}, x, target, 3),
            losses(functional, {Loss::kMse, {Optimizer::kSgd, 0.1}}, x, target, 3));
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
  EXPECT_EQ(losses(written, {Loss::kMse, {Optimizer::kSgd, 0.1}}, x, target, 3),
            losses(plain, {Loss::kMse, {Optimizer::kSgd, 0.1}}, x, target, 3));
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
  losses(one, {Loss::kCrossEntropy, {Optimizer::kAdam, 0.05}}, x, target, 3);
  set_num_threads(3);
  losses(three, {Loss::kCrossEntropy, {Optimizer::kAdam, 0.05}}, x, target, 3);
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
  losses(sgd, {Loss::kMse, {Optimizer::kSgd, 0.125, 0.5, 0.25}}, x, target, 2);
  const float g1 = 2 * (2 - 1) + 0.25f * 2, p1 = 2 - 0.125f * g1, g2 = 2 * (p1 - 1) + 0.25f * p1;
  EXPECT_FLOAT_EQ(value_of(sgd, "p").data<float>()[0], p1 - 0.125f * (0.5f * g1 + g2));
  Prepared adam = prepare_qat_pt2e(program(), nothing);
  losses(adam, {Loss::kMse, {Optimizer::kAdam, 0.125}}, x, target, 1);
  // the first step of Adam is lr, whatever the gradient
  EXPECT_NEAR(value_of(adam, "p").data<float>()[0], 2 - 0.125, 1e-6);
}

TEST(Trainer, ParametersThatShareBytesStayOne) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3});
  const Tensor shared = sample({3, 3}, 9);
  Node* first = b.call("linear.default", {x, b.parameter("a.weight", shared)}, "a");
  Prepared prepared = prepare(b.finish({b.call("linear.default", {first, b.parameter("b.weight", shared)}, "b")}));
  Trainer trainer(prepared, {Loss::kMse, {Optimizer::kSgd, 0.1}});
  EXPECT_EQ(trainer.parameters(), std::vector<std::string>{"a.weight"});
  trainer.step({sample({4, 3}, 1)}, sample({4, 3}, 2));
  EXPECT_EQ(value_of(prepared, "a.weight").storage(), value_of(prepared, "b.weight").storage());
  EXPECT_FALSE(bitwise_equal(value_of(prepared, "a.weight"), shared));
}

// The mean squared error, taken apart.
TEST(Trainer, AnyLossTrainsByItsGradients) {
  const Tensor x = sample({4, 3}, 1), target = sample({4, 2}, 2);
  const TrainingOptions options{Loss::kMse, {Optimizer::kAdamW, 0.1}};
  Prepared whole = prepare(two_linears()), parts = prepare(two_linears());
  Trainer by_step(whole, options), by_parts(parts, options);
  for (int i = 0; i < 3; ++i) {
    by_step.step({x}, target);
    const std::vector<Tensor> outputs = by_parts.forward({x});
    by_parts.backward({loss_and_grad(Loss::kMse, outputs[0], target).grad});
    by_parts.update();
  }
  EXPECT_EQ(by_parts.num_updates(), 3);
  for (const Attribute& attribute : whole.program().attributes)
    EXPECT_TRUE(bitwise_equal(attribute.tensor, value_of(parts, attribute.name))) << attribute.name;
}

// The gradient of a sum of losses on two outputs is the sum of those of each.
TEST(Trainer, EveryOutputCanHaveAGradient) {
  const auto net = [] {
    ProgramBuilder b;
    Node* x = b.input("x", {4, 3});
    Node* first = b.call("linear.default", {x, b.weight("a.weight", {2, 3})}, "a");
    return b.finish({first, b.call("tanh.default", {first}), b.input("unused", {1})});
  };
  XNNPACKQuantizer nothing;
  Prepared prepared = prepare_qat_pt2e(net(), nothing);
  Trainer trainer(prepared, {Loss::kMse, {Optimizer::kSgd, 0.0}});
  const Tensor x = sample({4, 3}, 1), unused = sample({1}, 4), one = Tensor::full({4, 2}, DType::kF32, 1),
               two = Tensor::full({4, 2}, DType::kF32, 2);
  const auto grads_of = [&](const std::vector<Tensor>& of_outputs) {
    trainer.forward({x, unused});
    trainer.backward(of_outputs);
    return trainer.gradients().at("a.weight");
  };
  const Tensor first = grads_of({one}), second = grads_of({{}, two}), both = grads_of({one, two, {}});
  EXPECT_GT(std::abs(second.data<float>()[0]), 1e-3f);
  for (int64_t i = 0; i < both.numel(); ++i)
    EXPECT_NEAR(both.data<float>()[i], first.data<float>()[i] + second.data<float>()[i], 1e-5);
  EXPECT_NE(message_of([&] { grads_of({{}, {}, unused}); }).find("output 2 does not depend"), std::string::npos);
}

TEST(Trainer, PartsOfAStepSayWhatIsMissing) {
  Prepared prepared = prepare(two_linears());
  Trainer trainer(prepared, {Loss::kMse, {Optimizer::kSgd, 0.1}});
  const Tensor x = sample({4, 3}, 1), grad = sample({4, 2}, 2);
  EXPECT_NE(message_of([&] { trainer.backward({grad}); }).find("no forward pass"), std::string::npos);
  EXPECT_NE(message_of([&] { trainer.update(); }).find("no new gradients"), std::string::npos);
  trainer.forward({x});
  EXPECT_NE(message_of([&] { trainer.backward({x}); }).find("the gradient of output 0 is float32 [4, 3]; wanted"),
            std::string::npos);
  EXPECT_NE(message_of([&] { trainer.backward({}); }).find("no output has a gradient"), std::string::npos);
  EXPECT_NE(message_of([&] { trainer.backward({Tensor::full({4, 2}, DType::kF32, INFINITY)}); }).find("not finite"),
            std::string::npos);
  trainer.backward({grad});
  EXPECT_NE(message_of([&] { trainer.backward({grad}); }).find("no forward pass"), std::string::npos);
  trainer.update();
  EXPECT_NE(message_of([&] { trainer.update(); }).find("no new gradients"), std::string::npos);
}

TEST(Trainer, TheScheduleSetsTheRateOfEachStep) {
  Prepared prepared = prepare(two_linears());
  TrainingOptions options{Loss::kMse, {Optimizer::kSgd, 0.5}};
  options.schedule.schedule = LrSchedule::kStep;
  options.schedule.step_size = 1;
  options.schedule.gamma = 0;
  Trainer trainer(prepared, options);
  const Tensor x = sample({4, 3}, 1), target = sample({4, 2}, 2), start = value_of(prepared, "a.weight");
  EXPECT_EQ(trainer.lr(), 0.5);
  trainer.step({x}, target);
  EXPECT_EQ(trainer.lr(), 0);
  const Tensor once = value_of(prepared, "a.weight");
  trainer.step({x}, target);
  EXPECT_FALSE(bitwise_equal(start, once));
  EXPECT_TRUE(bitwise_equal(once, value_of(prepared, "a.weight")));
}

TEST(Trainer, DistillationMixesTheTwoLosses) {
  const Tensor x = sample({4, 3}, 1), target = Tensor::of<int64_t>({4}, {0, 1, 1, 0}), teacher = sample({4, 2}, 7);
  const auto loss_of = [&](double share, const Tensor& on, const Tensor& from) {
    Prepared prepared = prepare(two_linears());
    TrainingOptions options{Loss::kCrossEntropy, {Optimizer::kSgd, 0.1}};
    options.distillation = share;
    if (share > 0) options.temperature = 3;
    Trainer trainer(prepared, options);
    const double loss = trainer.step({x}, on, from);
    return std::pair(loss, trainer.gradients().at("b.bias").data<float>()[0]);
  };
  const auto plain = loss_of(0, target, {}), distance = loss_of(1, {}, teacher), mixed = loss_of(0.25, target, teacher);
  EXPECT_NEAR(mixed.first, 0.25 * distance.first + 0.75 * plain.first, 1e-12);
  EXPECT_NEAR(mixed.second, 0.25f * distance.second + 0.75f * plain.second, 1e-6);
  EXPECT_THROW(loss_of(0.5, target, {}), Error);
  EXPECT_THROW(loss_of(0.5, {}, teacher), Error);
  EXPECT_THROW(loss_of(1.5, target, teacher), Error);
  EXPECT_NE(message_of([&] { loss_of(0, target, teacher); }).find("does nothing without distillation"),
            std::string::npos);
}

TEST(Trainer, SaysWhichOptionDoesNothing) {
  Prepared prepared = prepare(two_linears());
  TrainingOptions options;
  options.temperature = 2;
  EXPECT_NE(message_of([&] { Trainer(prepared, options); }).find("the temperature 2 does nothing"), std::string::npos);
  options = {};
  options.optimizer.qparams_lr = 0.5;
  EXPECT_NE(message_of([&] { Trainer(prepared, options); }).find("no scale is learnt"), std::string::npos);
}

// Through the bytes of a file, in the middle of a training that changes its form.
TEST(Trainer, AnotherTrainerGoesOnFromItsStateToTheByte) {
  const Tensor x = sample({4, 2, 5, 5}, 3), target = Tensor::of<int64_t>({4}, {0, 1, 2, 1});
  for (const OptimizerOptions& optimizer :
       {OptimizerOptions{Optimizer::kAdamW, 0.05}, OptimizerOptions{Optimizer::kSgd, 0.05, 0.9},
        OptimizerOptions{Optimizer::kSgd, 0.05}})
    for (const int break_at : {0, 1, 2, 3, 4}) {
      TrainingOptions options{Loss::kCrossEntropy, optimizer};
      options.schedule.warmup_steps = 3;
      const auto train = [&](Prepared& prepared, Trainer& trainer, int from, int to) {
        for (int step = from; step < to; ++step) {
          if (step == 2) move_exported_model_to_eval(prepared);
          if (step == 3) enable_observer(prepared, false);
          trainer.step({x}, target);
        }
      };
      Prepared whole = prepare(conv_net()), first = prepare(conv_net()), second = prepare(conv_net());
      Trainer through(whole, options), until(first, options), from(second, options);
      train(whole, through, 0, 5);
      train(first, until, 0, break_at);
      const format::Bytes file = format::write_npz(until.state_dict());
      train(first, until, break_at, 5);  // what was saved stays as it was
      from.load_state_dict(format::read_npz(file));
      EXPECT_EQ(from.num_updates(), break_at);
      train(second, from, break_at, 5);
      for (const Attribute& attribute : whole.program().attributes)
        EXPECT_TRUE(bitwise_equal(attribute.tensor, value_of(second, attribute.name))) << attribute.name << break_at;
      EXPECT_TRUE(format::write_npz(through.state_dict()) == format::write_npz(from.state_dict()));
      move_exported_model_to_eval(whole);
      move_exported_model_to_eval(second);
      EXPECT_TRUE(bitwise_equal(whole.run({x})[0], second.run({x})[0]));
    }
}

// The fake quantizers' scales move with the weights, reach the converted program, and go on from a state.
TEST(Trainer, LearnsScalesWithTheWeights) {
  const Tensor x = sample({4, 2, 5, 5}, 3), target = Tensor::of<int64_t>({4}, {0, 1, 2, 1});
  const TrainingOptions options{Loss::kCrossEntropy, {Optimizer::kAdam, 0.002}};
  const auto made = [&] {
    Prepared prepared = prepare(conv_net());
    learn_qparams(prepared);
    return prepared;
  };
  const auto estimate = [&](Prepared& prepared) {
    prepared.run({x});
    enable_param_learning(prepared);
  };
  Prepared learnt = made(), again = made();
  estimate(learnt);
  Trainer trainer(learnt, options), other(again, options);
  const std::vector<std::string> names = trainer.parameters();
  const auto scales = std::count_if(names.begin(), names.end(), [](const auto& n) { return n.ends_with(".scale"); });
  EXPECT_EQ(scales, static_cast<int64_t>(learnt.observers().size()));
  const auto scale_of = [](const Prepared& prepared, size_t i) {
    return prepared.observers()[i].observer->calculate_qparams().scale;
  };
  const std::vector<float> before = scale_of(learnt, 0);
  std::vector<double> found;
  for (int step = 0; step < 20; ++step) found.push_back(trainer.step({x}, target));
  EXPECT_LT(found.back(), found.front());
  EXPECT_NE(scale_of(learnt, 0), before);
  for (const auto& name : names) EXPECT_TRUE(trainer.gradients().count(name)) << name;
  other.load_state_dict(format::read_npz(format::write_npz(trainer.state_dict())));
  EXPECT_EQ(trainer.step({x}, target), other.step({x}, target));
  for (size_t i = 0; i < learnt.observers().size(); ++i) EXPECT_EQ(scale_of(learnt, i), scale_of(again, i));
  enable_param_learning(learnt, false);
  const std::vector<float> kept = scale_of(learnt, 0);
  trainer.step({x}, target);
  EXPECT_EQ(scale_of(learnt, 0), kept);
  move_exported_model_to_eval(learnt);
  const Tensor rounded = learnt.run({x})[0];
  const Program converted = convert_pt2e(learnt);
  const Tensor folded = Interpreter(converted, {}).run(std::vector{x})[0];
  const double unit = learnt.observers().back().observer->calculate_qparams().scale[0];
  for (int64_t i = 0; i < rounded.numel(); ++i)
    EXPECT_NEAR(folded.data<float>()[i], rounded.data<float>()[i], 1.01 * unit);
}

// A step of the scale by hand: the gradient that its own fake quantizer gives, of a program that is nothing else.
TEST(Trainer, AScaleMovesByItsGradient) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3});
  Prepared prepared = prepare(b.finish({b.call("linear.default", {x, b.weight("a.weight", {2, 3})}, "a")}));
  learn_qparams(prepared);
  const Tensor in = sample({4, 3}, 1), grad = sample({4, 2}, 5);
  prepared.run({in});
  enable_param_learning(prepared);
  Trainer trainer(prepared, {Loss::kMse, {Optimizer::kSgd, 0.125}});
  const ObserverGroup& last = prepared.observers().back();
  auto& fake = static_cast<LearnableFakeQuantize&>(*last.observer);
  const Tensor before = fake.scale();
  trainer.forward({in});
  trainer.backward({grad});
  const Tensor& found = trainer.gradients().at(last.inserted_as[0] + ".scale");
  EXPECT_GT(std::abs(found.data<float>()[0]), 1e-3f);
  trainer.update();
  EXPECT_FLOAT_EQ(fake.scale().data<float>()[0], before.data<float>()[0] - 0.125f * found.data<float>()[0]);
}

TEST(Trainer, AStateOfAnotherTrainingIsRefused) {
  Prepared prepared = prepare(two_linears()), other = prepare(conv_net());
  Trainer trainer(prepared, {Loss::kMse, {Optimizer::kAdam, 0.1}}), wrong(other, {Loss::kMse, {Optimizer::kAdam, 0.1}}),
      sgd(prepared, {Loss::kMse, {Optimizer::kSgd, 0.1}});
  sgd.step({sample({4, 3}, 1)}, sample({4, 2}, 2));
  const std::vector<format::NamedTensor> state = trainer.state_dict();
  const auto refusal_of = [&](const std::vector<format::NamedTensor>& changed) {
    return message_of([&] { trainer.load_state_dict(changed); });
  };
  EXPECT_EQ(refusal_of(state), "");
  EXPECT_NE(refusal_of(wrong.state_dict()).find("the state has no parameter.a.weight"), std::string::npos);
  EXPECT_NE(refusal_of(sgd.state_dict()).find("the state has no momentum.a.weight"), std::string::npos);
  for (size_t i = 0; i < state.size(); ++i) {
    std::vector<format::NamedTensor> without = state, twice = state, odd = state;
    without.erase(without.begin() + static_cast<int64_t>(i));
    twice.push_back(state[i]);
    odd[i].tensor = Tensor::full({2, 2, 2}, DType::kF64, -7);
    EXPECT_NE(refusal_of(without), "") << state[i].name;
    EXPECT_NE(refusal_of(twice), "") << state[i].name;
    EXPECT_NE(refusal_of(odd), "") << state[i].name;
  }
  std::vector<format::NamedTensor> more = state;
  more.push_back({"more", Tensor::scalar<float>(1)});
  EXPECT_NE(refusal_of(more).find("the state has more, which this trainer has not"), std::string::npos);
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
  EXPECT_NE(message_of([&] { Trainer(prepared, {Loss::kMse, {Optimizer::kSgd, -1}}); }).find("learning rate is -1"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Trainer(prepared, {Loss::kMse, {Optimizer::kSgd, 0.1, -1}}); }).find("momentum is -1"),
            std::string::npos);
  Trainer trainer(prepared, {Loss::kMse, {Optimizer::kSgd, 0.1}});
  const Tensor before = value_of(prepared, "a.weight");
  EXPECT_NE(message_of([&] { trainer.step({sample({4, 3}, 1)}, sample({4, 3}, 1)); }).find("needs float32 [4, 2]"),
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
}  // namespace qdq::trainer_test
