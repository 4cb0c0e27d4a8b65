// Reading what FX graph mode is asked for.
#include "recipe/recipe_fx.h"

#include "format/json.h"
#include "recipe/recipe_backend_config.h"
#include "recipe/recipe_qconfig.h"
#include "recipe/recipe_schema.h"

namespace qdq {

namespace {

using format::Fields;
using format::Json;

constexpr int kMaxNesting = 16;

// What all that stands in a recipe is read with.
struct Reading {
  bool is_qat;
  const RecipeExtensions& extensions;
};

PrepareCustomConfig custom_config_of(const Json& json, const std::string& what, const Reading& reading, int depth);

PrepareCustomConfig::StandaloneModule standalone_of(const Json& json, const std::string& what, const Reading& reading,
                                                    int depth) {
  const Fields fields(json, what);
  PrepareCustomConfig::StandaloneModule out;
  out.module = fields.required<std::string>("module");
  if (const Json* mapping = fields.find_value("qconfig_mapping"))
    out.qconfig_mapping =
        parse_qconfig_mapping(*mapping, fields.where("qconfig_mapping"), reading.is_qat, reading.extensions);
  if (const Json* custom = fields.find_value("prepare_custom_config"))
    out.prepare_custom_config = std::make_shared<const PrepareCustomConfig>(
        custom_config_of(*custom, fields.where("prepare_custom_config"), reading, depth + 1));
  if (const Json* backend = fields.find_value("backend_config"))
    out.backend_config = parse_backend_config(*backend, fields.where("backend_config"));
  fields.reject_unknown();
  return out;
}

PrepareCustomConfig custom_config_of(const Json& json, const std::string& what, const Reading& reading, int depth) {
  QDQ_CHECK(depth < kMaxNesting, kInvalidArgument, what, " is inside more than ", kMaxNesting, " others");
  const Fields fields(json, what);
  PrepareCustomConfig out;
  for (auto [key, place] : {std::pair("standalone_module_name", &out.standalone_module_names),
                            std::pair("standalone_module_class", &out.standalone_module_classes)}) {
    if (!fields.find(key)) continue;
    for (const Json& entry : fields.required<std::vector<Json>>(key))
      place->push_back(
          standalone_of(entry, concat("entry ", place->size(), " of ", fields.where(key)), reading, depth));
  }
  const std::vector<std::string> no_names;
  const std::vector<int64_t> no_indexes;
  out.non_traceable_module_names = fields.optional("non_traceable_module_name", no_names);
  out.non_traceable_module_classes = fields.optional("non_traceable_module_class", no_names);
  out.input_quantized_indexes = fields.optional("input_quantized_idxs", no_indexes);
  out.output_quantized_indexes = fields.optional("output_quantized_idxs", no_indexes);
  fields.reject_unknown();
  return out;
}

}  // namespace

PrepareCustomConfig parse_prepare_custom_config(const Json& json, const std::string& what, bool is_qat,
                                                const RecipeExtensions& extensions) {
  check_form(json, "PrepareCustomConfig", what);
  return custom_config_of(json, what, {is_qat, extensions}, 0);
}

std::unique_ptr<QConfigMappingQuantizer> parse_fx(const Fields& fields, Compat compat,
                                                  const RecipeExtensions& extensions) {
  const auto mapping = fields.required<Json>("qconfig_mapping");
  const bool is_qat = fields.optional<bool>("is_qat", false);
  auto quantizer = std::make_unique<QConfigMappingQuantizer>(
      parse_qconfig_mapping(mapping, fields.where("qconfig_mapping"), is_qat, extensions), compat);
  const std::string where = fields.where("backend_config");
  if (const Json* backend = fields.find("backend_config"))
    quantizer->set_backend_config(parse_backend_config(*backend, where));
  else if (mapping.value("default", Json()) == "executorch")
    quantizer->set_backend_config(get_backend_config("executorch"));
  if (const Json* custom = fields.find("prepare_custom_config"))
    quantizer->set_prepare_custom_config(
        parse_prepare_custom_config(*custom, fields.where("prepare_custom_config"), is_qat, extensions));
  if (const Json* equalization = fields.find("equalization_config"))
    quantizer->set_equalization_config(
        parse_qconfig_mapping(*equalization, fields.where("equalization_config"), is_qat));
  return quantizer;
}

}  // namespace qdq
