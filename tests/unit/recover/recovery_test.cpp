// Accuracy that comes back: the simulation that everything is judged by, and each remedy.
#include "quant/explain.h"
#include "recover/judged_outputs.h"
#include "recover/recovery.h"
#include "recover/precision.h"
#include "recover/sensitivity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/parallel.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "unit/recover/networks.h"

namespace qdq::recovery_test {
namespace {

double decibels_of(const Program& quantized) {
  OutputError error;
  for (const Batch& batch : batches())
    error.add(run_node_by_node(network(), batch), run_node_by_node(quantized, batch));
  return error.decibels();
}

TEST(Simulation, GivesTheBitsOfTheConvertedProgram) {
  XNNPACKQuantizer xnnpack_quantizer = xnnpack();
  X86InductorQuantizer x86;
  x86.set_global(get_default_x86_inductor_quantization_config());
  for (Quantizer* quantizer : std::initializer_list<Quantizer*>{&xnnpack_quantizer, &x86}) {
    Prepared prepared = calibrated(network(), *quantizer);
    Simulation simulation(prepared);
    const Program converted = convert_pt2e(prepared);
    for (const Batch& batch : batches())
      EXPECT_TRUE(bitwise_equal(simulation.run(batch)[0], run_node_by_node(converted, batch)[0]));
  }
}

TEST(Simulation, RoundsNothingWhereItIsToldSo) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  Simulation simulation(prepared);
  for (size_t i = 0; i < prepared.observers().size(); ++i) simulation.set_rounding(i, false);
  const Batch batch = batches()[0];
  EXPECT_TRUE(bitwise_equal(simulation.run(batch)[0], run_node_by_node(network(), batch)[0]));
}

TEST(Simulation, RoundsDynamicallyAsTheConvertedProgramDoes) {
  XNNPACKQuantizer quantizer;
  SymmetricConfigOptions options;
  options.is_dynamic = true;
  options.is_per_channel = true;
  quantizer.set_global(get_symmetric_quantization_config(options));
  Prepared prepared = prepare_pt2e(network(), quantizer);
  Simulation simulation(prepared);
  const Program converted = convert_pt2e(prepared);
  const Batch batch = batches()[0];
  EXPECT_TRUE(bitwise_equal(simulation.run(batch)[0], run_node_by_node(converted, batch)[0]));
}

TEST(OutputError, CountsEveryChannelThatSpeaksTheSame) {
  const Tensor x = Tensor::of<float>({1, 4, 2}, {1000, 1, -1000, -1, 500, 2, -500, -2});
  const Tensor y = Tensor::of<float>({1, 4, 2}, {1000, 0, -1000, 0, 500, 0, -500, 0});
  OutputError error;
  error.add({x}, {y});
  // The lost channel is faint: its signal is 10 of 1.25 million in each.
  EXPECT_GT(error.decibels(), 10);
  const Tensor equal = Tensor::of<float>({1, 4, 2}, {1, 1, -1, -1, 2, 2, -2, -2});
  const Tensor half = Tensor::of<float>({1, 4, 2}, {1, 0, -1, 0, 2, 0, -2, 0});
  OutputError lost;
  lost.add({equal}, {half});
  EXPECT_NEAR(lost.decibels(), 10 * std::log10(2.0), 0.01);
  OutputError none;
  none.add({x}, {x});
  EXPECT_EQ(none.decibels(), 200);
}

TEST(OutputError, CountsOtherAnswersOfTheFirstOutput) {
  const Tensor x = Tensor::of<float>({3, 2}, {1, 2, 4, 3, 5, 6}), y = Tensor::of<float>({3, 2}, {2, 1, 4, 3, 7, 6});
  OutputError error, both;
  error.add({x, x}, {y, x});
  EXPECT_EQ(error.answers(), 3);
  EXPECT_EQ(error.other_answers(), 2);
  both.add({x}, {x});
  both.add(error);
  EXPECT_EQ(both.answers(), 6);
  EXPECT_EQ(both.other_answers(), 2);
  OutputError none;
  none.add({sample({2, 3, 4}, 1)}, {sample({2, 3, 4}, 2)});
  EXPECT_EQ(none.answers(), 0);
}

TEST(OutputError, RefusesOutputsThatDoNotFit) {
  OutputError error;
  EXPECT_THROW(error.add({sample({2, 3}, 1)}, {}), Error);
  EXPECT_THROW(error.add({sample({2, 3}, 1)}, {sample({3, 2}, 1)}), Error);
}

TEST(ChooseRanges, CutsWhatTheClampBehindCutsAnyway) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  const double before = recovery.decibels();
  EXPECT_GT(choose_ranges(recovery), 0);
  EXPECT_GT(recovery.decibels(), before);
  for (const ObserverGroup& group : prepared.observers())
    for (const EdgeOrNode& at : group.covers)
      if (const auto* node = std::get_if<Node*>(&at); node && (*node)->name() == "conv2d") {
        EXPECT_GE(group.observer->min_val().item(), 0);
        EXPECT_LE(group.observer->max_val().item(), 6);
      }
}

