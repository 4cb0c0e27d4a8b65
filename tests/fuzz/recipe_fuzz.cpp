// Fuzz target of recipes: what is read prepares a small program, which is calibrated and converted, or says why not.
#include "recipe/recipe.h"

#include "base/memory.h"
#include "format/json.h"
#include "fuzz/fuzz.h"
#include "fuzz/small_program.h"
#include "quant/pt2e.h"

QDQ_FUZZ_TARGET(recipe)(const uint8_t* data, size_t size) {
  using namespace qdq;
  static const Program program = fuzz::small_program();
  set_memory_limit(MemoryLimit(256 << 20, "that the fuzzing allows"));
  fuzz::refusable([&] {
    const format::Json json = format::parse_json(format::text_of(fuzz::input(data, size)), "the recipe");
    const auto quantizer = parse_recipe(json, "the recipe");
    Prepared prepared = prepare_pt2e(program.clone(), *quantizer);
    prepared.run(fuzz::inputs_of(program));
    verify_program(convert_pt2e(prepared));
  });
  fuzz::refusable([&] {
    parse_pattern(format::parse_json(format::text_of(fuzz::input(data, size)), "the pattern"), "the pattern");
  });
  return 0;
}
