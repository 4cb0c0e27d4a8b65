// What is said of outputs that come to little in integers.
#include <gtest/gtest.h>

#include "recover/recovery.h"
#include "unit/recover/networks.h"

namespace qdq::lost_outputs_test {
namespace {

// The last batch reaches far beyond what was calibrated.
TEST(LostOutputs, JudgesByAllBatches) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* layer = b.call("linear.default", {x, b.weight("a.weight", {4, 16}), b.weight("a.bias", {4})});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(b.finish({layer}), quantizer);
  std::vector<Batch> some = rows();
  for (const Batch& batch : some) prepared.run(batch);
  EXPECT_TRUE(lost_outputs(prepared, some).empty());
  for (float& value : some.back()[0].span<float>()) value *= 1000;
  EXPECT_TRUE(lost_outputs(prepared, {some[0]}).empty());
  EXPECT_EQ(lost_outputs(prepared, some).size(), 1U);
}

// The output itself has another number of rows in integers.
TEST(LostOutputs, TellOfWhatSelectsThem) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* scores = b.call("linear.default", {x, b.weight("a.weight", {1, 16}), b.weight("a.bias", {1})});
  Node* flat = b.call("flatten.using_ints", {scores});
  Node* kept = b.call("squeeze.dim", {b.call("nonzero.default", {b.call("gt.Scalar", {flat, 0})}), 1});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(b.finish({b.call("index_select.default", {x, 0, kept})}), quantizer);
  std::vector<Batch> some = rows();
  for (const Batch& batch : some) prepared.run(batch);
  EXPECT_TRUE(lost_outputs(prepared, some).empty());
  for (float& value : some[0][0].span<float>()) value *= 1000;
  const std::vector<std::string> lost = lost_outputs(prepared, some);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_TRUE(lost[0].starts_with(concat("'", flat->name(), "' is lost in integers"))) << lost[0];
  EXPECT_NE(lost[0].find("; outputs are selected by it; recover accuracy"), std::string::npos) << lost[0];
}

// Boxes of up to a thousand pixels hide what happens to the scores beside them, which are all rounded to 0.
TEST(LostOutputs, TellsOfScoresThatShareAScaleWithBoxes) {
  ProgramBuilder b;
  Node* x = b.call("view.default", {b.input("x", {8, 16}), Argument::List{1, 8, 16}});
  Node* boxes = b.call("linear.default", {x, b.weight("boxes.weight", {4, 16}), b.weight("boxes.bias", {4})});
  Node* scores = b.call("linear.default", {x, b.weight("scores.weight", {3, 16}), b.weight("scores.bias", {3})});
  Argument::List parts;
  parts.emplace_back(boxes);
  parts.emplace_back(b.call("sigmoid.default", {scores}));
  Program program = b.finish({b.call("cat.default", {Argument(std::move(parts)), -1})});
  for (const char* name : {"boxes.weight", "boxes.bias"})
    for (float& value : program.find_attribute(name)->tensor.span<float>()) value *= 1000;
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  const std::vector<std::string> lost = lost_outputs(prepared, rows());
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_NE(lost[0].find("loses 3 of its 7 channels in integers (the first is 4)"), std::string::npos) << lost[0];
  recover(prepared, rows());
  EXPECT_TRUE(lost_outputs(prepared, rows()).empty());
}

// Three layers that read what is beyond the calibrated range.
TEST(LostOutputs, AreToldOfTogether) {
  for (const auto& [factor, words] :
       {std::pair(3.0f, "have only "), std::pair(1000.0f, "are lost in integers: they have more noise")}) {
    ProgramBuilder b;
    Node* x = b.input("x", {8, 16});
    std::vector<Argument> layers;
    for (const std::string name : {"a", "b", "c"})
      layers.emplace_back(
          b.call("linear.default", {x, b.weight(name + ".weight", {4, 16}), b.weight(name + ".bias", {4})}));
    Program program = b.finish(layers);
    program.output_names = {"first", "second", "third"};
    XNNPACKQuantizer quantizer = xnnpack();
    Prepared prepared = prepare_pt2e(std::move(program), quantizer);
    std::vector<Batch> some = rows();
    for (const Batch& batch : some) prepared.run(batch);
    for (const Batch& batch : some)
      for (float& value : batch[0].span<float>()) value *= factor;
    const std::vector<std::string> lost = lost_outputs(prepared, some);
    ASSERT_EQ(lost.size(), 1U);
    EXPECT_TRUE(lost[0].starts_with(concat("the outputs 'first', 'second' and 'third' ", words))) << lost[0];
  }
}

}  // namespace
}  // namespace qdq::lost_outputs_test
