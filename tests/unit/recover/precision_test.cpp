// Precisions that are chosen by a wish: each against the converted program, and the search.
#include "recover/precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "exec/op_backend.h"
#include "op/targets.h"
#include "quant/constant_fold.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/quant/program_builder.h"
#include "unit/quant/weights_in_groups.h"

namespace qdq::precision_test {
namespace {

const std::function<double(const Program&)> kNoSeconds{};

// x[4, 16] -> four linear layers with relus between them -> [4, 8].
Program network() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 16});
  for (const char* name : {"a", "b", "c"}) {
    const std::string weight = concat(name, ".weight"), bias = concat(name, ".bias");
    x = b.call("linear.default", {x, b.weight(weight, {16, 16}), b.weight(bias, {16})});
    x = b.call("relu.default", {x});
  }
  return b.finish({b.call("linear.default", {x, b.weight("d.weight", {8, 16}), b.weight("d.bias", {8})})});
}

std::vector<Batch> batches() {
  std::vector<Batch> out;
  for (uint32_t seed : {1, 2, 3}) out.push_back({sample({4, 16}, seed)});
  return out;
}

Prepared calibrated() {
  XNNPACKQuantizer quantizer;
  SymmetricConfigOptions options;
  options.is_per_channel = true;
  quantizer.set_global(get_symmetric_quantization_config(options));
  Prepared prepared = prepare_pt2e(network(), quantizer);
  for (const Batch& batch : batches()) prepared.run(batch);
  return prepared;
}

// Weights of 4 bits in groups of 8, and activations in float or by token.
Prepared in_groups(bool by_token) {
  QuantizationConfig config;
  config.weight = weight_in_groups("PerGroupMSEObserver", 8);
  if (by_token) config.input_activation = activation_by_token();
  XNNPACKQuantizer quantizer;
  quantizer.set_global(config);
  return prepare_pt2e(network(), quantizer);
}

// Where weights of 4 bits take half a byte.
uint64_t packed_bytes_of(const Program& converted) {
  uint64_t halves = 0;
  for (const Node* node : converted.graph->nodes()) {
    if (!node->is(op::kDequantizeGroups)) continue;
    const auto elements = static_cast<uint64_t>(converted.attribute_of(*node->arg(0).node()).numel());
    halves += node->arg(4).integer() == 7 ? elements : 2 * elements;
  }
  return halves / 2;
}

double decibels_of(const Program& quantized) {
  const auto backend = make_simd_ops();
  const Program floats = network();
  OutputError error;
  for (const Batch& batch : batches())
    error.add(Interpreter(floats, {backend.get()}).run(batch), Interpreter(quantized, {backend.get()}).run(batch));
  return error.decibels();
}

uint64_t bytes_of(const Program& converted) {
  uint64_t out = 0;
  for (const Attribute& attribute : converted.attributes) out += attribute.tensor.nbytes();
  return out;
}

PrecisionMeasures measures(Recovery& recovery) { return {decibels_score(recovery), bytes_of, kNoSeconds}; }

TEST(OperatorPrecisions, ScoresAreThoseOfTheConvertedProgram) {
  double last = 0;
  for (const Precision precision : {Precision::kInt8, Precision::kInt16, Precision::kBf16, Precision::kFloat}) {
    Prepared prepared = calibrated();
    Recovery recovery(prepared, batches());
    {
      OperatorPrecisions operators(recovery, sensitivities(recovery));
      ASSERT_EQ(operators.most(precision), precision == Precision::kInt8 ? 0U : 4U);
      operators.keep(precision, operators.most(precision));
    }
    const double score = recovery.decibels();
    EXPECT_DOUBLE_EQ(decibels_of(convert_pt2e(prepared)), score) << to_string(precision);
    if (precision != Precision::kBf16) {
      EXPECT_GT(score, last + 1) << to_string(precision);
    }
    last = score;
  }
}

