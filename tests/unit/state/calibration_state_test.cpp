// Calibrations in parts: merged, they are what one process sees, and parts that do not belong together are refused.
#include "state/calibration_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "message_of.h"
#include "quant/quantizers/mergeable_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "state/state_file.h"
#include "unit/quant/program_builder.h"

namespace qdq::calibration_state_test {
namespace {

constexpr int64_t kBatch = 3;

Program network(float bias = 0.25f) {
  ProgramBuilder b;
  Node* x = b.input("x", {kBatch, 2, 5, 5});
  const Argument::List pad{Argument(1), Argument(1)};
  Node* conv = b.call("conv2d.default", {x, b.weight("conv.weight", {4, 2, 3, 3}),
                                         b.parameter("conv.bias", Tensor::full({4}, DType::kF32, bias)), pad, pad});
  Node* relu = b.call("relu.default", {conv});
  Node* flat = b.call("flatten.using_ints", {relu, 1});
  Node* linear = b.call("linear.default", {flat, b.weight("head.weight", {3, 100})});
  return b.finish({Argument(linear)});
}

Prepared prepare(Program program = network(), bool mergeable = true, int64_t weight_limit = 127) {
  std::unique_ptr<Quantizer> quantizer = [&] {
    auto out = std::make_unique<XNNPACKQuantizer>();
    out->set_global(get_symmetric_quantization_config(
        {.is_per_channel = true, .weight_qmin = -weight_limit, .weight_qmax = weight_limit}));
    return out;
  }();
  if (mergeable) quantizer = std::make_unique<MergeableQuantizer>(std::move(quantizer));
  return prepare_pt2e(std::move(program), *quantizer);
}

// Batches of very different sizes of values, zeros and the smallest numbers among them.
std::vector<Tensor> batches_of(std::mt19937& random, int64_t count) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < count; ++i) {
    Tensor batch = sample({kBatch, 2, 5, 5}, static_cast<uint32_t>(random()));
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % 40) - 30);
    for (float& value : batch.span<float>()) {
      value *= scale;
      if (random() % 16 == 0) value = random() % 2 ? 0.0f : -0.0f;
      if (random() % 64 == 0) value = -std::numeric_limits<float>::denorm_min();
    }
    out.push_back(batch);
  }
  return out;
}

CalibrationState state_of_shard(const std::vector<Tensor>& batches, int64_t k, int64_t of) {
  Prepared prepared = prepare();
  const auto count = std::ssize(batches);
  const auto [begin, end] = batches_of_shard(count, k, of);
  for (int64_t i = begin; i < end; ++i) prepared.run({batches[static_cast<size_t>(i)]});
  return state_of(prepared, {"data", count * kBatch, count}, {of, {{k, k}}});
}

// The same where layers are observed too, with sums of products for weights of 4 bits.
CalibrationState observed_state(const std::vector<Tensor>& batches, int64_t weight_limit, int64_t k, int64_t of) {
  Prepared prepared = prepare(network(), true, weight_limit);
  observe_layers(prepared);
  const auto count = std::ssize(batches);
  const auto [begin, end] = batches_of_shard(count, k, of);
  for (int64_t i = begin; i < end; ++i) prepared.run({batches[static_cast<size_t>(i)]});
  return state_of(prepared, {"data", count * kBatch, count}, {of, {{k, k}}});
}

std::vector<float> scales_of(const std::string& text) {
  Prepared prepared = prepare();
  load_state(prepared, parse_state(text, "the state"), "the state");
  std::vector<float> out;
  for (const ObserverGroup& group : prepared.observers())
    for (const float scale : group.observer->calculate_qparams_or_default().scale) out.push_back(scale);
  return out;
}

