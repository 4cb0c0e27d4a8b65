// Settings of FX graph mode as JSON, to be compared with PyTorch's.
#pragma once

#include "format/json_fwd.h"
#include "quant/fx/backend_config.h"
#include "quant/fx/qconfig_mapping.h"

namespace qdq {

// The form of recipes (recipe/recipe_qconfig.h) without `default` and names of qconfigs: every section, observers with
// those arguments that were given.
format::Json json_of(const OptionalQConfig& qconfig);
format::Json json_of(const QConfigMapping& mapping);
// The form of recipes (recipe/recipe_backend_config.h), with every pattern in its complex format.
format::Json json_of(const BackendConfig& config);

}  // namespace qdq