TEST(OperatorPrecisions, ScoresOfWeightsInGroupsAreThoseOfTheConvertedProgram) {
  for (const bool by_token : {false, true}) {
    double last = 0;
    for (const size_t count : {0, 2, 4}) {
      Prepared prepared = in_groups(by_token);
      Recovery recovery(prepared, batches());
      {
        OperatorPrecisions operators(recovery, sensitivities(recovery));
        ASSERT_EQ(operators.most(Precision::kInt8Weights), 4U) << by_token << count;
        EXPECT_EQ(operators.most(Precision::kInt16), 0U);  // no activation has a scale that lasts
        operators.keep(Precision::kInt8Weights, count);
      }
      const double score = recovery.decibels();
      EXPECT_DOUBLE_EQ(decibels_of(convert_pt2e(prepared)), score) << by_token << count;
      EXPECT_GT(score, last + 1) << by_token << count;
      last = score;
    }
  }
}

TEST(OperatorPrecisions, WeightsThatHave8BitsStayAsTheyAre) {
  Prepared prepared = calibrated();
  Recovery recovery(prepared, batches());
  EXPECT_EQ(OperatorPrecisions(recovery, sensitivities(recovery)).most(Precision::kInt8Weights), 0U);
  const std::vector<Precision> within = {Precision::kInt16, Precision::kBf16, Precision::kFloat};
  EXPECT_EQ(default_precisions(prepared, true), within);
  EXPECT_EQ(default_precisions(prepared, false), std::vector<Precision>{Precision::kFloat});
  const std::vector<Precision> of_few_bits = {Precision::kInt8Weights, Precision::kFloat};
  EXPECT_EQ(default_precisions(in_groups(false), false), of_few_bits);
}

TEST(OperatorPrecisions, WeightsOfBf16TakeTwoBytes) {
  Prepared prepared = calibrated();
  Recovery recovery(prepared, batches());
  {
    OperatorPrecisions operators(recovery, sensitivities(recovery));
    operators.keep(Precision::kBf16, operators.most(Precision::kBf16));
  }
  const Program converted = convert_pt2e(prepared);
  int64_t weights = 0;
  for (const Attribute& attribute : converted.attributes)
    if (attribute.tensor.dim() == 2) weights += attribute.tensor.dtype() == DType::kBF16;
  EXPECT_EQ(weights, 4);
}

TEST(OperatorPrecisions, LeaveNothingBehind) {
  Prepared prepared = calibrated();
  const std::string before = to_text(*convert_pt2e(prepared).graph);
  const size_t observers = prepared.observers().size();
  Recovery recovery(prepared, batches());
  {
    OperatorPrecisions operators(recovery, sensitivities(recovery));
    for (const Precision precision : {Precision::kInt16, Precision::kBf16, Precision::kFloat, Precision::kInt16})
      for (const size_t count : {3, 1, 4}) operators.set(precision, count);
  }
  EXPECT_EQ(to_text(*convert_pt2e(prepared).graph), before);
  EXPECT_EQ(prepared.observers().size(), observers);
}

TEST(ChoosePrecision, TakesTheBestWithinALimitOfBytes) {
  Prepared prepared = calibrated();
  Recovery recovery(prepared, batches());
  const uint64_t least = bytes_of(convert_pt2e(prepared));
  PrecisionWish wish;
  wish.precisions = {Precision::kBf16, Precision::kFloat};
  wish.bytes = least + 900;  // a layer in float has 768 bytes of weights more
  const PrecisionResult result = choose_precision(recovery, measures(recovery), wish);
  ASSERT_TRUE(result.reached);
  EXPECT_LE(*result.after.bytes, *wish.bytes);
  EXPECT_GT(result.after.score, result.before.score);
  EXPECT_EQ(bytes_of(convert_pt2e(prepared)), *result.after.bytes);
  EXPECT_EQ(*result.best.bytes, *result.after.bytes);
  EXPECT_DOUBLE_EQ(decibels_of(convert_pt2e(prepared)), result.after.score);
  bool any_too_large = false, all_on_front = true;
  for (const PrecisionTrial& trial : result.trials) {
    if (*trial.bytes <= *wish.bytes) {
      EXPECT_LE(trial.score, result.after.score);
    }
    any_too_large |= *trial.bytes > *wish.bytes;
    all_on_front &= trial.is_on_front;
    const bool beaten = std::any_of(result.trials.begin(), result.trials.end(), [&](const PrecisionTrial& other) {
      return other.score >= trial.score && *other.bytes <= *trial.bytes &&
             (other.score > trial.score || *other.bytes < *trial.bytes);
    });
    EXPECT_EQ(trial.is_on_front, !beaten);
  }
  EXPECT_TRUE(any_too_large);
  EXPECT_FALSE(all_on_front);
}