// Merges neighbours in this list at random places until one is left, each result through its text.
std::string merged_at_random(std::vector<std::string> texts, std::mt19937& random) {
  while (texts.size() > 1) {
    const size_t first = random() % (texts.size() - 1);
    const size_t count = 2 + random() % std::min<size_t>(texts.size() - first - 1, 3);
    const size_t end = std::min(first + count, texts.size());
    StateMerger merger;
    for (size_t i = first; i < end; ++i) merger.add(parse_state(texts[i], "a part"), concat("part ", i));
    texts[first] = print_state(merger.finish(texts.size() > end - first));
    texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                texts.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return texts[0];
}

void expect_in(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << message << "\nwanted " << word;
}

TEST(CalibrationState, OfAnyShardsInAnyOrderAndGroupingIsThatOfOneProcess) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937 random(seed);
    const std::vector<Tensor> batches = batches_of(random, 1 + static_cast<int64_t>(random() % 12));
    const std::string wanted = print_state(state_of_shard(batches, 1, 1));
    const auto of = static_cast<int64_t>(1 + random() % 15);
    std::vector<std::string> parts;
    for (int64_t k = 1; k <= of; ++k) parts.push_back(print_state(state_of_shard(batches, k, of)));
    std::shuffle(parts.begin(), parts.end(), random);
    if (of == 1) continue;
    const std::string merged = merged_at_random(parts, random);
    ASSERT_EQ(merged, wanted) << of << " shards of " << batches.size() << " batches";
    EXPECT_EQ(scales_of(merged), scales_of(wanted));
  }
}

TEST(CalibrationState, WhatLayersReadMergesExactlyToo) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937 random(seed);
    const std::vector<Tensor> batches = batches_of(random, 2 + static_cast<int64_t>(random() % 10));
    const int64_t limit = seed % 2 == 0 ? 7 : 127;
    const std::string wanted = print_state(observed_state(batches, limit, 1, 1));
    const auto of = static_cast<int64_t>(2 + random() % 14);
    std::vector<std::string> parts;
    for (int64_t k = 1; k <= of; ++k) parts.push_back(print_state(observed_state(batches, limit, k, of)));
    std::shuffle(parts.begin(), parts.end(), random);
    const std::string merged = merged_at_random(parts, random);
    ASSERT_EQ(merged, wanted) << of << " shards of " << batches.size() << " batches";
    Prepared prepared = prepare(network(), true, limit);
    load_state(prepared, parse_state(merged, "the state"), "the state");
    ASSERT_EQ(layer_statistics(prepared).size(), 2U);
    EXPECT_EQ(layer_statistics(prepared)[0].has_products, limit == 7);
    // A linear layer reads each row once.
    EXPECT_EQ(layer_statistics(prepared)[1].places, kBatch * std::ssize(batches));
    EXPECT_EQ(print_state(state_of(prepared, {"data", kBatch * std::ssize(batches), std::ssize(batches)})), wanted);
  }
}

TEST(CalibrationState, SumsOfLayersBelongToTheirLayers) {
  std::mt19937 random(9);
  const std::vector<Tensor> batches = batches_of(random, 4);
  const CalibrationState one = observed_state(batches, 127, 1, 2), plain = state_of_shard(batches, 2, 2);
  StateMerger merger;
  merger.add(one, "a.json");
  expect_in(message_of([&] { merger.add(plain, "b.json"); }), {"b.json", "a.json", "--recover"});
  CalibrationState whole = observed_state(batches, 127, 1, 1);
  Prepared prepared = prepare();
  whole.layers[0].layer = "another";
  expect_in(message_of([&] { load_state(prepared, whole, "whole.json"); }), {"whole.json", "another", "conv2d"});
  Prepared again = prepare();
  whole = observed_state(batches, 127, 1, 1);
  std::vector<int64_t> negative(whole.layers[0].squares.size(), -1);
  whole.layers[0].squares = ExactSums(0, negative, negative);
  expect_in(message_of([&] { load_state(again, whole, "whole.json"); }), {"whole.json", "squares"});
  const std::string text = print_state(observed_state(batches, 7, 1, 1));
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string broken = text;
    broken[random() % broken.size()] = static_cast<char>(random() % 96 + 32);
    try {
      Prepared other = prepare(network(), true, 7);
      load_state(other, parse_state(broken, "part.json"), "part.json");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 30);
}

