// Recipes: from JSON to quantizers and annotations.
#include "recipe/recipe.h"

#include <algorithm>
#include <deque>
#include <map>

#include "format/bytes.h"
#include "format/json.h"
#include "lower/lower.h"
#include "quant/quantizers/quantizers.h"
#include "recipe/recipe_fx.h"
#include "recipe/recipe_schema.h"
#include "recipe/recipe_specs.h"

namespace qdq {

namespace {

using format::Fields;
using format::Json;
using format::json_as;

Compat compat_of(const Fields& fields) {
  return fields.optional<std::string>("compat", "qdq") == "torch-2.6" ? Compat::kTorch26 : Compat::kNone;
}

// {"input_activation": QSPEC, "output_activation": QSPEC, "weight": QSPEC, "bias": QSPEC}: specs instead of options;
// nothing if these fields are not there.
std::optional<QuantizationConfig> explicit_config_of(const Fields& fields, const RecipeExtensions& extensions) {
  QuantizationConfig out;
  bool found = false;
  for (auto [name, place] :
       {std::pair("input_activation", &out.input_activation), std::pair("output_activation", &out.output_activation),
        std::pair("weight", &out.weight), std::pair("bias", &out.bias)}) {
    const Json* value = fields.find(name);
    found = found || value;
    if (value == nullptr || value->is_null()) continue;
    const NamedQSpec spec = spec_of(*value, fields.where(name), extensions);
    *place = std::get<QuantizationSpec>(spec);
  }
  if (!found) return std::nullopt;
  out.is_qat = fields.optional<bool>("is_qat", false);
  fields.reject_unknown();
  return out;
}

// "auto" is true where this processor's products of u8 and s8 saturate.
bool reduce_range_of(const Fields& fields) {
  const Json* value = fields.find("reduce_range");
  if (value == nullptr || !value->is_string()) return fields.optional<bool>("reduce_range", false);
  return int8_products_saturate();
}

std::optional<QuantizationConfig> symmetric_config_of(const Json& json, const std::string& where,
                                                      const RecipeExtensions& extensions) {
  if (json.is_null()) return std::nullopt;
  const Fields fields(json, where);
  if (auto config = explicit_config_of(fields, extensions)) return config;
  SymmetricConfigOptions options;
  options.is_per_channel = fields.optional<bool>("is_per_channel", options.is_per_channel);
  options.is_qat = fields.optional<bool>("is_qat", options.is_qat);
  options.is_dynamic = fields.optional<bool>("is_dynamic", options.is_dynamic);
  options.act_qmin = fields.optional<int64_t>("act_qmin", options.act_qmin);
  options.act_qmax = fields.optional<int64_t>("act_qmax", options.act_qmax);
  options.weight_qmin = fields.optional<int64_t>("weight_qmin", options.weight_qmin);
  options.weight_qmax = fields.optional<int64_t>("weight_qmax", options.weight_qmax);
  options.reduce_range = reduce_range_of(fields);
  // "auto" is refused on every processor alike.
  const bool may_reduce = options.reduce_range || (fields.find("reduce_range") && json.at("reduce_range").is_string());
  QDQ_CHECK(!may_reduce || (!fields.find("weight_qmin") && !fields.find("weight_qmax")), kInvalidArgument,
            fields.where("reduce_range"), " means weights in -64..63; leave out weight_qmin and weight_qmax");
  fields.reject_unknown();
  return get_symmetric_quantization_config(options);
}

std::optional<QuantizationConfig> x86_config_of(const Json& json, const std::string& where,
                                                const RecipeExtensions& extensions) {
  if (json.is_null()) return std::nullopt;
  const Fields fields(json, where);
  if (fields.find("config")) {
    fields.reject_unknown();
    return get_x86_inductor_linear_dynamic_fp16_config();
  }
  if (auto config = explicit_config_of(fields, extensions)) return config;
  X86InductorConfigOptions options;
  options.is_qat = fields.optional<bool>("is_qat", false);
  options.is_dynamic = fields.optional<bool>("is_dynamic", false);
  options.reduce_range = reduce_range_of(fields);
  fields.reject_unknown();
  return get_default_x86_inductor_quantization_config(options);
}

using ReadConfig = std::function<std::optional<QuantizationConfig>(const Json&, const std::string&)>;
using Setter = std::function<void(const std::string& key, std::optional<QuantizationConfig> config)>;
struct Section {
  std::string name;
  Setter set;  // the key is empty for "global"
};

// "torch.nn.Linear", not "torch.nn.functional.linear" or "torch.ops.aten.linear": classes begin with a capital.
bool is_module_class(const std::string& type) {
  const size_t last = type.rfind('.') + 1;  // 0 without a dot
  return last < type.size() && type[last] >= 'A' && type[last] <= 'Z';
}

// Calls the setters for the sections that the recipe has, in PyTorch's usual order or in that of the field `order`.
void apply_sections(const Fields& fields, const ReadConfig& read, std::vector<Section> sections) {
  std::vector<std::string> order = {"global",      "object_type",   "function_type",
                                    "module_type", "operator_type", "module_name"};
  if (fields.find("order")) {
    const auto first = fields.required<std::vector<std::string>>("order");
    std::vector<std::string> rest;
    for (const std::string& name : order)
      if (std::find(first.begin(), first.end(), name) == first.end()) rest.push_back(name);
    order = first;
    order.insert(order.end(), rest.begin(), rest.end());
  }
  for (const std::string& name : order) {
    const auto section =
        std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == name; });
    const Json* value = section == sections.end() ? nullptr : fields.find(name);
    if (value == nullptr) continue;
    if (name == "global") {
      section->set("", read(*value, fields.where(name)));
      continue;
    }
    for (const Json& entry : *value)
      section->set(entry[0].get<std::string>(), read(entry[1], concat("the config of ", entry[0].get<std::string>())));
  }
}

