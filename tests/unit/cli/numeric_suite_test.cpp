// What the comparison of layers says against PyTorch's Numeric Suite and numeric debugger (tests/golden/suite, made by
// make_suite.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "exec/op_backend.h"
#include "format/json.h"
#include "io/pt2.h"
#include "quant/numeric_debug.h"
#include "quant/quantizers/quantizers.h"
#include "report/layer_comparison.h"
#include "source_dir.h"

namespace qdq::numeric_suite_test {
namespace {

using format::Json;

std::string read(const std::string& name) {
  std::ifstream in(std::filesystem::path(kSourceDir) / "tests/golden/suite" / name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {(std::istreambuf_iterator<char>(in)), {}};
}

class NumericSuite : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    facts_ = format::parse_json(read("suite.json"), "suite.json").at(GetParam());
    const std::string bytes = read(std::string(GetParam()) + ".pt2");
    program_ = load_pt2(std::as_bytes(std::span(bytes)));
  }
  std::vector<Tensor> inputs(const char* which) const {
    Tensor out = Tensor::empty(facts_["shape"].get<Shape>(), DType::kF32);
    for (size_t i = 0; i < facts_[which].size(); ++i) out.data<float>()[i] = facts_[which][i].get<float>();
    return {out};
  }
  Program quantized(Quantizer& quantizer) const {
    Prepared prepared = prepare_pt2e(program_.clone(), quantizer);
    prepared.run(inputs("calibration"));
    return convert_pt2e(prepared);
  }

  Json facts_;
  Program program_;
};

// Each layer by itself, and its weight. PyTorch computes its layers in integers.
TEST_P(NumericSuite, WeightsAndShadowsAreThoseOfFxGraphMode) {
  ObserverWithArgs activation{"MinMaxObserver", {{"dtype", std::string("quint8")}}, nullptr},
      weight{"PerChannelMinMaxObserver",
             {{"dtype", std::string("qint8")}, {"qscheme", std::string("per_channel_symmetric")}},
             nullptr};
  QConfigMappingQuantizer quantizer(QConfigMapping().set_global(QConfig{activation, weight}), Compat::kTorch26);
  const Program candidate = quantized(quantizer);
  LayerComparison comparison(program_, {&candidate});
  comparison.add(inputs("test"));
  const Json layers = comparison.json();
  const auto layer = [&](const std::string& module) {
    for (const Json& entry : layers)
      if (entry["module"] == module && !entry.value("weight", Json()).is_null()) return entry;
    ADD_FAILURE() << module << " is not compared";
    return Json();
  };
  EXPECT_EQ(facts_["weights"].size(), 3U);
  for (const auto& [module, decibels] : facts_["weights"].items())
    EXPECT_NEAR(layer(module)["weight"]["sqnrDb"].get<double>(), decibels.get<double>(), 1e-3) << module;
  EXPECT_EQ(facts_["shadows"].size(), 3U);
  for (const auto& [module, wanted] : facts_["shadows"].items()) {
    const Json own = layer(module)["own"];
    EXPECT_NEAR(own["sqnrDb"].get<double>(), wanted["sqnr"].get<double>(), 1e-2) << module;
    EXPECT_NEAR(own["mse"].get<double>(), wanted["mse"].get<double>(), 2e-3 * wanted["mse"].get<double>()) << module;
  }
}

// What has gathered along the model, handle by handle.
TEST_P(NumericSuite, AccumulatedOutputsAreThoseOfTheNumericDebugger) {
  generate_numeric_debug_handles(program_);
  XNNPACKQuantizer quantizer(Compat::kTorch26);
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  const Program candidate = quantized(quantizer);
  const std::vector<Tensor> test = inputs("test");
  const std::vector<NodeAccuracy> found = compare_by_debug_handle(program_, candidate, std::span(&test, 1), {});
  EXPECT_EQ(found.size(), facts_["outputs"].size());
  for (const NodeAccuracy& node : found) {
    const Json& wanted = facts_["outputs"].at(std::to_string(node.handle)).at(0);
    EXPECT_NEAR(node.sqnr_db[0], wanted["sqnr"].get<double>(), 1e-2) << node.ref_node;
    EXPECT_NEAR(node.mse[0], wanted["mse"].get<double>(), 2e-3 * wanted["mse"].get<double>()) << node.ref_node;
  }
  // LayerComparison finds the same places, and the same noise there. Where the next layer quantizes what it reads, it
  // counts that too, and the debugger does not.
  LayerComparison comparison(program_, {&candidate});
  comparison.add(test);
  int64_t same = 0, before = 0;
  for (const Json& layer : comparison.json())
    for (const NodeAccuracy& node : found) {
      if (layer["node"] != node.ref_node) continue;
      if (node.actual_node.starts_with("dequantize")) {
        EXPECT_NEAR(layer["mse"].get<double>(), node.mse[0], 2e-3 * node.mse[0]) << node.ref_node;
        ++same;
      } else {
        EXPECT_GT(layer["mse"].get<double>(), node.mse[0]) << node.ref_node;
        ++before;
      }
    }
  EXPECT_EQ(same, std::string_view(GetParam()) == "dense" ? 3 : 4);
  EXPECT_EQ(same + before, 4);
}

INSTANTIATE_TEST_SUITE_P(Golden, NumericSuite, testing::Values("dense", "images"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace qdq::numeric_suite_test
