// A JSON value together with where it stands, so that every error can say so.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "format/json.h"

namespace qdq {

// Reads untrusted JSON: each accessor throws Error{kBadFile} naming the place if the value is not of the wanted kind.
class Place {
 public:
  using Json = format::Json;

  // The path of a whole file is its name with a colon.
  Place(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  template <class... Parts> [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorCode::kBadFile, path_, " ", parts...);
  }

  bool has(std::string_view key) const { return object().contains(key); }
  // A member that may be missing or null.
  std::optional<Place> find(std::string_view key) const {
    const auto found = object().find(key);
    if (found == value_->end() || found->is_null()) return std::nullopt;
    return Place(*found, member(key));
  }
  Place operator[](std::string_view key) const {
    const auto found = object().find(key);
    if (found == value_->end()) bad("lacks the field '", key, "'");
    return Place(*found, member(key));
  }
  // Of an array. The index must be less than size().
  Place operator[](size_t i) const { return Place((*value_)[i], path_ + "[" + std::to_string(i) + "]"); }
  size_t size() const {
    if (!value_->is_array()) bad("is ", kind(), ", wanted an array");
    return value_->size();
  }
  // Calls body(key, place) for every member of an object, in order.
  template <class Body> void for_each_member(Body&& body) const {
    for (auto it = object().begin(); it != value_->end(); ++it) body(it.key(), Place(it.value(), member(it.key())));
  }
  // The only member of an object: torch.export writes a union as {"as_int": 3}.
  std::pair<std::string, Place> choice() const {
    if (object().size() != 1) bad("has ", value_->size(), " fields, wanted the one that names its kind");
    const auto it = value_->begin();
    return {it.key(), Place(it.value(), member(it.key()))};
  }

  const std::string& string() const {
    if (!value_->is_string()) bad("is ", kind(), ", wanted a string");
    return value_->template get_ref<const std::string&>();
  }
  bool boolean() const {
    if (!value_->is_boolean()) bad("is ", kind(), ", wanted true or false");
    return value_->template get<bool>();
  }
  int64_t integer() const {
    if (!value_->is_number_integer()) bad("is ", kind(), ", wanted an integer");
    if (value_->is_number_unsigned() && value_->template get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      bad("does not fit 64 bits");
    return value_->template get<int64_t>();
  }
  const Json& json() const { return *value_; }

 private:
  const Json& object() const {
    if (!value_->is_object()) bad("is ", kind(), ", wanted an object");
    return *value_;
  }
  std::string_view kind() const {
    if (value_->is_null()) return "null";
    if (value_->is_boolean()) return "true or false";
    if (value_->is_number()) return "a number";
    if (value_->is_string()) return "a string";
    return value_->is_array() ? "an array" : "an object";
  }
  std::string member(std::string_view key) const {
    return path_ + (path_.ends_with(':') ? " " : ".") + std::string(key);
  }

  const Json* value_;
  std::string path_;
};

}  // namespace qdq
