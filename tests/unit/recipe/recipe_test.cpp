// Recipes: what they make, and what they refuse.
#include "recipe/recipe.h"

#include <gtest/gtest.h>

#include "format/json.h"
#include "lower/lower.h"
#include "message_of.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recipe/recipe_schema.h"
#include "unit/quant/program_builder.h"

namespace qdq::recipe_test {
namespace {

std::unique_ptr<Quantizer> parse(const std::string& text) {
  return parse_recipe(format::parse_json(text, "recipe.json"), "recipe.json");
}

std::string refusal(const std::string& text) {
  return message_of([&] { parse(text); }, ErrorCode::kInvalidArgument);
}

Program linear_program() {
  ProgramBuilder b;
  Node* weight = b.weight("fc.weight", {3, 4});
  Node* x = b.input("x", {2, 4});
  Node* linear = b.call("linear.default", {x, weight}, "fc", "torch.nn.modules.linear.Linear");
  return b.finish({linear});
}

size_t observers_of(const std::string& recipe) {
  const auto quantizer = parse(recipe);
  return prepare_pt2e(linear_program(), *quantizer).observers().size();
}

TEST(Recipe, PatternsOfABackend) {
  const std::string head = R"({"quantizer": "PatternQuantizer", "name": "Mine", "global": {"is_per_channel": true}, )";
  EXPECT_EQ(observers_of(head + R"("patterns": [{"name": "linear", "operators": [["aten.linear", "aten.conv2d"]]}]})"),
            3u);
  const auto says = [&](const std::string& patterns, const std::string& part) {
    const std::string message = refusal(head + "\"patterns\": " + patterns + "}");
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(R"([{"name": "linear", "operators": ["aten.linear"], "output_": "quantized"}])", "output_");
  says(R"([{"name": "linear", "operators": ["aten.linear"], "output": "s8"}])", "wanted quantized, like_input, float");
  says(R"([{"name": "linear", "operators": ["aten.linear"], "output": {"spec": "shared", "with": {"node": "x"}}}])",
       "or a spec of the kind 'fixed_qparams'");
  says(R"([{"name": "linear", "operators": ["aten.linear"], "modes": ["qta"]}])", "is 'qta'; did you mean 'qat'?");
  says(R"([{"name": "linear", "operators": []}])", "has 0 items; wanted 1 to 4");
  says(R"([{"name": "linear", "operators": ["aten.liner"]}])", "which qdq does not have");
  EXPECT_NE(refusal(head + R"("compat": "torch-2.6", "patterns": []})").find("leave it out"), std::string::npos);
  EXPECT_NE(refusal(head + R"("transform": "split_silus", "patterns": []})").find("split_silu"), std::string::npos);
}

// x -> sigmoid -> add of y; z = linear(x): what its rows say of inputs and outputs.
TEST(Recipe, PatternsSayHowOutputsAreQuantized) {
  const auto prepared = [](const std::string& rows) {
    ProgramBuilder b;
    Node* weight = b.weight("fc.weight", {4, 4});
    Node *x = b.input("x", {2, 4}), *y = b.input("y", {2, 4});
    Node* linear = b.call("linear.default", {x, weight}, "fc", "torch.nn.modules.linear.Linear");
    Node* sigmoid = b.call("sigmoid.default", {linear}, "", "");
    Node* sum = b.call("add.Tensor", {sigmoid, y}, "", "");
    Node* more = b.call("add.Tensor", {sum, 2}, "", "");
    const auto quantizer = parse(R"({"quantizer": "PatternQuantizer", "global": {}, "patterns": )" + rows + "}");
    return prepare_pt2e(b.finish({more}), *quantizer);
  };
  const std::string linear = R"({"name": "linear", "operators": ["aten.linear"], "output": "float"})";
  const std::string add = R"({"name": "add", "operators": ["aten.add"], "inputs": "behind_quantized"})";
  EXPECT_EQ(prepared("[" + linear + "]").observers().size(), 2u);               // the input and the weight
  EXPECT_EQ(prepared("[" + linear + ", " + add + "]").observers().size(), 2u);  // nothing quantized in front of the add
  const Prepared fixed = prepared("[" + linear + R"(, {"name": "sigmoid", "operators": ["aten.sigmoid"], "output":
      {"spec": "fixed_qparams", "dtype": "uint8", "scale": 0.00390625, "zero_point": 0}}, )" +
                                  add + "]");
  // and the sigmoid's input and output, the other operand and the sum; not the addition of a number
  EXPECT_EQ(fixed.observers().size(), 6u);
}

TEST(Recipe, MakesEveryQuantizer) {
  EXPECT_EQ(observers_of(R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": true}})"), 3u);
  EXPECT_EQ(observers_of(R"({"quantizer": "XNNPACKQuantizer", "global": {"is_dynamic": true}})"), 2u);
  EXPECT_EQ(observers_of(R"({"quantizer": "XNNPACKQuantizer", "global": {}, "module_name": [["fc", null]]})"), 0u);
  EXPECT_EQ(observers_of(R"({"quantizer": "X86InductorQuantizer", "global": {"reduce_range": true}})"), 2u);
  EXPECT_EQ(observers_of(
                R"({"quantizer": "X86InductorQuantizer", "global": {},
              "function_type": [["torch.nn.functional.linear", null]]})"),
            0u);
  EXPECT_EQ(observers_of(
                R"({"quantizer": "X86InductorQuantizer",
              "module_type": [["torch.nn.Linear", {"config": "linear_dynamic_fp16"}]]})"),
            1u);
  EXPECT_EQ(observers_of(R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86"}})"), 3u);
  EXPECT_EQ(
      observers_of(
          R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86", "module_name": [["fc", null]]}})"),
      0u);
  EXPECT_EQ(
      observers_of(
          R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"global": {"named": "default_dynamic_qconfig"}}})"),
      2u);
  EXPECT_EQ(observers_of(
                R"({"quantizer": "QConfigMapping",
              "qconfig_mapping": {"module_name_object_type_order": [["", "torch.nn.Linear", 0,
                           {"activation": {"class": "MinMaxObserver", "args": {"dtype": "quint8"}},
                            "weight": {"class": "MinMaxObserver", "args": {"dtype": "qint8"}}}]]}})"),
            3u);
  EXPECT_EQ(observers_of(R"({"quantizer": "ComposableQuantizer", "quantizers": [{"quantizer": "EmbeddingQuantizer"},
                           {"quantizer": "XNNPACKQuantizer", "global": {}}]})"),
            3u);
  EXPECT_EQ(observers_of(R"({"quantizer": "AnnotationQuantizer", "annotations": [{"node": "linear", "output":
                           {"spec": "fixed_qparams", "dtype": "uint8", "scale": 0.5, "zero_point": 3,
                            "quant_min": 0, "quant_max": 255}}]})"),
            1u);
}