// The filter function of a recipe; empty if it has none.
NodeFilter filter_of(const Fields& fields, const RecipeExtensions& extensions) {
  if (!fields.find("filter_function")) return {};
  QDQ_CHECK(extensions.filter, kInvalidArgument, fields.where("filter_function"),
            " is a function, which only JavaScript can give");
  const Fields custom = fields.object("filter_function");
  const auto number = custom.required<int64_t>("custom");
  custom.reject_unknown();
  return [ask = extensions.filter, number](const Node& node) { return ask(number, node); };
}

std::unique_ptr<Quantizer> xnnpack_of(const Fields& fields, Compat compat, const RecipeExtensions& extensions) {
  auto quantizer = std::make_unique<XNNPACKQuantizer>(compat);
  XNNPACKQuantizer& q = *quantizer;
  apply_sections(
      fields, [&](const Json& json, const std::string& where) { return symmetric_config_of(json, where, extensions); },
      {{"global", [&q](const std::string&, auto config) { q.set_global(std::move(config)); }},
       {"module_type", [&q](const std::string& key, auto config) { q.set_module_type(key, std::move(config)); }},
       {"operator_type", [&q](const std::string& key, auto config) { q.set_operator_type(key, std::move(config)); }},
       {"function_type", [&q](const std::string& key, auto config) { q.set_operator_type(key, std::move(config)); }},
       {"object_type",
        [&q](const std::string& key, auto config) {
          if (is_module_class(key)) q.set_module_type(key, std::move(config));
          else q.set_operator_type(key, std::move(config));
        }},
       {"module_name", [&q](const std::string& key, auto config) { q.set_module_name(key, std::move(config)); }}});
  q.set_filter_function(filter_of(fields, extensions));
  return quantizer;
}

std::unique_ptr<Quantizer> x86_of(const Fields& fields, Compat compat, const RecipeExtensions& extensions) {
  auto quantizer = std::make_unique<X86InductorQuantizer>(compat);
  X86InductorQuantizer& q = *quantizer;
  apply_sections(fields,
                 [&](const Json& json, const std::string& where) { return x86_config_of(json, where, extensions); },
                 {{"global", [&q](const std::string&, auto config) { q.set_global(std::move(config)); }},
                  {"function_type",
                   [&q](const std::string& key, auto config) { q.set_function_type_qconfig(key, std::move(config)); }},
                  {"operator_type",
                   [&q](const std::string& key, auto config) { q.set_function_type_qconfig(key, std::move(config)); }},
                  {"object_type",
                   [&q](const std::string& key, auto config) { q.set_function_type_qconfig(key, std::move(config)); }},
                  {"module_type",
                   [&q](const std::string& key, auto config) { q.set_module_type_qconfig(key, std::move(config)); }},
                  {"module_name",
                   [&q](const std::string& key, auto config) { q.set_module_name_qconfig(key, std::move(config)); }}});
  q.set_filter_function(filter_of(fields, extensions));
  return quantizer;
}

