// What outputs are worth, against numbers worked out by hand.
#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "message_of.h"
#include "report/boxes.h"

namespace qdq::metrics_test {
namespace {

using Numbers = std::vector<float>;
Tensor floats(const Shape& shape, const Numbers& values) {
  return Tensor::of<float>(shape, std::span<const float>(values));
}
Tensor integers(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>(shape, std::span<const int64_t>(values));
}

// Rows of corners, score and class.
const Numbers kThree = {0, 0, 10, 10, 0.9F, 1, 20, 20, 30, 40, 0.8F, 2, 0, 0, 9, 10, 0.3F, 1};

TEST(Boxes, AreReadFromEveryLayoutAlike) {
  // Two objects: (0, 0)-(10, 10) of class 1 and (20, 20)-(30, 40) of class 2, and what has too low a score.
  const std::vector<std::vector<Tensor>> layouts = {
      {floats({1, 3, 6}, kThree)},
      {floats({3, 6}, kThree)},
      // centre, size, any object (a logit), classes
      {floats({1, 9, 8}, {5, 5, 10, 10, 9,  0, 1, 0, 25, 30, 10, 20, 9,  0, 0, 0.9F, 5, 5, 10, 10, -9, 0, 1, 0,
                          5, 5, 10, 10, -9, 0, 1, 0, 5,  5,  10, 10, -9, 0, 1, 0,    5, 5, 10, 10, -9, 0, 1, 0,
                          5, 5, 10, 10, -9, 0, 1, 0, 5,  5,  10, 10, -9, 0, 1, 0,    5, 5, 10, 10, -9, 0, 1, 0})},
      // classes first
      {floats({1, 7, 8},
              {5, 25, 5, 5, 5, 5, 5, 5, 5, 30, 5, 5, 5,    5, 5, 5, 10, 10, 9, 9, 9, 9,    9, 9, 10, 20, 9, 9,
               9, 9,  9, 9, 0, 0, 0, 0, 0, 0,  0, 0, 0.9F, 0, 0, 0, 0,  0,  0, 0, 0, 0.8F, 0, 0, 0,  0,  0, 0})},
      // boxes, the score of the best class, classes
      {integers({1, 2}, {1, 2}), floats({1, 2, 4}, {0, 0, 10, 10, 20, 20, 30, 40}), floats({1, 2}, {0.9F, 0.8F})},
      {floats({2, 4}, {0, 0, 10, 10, 20, 20, 30, 40}), integers({2}, {1, 2}), floats({2}, {0.9F, 0.8F})},
      // scores with a background, of which none is an object
      {floats({1, 3, 4}, {0, 0, 10, 10, 20, 20, 30, 40, 1, 1, 2, 2}),
       floats({1, 3, 3}, {0.1F, 0.9F, 0, 0.1F, 0.1F, 0.8F, 0.9F, 0.05F, 0.05F})},
  };
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto layout = BoxLayout::of({layouts[i]});
    ASSERT_TRUE(layout) << i;
    const auto boxes = layout->read(layouts[i], 0.5);
    ASSERT_EQ(boxes.size(), 1U) << i;
    ASSERT_EQ(boxes[0].size(), 2U) << i;
    for (const auto& [box, x0, y0, x1, y1, label] :
         {std::tuple(boxes[0][0], 0.0, 0.0, 10.0, 10.0, 1), std::tuple(boxes[0][1], 20.0, 20.0, 30.0, 40.0, 2)}) {
      EXPECT_NEAR(box.x0, x0, 1e-6) << i;
      EXPECT_NEAR(box.y0, y0, 1e-6) << i;
      EXPECT_NEAR(box.x1, x1, 1e-6) << i;
      EXPECT_NEAR(box.y1, y1, 1e-6) << i;
      EXPECT_EQ(box.label, label) << i;
      EXPECT_GT(box.score, 0.7) << i;
    }
    EXPECT_NE(message_of([&] { layout->read({floats({3}, {1, 2, 3})}, 0.5); }), "") << i;
  }
}

TEST(Boxes, AreCountedOnceForEachObject) {
  const std::vector<Tensor> outputs = {
      floats({1, 3, 6}, {0, 0, 10, 10, 0.7F, 1, 0, 0, 9, 10, 0.9F, 1, 0, 0, 9, 10, 0.8F, 2})};
  const auto boxes = BoxLayout::of({outputs})->read(outputs, 0.5);
  ASSERT_EQ(boxes[0].size(), 2U);
  EXPECT_EQ(boxes[0][0].score, 0.9F);
  EXPECT_EQ(boxes[0][1].label, 2);
}

TEST(Boxes, AreNotFoundInOtherOutputs) {
  EXPECT_FALSE(BoxLayout::of({}));
  EXPECT_FALSE(BoxLayout::of({{}}));
  EXPECT_FALSE(BoxLayout::of({{Tensor::empty({16, 1000}, DType::kF32)}}));
  EXPECT_FALSE(BoxLayout::of({{Tensor::empty({1, 3, 224, 224}, DType::kF32)}}));
  EXPECT_FALSE(BoxLayout::of({{Tensor::empty({1, 5, 4}, DType::kF32)}}));
}

TEST(Metrics, CountBoxesThatMeetTheFloatModels) {
  const Outputs reference = {{floats({1, 3, 6}, kThree)}};
  const MetricSamples beside{&reference, nullptr, {}};
  EXPECT_EQ(box_f1(reference, beside), 1);
  EXPECT_EQ(box_map(reference, beside), 1);
  // One is met (overlap 0.9), one is of another class, one too many: 1 of 2 and of 3.
  const Outputs found = {{floats({1, 3, 6}, {0, 0, 9, 10, 0.9F, 1, 20, 20, 30, 40, 0.8F, 1, 50, 50, 60, 60, 0.7F, 0})}};
  EXPECT_DOUBLE_EQ(box_f1(found, beside), 2.0 / 5);
  // Class 1 is met up to an overlap of 0.9, at 9 of 10 steps, before the wrong one; class 2 never.
  EXPECT_NEAR(box_map(found, beside), 0.9 / 2, 1e-9);
  const Outputs none = {{floats({1, 3, 6}, Numbers(18))}};
  EXPECT_NE(message_of([&] { box_f1(none, {&none, nullptr, {}}); }).find("finds no box with a score of 0.5"),
            std::string::npos);
  EXPECT_NE(message_of([&] { box_f1({{floats({1, 2}, {1, 2})}}, {&reference, nullptr, {}}); }).find("shapes differ"),
            std::string::npos);
  const Outputs classes = {{floats({1, 2}, {1, 2})}};
  EXPECT_NE(message_of([&] { box_map(classes, {&classes, nullptr, {}}); }).find("no boxes that are known"),
            std::string::npos);
  EXPECT_NE(message_of([&] { box_f1(found, {}); }), "");
}

TEST(Metrics, CountTokensOfClasses) {
  // Three tokens of two samples: classes 1 0 2 and 0 0 1.
  const Outputs outputs = {{floats({1, 3, 3}, {0, 1, 0, 1, 0, 0, 0, 0, 1})},
                           {floats({1, 3, 3}, {1, 0, 0, 1, 0, 0, 0, 1, 0})}};
  EXPECT_EQ(token_f1(outputs, {nullptr, nullptr, integers({2, 3}, {1, 0, 2, 0, 0, 1})}), 1);
  // 1 of 3 found is right, 2 are wanted; the last does not count.
  EXPECT_DOUBLE_EQ(token_f1(outputs, {nullptr, nullptr, integers({2, 3}, {1, 2, 1, 0, 0, -100})}), 2.0 / 5);
  EXPECT_EQ(token_f1(outputs, {&outputs, nullptr, {}}), 1);
  EXPECT_NE(message_of([&] {
              token_f1(outputs, {nullptr, nullptr, integers({1, 3}, {1, 0, 2})});
            }).find("2 samples at least"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              token_f1(outputs, {nullptr, nullptr, integers({2, 3}, {0, 0, 0, 0, 0, 0})});
            }).find("is of class 0"),
            std::string::npos);
  EXPECT_NE(message_of([&] { token_f1(outputs, {}); }).find("without labels"), std::string::npos);
  EXPECT_NE(message_of([&] { token_f1({{floats({4}, {1, 2, 3, 4})}}, {}); }).find("needs scores"), std::string::npos);
}