TEST(Recipe, ReducesTheRangeWhereProductsSaturate) {
  const auto largest = [](const std::string& reduce_range) {
    const auto quantizer =
        parse(R"({"quantizer": "X86InductorQuantizer", "global": {"reduce_range": )" + reduce_range + "}}");
    const Prepared prepared = prepare_pt2e(linear_program(), *quantizer);
    return prepared.observers()[0].observer->quant_max();
  };
  EXPECT_EQ(largest("true"), 127);
  EXPECT_EQ(largest("false"), 255);
  EXPECT_EQ(largest("\"auto\""), int8_products_saturate() ? 127 : 255);
  EXPECT_THROW(largest("\"always\""), Error);
}

TEST(Recipe, ConfigsMaySpellOutSpecs) {
  const std::string weight =
      R"({"spec": "quantization", "dtype": "int8", "quant_min": -8, "quant_max": 7, "qscheme": "per_channel_symmetric",
                                 "ch_axis": -1, "observer": {"class": "PerChannelMinMaxObserver"}})";
  const auto quantizer = parse(R"({"quantizer": "XNNPACKQuantizer", "global": {"weight": )" + weight + "}}");
  const Prepared prepared = prepare_pt2e(linear_program(), *quantizer);
  ASSERT_EQ(prepared.observers().size(), 1u);
  EXPECT_EQ(prepared.observers()[0].observer->quant_max(), 7);
  EXPECT_EQ(prepared.observers()[0].observer->args().ch_axis, 1);
  const std::string by_function =
      R"({"quantizer": "X86InductorQuantizer", "function_type": [["torch.nn.functional.linear", {"weight": )";
  EXPECT_EQ(observers_of(by_function + weight + "}]]}"), 1u);
  const std::string shared =
      R"({"quantizer": "XNNPACKQuantizer", "global": {"weight": {"spec": "shared", "with": {"node": "x"}}}})";
  EXPECT_NE(refusal(shared).find("no particular node"), std::string::npos);
}