TEST(CorrectBiases, GivesEveryChannelItsMean) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  ASSERT_EQ(correct_biases(recovery), 3);
  // The last layer's means are the outputs'.
  std::vector<double> wanted(5), found(5);
  for (const Batch& batch : batches()) {
    const Tensor x = run_node_by_node(network(), batch)[0], y = recovery.simulation().run(batch)[0];
    for (size_t i = 0; i < 20; ++i) {
      wanted[i % 5] += x.span<float>()[i] / 16;
      found[i % 5] += y.span<float>()[i] / 16;
    }
  }
  // What is rounded behind the layer moves the mean by less than a step.
  double step = 0;
  for (const ObserverGroup& group : prepared.observers())
    for (const EdgeOrNode& at : group.covers)
      if (const auto* node = std::get_if<Node*>(&at); node && (*node)->name() == "linear")
        step = group.observer->calculate_qparams().scale[0];
  ASSERT_GT(step, 0);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(found[i], wanted[i], step / 2);
}

// Files of float16 have it from end to end; a bias of float32 would not go with it.
TEST(CorrectBiases, GivesLayersOfFloat16None) {
  ProgramBuilder b;
  const auto weight = [&](const std::string& name, const Shape& sizes) {
    Node* node = b.parameter(name, sample(sizes, 3).to(DType::kF16));
    std::get<TensorMeta>(node->meta.val.value).dtype = DType::kF16;
    return node;
  };
  Node* x = b.input("x", {8, 16}, DType::kF16);
  Node* first = b.call("relu.default", {b.call("linear.default", {x, weight("first", {6, 16})})});
  Program program = b.finish({b.call("linear.default", {first, weight("last", {4, 6})})});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  std::vector<Batch> halves;
  for (const Batch& batch : rows()) halves.push_back({batch[0].to(DType::kF16)});
  for (const Batch& batch : halves) prepared.run(batch);
  const Program before = convert_pt2e(prepared);
  Recovery recovery(prepared, halves);
  EXPECT_EQ(correct_biases(recovery), 0);
  expect_same(convert_pt2e(prepared), before);
}

TEST(CorrectBiases, LeavesTheProgramAsItWasIfItIsCancelled) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  const Program before = convert_pt2e(prepared);
  int calls = 0;
  Recovery recovery(prepared, batches(), [&](const std::string& remedy, double done) {
    if (remedy == "bias correction" && done > 0 && ++calls == 2) throw Error(ErrorCode::kCancelled, "enough");
  });
  EXPECT_THROW(correct_biases(recovery), Error);
  expect_same(convert_pt2e(prepared), before);
}

TEST(RoundWeights, ServesTheLayersNotEachWeight) {
  XNNPACKQuantizer quantizer = xnnpack(4);
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  const double before = recovery.decibels();
  EXPECT_EQ(round_weights(recovery), 3);
  EXPECT_GT(recovery.decibels(), before + 3);
  // The integers that were chosen are those that convert writes.
  const Program converted = convert_pt2e(prepared);
  EXPECT_DOUBLE_EQ(decibels_of(converted), recovery.decibels());
  int64_t weights = 0;
  for (const Attribute& attribute : converted.attributes) {
    if (attribute.tensor.dtype() != DType::kS8) continue;
    ++weights;
    for (const int8_t value : attribute.tensor.span<int8_t>()) {
      EXPECT_GE(value, -8);
      EXPECT_LE(value, 7);
    }
  }
  EXPECT_EQ(weights, 3);
}