std::unique_ptr<Quantizer> qconfig_mapping_of(const Fields& fields, Compat compat, const RecipeExtensions& extensions) {
  std::unique_ptr<QConfigMappingQuantizer> quantizer = parse_fx(fields, compat, extensions);
  quantizer->set_filter_function(filter_of(fields, extensions));
  return quantizer;
}

// [{"node": name, "attributes": {"quant_max": 127}}, {"edge": [producer, consumer], "attributes": {...}}]
std::vector<ObserverOverride> overrides_of(const Fields& fields) {
  std::vector<ObserverOverride> out;
  if (!fields.find("observer_overrides")) return out;
  for (const Json& entry : fields.required<std::vector<Json>>("observer_overrides")) {
    const std::string where = concat("entry ", out.size(), " of ", fields.where("observer_overrides"));
    Json place = entry;
    place.erase("attributes");
    ObserverOverride override{edge_or_node_of(place, where), {}};
    const Fields whole(entry, where);
    const Fields attributes = whole.object("attributes");
    for (const auto& [name, value] : entry["attributes"].items()) {
      AttributeValue to;
      if (value.is_boolean()) to = value.get<bool>();
      else if (value.is_number_integer()) to = value.get<int64_t>();
      else if (value.is_string()) to = value.get<std::string>();
      else to = json_as<double>(value, attributes.where(name));
      override.attributes.emplace_back(name, to);
    }
    out.push_back(std::move(override));
  }
  return out;
}

std::unique_ptr<Quantizer> annotations_quantizer_of(const Fields& fields, Compat compat,
                                                    const RecipeExtensions& extensions) {
  const bool convert_scalars = fields.optional<std::string>("transform", "") == "convert_scalars_to_attrs";
  const Json empty = Json::array();
  const Json* list = fields.find("annotations");
  return std::make_unique<AnnotationQuantizer>(
      annotations_of(list ? *list : empty, fields.where("annotations"), extensions), convert_scalars, compat);
}

// The value of the table's entry of that name, or of its first one.
template <class T, size_t n>
T named_value(const Fields& fields, const std::string& key, const std::pair<std::string_view, T> (&known)[n]) {
  const auto name = fields.optional<std::string>(key, std::string(known[0].first));
  for (const auto& [word, value] : known)
    if (word == name) return value;
  fail(ErrorCode::kInternal, fields.where(key), " is '", name, "', which the parser does not know");
}