TEST(Recipe, APercentileIsOfPercentileObserverAlone) {
  const auto recipe = [](const std::string& observer) {
    return R"({"quantizer": "XNNPACKQuantizer", "global": {"input_activation": {"spec": "quantization", "dtype": "int8",
        "qscheme": "per_tensor_affine", "observer": {"class": ")" +
           observer + R"(", "args": {"percentile": 99.5}}}}})";
  };
  const auto quantizer = parse(recipe("PercentileObserver"));
  const Prepared prepared = prepare_pt2e(linear_program(), *quantizer);
  ASSERT_EQ(prepared.observers().size(), 1u);
  EXPECT_EQ(prepared.observers()[0].observer->args().percentile, 99.5);
  EXPECT_NE(
      refusal(recipe("MinMaxObserver")).find("is for PercentileObserver only, but the observer is MinMaxObserver"),
      std::string::npos);
}

// A setting of an observer that its class does not read is refused in specs, in the observers of a fake quantizer and
// in QConfigs alike; a printed default is none.
TEST(Recipe, SettingsThatAnObserverDoesNotReadAreRefused) {
  const auto spec = [](const std::string& observer) {
    return R"({"quantizer": "XNNPACKQuantizer", "global": {"input_activation": {"spec": "quantization",
        "dtype": "int8", "qscheme": "per_tensor_affine", "observer": )" +
           observer + "}}}";
  };
  const auto qconfig = [](const std::string& observer) {
    return R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"global": {"activation": )" + observer +
           R"(, "weight": {"class": "MinMaxObserver", "args": {"dtype": "qint8"}}}}})";
  };
  for (const auto& [text, name] :
       {std::pair(R"({"class": "MinMaxObserver", "args": {"group_size": 32}})", "group_size"),
        {R"({"class": "MinMaxObserver", "args": {"averaging_constant": 0.5}})", "averaging_constant"},
        {R"({"class": "MovingAverageMinMaxObserver", "args": {"bins": 99}})", "bins"},
        {R"({"class": "HistogramObserver", "args": {"use_grad_scaling": true}})", "use_grad_scaling"},
        {R"({"class": "PlaceholderObserver", "args": {"reduce_range": true}})", "reduce_range"},
        {R"({"class": "FakeQuantize", "args": {"averaging_constant": 0.5,
                                       "observer": {"class": "MinMaxObserver"}}})",
         "averaging_constant"}}) {
    const std::string message = refusal(spec(text));
    EXPECT_NE(message.find(name), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find("does not read it"), std::string::npos) << text << ": " << message;
  }
  for (const auto& [text, name] :
       {std::pair(R"({"class": "MinMaxObserver", "args": {"averaging_constant": 0.5}})", "averaging_constant"),
        {R"({"class": "HistogramObserver", "args": {"scale": 0.5}})", "scale"},
        {R"({"class": "MinMaxObserver", "args": {"bins": 99}})", "bins"}}) {
    const std::string message = refusal(qconfig(text));
    EXPECT_NE(message.find(concat("does not read the argument '", name)), std::string::npos) << text << ": " << message;
  }
  parse(spec(R"({"class": "MinMaxObserver", "args": {"group_size": 0, "reduce_range": false,
      "use_grad_scaling": false}})"));
  parse(spec(R"({"class": "FakeQuantize", "args": {"averaging_constant": 0.5}})"));
  parse(qconfig(R"({"class": "FusedMovingAvgObsFakeQuantize", "args": {"averaging_constant": 0.5}})"));
}