TEST(ChoosePrecision, MixesWeightsOf4And8BitsWithinALimitOfBytes) {
  constexpr uint64_t kNarrow = (3 * 16 * 16 + 8 * 16) / 2, kWide = 2 * kNarrow, kLimit = kNarrow + 200;
  double last = 0;
  for (const uint64_t limit : {kNarrow, kLimit, kWide}) {
    Prepared prepared = in_groups(false);
    Recovery recovery(prepared, batches());
    PrecisionWish wish;
    wish.bytes = limit;
    wish.precisions = {Precision::kInt8Weights};
    const PrecisionResult found = choose_precision(recovery, {decibels_score(recovery), packed_bytes_of, {}}, wish);
    EXPECT_TRUE(found.reached);
    const Program converted = convert_pt2e(prepared);
    EXPECT_EQ(packed_bytes_of(converted), *found.after.bytes);
    EXPECT_LE(*found.after.bytes, limit);
    EXPECT_DOUBLE_EQ(decibels_of(converted), found.after.score);
    EXPECT_GT(found.after.score, last);
    last = found.after.score;
  }
  // A small layer that harms as much as a large one comes first: its bytes buy more.
  Prepared prepared = in_groups(false);
  Recovery recovery(prepared, batches());
  std::vector<Sensitivity> equal = sensitivities(recovery);
  for (Sensitivity& each : equal) each.alone = 20;
  const OperatorPrecisions operators(recovery, equal);
  EXPECT_EQ(operators.changed(Precision::kInt8Weights, 0).node, equal[3].node);
  EXPECT_EQ(operators.changed(Precision::kFloat, 0).node, equal[0].node);
}

TEST(ChoosePrecision, TakesTheSmallestThatReachesTheScore) {
  Prepared prepared = calibrated();
  Recovery recovery(prepared, batches());
  PrecisionWish wish;
  wish.precisions = {Precision::kInt16, Precision::kBf16, Precision::kFloat};
  wish.score = recovery.decibels() + 1;
  wish.bytes = 1 << 20;
  const PrecisionResult result = choose_precision(recovery, measures(recovery), wish);
  ASSERT_TRUE(result.reached);
  EXPECT_EQ(result.after.precision, Precision::kInt16);
  for (const PrecisionTrial& trial : result.trials)
    if (trial.score >= wish.score) {
      EXPECT_GE(*trial.bytes, *result.after.bytes);
    }
}

// Weights of 2 bits lose more than a few operators in float bring back.
TEST(ChoosePrecision, StartsFromWeightsOf8BitsWhereThoseAloneAreNotEnough) {
  XNNPACKQuantizer quantizer;
  SymmetricConfigOptions options;
  options.is_per_channel = true;
  options.weight_qmin = -2;
  options.weight_qmax = 1;
  quantizer.set_global(get_symmetric_quantization_config(options));
  const auto prepare = [&] {
    Prepared prepared = prepare_pt2e(network(), quantizer);
    for (const Batch& batch : batches()) prepared.run(batch);
    return prepared;
  };
  Prepared wide = prepare();
  Recovery of_wide(wide, batches());
  {
    OperatorPrecisions operators(of_wide, sensitivities(of_wide));
    operators.keep(Precision::kInt8Weights, 4);
  }
  PrecisionWish wish;
  wish.score = of_wide.decibels() + 0.2;
  for (const Precision other : {Precision::kFloat, Precision::kInt16}) {
    Prepared prepared = prepare();
    Recovery recovery(prepared, batches());
    wish.precisions = {other, Precision::kInt8Weights};
    const PrecisionResult result = choose_precision(recovery, measures(recovery), wish);
    ASSERT_TRUE(result.reached) << to_string(other);
    EXPECT_EQ(result.after.precision, other);
    EXPECT_EQ(result.after.others, Precision::kInt8Weights);
    EXPECT_LT(result.after.operators, 4);
    EXPECT_DOUBLE_EQ(decibels_of(convert_pt2e(prepared)), result.after.score);
    EXPECT_EQ(bytes_of(convert_pt2e(prepared)), *result.after.bytes);
  }
}

