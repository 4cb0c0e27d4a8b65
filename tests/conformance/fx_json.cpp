#include "conformance/fx_json.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "format/json.h"

namespace qdq {

namespace {

using format::Json;

Json json_of_observer(const std::optional<ObserverWithArgs>& observer) {
  if (!observer) return nullptr;
  Json out = Json::object(), args = Json::object();
  out["class"] = observer->class_name;
  for (const auto& [name, value] : observer->args)
    std::visit([&, &key = name](const auto& v) { args[key] = v; }, value);
  if (observer->observer) args["observer"] = json_of_observer(*observer->observer);
  if (!args.empty()) out["args"] = std::move(args);
  return out;
}

Json json_of_dtype(const DTypeWithConstraints& dtype) {
  if (dtype == DTypeWithConstraints{.dtype = dtype.dtype}) return dtype.dtype;
  Json out = Json::object();
  out["dtype"] = dtype.dtype;
  const auto write = [&](const char* name, const auto& value) {
    if (value) out[name] = *value;
  };
  write("quant_min_lower_bound", dtype.quant_min_lower_bound);
  write("quant_max_upper_bound", dtype.quant_max_upper_bound);
  write("scale_min_lower_bound", dtype.scale_min_lower_bound);
  write("scale_max_upper_bound", dtype.scale_max_upper_bound);
  write("scale_exact_match", dtype.scale_exact_match);
  write("zero_point_exact_match", dtype.zero_point_exact_match);
  return out;
}

Json json_of_dtypes(const DTypeConfig& config) {
  Json out = Json::object();
  for (const auto& [name, dtype] :
       {std::pair("input_dtype", &config.input_dtype), std::pair("output_dtype", &config.output_dtype),
        std::pair("weight_dtype", &config.weight_dtype)})
    if (!dtype->dtype.empty()) out[name] = json_of_dtype(*dtype);
  if (!config.bias_dtype.empty()) out["bias_dtype"] = config.bias_dtype;
  if (config.is_dynamic) out["is_dynamic"] = true;
  return out;
}

Json json_of_pattern(const BackendPattern& pattern) {
  if (pattern.inputs.empty()) return pattern.type;
  Json out = Json::array({pattern.type});
  for (const BackendPattern& input : pattern.inputs) out.push_back(json_of_pattern(input));
  return out;
}

}  // namespace

Json json_of(const OptionalQConfig& qconfig) {
  if (!qconfig) return nullptr;
  Json out = Json::object();
  out["activation"] = json_of_observer(qconfig->activation);
  out["weight"] = json_of_observer(qconfig->weight);
  return out;
}

Json json_of(const QConfigMapping& mapping) {
  Json out = Json::object();
  out["global"] = json_of(mapping.global());
  for (const auto& [section, settings] : {std::pair("object_type", &mapping.object_types()),
                                          std::pair("module_name_regex", &mapping.module_name_regexes()),
                                          std::pair("module_name", &mapping.module_names())}) {
    Json list = Json::array();
    for (const QConfigMapping::Setting& s : *settings) list.push_back(Json::array({s.key, json_of(s.qconfig)}));
    out[section] = std::move(list);
  }
  Json orders = Json::array();
  for (const QConfigMapping::OrderSetting& s : mapping.module_name_object_type_orders())
    orders.push_back(Json::array({s.module_name, s.object_type, s.index, json_of(s.qconfig)}));
  out["module_name_object_type_order"] = std::move(orders);
  return out;
}

Json json_of(const BackendConfig& config) {
  Json configs = Json::array();
  for (const BackendPatternConfig& pattern : config.configs) {
    Json entry = Json::object();
    entry["pattern_complex_format"] = json_of_pattern(pattern.pattern);
    entry["observation_type"] = to_string(pattern.observation_type);
    Json dtypes = Json::array();
    for (const DTypeConfig& dtype : pattern.dtype_configs) dtypes.push_back(json_of_dtypes(dtype));
    entry["dtype_configs"] = std::move(dtypes);
    if (!pattern.root_module.empty()) entry["root_module"] = pattern.root_module;
    if (!pattern.fused_module.empty()) entry["fused_module"] = pattern.fused_module;
    for (const auto& [count, type] : pattern.num_tensor_args_to_observation_type)
      entry["num_tensor_args_to_observation_type"][std::to_string(count)] = to_string(type);
    configs.push_back(std::move(entry));
  }
  Json out = Json::object();
  out["name"] = config.name;
  out["configs"] = std::move(configs);
  return out;
}

}  // namespace qdq
