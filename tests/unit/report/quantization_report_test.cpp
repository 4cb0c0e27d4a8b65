// Errors by layer and what observers saw, against plain sums over the values.
#include "exec/interpreter.h"
#include "report/quantization_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "format/json.h"
#include "op/op.h"
#include "quant/numeric_debug.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "report/layer_comparison.h"
#include "unit/format/expect_error.h"

namespace qdq::quantization_report_test {
namespace {

// x [2, 8] -> linear -> relu -> + 1 -> [2, 8]. The addition of a number stays float.
Program model() {
  Program program;
  Graph& graph = *program.graph;
  const Tensor values = Tensor::empty({8, 8}, DType::kF32);
  std::minstd_rand random(3);
  for (float& value : values.span<float>()) value = static_cast<float>(random() % 2001) / 1000 - 1;
  Node* weight = graph.get_attr("head.weight", "head_weight");
  weight->meta.val = {TensorMeta{DType::kF32, {8, 8}, {}, true}};
  program.add_attribute({"head.weight", values, Attribute::Kind::kParameter, true, true});
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {2, 8}, {}, false}};
  Node* linear = graph.call("torch.ops.aten.linear.default", {x, weight});
  Node* relu = graph.call("torch.ops.aten.relu.default", {linear});
  Node* sum = graph.call("torch.ops.aten.add.Tensor", {relu, 1.0});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(sum)})});
  infer_shapes(program);
  return program;
}

Tensor batch(unsigned seed) {
  const Tensor out = Tensor::empty({2, 8}, DType::kF32);
  std::minstd_rand random(seed);
  for (float& value : out.span<float>()) value = static_cast<float>(random() % 2001) / 500 - 2;
  return out;
}

Prepared prepare() {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({}));
  return prepare_pt2e(model(), quantizer);
}

TEST(LayerComparison, ErrorsAreTheSumsOverAllBatches) {
  Prepared prepared = prepare();
  for (unsigned seed : {1U, 2U}) prepared.run({batch(seed)});
  const Program converted = convert_pt2e(prepared);
  LayerComparison errors(prepared.program(), {&converted});
  double signal = 0, noise = 0;
  const auto backend = make_simd_ops();
  for (unsigned seed : {1U, 2U}) {
    errors.add({batch(seed)});
    const Program plain = model();
    const Tensor x = Interpreter(plain, {backend.get()}).run(std::vector<Tensor>{batch(seed)})[0];
    const Tensor y = Interpreter(converted, {backend.get()}).run(std::vector<Tensor>{batch(seed)})[0];
    for (size_t i = 0; i < 16; ++i) {
      const double a = x.span<float>()[i], b = y.span<float>()[i];
      signal += a * a;
      noise += (a - b) * (a - b);
    }
  }
  ASSERT_GT(noise, 0);
  const format::Json json = errors.json();
  const auto last =
      std::find_if(json.begin(), json.end(), [](const auto& layer) { return layer["op"] == "aten.add.Tensor"; });
  ASSERT_NE(last, json.end()) << json.dump(1);
  EXPECT_NEAR((*last)["sqnrDb"].get<double>(), 10 * std::log10(signal / noise), 1e-9);
  EXPECT_NEAR((*last)["mse"].get<double>(), noise / 32, 1e-9);
  const auto relu =
      std::find_if(json.begin(), json.end(), [](const auto& layer) { return layer["op"] == "aten.relu.default"; });
  ASSERT_NE(relu, json.end());
  EXPECT_EQ((*relu)["quantized"], true);
  for (size_t i = 1; i < json.size(); ++i)
    EXPECT_LE(json[i - 1]["sqnrDb"].get<double>(), json[i]["sqnrDb"].get<double>());
}

