// From the words on the command line to a recipe and its quantizer.
#include <algorithm>
#include <functional>

#include "cli/options.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"
#include "format/json.h"
#include "profile/runtime_profile.h"
#include "recipe/recipe.h"

namespace qdq {

namespace {

using format::Json;

RuntimeSettings settings_of(const QuantizerOptions& options) {
  return {options.dynamic, options.activation_bits, options.weight_bits};
}

Json fx_recipe(const QuantizerOptions& options) {
  QDQ_CHECK_USAGE(!options.reduce_range,
                  "--reduce-range does not go with --fx: the mappings of x86 and fbgemm reduce the range already");
  QDQ_CHECK_USAGE(options.weight_bits == 8, "--weight-bits does not go with --fx: its backends take weights of 8 bits");
  QDQ_CHECK_USAGE(!options.weights_only,
                  "--weights-only does not go with --fx: in FX graph mode, backends quantize only the weights of "
                  "embeddings without activations; use a --recipe with float_qparams_weight_only_qconfig");
  Json mapping = {{"default", options.fx}};
  if (options.dynamic) mapping = {{"global", {{"named", "default_dynamic_qconfig"}}}};
  Json recipe = {{"quantizer", "QConfigMapping"}, {"qconfig_mapping", mapping}};
  if (options.equalize) {
    QDQ_CHECK_USAGE(
        !options.dynamic && !options.qat,
        "--equalize needs the ranges of samples, so it goes with neither --dynamic nor --qat; leave one of them out");
    recipe["equalization_config"] = {{"global", {{"named", "default_equalization_qconfig"}}}};
  }
  return recipe;
}

// int8 weights of so many bits by the rows of a layer, or by groups along the rows, whose scales have the least error.
Json weight_spec(const QuantizerOptions& options) {
  const int64_t most = options.reduce_range ? 64 : int64_t{1} << (options.weight_bits - 1);
  Json observer = {{"class", "PerChannelMinMaxObserver"}};
  if (options.group_size != 0)
    observer = {{"class", "PerGroupMSEObserver"}, {"args", {{"group_size", options.group_size}}}};
  return {{"spec", "quantization"},
          {"dtype", "int8"},
          {"quant_min", most == 128 ? -127 : -most},
          {"quant_max", most - 1},
          {"qscheme", "per_channel_symmetric"},
          {"ch_axis", 0},
          {"observer", observer}};
}

// The class of an observer of activations by its word.
const char* observer_class(const std::string& word) {
  constexpr std::pair<std::string_view, const char*> kClasses[] = {{"min-max", "MinMaxObserver"},
                                                                   {"percentile", "PercentileObserver"},
                                                                   {"entropy", "EntropyObserver"},
                                                                   {"mse", "MSEObserver"}};
  for (const auto& [known, name] : kClasses)
    if (word == known) return name;
  fail_usage("--observer is ", word, "; wanted min-max, percentile, entropy or mse");
}

// Weights in groups beside activations that get a scale for each token while the model runs.
Json per_token_recipe(const std::string& name, const QuantizerOptions& options) {
  const Json activation = {{"spec", "quantization"},
                           {"dtype", "int8"},
                           {"qscheme", "per_token_affine"},
                           {"is_dynamic", true},
                           {"observer", {{"class", "PlaceholderObserver"}}}};
  return {{"quantizer", name}, {"global", {{"input_activation", activation}, {"weight", weight_spec(options)}}}};
}

// Weights as both quantizers have them, and embeddings as PyTorch's EmbeddingQuantizer has them.
Json weights_only_recipe(const std::string& name, const QuantizerOptions& options) {
  const Json weight = weight_spec(options);
  if (options.group_size != 0) return {{"quantizer", name}, {"global", {{"weight", weight}}}};
  return {
      {"quantizer", "ComposableQuantizer"},
      {"quantizers", {{{"quantizer", "EmbeddingQuantizer"}}, {{"quantizer", name}, {"global", {{"weight", weight}}}}}}};
}

// What a runtime's profile makes of words alone, so that what it refuses is wrong usage.
template <class Make> auto of_words(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    fail_usage(error.message);
  }
}

Json recipe_of_words(const QuantizerOptions& options) {
  if (!options.runtime.empty())
    return of_words([&] { return recipe_of(runtime_profile(options.runtime), settings_of(options)); });
  if (!options.fx.empty()) return fx_recipe(options);
  const std::string& wanted = options.quantizer;
  const bool is_xnnpack = wanted.empty() || wanted == "xnnpack" || wanted == "XNNPACKQuantizer";
  QDQ_CHECK_USAGE(is_xnnpack || wanted == "x86-inductor" || wanted == "X86InductorQuantizer", "there is no quantizer ",
                  wanted, "; wanted xnnpack or x86-inductor, or a --recipe");
  const std::string name = is_xnnpack ? "XNNPACKQuantizer" : "X86InductorQuantizer";
  if (options.weights_only) return weights_only_recipe(name, options);
  QDQ_CHECK_USAGE(options.group_size == 0 || (options.dynamic && is_xnnpack),
                  "--group-size goes with --weights-only, or with --dynamic and the quantizer xnnpack");
  if (options.group_size != 0) return per_token_recipe(name, options);
  Json config = Json::object();
  if (is_xnnpack) config["is_per_channel"] = true;
  if (options.dynamic) config["is_dynamic"] = true;
  if (options.reduce_range) config["reduce_range"] = true;
  if (options.weight_bits != 8) {
    QDQ_CHECK_USAGE(
        is_xnnpack,
        "--weight-bits goes with --quantizer xnnpack; X86's weights have 8 bits except in a --recipe that gives their "
        "quant_min and quant_max");
    config["weight_qmin"] = -(int64_t{1} << (options.weight_bits - 1));
    config["weight_qmax"] = (int64_t{1} << (options.weight_bits - 1)) - 1;
  }
  return {{"quantizer", name}, {"global", config}};
}

}  // namespace

