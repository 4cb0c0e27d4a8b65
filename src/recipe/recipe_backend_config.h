// Backend configs from JSON.
#pragma once

#include <string>

#include "format/json_fwd.h"
#include "quant/fx/backend_config.h"

namespace qdq {

// The name of one of PyTorch's ("native", "qnnpack", ...), or
// {"name": text, "base": name of one of PyTorch's, "configs": [{"pattern": type or [type, type, ...],
//  "observation_type", "dtype_configs": [{"input_dtype", "output_dtype", "weight_dtype", "bias_dtype", "is_dynamic"}],
//  "root_module", "fused_module", "num_tensor_args_to_observation_type": {"1": ...}}]}
// where a dtype is a name or {"dtype", "quant_min_lower_bound", "quant_max_upper_bound", "scale_min_lower_bound",
// "scale_max_upper_bound", "scale_exact_match", "zero_point_exact_match"}, and "pattern_complex_format": [type, input,
// ...] may stand for the pattern. The configs of "base" come first; one with the same pattern takes its place.
// `what` names the JSON in errors. Throws Error{kInvalidArgument} for what is not of this form.
BackendConfig parse_backend_config(const format::Json& json, const std::string& what);

}  // namespace qdq