// Three inputs of the linear layer are always the same number: what counts is the sum of their weights.
TEST(RoundWeights, HandsErrorsOn) {
  ProgramBuilder b;
  Node* x = b.input("x", {16, 4});
  Program program = b.finish({b.call("linear.default", {x, b.weight("weight", {1, 4}), b.weight("bias", {1})})});
  const Tensor weight = program.find_attribute("weight")->tensor;
  // The step is 2 / 15, so that the weights are 7.5, 2.4, 2.4 and 2.4 steps.
  const float values[] = {1, 0.32f, 0.32f, 0.32f};
  std::copy(std::begin(values), std::end(values), weight.data<float>());
  std::vector<Batch> same;
  for (uint32_t seed = 1; seed < 5; ++seed) {
    Tensor batch = sample({16, 4}, seed);
    for (int64_t i = 0; i < 16; ++i)
      for (int64_t j = 2; j < 4; ++j) batch.data<float>()[i * 4 + j] = batch.data<float>()[i * 4 + 1];
    same.push_back({batch});
  }
  XNNPACKQuantizer quantizer = xnnpack(4);
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  for (const Batch& batch : same) prepared.run(batch);
  Recovery recovery(prepared, same);
  ASSERT_EQ(round_weights(recovery), 1);
  const Tensor found = prepared.program().find_attribute("weight")->tensor;
  // To the nearest each of the three is 2 steps of 0.133, together 0.8 instead of 0.96.
  const float* w = found.data<float>();
  EXPECT_NEAR(w[1] + w[2] + w[3], 0.96, 0.07);
}

// The same with 8 bits: the step is 1 / 127, so that the three weights are 40.64 steps each.
TEST(RoundWeights, RoundsManyIntegersThatManyPlacesSee) {
  const auto changes = [](int64_t rows, bool at_places = true) {
    ProgramBuilder b;
    const Shape sizes = at_places ? Shape{1, rows, 4} : Shape{rows, 4};
    Node* x = b.input("x", sizes);
    Program program = b.finish({b.call("linear.default", {x, b.weight("weight", {1, 4}), b.weight("bias", {1})})});
    const float values[] = {1, 0.32f, 0.32f, 0.32f};
    std::copy(std::begin(values), std::end(values), program.find_attribute("weight")->tensor.data<float>());
    Tensor batch = sample(sizes, 1);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 2; j < 4; ++j) batch.data<float>()[i * 4 + j] = batch.data<float>()[i * 4 + 1];
    XNNPACKQuantizer quantizer = xnnpack();
    Prepared prepared = prepare_pt2e(std::move(program), quantizer);
    prepared.run({batch});
    Recovery recovery(prepared, {{batch}});
    const double before = recovery.decibels();
    const int64_t changed = round_weights(recovery);
    if (changed == 0) return changed;
    EXPECT_GT(recovery.decibels(), before);
    const float* w = prepared.program().find_attribute("weight")->tensor.data<float>();
    EXPECT_NEAR(w[1] + w[2] + w[3], 0.96, 0.004);  // each to the nearest: 0.9685
    return changed;
  };
  EXPECT_EQ(changes(400), 1);
  EXPECT_EQ(changes(399), 0);         // 100 for each of the four
  EXPECT_EQ(changes(400, false), 0);  // one number a sample
}

TEST(RoundWeights, LeavesManyIntegersOfClassifiersAlone) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  const Program before = convert_pt2e(prepared);
  Recovery recovery(prepared, batches());
  EXPECT_EQ(round_weights(recovery), 0);
  expect_same(convert_pt2e(prepared), before);
}

TEST(RoundWeights, LeavesTheProgramAsItWasIfItIsCancelled) {
  XNNPACKQuantizer quantizer = xnnpack(4);
  Prepared prepared = calibrated(network(), quantizer);
  const Program before = convert_pt2e(prepared);
  int calls = 0;
  Recovery recovery(prepared, batches(), [&](const std::string& remedy, double done) {
    if (remedy == "rounding" && done > 0 && ++calls == 2) throw Error(ErrorCode::kCancelled, "enough");
  });
  EXPECT_THROW(round_weights(recovery), Error);
  expect_same(convert_pt2e(prepared), before);
}

TEST(ReachScore, LeavesAsFewOperatorsInFloatAsItTakes) {
  XNNPACKQuantizer quantizer = xnnpack(4);
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  const double wanted = recovery.decibels() + 4;
  const PrecisionResult result = reach_score(recovery, decibels_score(recovery), wanted);
  ASSERT_TRUE(result.reached);
  EXPECT_GE(result.after.score, wanted);
  const auto count = static_cast<int64_t>(result.nodes.size());
  EXPECT_GT(count, 0);
  for (const PrecisionTrial& trial : result.trials)
    EXPECT_EQ(trial.score >= wanted, trial.operators >= count) << trial.operators;
  EXPECT_DOUBLE_EQ(decibels_of(convert_pt2e(prepared)), result.after.score);
}

