// Backend configs of one's own. Those of PyTorch, and what they make of models, are in tests/golden/fx.
#include "quant/fx/backend_config.h"

#include <gtest/gtest.h>

#include "program_builder.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/pt2e.h"

namespace qdq::backend_config_test {
namespace {

const std::string kLinear = "torch.nn.modules.linear.Linear";

ObserverWithArgs qint8(std::vector<std::pair<std::string, AttributeValue>> args) {
  args.emplace_back("dtype", std::string("qint8"));
  return {"MinMaxObserver", std::move(args), nullptr};
}

// fc, and behind it a relu of the code's own name for it.
Program layer(const std::string& relu_source) {
  ProgramBuilder b;
  Node* weight = b.weight("fc.weight", {4, 4});
  Node* x = b.input("x", {2, 4});
  Node* fc = b.call("linear.default", {x, weight}, "fc", kLinear);
  Node* relu = b.call("relu.default", {fc}, "", "");
  relu->meta.nn_module_stack = {{"L__self__", "", "net.Net"}};
  relu->meta.source_fn_stack = {{"relu", relu_source}};
  return b.finish({relu});
}

BackendConfig accelerator(const DTypeConfig& dtypes) {
  BackendConfig out{"accelerator", {}};
  out.set_backend_pattern_config(
      {.pattern = {"torch.nn.Linear", {}}, .dtype_configs = {dtypes}, .root_module = "torch.nn.Linear"});
  out.set_backend_pattern_config({.pattern = pattern_of_sequence({"torch.nn.Linear", "torch.nn.ReLU"}),
                                  .dtype_configs = {dtypes},
                                  .fused_module = "torch.ao.nn.intrinsic.LinearReLU"});
  out.set_backend_pattern_config({.pattern = {"torch.ao.nn.intrinsic.LinearReLU", {}},
                                  .dtype_configs = {dtypes},
                                  .root_module = "torch.nn.Linear"});
  return out;
}

struct Outcome {
  size_t observers;
  std::vector<std::string> warnings;
};
Outcome outcome(const BackendConfig& backend, const QConfig& qconfig, const std::string& relu_source,
                Compat compat = Compat::kNone) {
  QConfigMappingQuantizer quantizer(QConfigMapping().set_global(qconfig), compat);
  quantizer.set_backend_config(backend);
  const Prepared prepared = prepare_pt2e(layer(relu_source), quantizer);
  return {prepared.observers().size(), prepared.warnings()};
}

TEST(BackendConfig, ItsPatternsAreTheOnlyOnes) {
  const DTypeConfig dtypes{{.dtype = "qint8"}, {.dtype = "qint8"}, {.dtype = "qint8"}, "float32"};
  const QConfig qconfig{qint8({}), qint8({})};
  // Input, weight and the output of the relu.
  EXPECT_EQ(outcome(accelerator(dtypes), qconfig, "torch.nn.functional.relu").observers, 3u);
  EXPECT_EQ(outcome(accelerator(dtypes), qconfig, "torch.nn.functional.relu", Compat::kTorch26).observers, 3u);
  EXPECT_EQ(outcome(accelerator(dtypes), qconfig, "torch.relu").observers, 3u);
  EXPECT_EQ(outcome(get_backend_config("native"), qconfig, "torch.relu").observers, 0u);
  EXPECT_EQ(outcome({"empty", {}}, qconfig, "torch.relu").observers, 0u);
}

TEST(BackendConfig, AQConfigThatBreaksAConstraintIsIgnoredWithAWarning) {
  const DTypeWithConstraints act{.dtype = "qint8", .scale_min_lower_bound = 0x1p-12};
  const DTypeWithConstraints weight{.dtype = "qint8", .quant_min_lower_bound = -127, .quant_max_upper_bound = 127};
  const BackendConfig backend = accelerator({act, act, weight, "float32"});
  const ObserverWithArgs small = qint8({}), large = qint8({{"eps", 0x1p-12}}),
                         narrow = qint8({{"quant_min", int64_t{-127}}, {"quant_max", int64_t{127}}});
  EXPECT_EQ(outcome(backend, {large, narrow}, "torch.relu").observers, 3u);
  EXPECT_TRUE(outcome(backend, {large, narrow}, "torch.relu").warnings.empty());
  const Outcome eps = outcome(backend, {small, narrow}, "torch.relu");
  EXPECT_EQ(eps.observers, 0u);
  ASSERT_EQ(eps.warnings.size(), 1u);
  EXPECT_NE(eps.warnings[0].find("the QConfig of fc is ignored: its activation has the eps"), std::string::npos)
      << eps.warnings[0];
  // PyTorch does not look at the weights of modules.
  EXPECT_EQ(outcome(backend, {large, small}, "torch.nn.functional.relu", Compat::kTorch26).observers, 3u);
  const Outcome range = outcome(backend, {large, small}, "torch.relu");
  EXPECT_EQ(range.observers, 0u);
  ASSERT_EQ(range.warnings.size(), 1u);
  EXPECT_NE(range.warnings[0].find("its weight has integers from -128 to 127, the backend from -127 to 127"),
            std::string::npos)
      << range.warnings[0];
}

TEST(PrepareCustomConfig, WarnsOfModulesThatTheProgramDoesNotHave) {
  const auto warnings_of = [](PrepareCustomConfig custom) {
    QConfigMappingQuantizer quantizer(get_default_qconfig_mapping("x86"));
    quantizer.set_prepare_custom_config(std::move(custom));
    return prepare_pt2e(layer("torch.relu"), quantizer).warnings();
  };
  PrepareCustomConfig wrong;
  wrong.standalone_module_names = {{"fcc", {}, nullptr, {}}};
  wrong.standalone_module_classes = {{"net.Nett", {}, nullptr, {}}};
  wrong.non_traceable_module_names = {"body"};
  wrong.non_traceable_module_classes = {"Conv2d"};
  const std::vector<std::string> warnings = warnings_of(wrong);
  ASSERT_EQ(warnings.size(), 4u);
  EXPECT_EQ(warnings[0],
            "the setting for standalone module fcc reaches nothing: the program has no such standalone module; did you "
            "mean fc?");
  EXPECT_NE(warnings[1].find("standalone module class net.Nett reaches nothing"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[2].find("non-traceable module body reaches nothing"), std::string::npos) << warnings[2];
  EXPECT_NE(warnings[3].find("non-traceable module class Conv2d reaches nothing"), std::string::npos) << warnings[3];
  PrepareCustomConfig right;
  right.non_traceable_module_names = {"fc"};
  right.non_traceable_module_classes = {"torch.nn.Linear", "Linear"};
  EXPECT_TRUE(warnings_of(right).empty());
}

TEST(BackendConfig, APatternTakesThePlaceOfTheSameOne) {
  BackendConfig backend = get_backend_config("native");
  const size_t patterns = backend.configs.size();
  backend.set_backend_pattern_config({.pattern = {"torch.matmul", {}},
                                      .observation_type = ObservationType::kOutputShareObserverWithInput,
                                      .dtype_configs = {{{.dtype = "quint8"}}}});
  EXPECT_EQ(backend.configs.size(), patterns);
}

TEST(BackendConfig, RefusesHalfAConstraint) {
  BackendConfig backend;
  const auto add = [&](const DTypeWithConstraints& dtype) {
    backend.set_backend_pattern_config({.pattern = {"torch.matmul", {}}, .dtype_configs = {{dtype}}});
  };
  EXPECT_THROW(add({.dtype = "quint8", .quant_min_lower_bound = 0}), Error);
  EXPECT_THROW(add({.dtype = "quint8", .zero_point_exact_match = 0}), Error);
  EXPECT_THROW(backend.set_backend_pattern_config({.pattern = {"torch.matmul", {}}}), Error);
  EXPECT_THROW(pattern_of_sequence({"a", "b", "c", "d"}), Error);
  EXPECT_THROW(get_backend_config("qnnpak"), Error);
  EXPECT_THROW(observation_type_from_name("SHARED"), Error);
}

TEST(BackendConfig, TheRootIsTheInnermostAndRightmost) {
  const BackendPattern pattern{"torch.nn.ReLU", {{"operator.add", {{"torch.nn.Conv2d", {}}, {"MatchAllNode", {}}}}}};
  EXPECT_EQ(root_of(pattern).type, "torch.nn.Conv2d");
  EXPECT_EQ(to_string(pattern), "torch.nn.ReLU(operator.add(torch.nn.Conv2d, MatchAllNode))");
}

}  // namespace
}  // namespace qdq::backend_config_test
