// FX graph mode as JSON: its quantizer, and PrepareCustomConfigs.
#pragma once

#include <memory>
#include <string>

#include "format/json.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "recipe/recipe.h"

namespace qdq {

// {"standalone_module_name": [STANDALONE], "standalone_module_class": [STANDALONE],
//  "non_traceable_module_name": [name], "non_traceable_module_class": [class],
//  "input_quantized_idxs": [index], "output_quantized_idxs": [index]}
// where STANDALONE is {"module": name or class, "qconfig_mapping"?, "prepare_custom_config"?, "backend_config"?}, as
// parse_qconfig_mapping (with `is_qat`), this function and parse_backend_config read them. `what` names the JSON in
// errors. Throws Error{kInvalidArgument} for what is not of this form.
PrepareCustomConfig parse_prepare_custom_config(const format::Json& json, const std::string& what, bool is_qat = false,
                                                const RecipeExtensions& extensions = {});

// Of a recipe whose quantizer is QConfigMapping, its fields "qconfig_mapping", "is_qat", "backend_config" and
// "prepare_custom_config". Throws as the functions above.
std::unique_ptr<QConfigMappingQuantizer> parse_fx(const format::Fields& fields, Compat compat,
                                                  const RecipeExtensions& extensions);

}  // namespace qdq
