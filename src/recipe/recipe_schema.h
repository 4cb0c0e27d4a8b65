// The form of recipes as data: recipe.schema.json, which the parser, editors and `qdq recipe` read.
#pragma once

#include <string>
#include <string_view>

#include "format/json_fwd.h"

namespace qdq {

// The schema of recipes as editors read it: JSON Schema, draft 7, with the words that qdq knows (dtypes, observers,
// QConfigs, ...) filled in.
format::Json recipe_schema();

// Checks kinds, words and fields of `value` by a definition of the schema: "Annotations", or the name of a quantizer.
// Recipes inside of it, those of a ComposableQuantizer, are not looked at. `what` names the value in errors.
// Throws Error{kInvalidArgument} for what is not of this form, with the nearest known word.
void check_form(const format::Json& value, std::string_view definition, const std::string& what);

// The quantizer that a recipe names. Throws Error{kInvalidArgument} for one that no definition is for.
void check_quantizer(const std::string& name, const std::string& what);

// The value without the fields "$comment" of all its objects, which say nothing to qdq.
format::Json without_comments(format::Json value);

// The recipe with every field that has a default. In front of the fields of each object stands "$comment", what every
// field says: JSON has no comments. The recipe must be one that parse_recipe takes.
format::Json commented_recipe(const format::Json& recipe);

}  // namespace qdq