TEST(Metrics, CountTokensOfAnswers) {
  // An answer from token 1 to token 2; the better last token 0 lies in front of it.
  const Outputs outputs = {{floats({1, 4}, {0, 9, 0, 0}), floats({1, 4}, {7, 0, 5, 0})}};
  EXPECT_EQ(token_f1(outputs, {nullptr, nullptr, integers({1, 2}, {1, 2})}), 1);
  EXPECT_DOUBLE_EQ(token_f1(outputs, {nullptr, nullptr, integers({1, 2}, {2, 3})}), 0.5);
  EXPECT_EQ(token_f1(outputs, {nullptr, nullptr, integers({1, 2}, {3, 3})}), 0);
  EXPECT_EQ(token_f1(outputs, {&outputs, nullptr, {}}), 1);
}

TEST(Metrics, TellHowSurprisingATextIs) {
  const float three = std::log(3.0F);  // a token with it has the share 3 / 4 of two
  const Outputs outputs = {{floats({1, 3, 2}, {three, 0, 0, three, 0, 0})}};
  EXPECT_NEAR(perplexity(outputs, {nullptr, nullptr, integers({1, 3}, {0, 1, -1})}), 4.0 / 3, 1e-6);
  EXPECT_NEAR(perplexity(outputs, {nullptr, nullptr, integers({1, 3}, {1, -1, 0})}), std::sqrt(4.0 * 2), 1e-6);
  // Each place tells the next token, where the mask has it.
  const Outputs text = {{integers({1, 3}, {1, 0, 1})}};
  EXPECT_NEAR(perplexity(outputs, {nullptr, &text, {}}), 4.0 / 3, 1e-6);
  const Outputs masked = {{integers({1, 3}, {1, 0, 0}), integers({1, 3}, {1, 1, 0})}};
  EXPECT_NEAR(perplexity(outputs, {nullptr, &masked, {}}), 4.0 / 3, 1e-6);
  EXPECT_NE(message_of([&] { perplexity(outputs, {nullptr, nullptr, integers({1, 3}, {0, 2, 0})}); }).find("token 2"),
            std::string::npos);
  EXPECT_NE(message_of([&] { perplexity(outputs, {nullptr, &outputs, {}}); }).find("no input holds integers [1, 3]"),
            std::string::npos);
  EXPECT_NE(
      message_of([&] { perplexity(outputs, {nullptr, nullptr, integers({1, 3}, {-1, -1, -1})}); }).find("no token"),
      std::string::npos);
}

TEST(Metrics, HaveNames) {
  EXPECT_EQ(metric_names(), "box-f1, box-map, token-f1, perplexity");
  ASSERT_NE(find_metric("perplexity"), nullptr);
  EXPECT_FALSE(find_metric("perplexity")->is_more_better);
  EXPECT_EQ(find_metric("box"), nullptr);
}

}  // namespace
}  // namespace qdq::metrics_test
