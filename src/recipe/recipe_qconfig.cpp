// Reading QConfigs.
#include "recipe/recipe_qconfig.h"

#include <algorithm>

#include "format/json.h"
#include "recipe/recipe_schema.h"

namespace qdq {

namespace {

using format::Fields;
using format::Json;
using format::json_as;

// Refuses arguments that do nothing without others; an observer of one's own reads all.
void check_qconfig_arguments(const ObserverWithArgs& observer, const std::string& what) {
  const auto has = [&](std::string_view name) {
    return std::any_of(observer.args.begin(), observer.args.end(), [&](const auto& arg) { return arg.first == name; });
  };
  QDQ_CHECK(observer.custom || has("quant_min") == has("quant_max"), kInvalidArgument, what,
            " bounds only one of quant_min and quant_max, which does nothing; give both, or none for all integers of "
            "the dtype");
  const bool is_fixed = observer.class_name.starts_with("FixedQParams") && !observer.observer;
  QDQ_CHECK(!is_fixed || (has("scale") && has("zero_point")), kInvalidArgument, what, " is ", observer.class_name,
            ", which cannot work without the arguments scale and zero_point");
}

ObserverWithArgs parse_observer(const Json& json, const std::string& what, const RecipeExtensions& extensions) {
  const Fields fields(json, what);
  ObserverWithArgs out;
  if (const Json* number = fields.find("custom")) {
    QDQ_CHECK(extensions.observer, kInvalidArgument, what, " is a function, which only JavaScript can give");
    out.class_name = "MinMaxObserver";  // whose arguments it has
    out.custom_number = json_as<int64_t>(*number, fields.where("custom"));
    out.custom = [make = extensions.observer, n = out.custom_number](const ObserverArgs& args) {
      return make(n, args);
    };
  } else {
    out.class_name = fields.required<std::string>("class");
  }
  if (const Json* args = fields.find("args")) {
    const std::string where = fields.where("args");
    for (const auto& [name, value] : args->items()) {
      if (name == "observer") {
        QDQ_CHECK(!value.contains("custom"), kInvalidArgument, "the observer inside of ", what,
                  " is a function; give one in the place of the fake quantizer, whose object has fakeQuantize(tensor)");
        out.observer = std::make_shared<ObserverWithArgs>(
            parse_observer(value, concat("the observer inside of ", what), extensions));
      } else if (value.is_boolean()) out.args.emplace_back(name, value.get<bool>());
      else if (value.is_number_integer()) out.args.emplace_back(name, value.get<int64_t>());
      else if (value.is_string()) out.args.emplace_back(name, value.get<std::string>());
      else if (!value.is_null())
        out.args.emplace_back(name, json_as<double>(value, concat("the argument ", name, " in ", where)));
    }
  }
  fields.reject_unknown();
  check_qconfig_arguments(out, what);
  out.settings();
  return out;
}

// The entries of a section: lists whose first items are names and whose last is a qconfig.
std::vector<std::vector<Json>> entries(const Fields& fields, const char* section) {
  return fields.optional(section, std::vector<std::vector<Json>>());
}

OptionalQConfig qconfig_of(const Json& json, const std::string& what, const RecipeExtensions& extensions) {
  if (json.is_null()) return std::nullopt;
  const Fields fields(json, what);
  QConfig out;
  if (fields.find("named")) {
    out = named_qconfig(fields.required<std::string>("named"));
  } else {
    for (auto [name, place] : {std::pair("activation", &out.activation), std::pair("weight", &out.weight)})
      if (const Json* observer = fields.find_value(name))
        *place = parse_observer(*observer, concat("the ", name, " observer of ", what), extensions);
    QDQ_CHECK(out.activation || out.weight, kInvalidArgument, what,
              " must have \"named\", or \"activation\" and \"weight\"");
  }
  fields.reject_unknown();
  return out;
}

}  // namespace

QConfigMapping parse_qconfig_mapping(const Json& json, const std::string& what, bool is_qat,
                                     const RecipeExtensions& extensions) {
  check_form(json, "Mapping", what);
  const Fields fields(json, what);
  QConfigMapping out;
  if (fields.find("default")) {
    const auto backend = fields.required<std::string>("default");
    out = is_qat ? get_default_qat_qconfig_mapping(backend, fields.optional<int64_t>("version", 1))
                 : get_default_qconfig_mapping(backend, fields.optional<int64_t>("version", 0));
  }
  if (const Json* global = fields.find("global"))
    out.set_global(qconfig_of(*global, fields.where("global"), extensions));
  using Set = QConfigMapping& (QConfigMapping::*)(const std::string&, OptionalQConfig);
  for (const auto& [section, set] :
       {std::pair<const char*, Set>("object_type", &QConfigMapping::set_object_type),
        std::pair<const char*, Set>("module_name_regex", &QConfigMapping::set_module_name_regex),
        std::pair<const char*, Set>("module_name", &QConfigMapping::set_module_name)})
    for (const std::vector<Json>& entry : entries(fields, section)) {
      const auto key = entry[0].get<std::string>();
      (out.*set)(key, qconfig_of(entry[1], concat("the qconfig of ", key), extensions));
    }
  for (const std::vector<Json>& entry : entries(fields, "module_name_object_type_order")) {
    const std::string where = fields.where("module_name_object_type_order");
    const auto type = json_as<std::string>(entry[1], where);
    out.set_module_name_object_type_order(entry[0].get<std::string>(), type, json_as<int64_t>(entry[2], where),
                                          qconfig_of(entry[3], concat("the qconfig of a call of ", type), extensions));
  }
  fields.reject_unknown();
  return out;
}

}  // namespace qdq