// Numeric Suite's shadow: the layer on the reference's values, quantized at its input, computed and quantized again.
TEST(LayerComparison, OwnErrorsAreThoseOfLayersOnFloatValues) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({}));
  quantizer.set_operator_type("torch.ops.aten.add", std::nullopt);
  Prepared prepared = prepare_pt2e(model(), quantizer);
  prepared.run({batch(1)});
  const Program converted = convert_pt2e(prepared), plain = model();
  LayerComparison comparison(plain, {&converted});
  comparison.add({batch(1)});
  const auto entry = [&](const char* op) {
    for (const auto& layer : comparison.json())
      if (layer["op"] == op) return layer;
    return format::Json();
  };
  const format::Json first = entry("aten.linear.default"), relu = entry("aten.relu.default"),
                     sum = entry("aten.add.Tensor");
  // Nothing lies between the input and the first layer, and its activation is one with it.
  EXPECT_EQ(first["own"]["mse"], first["mse"]);
  EXPECT_EQ(relu["own"]["mse"], relu["mse"]);
  EXPECT_GT(first["weight"]["sqnrDb"].get<double>(), 30);
  LayerComparison of_prepared(prepared.program(), {&converted});
  of_prepared.add({batch(1)});
  EXPECT_EQ(of_prepared.json(), comparison.json());
  EXPECT_FALSE(relu.contains("weight"));

  // The sum by hand: the float values of the activation through the pair behind it, plus 1.
  const Node* node = converted.graph->find(sum["node"].get<std::string>());
  ASSERT_NE(node, nullptr);
  const Node* quantize = node->arg(0).node()->arg(0).node();
  const auto scale = static_cast<float>(quantize->arg(1).as<double>());
  const auto number = [&](size_t i) { return static_cast<float>(quantize->arg(i).as<int64_t>()); };
  const auto backend = make_simd_ops();
  Interpreter reference(plain, {backend.get()});
  double noise = 0;
  reference.set_node_hook([&](const Node& one, const Value& value) {
    if (!one.is("torch.ops.aten.relu.default")) return;
    for (const float x : value.get_if<Tensor>()->span<float>()) {
      const float rounded = std::clamp(std::nearbyint(x * (1.0F / scale)) + number(2), number(3), number(4));
      const float y = (rounded - number(2)) * scale + 1;
      noise += std::pow(static_cast<double>(x + 1) - y, 2);
    }
  });
  reference.run(std::vector<Tensor>{batch(1)});
  EXPECT_NEAR(sum["own"]["mse"].get<double>(), noise / 16, 1e-12);
  EXPECT_NE(sum["own"]["mse"], sum["mse"]);
  EXPECT_TRUE(comparison.unmatched_in_reference().empty());
  EXPECT_TRUE(comparison.unmatched_in_candidate().empty());
}

TEST(LayerComparison, FindsOperatorsByHandlesAndRefusesStrangers) {
  Program plain = model();
  generate_numeric_debug_handles(plain);
  Program other = plain.clone();
  for (Node* node : other.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) other.graph->rename(node, "renamed_" + node->name());
  LayerComparison comparison(plain, {&other});
  comparison.add({batch(1)});
  ASSERT_EQ(comparison.json().size(), 3U);
  EXPECT_EQ(comparison.json()[0]["candidateNode"], "renamed_" + comparison.json()[0]["node"].get<std::string>());
  EXPECT_TRUE(comparison.json()[0]["sqnrDb"].is_null());

  for (Node* node : other.graph->nodes()) node->meta.debug_handle.reset();
  expect_error(ErrorCode::kInvalidArgument, "cannot be compared layer by layer",
               [&] { LayerComparison(plain, {&other}); });
  expect_error(ErrorCode::kInvalidArgument, "nothing to compare", [&] { LayerComparison(plain, {}); });
}

TEST(CalibrationReport, ShowsWhatWasSeenAndWhatIsClipped) {
  Prepared prepared = prepare();
  for (const auto& observer : calibration_report(prepared)) EXPECT_FALSE(observer.contains("counts"));
  prepared.run({batch(1)});
  const format::Json before = calibration_report(prepared, 16);
  ASSERT_EQ(before[0]["covers"][0][0], "x") << before.dump(1);
  float low = 0, high = 0;
  const Tensor seen = batch(1);
  for (const float value : seen.span<float>()) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_EQ(before[0]["min"].get<float>(), low);
  EXPECT_EQ(before[0]["max"].get<float>(), high);
  double count = 0;
  for (const auto& bin : before[0]["counts"]) count += bin.get<double>();
  EXPECT_EQ(before[0]["counts"].size(), 16U);
  EXPECT_EQ(count, 16);
  const double scale = before[0]["scale"], zero_point = before[0]["zeroPoint"];
  EXPECT_DOUBLE_EQ(before[0]["low"], (-128 - zero_point - 0.5) * scale);
  EXPECT_DOUBLE_EQ(before[0]["high"], (127 - zero_point + 0.5) * scale);
  const double clipped = before[0]["clipped"];
  EXPECT_GE(clipped, 0);
  EXPECT_LT(clipped, 0.2);
}

}  // namespace
}  // namespace qdq::quantization_report_test
