// The text of recipe.schema.json, which the build compiles in.
#pragma once

namespace qdq {

const char* recipe_template();

}  // namespace qdq