TEST(CalibrationState, GivesTheQParamsOfTheProgramThatSawTheData) {
  std::mt19937 random(5);
  const std::vector<Tensor> batches = batches_of(random, 6);
  Prepared prepared = prepare();
  for (const Tensor& batch : batches) prepared.run({batch});
  const CalibrationState state = state_of(prepared, {"data", 18, 6});
  Prepared other = prepare();
  load_state(other, state, "the state");
  EXPECT_FALSE(other.needs_data());
  ASSERT_EQ(other.observers().size(), prepared.observers().size());
  for (size_t i = 0; i < other.observers().size(); ++i) {
    const QParams a = prepared.observers()[i].observer->calculate_qparams_or_default();
    const QParams b = other.observers()[i].observer->calculate_qparams_or_default();
    EXPECT_EQ(a.scale, b.scale);
    EXPECT_EQ(a.zero_point, b.zero_point);
  }
}

TEST(CalibrationState, DoubledMissingAndForeignPartsAreRefusedByName) {
  std::mt19937 random(2);
  const std::vector<Tensor> batches = batches_of(random, 5);
  const auto merge = [](const std::vector<std::pair<std::string, CalibrationState>>& parts) {
    StateMerger merger;
    for (const auto& [name, state] : parts) merger.add(state, name);
    merger.finish();
  };
  const CalibrationState one = state_of_shard(batches, 1, 4), two = state_of_shard(batches, 2, 4);
  expect_in(message_of([&] { merge({{"a.json", one}, {"b.json", two}, {"c.json", one}}); }),
            {"shard 1 of 4", "a.json", "c.json"});
  expect_in(message_of([&] { merge({{"a.json", one}}); }), {"missing: 2-4/4", "--partial"});
  expect_in(message_of([&] { merge({{"a.json", two}, {"b.json", state_of_shard(batches, 3, 4)}}); }), {"1,4/4"});
  expect_in(message_of([&] { merge({}); }), {"no parts"});
  const auto foreign = [&](auto change) {
    CalibrationState other = two;
    change(other);
    return message_of([&] { merge({{"a.json", one}, {"b.json", other}}); });
  };
  expect_in(foreign([](CalibrationState& s) { s.version = "9.9.9"; }), {"b.json", "a.json", "9.9.9", "one version"});
  expect_in(foreign([](CalibrationState& s) { s.program = "00"; }), {"b.json", "a.json", "another model"});
  expect_in(foreign([](CalibrationState& s) { s.recipe = "00"; }), {"b.json", "a.json", "another recipe"});
  expect_in(foreign([](CalibrationState& s) { s.data.id = "00"; }), {"b.json", "a.json", "other data"});
  expect_in(foreign([](CalibrationState& s) { s.data.samples = 7; }), {"b.json", "a.json", "samples"});
  expect_in(foreign([](CalibrationState& s) { s.data.batches = 7; }), {"b.json", "a.json", "--batch-size"});
  expect_in(foreign([](CalibrationState& s) { s.shards.of = 5; }), {"b.json", "a.json", "number of shards"});
  expect_in(foreign([](CalibrationState& s) { s.observers.pop_back(); }), {"b.json", "a.json", "other observers"});
}

TEST(CalibrationState, BelongsToOneModelAndIsLoadedOnlyWhole) {
  std::mt19937 random(3);
  const std::vector<Tensor> batches = batches_of(random, 4);
  const CalibrationState whole = state_of_shard(batches, 1, 1), half = state_of_shard(batches, 1, 2);
  Prepared prepared = prepare();
  expect_in(message_of([&] { load_state(prepared, half, "half.json"); }), {"half.json", "1/2", "qdq merge"});
  Prepared other = prepare(network(0.5f));
  expect_in(message_of([&] { load_state(other, whole, "whole.json"); }), {"whole.json", "another model"});
  CalibrationState old = whole;
  old.version = "0.0.1";
  expect_in(message_of([&] { load_state(prepared, old, "old.json"); }), {"old.json", "0.0.1"});
  load_state(prepared, whole, "whole.json");
}

