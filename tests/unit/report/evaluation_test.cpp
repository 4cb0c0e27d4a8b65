// What two models say of the same samples, against answers worked out by hand.
#include "report/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/json.h"
#include "op/op.h"

namespace qdq::evaluation_test {
namespace {

// x [s0, 3] -> x * factors [3] -> [s0, 3].
Program scaling(const std::vector<float>& factors) {
  Program program;
  Graph& graph = *program.graph;
  Node* weight = graph.get_attr("factors", "factors");
  weight->meta.val = {TensorMeta{DType::kF32, {3}, {}, true}};
  program.add_attribute(
      {"factors", Tensor::of<float>({3}, std::span<const float>(factors)), Attribute::Kind::kParameter, true, true});
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {SymInt::symbol("s0"), 3}, {}, false}};
  program.symbol_ranges["s0"] = {1, 1024};
  program.symbol_hints["s0"] = 2;
  Node* product = graph.call("torch.ops.aten.mul.Tensor", {x, weight});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(product)})});
  infer_shapes(program);
  return program;
}

Tensor rows(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size()) / 3, 3}, std::span<const float>(values));
}

TEST(Answers, AreTheBestFirstAndOfEqualScoresTheLowerClass) {
  Answers answers;
  answers.add({rows({1, 3, 3, 0.25F, 0.25F, 0.5F})}, "m");
  ASSERT_EQ(answers.all().size(), 2U);
  const auto& first = answers.all()[0].top;
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0].label, 1);
  EXPECT_EQ(first[1].label, 2);
  EXPECT_EQ(first[2].label, 0);
  EXPECT_NEAR(first[0].share, 1 / (2 + std::exp(-2.0)), 1e-12);
  // Scores that are shares already stay what they are.
  EXPECT_EQ(answers.all()[1].top[0].label, 2);
  EXPECT_EQ(answers.all()[1].top[0].share, 0.5);
  const std::vector<int64_t> labels{2, 2};
  EXPECT_EQ(answers.top(1, labels), 50);
  EXPECT_EQ(answers.top(2, labels), 100);
  EXPECT_THROW(answers.top(1, std::vector<int64_t>{1}), Error);
  EXPECT_EQ(answers.ties(), 50);
  Answers other;
  other.add({rows({0, 3, 1, 9, 0, 0})}, "m");
  EXPECT_EQ(other.agreement(answers), 50);
  EXPECT_THROW(answers.add({Tensor::of<float>({2}, {1, 2})}, "m"), Error);
  EXPECT_THROW(answers.add({}, "m"), Error);
}

TEST(Evaluation, PutsTheWorstSamplesFirst) {
  // The second model doubles what the first says of class 2.
  Evaluation evaluation(scaling({1, 1, 1}), scaling({1, 1, 2}), {0, 2, 1, 0});
  evaluation.add({rows({4, 1, 0, /**/ 3, 0, 2})});  // nothing moves; class 0 becomes class 2
  evaluation.add({rows({0, 8, 1, /**/ 5, 0, 1})});  // moved by 1/65 and 1/26
  const format::Json report = evaluation.report(3);
  EXPECT_EQ(report["accuracy"]["samples"], 4);
  EXPECT_EQ(report["accuracy"]["agreement"], 75.0);
  EXPECT_EQ(report["accuracy"]["top1"], (std::vector<double>{75, 100}));
  EXPECT_EQ(report["accuracy"]["top5"], (std::vector<double>{100, 100}));
  EXPECT_NEAR(report["sqnr"].get<double>(), 10 * std::log10((17.0 + 13 + 65 + 26) / (4 + 1 + 1)), 1e-12);
  EXPECT_EQ(report["speed"]["batch"], 2);
  EXPECT_GT(report["speed"]["float"].get<double>(), 0);
  const format::Json& worst = report["predictions"];
  ASSERT_EQ(worst.size(), 3U);
  EXPECT_EQ(worst[0]["sample"], 1);
  EXPECT_EQ(worst[0]["label"], 2);
  EXPECT_EQ(worst[0]["float"][0]["class"], 0);
  EXPECT_EQ(worst[0]["int8"][0]["class"], 2);
  EXPECT_EQ(worst[1]["sample"], 3);
  EXPECT_NEAR(worst[1]["moved"].get<double>(), 1.0 / 26, 1e-12);
  EXPECT_EQ(worst[2]["sample"], 2);
}

TEST(Evaluation, RefusesLabelsThatAreNoClasses) {
  for (const int64_t label : {-1, 3}) {
    Evaluation evaluation(scaling({1, 1, 1}), scaling({1, 1, 1}), {0, 1, label, 0});
    evaluation.add({rows({4, 1, 0, 3, 0, 2})});
    try {
      evaluation.add({rows({0, 8, 1, 5, 0, 1})});
      ADD_FAILURE() << label;
    } catch (const Error& error) {
      EXPECT_EQ(error.message, concat("the label of sample 2 is ", label, "; the model has classes 0 to 2"));
    }
  }
}

TEST(Evaluation, TimesBatchesWhoseSizesItMetBefore) {
  Evaluation evaluation(scaling({1, 1, 1}), scaling({1, 1, 1}));
  evaluation.add({rows({1, 2, 3})});
  evaluation.add({rows({1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(evaluation.report()["speed"]["batch"], 1) << "none was met before, so the first runs again";
  evaluation.add({rows({1, 2, 3, 4, 5, 6})});
  const format::Json report = evaluation.report();
  EXPECT_EQ(report["speed"]["batch"], 2);
  EXPECT_TRUE(report["sqnr"].is_null());
  EXPECT_FALSE(report["accuracy"].contains("top1"));
  EXPECT_FALSE(report["predictions"][0].contains("label"));
}

TEST(Evaluation, SortsSamplesWhoseScoresAreNoNumbers) {
  Evaluation evaluation(scaling({1, 1, 1}), scaling({1, 2, 1}));
  std::vector<float> scores;
  for (int i = 0; i < 60; ++i)
    scores.insert(scores.end(), {i % 3 == 0 ? NAN : 1.0f, static_cast<float>(i % 7), i % 5 == 0 ? INFINITY : 2.0f});
  evaluation.add({rows(scores)});
  const format::Json report = evaluation.report(60);
  ASSERT_EQ(report["predictions"].size(), 60U);
  for (const format::Json& sample : report["predictions"]) {
    const auto i = sample["sample"].get<size_t>();
    EXPECT_EQ(sample["moved"] == format::json_of_number(INFINITY), i % 3 == 0 || i % 5 == 0) << i;
  }
}

TEST(CountClasses, IsTheFixedWidthOfTheFirstOutput) {
  EXPECT_EQ(count_classes(scaling({1, 1, 1})), 3);
  Program other = scaling({1, 1, 1});
  other.graph->find("mul_tensor")->meta.val = {TensorMeta{DType::kF32, {2, SymInt::symbol("s0")}, {}, false}};
  EXPECT_FALSE(count_classes(other));
}

}  // namespace
}  // namespace qdq::evaluation_test