TEST(ReachScore, GivesFloatOperatorsTheirWeightsBack) {
  XNNPACKQuantizer quantizer = xnnpack(4);
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  choose_ranges(recovery);
  ASSERT_EQ(release_outputs(recovery), 1);
  ASSERT_EQ(round_weights(recovery), 3);
  correct_biases(recovery);
  const PrecisionResult result = reach_score(recovery, decibels_score(recovery), 200);
  ASSERT_TRUE(result.reached);
  EXPECT_EQ(result.after.score, 200);
  const Program converted = convert_pt2e(prepared);
  for (const Batch& batch : batches())
    EXPECT_TRUE(bitwise_equal(run_node_by_node(converted, batch)[0], run_node_by_node(network(), batch)[0]));
}

TEST(ReachScore, ChangesNothingIfTheScoreIsOutOfReach) {
  XNNPACKQuantizer quantizer = xnnpack(4);
  Prepared prepared = calibrated(network(), quantizer);
  const Program before = convert_pt2e(prepared);
  Recovery recovery(prepared, batches());
  const PrecisionResult result = reach_score(recovery, decibels_score(recovery), 201);
  EXPECT_FALSE(result.reached);
  EXPECT_TRUE(result.nodes.empty());
  EXPECT_EQ(result.after.score, result.before.score);
  expect_same(convert_pt2e(prepared), before);
}

TEST(FreeWeightScales, SavesWeightsThatEpsDrowns) {
  Program program = network();
  for (const auto& [name, by] : {std::pair("second.weight", 1e-4f), std::pair("last.weight", 1e4f)}) {
    const Tensor weight = program.find_attribute(name)->tensor;
    for (int64_t i = 0; i < weight.numel(); ++i) weight.data<float>()[i] *= by;
  }
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(std::move(program), quantizer);
  ASSERT_EQ(lost_outputs(prepared, batches()).size(), 1U);
  EXPECT_NE(lost_outputs(prepared, batches())[0].find("recover accuracy (--recover)"), std::string::npos);
  const std::string after = lost_outputs(prepared, batches(), true)[0];
  EXPECT_NE(after.find("leave operators in float (--target-agreement"), std::string::npos) << after;
  EXPECT_EQ(after.find("--recover"), std::string::npos) << after;
  Recovery recovery(prepared, batches());
  EXPECT_EQ(free_weight_scales(recovery), 1);
  for (const std::string& words : lost_outputs(prepared, batches()))
    EXPECT_NE(words.find("has only "), std::string::npos) << words;
}

TEST(Sensitivities, TellWhichOperatorCosts) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  Recovery recovery(prepared, batches());
  double all = 0;
  const std::vector<Sensitivity> found = sensitivities(recovery, &all);
  EXPECT_DOUBLE_EQ(all, recovery.decibels());
  std::map<std::string, Sensitivity> by_node;
  for (const Sensitivity& each : found) by_node[each.node] = each;
  ASSERT_TRUE(by_node.count("conv2d") && by_node.count("hardtanh") && by_node.count("linear"));
  EXPECT_EQ(by_node["conv2d"].op, "aten.conv2d.default");
  // The integers reach over what the clamp cuts, before it and behind it: those who read them bear the error, which
  // goes as far as the outputs. To spare one of the two the rounding is in vain, for the other rounds the same way.
  for (const char* layer : {"conv2d", "linear"}) {
    EXPECT_LT(by_node["hardtanh"].own, by_node[layer].own) << layer;
    EXPECT_LT(by_node["hardtanh"].alone, by_node[layer].alone) << layer;
    EXPECT_LT(by_node["conv2d_1"].alone, by_node[layer].alone) << layer;
  }
  EXPECT_DOUBLE_EQ(by_node["hardtanh"].without, all);
  EXPECT_GT(by_node["conv2d"].without, all);
}

TEST(Sensitivities, OfAProgramWithoutRoundingAreNone) {
  XNNPACKQuantizer quantizer;
  Prepared prepared = prepare_pt2e(network(), quantizer);
  Recovery recovery(prepared, batches());
  double all = 0;
  EXPECT_TRUE(sensitivities(recovery, &all).empty());
}

