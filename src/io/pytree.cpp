#include "io/pytree.h"

#include <optional>

#include "format/json.h"

namespace qdq {
namespace {

using format::Json;

// The leaves of a pytree spec as JSON text, or nothing if it is not one.
std::optional<size_t> leaves_if_spec(const Json& spec) {
  if (!spec.is_object() || !spec.contains("children_spec") || !spec["children_spec"].is_array()) return std::nullopt;
  if (spec.contains("type") && spec["type"].is_null()) return 1;
  size_t count = 0;
  for (const Json& child : spec["children_spec"]) {
    const std::optional<size_t> leaves = leaves_if_spec(child);
    if (!leaves) return std::nullopt;
    count += *leaves;
  }
  return count;
}

Json tree(Json type, Json context, Json children) {
  Json out = Json::object();
  out["type"] = std::move(type);
  out["context"] = std::move(context);
  out["children_spec"] = std::move(children);
  return out;
}
Json leaf() { return tree(nullptr, nullptr, Json::array()); }
Json tuple_of(Json children) { return tree("builtins.tuple", "null", std::move(children)); }
Json leaves(size_t count) {
  Json out = Json::array();
  for (size_t i = 0; i < count; ++i) out.push_back(leaf());
  return out;
}
std::string spec_text(Json spec) { return format::print_json(Json::array({1, std::move(spec)})); }

}  // namespace

bool spec_has_leaves(const std::string& text, size_t count) {
  try {
    const Json spec = format::parse_json(text, "a pytree spec");
    return spec.is_array() && spec.size() == 2 && leaves_if_spec(spec[1]) == count;
  } catch (const Error&) {
    return false;
  }
}

std::string flat_in_spec(size_t count) {
  return spec_text(tuple_of(Json::array({tuple_of(leaves(count)), tree("builtins.dict", "[]", Json::array())})));
}

std::string flat_out_spec(size_t count) { return spec_text(count == 1 ? leaf() : tuple_of(leaves(count))); }

}  // namespace qdq