TEST(Recipe, PatternsAsData) {
  const Pattern pattern = parse_pattern(format::parse_json(R"({"inputs": ["x", "w"], "nodes": [{"name": "fc",
      "target": "torch.ops.aten.linear.default", "args": [{"node": "x"}, {"node": "w"}]}], "outputs": ["fc"]})",
                                                           "pattern"),
                                        "the pattern");
  const Program program = linear_program();
  const std::vector<Match> matches = find_matches(*program.graph, pattern);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].named("fc")->name(), "linear");
  EXPECT_EQ(matches[0].named("w")->name(), "fc_weight");
  try {
    parse_pattern(format::parse_json(R"({"inputs": ["x"], "nodes": [], "outputs": ["y"]})", "pattern"), "the pattern");
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.message, "the pattern uses the node 'y', which is not defined before it is used");
  }
}

TEST(Recipe, OverridesObservers) {
  const auto quantizer = parse(R"({"quantizer": "AnnotationQuantizer", "annotations": [{"node": "linear", "output":
      {"spec": "quantization", "dtype": "uint8", "qscheme": "per_tensor_affine",
       "observer": {"class": "MinMaxObserver"}}}],
      "observer_overrides": [{"node": "linear",
       "attributes": {"quant_max": 127, "eps": 0.25, "qscheme": "per_tensor_symmetric"}}]})");
  const Prepared prepared = prepare_pt2e(linear_program(), *quantizer);
  const Observer& observer = *prepared.observers().at(0).observer;
  EXPECT_EQ(observer.quant_min(), 0);
  EXPECT_EQ(observer.quant_max(), 127);
  EXPECT_EQ(observer.args().eps, 0.25);
  EXPECT_EQ(observer.args().qscheme, QScheme::kPerTensorSymmetric);
  EXPECT_NE(refusal(R"({"quantizer": "EmbeddingQuantizer", "observer_overrides": [{"node": "x"}]})").find("attributes"),
            std::string::npos);
}

TEST(Recipe, CompatIsHandedOn) {
  EXPECT_EQ(parse(R"({"quantizer": "XNNPACKQuantizer", "global": {}})")->compat(), Compat::kNone);
  EXPECT_EQ(parse(R"({"quantizer": "XNNPACKQuantizer", "global": {}, "compat": "torch-2.6"})")->compat(),
            Compat::kTorch26);
  EXPECT_EQ(parse(
                R"({"quantizer": "ComposableQuantizer", "compat": "torch-2.6",
              "quantizers": [{"quantizer": "EmbeddingQuantizer"}]})")
                ->compat(),
            Compat::kTorch26);
}

TEST(Recipe, OrderDecidesWhichConfigIsTaken) {
  // The first one sets the mode; the other would mix static and dynamic, and is left out.
  const std::string sections = R"("global": {}, "module_name": [["fc", {"is_dynamic": true}]])";
  const auto first_is_dynamic = [](const std::string& recipe) {
    const auto quantizer = parse(recipe);
    return prepare_pt2e(linear_program(), *quantizer).observers().at(0).observer->args().is_dynamic;
  };
  EXPECT_FALSE(first_is_dynamic(R"({"quantizer": "X86InductorQuantizer", )" + sections + "}"));
  EXPECT_TRUE(first_is_dynamic(R"({"quantizer": "X86InductorQuantizer", "order": ["module_name", "global"], )" +
                               sections + "}"));
}

