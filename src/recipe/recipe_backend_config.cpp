// Reading backend configs.
#include "recipe/recipe_backend_config.h"

#include <charconv>

#include "format/json.h"
#include "recipe/recipe_schema.h"

namespace qdq {

namespace {

using format::Fields;
using format::Json;
using format::json_as;

std::string dtype_from(const Json& json, const std::string& where) {
  const auto name = json_as<std::string>(json, where);
  ObserverArgs settings;
  set_dtype(settings, name == "float" ? "float32" : name);
  return quantized_dtype(settings);
}

DTypeWithConstraints constrained_dtype(const Fields& fields, const char* key) {
  DTypeWithConstraints out;
  const Json* json = fields.find(key);
  if (json == nullptr || json->is_null()) return out;
  if (!json->is_object()) {
    out.dtype = dtype_from(*json, fields.where(key));
    return out;
  }
  const Fields dtype(*json, fields.where(key));
  out.dtype = dtype_from(dtype.required<Json>("dtype"), dtype.where("dtype"));
  const auto read = [&](const char* name, auto& place) {
    if (const Json* value = dtype.find_value(name))
      place = json_as<typename std::decay_t<decltype(place)>::value_type>(*value, dtype.where(name));
  };
  read("quant_min_lower_bound", out.quant_min_lower_bound);
  read("quant_max_upper_bound", out.quant_max_upper_bound);
  read("scale_min_lower_bound", out.scale_min_lower_bound);
  read("scale_max_upper_bound", out.scale_max_upper_bound);
  read("scale_exact_match", out.scale_exact_match);
  read("zero_point_exact_match", out.zero_point_exact_match);
  dtype.reject_unknown();
  return out;
}

DTypeConfig dtype_config_of(const Json& json, const std::string& what) {
  const Fields fields(json, what);
  DTypeConfig out;
  out.input_dtype = constrained_dtype(fields, "input_dtype");
  out.output_dtype = constrained_dtype(fields, "output_dtype");
  out.weight_dtype = constrained_dtype(fields, "weight_dtype");
  if (const Json* bias = fields.find_value("bias_dtype"))
    out.bias_dtype = dtype_from(*bias, fields.where("bias_dtype"));
  out.is_dynamic = fields.optional<bool>("is_dynamic", false);
  fields.reject_unknown();
  return out;
}

BackendPattern complex_pattern(const Json& json, const std::string& where, int depth) {
  constexpr int kMaxDepth = 8;
  if (json.is_string()) return {json.get<std::string>(), {}};
  QDQ_CHECK(json.is_array() && !json.empty() && json[0].is_string() && depth < kMaxDepth, kInvalidArgument, where,
            " must be a type, or a list of a type and what its inputs come from, at most ", kMaxDepth, " deep");
  BackendPattern out{json[0].get<std::string>(), {}};
  for (size_t i = 1; i < json.size(); ++i) out.inputs.push_back(complex_pattern(json[i], where, depth + 1));
  return out;
}

BackendPattern pattern_from(const Fields& fields) {
  if (const Json* complex = fields.find("pattern_complex_format")) {
    QDQ_CHECK(!fields.find("pattern"), kInvalidArgument, fields.where("pattern"),
              " and pattern_complex_format are given; one says it all");
    return complex_pattern(*complex, fields.where("pattern_complex_format"), 0);
  }
  const Json pattern = fields.required<Json>("pattern");
  if (pattern.is_string()) return {pattern.get<std::string>(), {}};
  return pattern_of_sequence(json_as<std::vector<std::string>>(pattern, fields.where("pattern")));
}

BackendPatternConfig pattern_config_of(const Json& json, const std::string& what) {
  const Fields fields(json, what);
  BackendPatternConfig out;
  out.pattern = pattern_from(fields);
  if (fields.find("observation_type"))
    out.observation_type = observation_type_from_name(fields.required<std::string>("observation_type"));
  const std::string where = fields.where("dtype_configs");
  for (const Json& config : fields.required<std::vector<Json>>("dtype_configs"))
    out.dtype_configs.push_back(dtype_config_of(config, concat("entry ", out.dtype_configs.size(), " of ", where)));
  out.root_module = fields.optional<std::string>("root_module", "");
  out.fused_module = fields.optional<std::string>("fused_module", "");
  if (const Json* types = fields.find("num_tensor_args_to_observation_type")) {
    const std::string place = fields.where("num_tensor_args_to_observation_type");
    for (const auto& [count, type] : types->items()) {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), number);
      QDQ_CHECK(error == std::errc() && end == count.data() + count.size() && number >= 0, kInvalidArgument, place,
                " has the key '", count, "'; wanted a number of tensors");
      out.num_tensor_args_to_observation_type.emplace_back(
          number, observation_type_from_name(json_as<std::string>(type, place)));
    }
  }
  fields.reject_unknown();
  return out;
}

}  // namespace

BackendConfig parse_backend_config(const Json& json, const std::string& what) {
  check_form(json, "BackendConfig", what);
  if (json.is_string()) return get_backend_config(json.get<std::string>());
  const Fields fields(json, what);
  BackendConfig out;
  if (fields.find("base")) out = get_backend_config(fields.required<std::string>("base"));
  out.name = fields.optional<std::string>("name", "");
  const std::string where = fields.where("configs");
  size_t number = 0;
  for (const Json& config : fields.required<std::vector<Json>>("configs"))
    out.set_backend_pattern_config(pattern_config_of(config, concat("entry ", number++, " of ", where)));
  fields.reject_unknown();
  return out;
}

}  // namespace qdq
