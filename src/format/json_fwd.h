// The type of JSON values, for headers that only name it: the JSON library takes long to compile (format/json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace qdq::format {

// Objects keep the order of their keys. Looking up a key is linear: iterate over large objects instead.
using Json = nlohmann::ordered_json;

}  // namespace qdq::format