TEST(Recipe, BackendConfigsOfOnesOwn) {
  const auto with = [](const std::string& backend) {
    return R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"global": {"named": "default_qconfig"}},
               "backend_config": )" +
           backend + "}";
  };
  const std::string dtypes = R"("dtype_configs": [{"input_dtype": {"dtype": "quint8", "quant_min_lower_bound": 0,
      "quant_max_upper_bound": 127}, "output_dtype": "quint8", "weight_dtype": "qint8", "bias_dtype": "float"}])";
  EXPECT_EQ(observers_of(with("\"qnnpack\"")), 3u);
  EXPECT_EQ(observers_of(with(R"({"name": "none", "configs": []})")), 0u);
  EXPECT_EQ(observers_of(with(R"({"configs": [{"pattern": "torch.nn.Linear", )" + dtypes + "}]}")), 2u);
  EXPECT_EQ(observers_of(with(R"({"configs": [{"pattern": "torch.nn.Linear", "root_module": "torch.nn.Linear", )" +
                              dtypes + "}]}")),
            3u);
  EXPECT_EQ(observers_of(with(R"({"base": "native", "configs": [{"pattern": "torch.nn.Linear", "dtype_configs": [
                                  {"input_dtype": "float16"}]}]})")),
            0u);
  const auto config = [&](const std::string& fields) { return refusal(with(R"({"configs": [{)" + fields + "}]}")); };
  EXPECT_NE(refusal(with("\"qnnpak\"")).find("did you mean 'qnnpack'"), std::string::npos);
  EXPECT_NE(config(R"("pattern": "a", "dtype_configs": [{"input_dtyp": "quint8"}])").find("did you mean 'input_dtype'"),
            std::string::npos)
      << config(R"("pattern": "a", "dtype_configs": [{"input_dtyp": "quint8"}])");
  EXPECT_NE(
      config(R"("pattern": "a", "observation_type": "SHARED", )" + dtypes).find("is 'SHARED'; wanted one of OUTPUT"),
      std::string::npos);
  EXPECT_NE(config(R"("pattern": "a", "dtype_configs": [{"input_dtype": "quint9"}])")
                .find("is 'quint9'; did you mean 'quint8'?"),
            std::string::npos);
  EXPECT_NE(config(R"("pattern": [], )" + dtypes).find("wanted 1 to 3"), std::string::npos);
  EXPECT_NE(config(R"("pattern_complex_format": [["a"]], )" + dtypes).find("must be a type, or a list"),
            std::string::npos);
  EXPECT_NE(config(R"("pattern": "a", "num_tensor_args_to_observation_type": {"one": "x"}, )" + dtypes)
                .find("wanted a number of tensors"),
            std::string::npos);
}

TEST(Recipe, CustomConfigs) {
  const auto with = [](const std::string& custom) {
    return R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"global": {"named": "default_qconfig"}},
               "prepare_custom_config": )" +
           custom + "}";
  };
  EXPECT_EQ(observers_of(with("{}")), 3u);
  EXPECT_NE(refusal(with(R"({"input_quantized_idx": [0]})")).find("did you mean 'input_quantized_idxs'"),
            std::string::npos);
  EXPECT_NE(refusal(with(R"({"preserved_attributes": ["a"]})")).find("Python objects"), std::string::npos);
  EXPECT_NE(refusal(with(R"({"standalone_module_name": [{"module": "fc", "backend_config": "x"}]})")).find("is 'x'; "),
            std::string::npos);
}

TEST(Recipe, CommentsAndTheirSchemaSayNothing) {
  EXPECT_EQ(observers_of(R"({"$schema": "recipe.schema.json", "$comment": "ours", "quantizer": "XNNPACKQuantizer",
                             "global": {"$comment": {"is_dynamic": "no samples"}, "is_dynamic": true},
                             "module_name": [["head", {"$comment": 1}]]})"),
            2u);
  EXPECT_NE(refusal(R"({"quantizer": "XNNPACKQuantizer", "global": {"$schema": "x"}})").find("unknown field '$schema'"),
            std::string::npos);
}

