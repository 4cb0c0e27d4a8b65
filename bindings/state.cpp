// Calibrations in parts across the border, in the module `qdq`.
#include <emscripten/bind.h>

#include "border.h"
#include "format/json.h"
#include "state/state_file.h"

namespace qdq {

using emscripten::val;

namespace {

// `part`, as JSON: {id, samples, batches, shard}.
val save_state(int prepared, const std::string& part) {
  return guard([&] {
    const format::Json json = format::parse_json(part, "the part");
    const format::Fields fields(json, "the part");
    const CalibrationData data{fields.required<std::string>("id"), fields.required<int64_t>("samples"),
                               fields.required<int64_t>("batches")};
    return print_state(state_of(held<Prepared>(prepared, "a prepared program"), data,
                                parse_shards(fields.required<std::string>("shard"), "the shard")));
  });
}

val load_state_of(int prepared, const std::string& state) {
  return guard([&] {
    load_state(held<Prepared>(prepared, "a prepared program"), parse_state(state, "the state"), "the state");
    return val::null();
  });
}

val merge_states_of(const val& states, bool partial) {
  return guard([&] {
    StateMerger merger;
    const auto texts = emscripten::vecFromJSArray<std::string>(states);
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string name = concat("state ", i);
      merger.add(parse_state(texts[i], name), name);
    }
    return print_state(merger.finish(partial));
  });
}

// The first batch and the end of the shards "3/16" of so many batches; of one shard only.
val batches_of(double batches, const std::string& shard) {
  return guard([&] {
    const Shards shards = parse_shards(shard, "the shard");
    const auto [first, last] = shards.ranges[0];
    QDQ_CHECK(shards.ranges.size() == 1 && first == last, kInvalidArgument, "the shard is '", shard,
              "', wanted one: 3/16");
    const auto [begin, end] = batches_of_shard(static_cast<int64_t>(batches), first, shards.of);
    return format::print_json(format::json_object({{"begin", begin}, {"end", end}}));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(qdq_state) {
  emscripten::function("saveState", &save_state);
  emscripten::function("loadState", &load_state_of);
  emscripten::function("mergeStates", &merge_states_of);
  emscripten::function("batchesOfShard", &batches_of);
}

}  // namespace qdq