TEST(Recover, BringsTheOutputsNearerAndSaysBySteps) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared plain = calibrated(network(), quantizer), prepared = calibrated(network(), quantizer);
  const double before = decibels_of(convert_pt2e(plain));
  std::vector<std::string> told;
  const std::vector<RemedyResult> results =
      recover(prepared, batches(), [&](const RemedyResult& result) { told.push_back(result.remedy); });
  EXPECT_EQ(told, (std::vector<std::string>{"weight scales", "inputs", "equalization", "shifts", "ranges", "sums",
                                            "outputs", "rounding", "bias correction"}));
  EXPECT_DOUBLE_EQ(results[0].before, before);
  for (size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i].before, results[i - 1].after);
  for (const RemedyResult& result : results) EXPECT_GE(result.after, result.before);
  EXPECT_GT(results.back().after, before + 6);
  EXPECT_DOUBLE_EQ(decibels_of(convert_pt2e(prepared)), results.back().after);
}

// Watchers see the same in the run that gives the float outputs as in one of their own.
TEST(Recover, WatchesTheRunOfTheFloatOutputs) {
  XNNPACKQuantizer quantizer = xnnpack();
  std::vector<Program> found;
  for (const Recovery::Then then : {Recovery::Then::kRemedies, Recovery::Then::kMeasures}) {
    Prepared prepared = calibrated(network(), quantizer);
    Recovery recovery(prepared, batches(), {}, then);
    EXPECT_EQ(recovery.kept(watch_for_ranges) != nullptr, then == Recovery::Then::kRemedies);
    Recovery another(prepared, batches(), {}, then);
    while (another.next()) continue;
    found.push_back(convert_pt2e(prepared));
  }
  expect_same(found[0], found[1]);
}

// The last of three batches is far larger than the others, whose ranges do not serve it.
TEST(Recover, LearnsNothingFromFewSamplesThatDoesNotServeOthers) {
  std::vector<Batch> few = rows();
  for (float& value : few[2][0].span<float>()) value *= 8;
  XNNPACKQuantizer quantizer = xnnpack();
  const auto prepared = [&] {
    ProgramBuilder b;
    Node* x = b.input("x", {8, 16});
    Node* first = b.call("linear.default", {x, b.weight("first.weight", {12, 16}), b.weight("first.bias", {12})});
    Node* relu = b.call("relu.default", {first});
    Prepared out =
        prepare_pt2e(b.finish({b.call("linear.default", {relu, b.weight("last.weight", {4, 12})})}), quantizer);
    for (const Batch& batch : few) out.run(batch);
    return out;
  };
  // Repeated, they are too many to be rehearsed.
  std::vector<Batch> many;
  for (int i = 0; i < 3; ++i) many.insert(many.end(), few.begin(), few.end());
  Prepared careless = prepared(), careful = prepared();
  Recovery recovery(careless, many);
  EXPECT_GT(choose_ranges(recovery), 0);
  for (const RemedyResult& result : recover(careful, few)) {
    if (result.remedy == "ranges") {
      EXPECT_EQ(result.changes, 0);
    }
  }
}

// A rehearsal takes longer than a remedy.
TEST(Recover, RehearsesOnlyWhatGains) {
  const auto pieces_of_remedies = [](int count) {
    XNNPACKQuantizer quantizer = xnnpack();
    Prepared prepared = calibrated(network(), quantizer);
    std::map<std::string, int> pieces;
    Recovery recovery(prepared, batches(count), [&](const std::string& remedy, double) { ++pieces[remedy]; });
    while (const auto result = recovery.next())
      if (result->remedy == "shifts" || result->remedy == "rounding") {
        EXPECT_EQ(result->changes, 0);
      }
    return pieces;
  };
  std::map<std::string, int> few = pieces_of_remedies(15), many = pieces_of_remedies(16);  // 60 and 64 samples
  for (const char* remedy : {"shifts", "rounding"}) EXPECT_LE(few[remedy], many[remedy]) << remedy;
  for (const char* remedy : {"ranges", "bias correction"}) EXPECT_GT(few[remedy], 2 * many[remedy]) << remedy;
}

TEST(Recover, GivesTheSameBytesWithAnyNumberOfThreads) {
  for (const int64_t weight_bits : {4, 8}) {
    const auto recovered = [&](int threads) {
      set_num_threads(threads);
      XNNPACKQuantizer quantizer = xnnpack(weight_bits);
      Prepared prepared = calibrated(network(), quantizer);
      recover(prepared, batches());
      set_num_threads(1);
      return convert_pt2e(prepared);
    };
    expect_same(recovered(1), recovered(3));
  }
}