void exclude(Json& recipe, const std::string& name, const std::string& what) {
  const std::string quantizer = recipe.is_object() ? recipe.value("quantizer", "") : "";
  if (quantizer == "ComposableQuantizer" && recipe.contains("quantizers") && recipe["quantizers"].is_array()) {
    for (Json& part : recipe["quantizers"])
      if (part.is_object() && part.value("quantizer", "") != "EmbeddingQuantizer") exclude(part, name, what);
    return;
  }
  const bool is_fx = quantizer == "QConfigMapping";
  QDQ_CHECK_USAGE(is_fx || quantizer == "XNNPACKQuantizer" || quantizer == "X86InductorQuantizer" ||
                      quantizer == "PatternQuantizer",
                  what, " has the quantizer '", quantizer,
                  "', which has no place for --exclude; wanted one whose recipe has module_name");
  Json& sections = is_fx ? recipe["qconfig_mapping"] : recipe;
  const bool is_type = name.starts_with("torch.");
  QDQ_CHECK_USAGE(!is_type || quantizer != "PatternQuantizer", what,
                  " has a PatternQuantizer, which knows modules only; --exclude ", name, " names a type");
  Json& section = sections[is_type ? "object_type" : "module_name"];
  if (section.is_null()) section = Json::array();
  section.push_back({name, nullptr});
}

namespace {

// The recipe with is_qat in all settings that do not say: nobody trains with observers that do not round.
Json for_training(Json recipe) {
  const auto set = [](Json& config) {
    if (config.is_object() && !config.contains("config") && !config.contains("is_qat")) config["is_qat"] = true;
  };
  if (recipe.value("quantizer", "") == "QConfigMapping") set(recipe);
  if (recipe.contains("global")) set(recipe["global"]);
  for (const char* section : {"module_type", "operator_type", "module_name", "function_type", "object_type"})
    if (recipe.contains(section) && recipe[section].is_array())
      for (Json& entry : recipe[section])
        if (entry.is_array() && entry.size() == 2) set(entry[1]);
  if (recipe.contains("quantizers") && recipe["quantizers"].is_array())
    for (Json& part : recipe["quantizers"]) part = for_training(std::move(part));
  return recipe;
}

}  // namespace

Json read_recipe(const QuantizerOptions& options, Host& host) {
  const bool is_file = !options.recipe.empty();
  Json recipe = is_file ? format::parse_json(format::text_of(host.files.read(options.recipe)), options.recipe)
                        : recipe_of_words(options);
  if (!options.observer.empty()) recipe["histogram_observer"] = observer_class(options.observer);
  for (const std::string& name : options.exclude) exclude(recipe, name, is_file ? options.recipe : "the quantizer");
  return options.qat ? for_training(std::move(recipe)) : recipe;
}

Json mergeable_recipe(Json recipe, const QuantizerOptions& options) {
  const std::function<bool(const Json&)> names_histogram = [&](const Json& json) {
    if (json.is_string()) return json.get_ref<const std::string&>() == "HistogramObserver";
    return json.is_structured() && std::any_of(json.begin(), json.end(), names_histogram);
  };
  const bool may_change = options.recipe.empty() || !names_histogram(recipe);
  if (recipe.is_object() && !recipe.contains("mergeable") && may_change) recipe["mergeable"] = true;
  return recipe;
}

std::unique_ptr<Quantizer> open_recipe(const Json& recipe, const QuantizerOptions& options) {
  return parse_recipe(recipe, options.recipe.empty() ? "the quantizer" : options.recipe);
}

const RuntimeProfile* apply_profile(const QuantizerOptions& options, const std::string& output, OnnxOptions& onnx) {
  if (options.runtime.empty()) return nullptr;
  const RuntimeProfile& profile = runtime_profile(options.runtime);
  if (!output.ends_with(profile.ending))
    throw CLI::ValidationError("-o " + output, concat(profile.runtime, " (--for ", profile.name,
                                                      ") reads files that end in ", profile.ending));
  const OnnxOptions wanted = onnx;
  onnx = of_words([&] { return onnx_options_of(profile, settings_of(options)); });
  onnx.external_data = wanted.external_data;
  onnx.dedicated_pairs = wanted.dedicated_pairs;
  onnx.accuracy_level = wanted.accuracy_level;
  onnx.groups = wanted.groups;
  onnx.format = wanted.format;
  return &profile;
}

std::unique_ptr<Quantizer> open_quantizer(const QuantizerOptions& options, Host& host) {
  return open_recipe(read_recipe(options, host), options);
}

}  // namespace qdq