// {"name", "operators": [name or [name, ...], ...], "inputs"?, "output"?, "modes"?, "only_float32"?,
// "only_global_pools"?, "note"?}. The texts of the row live in `texts`.
PatternRow pattern_row_of(const Json& json, const std::string& where, std::deque<std::string>& texts) {
  constexpr std::pair<std::string_view, Inputs> kInputs[] = {{"quantized", Inputs::kQuantized},
                                                             {"like_producer", Inputs::kLikeProducer},
                                                             {"handed_on", Inputs::kHandedOn},
                                                             {"behind_quantized", Inputs::kBehindQuantized},
                                                             {"all_behind_quantized", Inputs::kAllBehindQuantized}};
  constexpr std::pair<std::string_view, Output> kOutputs[] = {
      {"quantized", Output::kQuantized}, {"like_input", Output::kLikeInput}, {"float", Output::kFloat}};
  const Fields fields(json, where);
  PatternRow row;
  row.name = texts.emplace_back(fields.required<std::string>("name"));
  row.note = texts.emplace_back(fields.optional<std::string>("note", ""));
  row.only_float32 = fields.optional<bool>("only_float32", false);
  if (fields.optional<bool>("only_global_pools", false)) row.obstacle = why_not_global_pool;
  if (const Json* output = fields.find("output"); output && output->is_object()) {
    const NamedQSpec spec = spec_of(*output, fields.where("output"), {});
    row.fixed_output = std::get<FixedQParamsQuantizationSpec>(spec);
  } else {
    row.output = named_value(fields, "output", kOutputs);
  }
  const auto places = fields.required<std::vector<Json>>("operators");
  QDQ_CHECK(places.size() <= row.places.size(), kInternal, "the schema of recipes allows more than ", row.places.size(),
            " places");
  for (size_t i = 0; i < places.size(); ++i) {
    std::string& words = texts.emplace_back();
    const auto names = places[i].is_array() ? json_as<std::vector<std::string>>(places[i], fields.where("operators"))
                                            : std::vector{json_as<std::string>(places[i], fields.where("operators"))};
    for (const std::string& name : names) words += concat(words.empty() ? "" : " ", name);
    row.places[i].operators = words;
  }
  row.places[0].inputs = named_value(fields, "inputs", kInputs);
  if (fields.find("modes")) {
    row.modes = 0;
    for (const auto& mode : fields.required<std::vector<std::string>>("modes"))
      row.modes |= mode == "static" ? kStatic : mode == "dynamic" ? kDynamic : kQat;
    if ((row.modes & kDynamic) != 0 && (row.modes & kQat) != 0) row.modes |= kDynamicQat;
  }
  fields.reject_unknown();
  return row;
}

std::unique_ptr<Quantizer> pattern_quantizer_of(const Fields& fields, Compat compat,
                                                const RecipeExtensions& extensions) {
  QDQ_CHECK(compat == Compat::kNone, kInternal, "a PatternQuantizer has PyTorch's matching");
  std::deque<std::string> texts;
  std::vector<PatternRow> rows;
  for (const Json& pattern : fields.required<std::vector<Json>>("patterns"))
    rows.push_back(pattern_row_of(pattern, concat("pattern ", rows.size(), " of ", fields.where("patterns")), texts));
  auto quantizer = std::make_unique<PatternQuantizer>(fields.optional<std::string>("name", "PatternQuantizer"), rows);
  PatternQuantizer& q = *quantizer;
  apply_sections(
      fields, [&](const Json& json, const std::string& where) { return symmetric_config_of(json, where, extensions); },
      {{"global", [&q](const std::string&, auto config) { q.set_global(std::move(config)); }},
       {"module_name", [&q](const std::string& key, auto config) { q.set_module_name(key, std::move(config)); }}});
  q.set_filter_function(filter_of(fields, extensions));
  q.set_split_silu(fields.optional<std::string>("transform", "") == "split_silu");
  return quantizer;
}

std::unique_ptr<Quantizer> composable_of(const Fields& fields, const std::string& what,
                                         const RecipeExtensions& extensions) {
  std::vector<std::unique_ptr<Quantizer>> quantizers;
  const auto recipes = fields.required<std::vector<Json>>("quantizers");
  for (const Json& recipe : recipes) {
    Json inner = recipe;
    // A compat setting of the whole holds for its parts.
    if (const Json* compat = fields.find("compat"); compat && inner.is_object() && !inner.contains("compat"))
      inner["compat"] = *compat;
    quantizers.push_back(parse_recipe(inner, concat("quantizer ", quantizers.size(), " of ", what), extensions));
  }
  return std::make_unique<ComposableQuantizer>(std::move(quantizers));
}

}  // namespace