TEST(Recover, MeasuresAgainOnlyWhatChanged) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  int pieces = 0;
  Recovery recovery(prepared, batches(), [&](const std::string&, double) { ++pieces; });
  const auto pieces_of = [&](int64_t samples) {
    const int before = pieces;
    recovery.decibels(samples);
    return pieces - before;
  };
  EXPECT_EQ(pieces_of(16), 4);
  EXPECT_EQ(pieces_of(16), 0);
  EXPECT_EQ(pieces_of(8), 0);  // they are among the others
  const double before = recovery.decibels();
  const std::shared_ptr<Observer> observer = prepared.observers()[0].observer;
  prepared.set_range(0, Tensor::scalar(-0.1f), Tensor::scalar(0.1f));
  EXPECT_EQ(pieces_of(16), 4);
  EXPECT_LT(recovery.decibels(), before - 1);
  recovery.simulation().set_rounding(0, false);
  EXPECT_EQ(pieces_of(16), 4);
  recovery.forget_simulation();
  EXPECT_EQ(pieces_of(8), 2);
  EXPECT_EQ(pieces_of(16), 2);
}

// Of more integers behind each other than a stack has frames for.
TEST(JudgedOutputs, AreFoundBehindLongChains) {
  ProgramBuilder b;
  Node* scores = b.call("relu.default", {b.input("x", {2, 3})});
  Node* value = b.call("argmax.default", {scores, -1});
  for (int i = 0; i < 100000; ++i) value = b.call("add.Tensor", {value, 1});
  Program program = b.finish({value});
  add_judged_outputs(program);
  const Argument::List& outputs = program.graph->output_node()->arg(0).list();
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[1].node(), scores);
}

std::vector<std::string> judged_of(Program program) {
  const size_t own = program.graph->output_node()->arg(0).list().size();
  add_judged_outputs(program);
  std::vector<std::string> out;
  for (const Argument& one : program.graph->output_node()->arg(0).list()) out.push_back(one.node()->name());
  out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(own));
  return out;
}

// A detector that resizes its image to sizes that it computes from the image's own.
TEST(JudgedOutputs, HaveSizesThatFollowFromThoseOfTheInputs) {
  ProgramBuilder b;
  Node* x = b.input("x", {3, 8});
  std::get<TensorMeta>(x->meta.val.value).sizes[1] = SymInt::symbol("s0");
  Node* width = b.call("scalar_tensor.default", {b.call("sym_size.int", {x, 1})});
  Node* half = b.call("item.default", {b.call("to.dtype", {b.call("mul.Tensor", {width, 0.5}), DType::kS64})});
  Node* scores = b.call("relu.default", {b.call("slice.Tensor", {x, 1, 0, half})});
  Node* all = b.call("flatten.using_ints", {scores});
  Node* places = b.call("squeeze.dim", {b.call("nonzero.default", {all}), 1});
  const Program program = b.finish({scores, b.call("index_select.default", {all, 0, places})});
  EXPECT_EQ(outputs_that_compare(program), (std::vector<bool>{true, false}));
  EXPECT_EQ(judged_of(program.clone()), std::vector<std::string>{all->name()});
}

// The best boxes of one program may be others than those of the other.
TEST(JudgedOutputs, LieInFrontOfWhatScoresSelect) {
  ProgramBuilder b;
  Node *boxes = b.call("relu.default", {b.input("boxes", {10, 4})}),
       *scores = b.call("relu.default", {b.input("s", {10})});
  Node* best = b.call("topk.default", {scores, 5});
  Node* taken = b.call("index_select.default", {boxes, 0, b.item(best, 1)});
  Node* kept = b.call("nonzero.default", {b.call("gt.Scalar", {b.item(best, 0), 0.5})});
  Node* out = b.call("index_select.default", {taken, 0, b.call("squeeze.dim", {kept, 1})});
  EXPECT_EQ(judged_of(b.finish({out})), (std::vector<std::string>{boxes->name(), scores->name()}));
}

TEST(Recover, RefusesWhatItCannotJudge) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared fresh = prepare_pt2e(network(), quantizer);
  EXPECT_THROW(recover(fresh, batches()), Error);
  Prepared prepared = calibrated(network(), quantizer);
  EXPECT_THROW(recover(prepared, {}), Error);
  EXPECT_THROW(recover(prepared, {{sample({4, 3, 8, 7}, 1)}}), Error);
}

}  // namespace
}  // namespace qdq::recovery_test
