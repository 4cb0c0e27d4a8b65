// Quantization specs and annotations as JSON; recipe.schema.json describes the forms.
#pragma once

#include <string>
#include <vector>

#include "format/json.h"
#include "quant/quantizers/annotation_quantizer.h"
#include "recipe/recipe.h"

namespace qdq {

// The field "dtype". Throws Error{kInvalidArgument} if it is absent or no data type.
DType dtype_of(const format::Fields& fields);

// {"edge": [producer, consumer]} or {"node": name}. `where` names the JSON in errors.
// Throws Error{kInvalidArgument} for what is not of this form.
NamedEdgeOrNode edge_or_node_of(const format::Json& json, const std::string& where);

// {"spec": "quantization" | "shared" | "fixed_qparams" | "derived", ...}; null is no spec.
// Throws Error{kInvalidArgument} for what is not of this form, and for fields that the spec does not read.
NamedQSpec spec_of(const format::Json& json, const std::string& where, const RecipeExtensions& extensions);

// [{"node": name, "inputs"?: [[name, SPEC], ...], "output"?: SPEC, ...}, ...]. Throws as spec_of does.
std::vector<NamedAnnotation> annotations_of(const format::Json& list, const std::string& what,
                                            const RecipeExtensions& extensions);

}  // namespace qdq