TEST(Recipe, ACommentedRecipeHasAllFieldsAndMeansTheSame) {
  for (const std::string text :
       {R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": true}})",
        R"({"quantizer": "X86InductorQuantizer", "global": {"reduce_range": true}, "mergeable": true})",
        R"({"quantizer": "XNNPACKQuantizer"})", R"({"quantizer": "X86InductorQuantizer"})",
        R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86"}})",
        R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "executorch"}})",
        R"({"quantizer": "ComposableQuantizer", "compat": "torch-2.6", "quantizers": [
            {"quantizer": "XNNPACKQuantizer", "module_name": [["fc", {}]]}]})",
        R"({"quantizer": "EmbeddingQuantizer"})", R"({"quantizer": "AnnotationQuantizer"})",
        R"({"quantizer": "PatternQuantizer", "patterns": [{"name": "fc", "operators": ["aten.linear"]}]})",
        R"({"quantizer": "ComposableQuantizer", "quantizers": [{"quantizer": "XNNPACKQuantizer", "global": {}}]})"}) {
    const format::Json plain = format::parse_json(text, "recipe.json"), full = commented_recipe(plain);
    EXPECT_TRUE(full.contains("compat") && full.contains("observer_overrides")) << full;
    for (const auto& [key, value] : full.items())
      EXPECT_TRUE(key == "$comment" || !full["$comment"][key].get<std::string>().empty()) << text << " " << key;
    const auto observers = [](const format::Json& recipe) {
      const auto quantizer = parse_recipe(recipe, "recipe.json");
      const Prepared prepared = prepare_pt2e(linear_program(), *quantizer);
      std::string out;
      for (const auto& observed : prepared.observers())
        out += concat(observed.observer->class_name(), " ", to_string(observed.observer->args().qscheme), " ",
                      observed.observer->quant_min(), " ", observed.observer->quant_max(), "; ");
      return out;
    };
    EXPECT_EQ(observers(full), observers(plain)) << text;
  }
  // The defaults of the schema are those of the parser.
  const auto config = [](const char* text) {
    return commented_recipe(format::parse_json(text, "recipe.json"))["global"];
  };
  const SymmetricConfigOptions symmetric;
  const format::Json global = config(R"({"quantizer": "XNNPACKQuantizer", "global": {}})");
  EXPECT_EQ(global["act_qmin"], symmetric.act_qmin);
  EXPECT_EQ(global["act_qmax"], symmetric.act_qmax);
  EXPECT_EQ(global["weight_qmin"], symmetric.weight_qmin);
  EXPECT_EQ(global["weight_qmax"], symmetric.weight_qmax);
}

TEST(Recipe, RefusalsNameTheFieldAndTheNearestWord) {
  EXPECT_NE(refusal(R"({"quantizer": "XNNPACKQuantiser"})").find("did you mean 'XNNPACKQuantizer'"), std::string::npos);
  EXPECT_NE(refusal(R"({"quantizer": "XNNPACKQuantizer", "globl": {}})").find("globl"), std::string::npos);
  EXPECT_NE(refusal(R"({"quantizer": "XNNPACKQuantizer", "global": {"per_channel": true}})").find("per_channel"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"quantizer": "XNNPACKQuantizer", "global": {"weight_qmin": 5, "weight_qmax": 2}})")
                .find("quant_min 5"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"quantizer": "X86InductorQuantizer", "global": {"config": "fp8"}})").find("linear_dynamic_fp16"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"quantizer": "XNNPACKQuantizer", "compat": "torch-9"})").find("torch-2.6"), std::string::npos);
  EXPECT_NE(refusal(
                R"({"quantizer": "AnnotationQuantizer",
              "annotations": [{"node": "x", "output": {"spec": "quantization", "dtype": "int8",
                      "observer": {"class": "HistogrammObserver"}}}]})")
                .find("HistogramObserver"),
            std::string::npos);
  EXPECT_NE(refusal(
                R"({"quantizer": "AnnotationQuantizer",
              "annotations": [{"node": "x", "output": {"spec": "derived", "dtype": "int32",
                      "from": [{"node": "x"}], "rule": "sum"}}]})")
                .find("product_of_scales"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"quantizer": "JavaScript", "number": 0})").find("no quantizer 'JavaScript'"),
            std::string::npos);
  EXPECT_NE(refusal(R"([1, 2])").find("recipe.json"), std::string::npos);
}

}  // namespace
}  // namespace qdq::recipe_test
