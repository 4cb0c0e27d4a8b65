// QConfigMappings from JSON.
#pragma once

#include <string>

#include "format/json_fwd.h"
#include "quant/fx/qconfig_mapping.h"
#include "recipe/recipe.h"

namespace qdq {

// {"default": "x86", "version": 0, "global": QCONFIG, "object_type": [[type, QCONFIG], ...],
//  "module_name_regex": [[regex, QCONFIG], ...], "module_name": [[name, QCONFIG], ...],
//  "module_name_object_type_order": [[module name, type, index, QCONFIG], ...]}
// where QCONFIG is null, {"named": name}, or {"activation": OBSERVER, "weight": OBSERVER} with OBSERVER = null or
// {"class": name, "args": {...}}, or of JavaScript {"custom": number, "args": {...}}. `default` starts from PyTorch's
// mapping for that backend, with `is_qat` from that for training. Sections are applied in that order. `what` names the
// JSON in errors. Throws Error{kInvalidArgument} for what is not of this form.
QConfigMapping parse_qconfig_mapping(const format::Json& json, const std::string& what, bool is_qat = false,
                                     const RecipeExtensions& extensions = {});

}  // namespace qdq