TEST(ChoosePrecision, ChangesNothingIfNothingIsWithinTheLimit) {
  Prepared prepared = calibrated();
  const std::string before = to_text(*convert_pt2e(prepared).graph);
  Recovery recovery(prepared, batches());
  PrecisionWish wish;
  wish.bytes = 100;
  const PrecisionResult result = choose_precision(recovery, measures(recovery), wish);
  EXPECT_FALSE(result.reached);
  EXPECT_EQ(result.best.operators, 0);
  EXPECT_EQ(*result.best.bytes, bytes_of(convert_pt2e(prepared)));
  EXPECT_EQ(to_text(*convert_pt2e(prepared).graph), before);
}

TEST(ChoosePrecision, KeepsToALimitOfSeconds) {
  Prepared prepared = calibrated();
  Recovery recovery(prepared, batches());
  // As if every linear layer in float took a second, and nothing else any time.
  const auto seconds = [](const Program& converted) {
    double out = 0;
    for (const Node* node : converted.graph->nodes()) {
      const std::vector<Node*> inputs = node->input_nodes();
      const auto is_rounded = [](const Node* input) { return is_dequantize(*input); };
      out += node->is("torch.ops.aten.linear.default") && std::none_of(inputs.begin(), inputs.end(), is_rounded);
    }
    return out;
  };
  PrecisionWish wish;
  wish.seconds = 2;
  const PrecisionResult result = choose_precision(recovery, {decibels_score(recovery), {}, seconds}, wish);
  ASSERT_TRUE(result.reached);
  EXPECT_GT(result.after.operators, 0);
  EXPECT_LE(seconds(convert_pt2e(prepared)), 2);
}

TEST(ChoosePrecision, GoesOnWhereItWasStopped) {
  PrecisionWish wish;
  wish.precisions = {Precision::kInt16, Precision::kFloat};
  wish.bytes = 1 << 20;
  int64_t measured = 0;
  const auto counted = [&](Recovery& recovery) {
    PrecisionMeasures out = measures(recovery);
    out.score = [&measured, score = out.score](const auto& outputs) {
      ++measured;
      return score(outputs);
    };
    return out;
  };
  Prepared whole = calibrated();
  Recovery recovery(whole, batches());
  const PrecisionResult wanted = choose_precision(recovery, counted(recovery), wish);
  const int64_t all = std::exchange(measured, 0);

  // Stopped behind the fourth program, and gone on from what was saved then.
  PrecisionSearch saved;
  {
    Prepared prepared = calibrated();
    Recovery stopped(prepared, batches());
    PrecisionSearch search;
    EXPECT_THROW(choose_precision(stopped, counted(stopped), wish, &search,
                                  [&] {
                                    saved = search;
                                    if (search.trials.size() == 4) fail(ErrorCode::kCancelled, "stopped");
                                  }),
                 Error);
  }
  EXPECT_EQ(measured, 4);
  Prepared prepared = calibrated();
  Recovery again(prepared, batches());
  const PrecisionResult found = choose_precision(again, counted(again), wish, &saved);
  EXPECT_EQ(measured, all);
  EXPECT_EQ(found.nodes, wanted.nodes);
  ASSERT_EQ(found.trials.size(), wanted.trials.size());
  for (size_t i = 0; i < found.trials.size(); ++i) EXPECT_EQ(found.trials[i].score, wanted.trials[i].score);
  EXPECT_EQ(to_text(*convert_pt2e(prepared).graph), to_text(*convert_pt2e(whole).graph));
}

}  // namespace
}  // namespace qdq::precision_test
