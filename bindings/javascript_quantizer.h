// Quantizers and observers that are written in JavaScript.
#pragma once

#include <emscripten/val.h>

#include "graph/program.h"
#include "recipe/recipe.h"

namespace qdq {

// What a recipe asks of JavaScript: `callbacks` has makeObserver, derive, filter and the methods of quantizers.
RecipeExtensions extensions_of(const emscripten::val& callbacks);

// The program of a handle; -1 is the one that a quantizer in JavaScript annotates at the moment, which may be changed
// only while transformForAnnotation() is running.
const Program& program_of(int handle);
Program& changed_program_of(int handle);

}  // namespace qdq