std::unique_ptr<Quantizer> parse_recipe(const Json& recipe, const std::string& what,
                                        const RecipeExtensions& extensions) {
  const auto name = Fields(recipe, what).required<std::string>("quantizer");
  const bool is_javascript = name == "JavaScript" && extensions.quantizer;
  if (!is_javascript) {
    check_quantizer(name, what);
    check_form(recipe, name, what);
  }
  const Json plain = without_comments(recipe);
  const Fields fields(plain, what);
  for (const char* read_above : {"quantizer", "$schema"}) fields.find(read_above);
  const Compat compat = compat_of(fields);
  std::unique_ptr<Quantizer> out;
  if (name == "XNNPACKQuantizer") out = xnnpack_of(fields, compat, extensions);
  else if (name == "X86InductorQuantizer") out = x86_of(fields, compat, extensions);
  else if (name == "QConfigMapping") out = qconfig_mapping_of(fields, compat, extensions);
  else if (name == "PatternQuantizer") out = pattern_quantizer_of(fields, compat, extensions);
  else if (name == "EmbeddingQuantizer") out = std::make_unique<EmbeddingQuantizer>(compat);
  else if (name == "AnnotationQuantizer") out = annotations_quantizer_of(fields, compat, extensions);
  else if (name == "ComposableQuantizer") out = composable_of(fields, what, extensions);
  else if (is_javascript)
    out = extensions.quantizer(fields.required<int64_t>("number"),
                               fields.optional<std::string>("name", "a JavaScript quantizer"));
  QDQ_CHECK(out, kInternal, "nothing makes the quantizer ", name);
  out->set_observer_overrides(overrides_of(fields));
  if (fields.find("histogram_observer"))
    out = std::make_unique<MergeableQuantizer>(std::move(out), fields.required<std::string>("histogram_observer"));
  if (fields.optional<bool>("mergeable", false)) out = std::make_unique<MergeableQuantizer>(std::move(out));
  fields.reject_unknown();
  return out;
}

std::unique_ptr<Quantizer> load_recipe(const std::string& path, Files& files) {
  return parse_recipe(format::parse_json(format::text_of(files.read(path)), path), path);
}

Pattern parse_pattern(const Json& json, const std::string& what) {
  const Fields fields(json, what);
  Pattern out;
  std::map<std::string, Node*> nodes;
  const auto add = [&](const std::string& name, Node* node) {
    QDQ_CHECK(nodes.emplace(name, node).second, kInvalidArgument, what, " has two nodes called '", name, "'");
    out.names.emplace_back(name, node);
  };
  const auto known = [&](const std::string& name) {
    const auto found = nodes.find(name);
    QDQ_CHECK(found != nodes.end(), kInvalidArgument, what, " uses the node '", name,
              "', which is not defined before it is used");
    return found->second;
  };
  const std::function<Argument(const Json&)> argument = [&](const Json& value) -> Argument {
    if (value.is_null()) return Argument();
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer()) return value.get<int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array()) {
      Argument::List list;
      for (const Json& element : value) list.push_back(argument(element));
      return list;
    }
    const Fields object(value, concat("an argument of ", what));
    Argument result;
    if (object.find("node")) {
      result = known(object.required<std::string>("node"));
    } else if (object.find("dtype")) {
      result = dtype_of(object);
    } else {
      const Json number = object.required<Json>("float");
      result = number.is_number() ? number.get<double>() : format::number_of_json(value, object.where("float"));
    }
    object.reject_unknown();
    return result;
  };
  for (const auto& input : fields.required<std::vector<std::string>>("inputs"))
    add(input, out.graph->create(Node::Op::kPlaceholder, input));
  for (const Json& node : fields.required<std::vector<Json>>("nodes")) {
    const Fields call(node, concat("node ", nodes.size(), " of ", what));
    std::vector<Argument> args;
    for (const Json& value : call.required<std::vector<Json>>("args")) args.push_back(argument(value));
    Node::Kwargs kwargs;
    if (const Json* given = call.find("kwargs"))
      for (const auto& [key, value] : given->items()) kwargs.emplace_back(key, argument(value));
    add(call.required<std::string>("name"),
        out.graph->call(call.required<std::string>("target"), std::move(args), std::move(kwargs)));
    call.reject_unknown();
  }
  Argument::List outputs;
  for (const auto& output : fields.required<std::vector<std::string>>("outputs")) outputs.push_back(known(output));
  out.graph->create(Node::Op::kOutput, "output", {Argument(std::move(outputs))}, {}, "output");
  fields.reject_unknown();
  return out;
}

void write_annotations(const Json& annotations, const std::string& quantizer, Program& program, Annotations& out,
                       const RecipeExtensions& extensions) {
  check_form(annotations, "Annotations", "the annotations of " + quantizer);
  std::vector<NamedAnnotation> named = annotations_of(annotations, "the annotations of " + quantizer, extensions);
  AnnotationQuantizer(std::move(named), false, Compat::kNone, quantizer).annotate(program, out);
}

}  // namespace qdq