TEST(CalibrationState, ObserversThatDependOnTheOrderAreRefusedWithTheOneToUse) {
  Prepared prepared = prepare(network(), false);
  expect_in(message_of([&] { state_of(prepared); }), {"HistogramObserver", "name MergeableHistogramObserver"});
  for (const auto& [name, wanted] :
       {std::pair("MovingAverageMinMaxObserver", "name MinMaxObserver"),
        std::pair("RecordingObserver", "cannot be merged"), std::pair("FakeQuantize", "cannot be merged")}) {
    XNNPACKQuantizer quantizer;
    QuantizationConfig config = get_symmetric_quantization_config({.is_per_channel = true});
    config.input_activation->observer.class_name = name;
    config.output_activation->observer.class_name = name;
    quantizer.set_global(config);
    const Prepared ordered = prepare_pt2e(network(), quantizer);
    expect_in(message_of([&] { check_mergeable(ordered); }), {name, wanted});
  }
}

TEST(CalibrationState, ShardsAreCountedFromOne) {
  for (const char* text : {"1/1", "3/16", "1-4,7/16", "1,3-999999/1000000"})
    EXPECT_EQ(to_string(parse_shards(text, "shards")), text);
  for (const char* text : {"", "0/4", "5/4", "1", "1/", "/4", "a/4", "1/4x", "2-1/4", "1,2/4", "3,1/4", "1/1000001",
                           "01/4", "1-/4", "-1/4", "1/99999999999999999999"})
    EXPECT_THROW(parse_shards(text, "shards"), Error) << text;
}

TEST(CalibrationState, ShardsCoverAllBatchesOnce) {
  for (const int64_t batches : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{1} << 40})
    for (const int64_t of : {1, 2, 7, 64, 1000}) {
      int64_t at = 0;
      for (int64_t k = 1; k <= of; ++k) {
        const auto [begin, end] = batches_of_shard(batches, k, of);
        EXPECT_EQ(begin, at);
        EXPECT_LE(end - begin, batches / of + 1);
        at = end;
      }
      EXPECT_EQ(at, batches);
    }
  EXPECT_THROW(batches_of_shard(10, 0, 4), Error);
  EXPECT_THROW(batches_of_shard(10, 5, 4), Error);
}

// What is read may come from anywhere: whatever stands in it, it is taken or refused.
TEST(CalibrationState, BrokenTextIsRefusedAndNeverCrashes) {
  std::mt19937 random(4);
  const std::string text = print_state(state_of_shard(batches_of(random, 4), 2, 3));
  const CalibrationState state = parse_state(text, "part.json");
  EXPECT_EQ(print_state(state), text);
  int refused = 0;
  for (size_t length = 0; length + 1 < text.size(); length += 1 + text.size() / 100)
    EXPECT_THROW(parse_state(text.substr(0, length), "part.json"), Error) << length;
  for (int i = 0; i < 2000; ++i) {
    std::string broken = text;
    broken[random() % broken.size()] = static_cast<char>(random() % 96 + 32);
    try {
      const CalibrationState read = parse_state(broken, "part.json");
      print_state(read);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(CalibrationState, CountsThatDoNotBelongToTheRangeAreRefused) {
  std::mt19937 random(6);
  CalibrationState state = state_of_shard(batches_of(random, 4), 1, 1);
  const auto replaced = [&](const std::string& field, const std::string& value) {
    std::string text = print_state(state);
    const size_t at = text.find('"' + field + "\": "), from = at + field.size() + 4;
    text.replace(from, text.find_first_of(",\n", from) - from, value);
    return message_of([&] { parse_state(text, "part.json"); });
  };
  expect_in(replaced("max_val", "1e30"), {"part.json", "bins"});
  expect_in(replaced("max_val", "-1e30"), {"part.json", "range"});
  expect_in(replaced("histogram", "\"AAAB\""), {"part.json", "counts"});
  expect_in(replaced("histogram", "\"AAAA\""), {"part.json", "ends within a number"});
  expect_in(replaced("histogram", "\"A\""), {"part.json", "base64"});
  expect_in(replaced("class", "\"HistogramObserver\""), {"part.json", "do not merge"});
  expect_in(replaced("shards", "\"1/2\""), {"part.json", "batches"});
  expect_in(replaced("samples", "0"), {"part.json", "is of 0 samples in"});
  expect_in(replaced("qdq", "3"), {"part.json", "qdq"});
}

}  // namespace
}  // namespace qdq::calibration_state_test
