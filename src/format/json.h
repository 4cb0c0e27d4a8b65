// JSON: exported programs, recipes, preprocessing and reports, read with errors that name the place.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "format/json_fwd.h"

namespace qdq::format {

// What a field of an object can be given: null, a truth value, a number, a text, a list of these, or a JSON value,
// which is moved from if it is a temporary one. Looked at when the object is put together, not before.
class JsonPart {
 public:
  JsonPart(std::nullptr_t) : kind_(Kind::kNull), signed_(0) {}  // Implicit, as in Json's own lists
  JsonPart(const char* text) : kind_(Kind::kCString), c_string_(text) {}
  JsonPart(const std::string& text) : kind_(Kind::kString), string_(&text) {}
  JsonPart(std::string_view text) : kind_(Kind::kView), view_{text.data(), text.size()} {}
  JsonPart(double number) : kind_(Kind::kReal), real_(number) {}
  JsonPart(Json&& value) : kind_(Kind::kTemporary), temporary_(&value) {}
  JsonPart(const Json& value) : kind_(Kind::kValue), value_(&value) {}
  JsonPart(const std::vector<std::string>& texts) : kind_(Kind::kTexts), texts_(&texts) {}
  JsonPart(const std::vector<int64_t>& numbers) : kind_(Kind::kIntegers), integers_(&numbers) {}
  template <std::same_as<bool> T> JsonPart(T truth) : kind_(Kind::kTruth), signed_(truth) {}
  template <std::signed_integral T> JsonPart(T number) : kind_(Kind::kSigned), signed_(number) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  JsonPart(T number) : kind_(Kind::kUnsigned), unsigned_(number) {}

  Json value() const;

 private:
  enum class Kind {
    kNull,
    kCString,
    kString,
    kView,
    kReal,
    kTemporary,
    kValue,
    kTexts,
    kIntegers,
    kTruth,
    kSigned,
    kUnsigned
  };
  struct View {
    const char* data;
    size_t size;
  };
  Kind kind_;
  union {
    const char* c_string_;
    const std::string* string_;
    View view_;
    double real_;
    Json* temporary_;
    const Json* value_;
    const std::vector<std::string>* texts_;
    const std::vector<int64_t>* integers_;
    int64_t signed_;
    uint64_t unsigned_;
  };
};
struct JsonField {
  const char* key;
  JsonPart value;
};

// An object of these fields, in their order; no key may come twice. Json's own lists {{"key", value}, ...} make the
// same, and ten times the code in every caller.
Json json_object(std::initializer_list<JsonField> fields);
// Adds a field that the object does not have; Json's own way looks through all of them first.
void append_field(Json& object, std::string key, Json value);

// The value of a JSON text. The bare words NaN, Infinity and -Infinity, which Python writes, are read as numbers.
// `what` names the text in errors: "recipe.json". Throws Error{kBadFile} with line and column if the text is not JSON,
// is not UTF-8, nests more than 512 deep, or gives a key of an object twice.
Json parse_json(std::string_view text, const std::string& what);

// The value as text: on one line, or with `indent` spaces a level. Doubles print as the shortest text that reads back
// exactly, numbers that JSON lacks as Python's NaN, Infinity, -Infinity. Lists without containers stay on one line.
std::string print_json(const Json& value, int indent = -1);

// Numbers of any kind inside strict JSON: 1.5, {"float": "inf"}, {"float": "-inf"}, {"float": "nan"}.
Json json_of_number(double value);
// The same backwards; also "Infinity", "-Infinity", "NaN", as newer PyTorch writes them. Throws Error{kBadFile} naming
// `where`.
double number_of_json(const Json& value, const std::string& where);

// The value as a C++ type: bool, int, int64_t, float, double, std::string, Json, and vectors of these.
// Throws Error{kInvalidArgument} naming `where` ("field 'scale' of the recipe") if it is of another kind or does not
// fit.
template <class T> T json_as(const Json& value, const std::string& where);

// The fields of an object, each asked for once by its reader, so that a misspelt one can be named.
//   Fields fields(json, "the recipe");
//   const auto quantizer = fields.required<std::string>("quantizer");
//   const bool qat = fields.optional<bool>("is_qat", false);
//   fields.reject_unknown();
class Fields {
 public:
  // The object must outlive this. Throws Error{kInvalidArgument} if it is not an object.
  Fields(const Json& object, std::string what);

  // The field, or nullptr if it is absent.
  const Json* find(std::string_view key) const;
  // The field, or nullptr if it is absent or null.
  const Json* find_value(std::string_view key) const;
  // Throws Error{kInvalidArgument} if it is absent or of another type.
  template <class T> T required(std::string_view key) const {
    const Json* value = find(key);
    if (!value) missing(key);
    return json_as<T>(*value, where(key));
  }
  // The default if it is absent.
  template <class T> T optional(std::string_view key, T otherwise) const {
    const Json* value = find(key);
    return value ? json_as<T>(*value, where(key)) : otherwise;
  }
  // The field as an object of its own, named after its place. Throws Error{kInvalidArgument} if it is absent.
  Fields object(std::string_view key) const;

  // "field 'scale' of the recipe"
  std::string where(std::string_view key) const;
  // Throws Error{kInvalidArgument} if the object has a field that nobody asked for, naming the nearest one that
  // somebody did.
  void reject_unknown() const;

 private:
  [[noreturn]] void missing(std::string_view key) const;

  const Json* object_;
  std::string what_;
  mutable std::vector<std::string> asked_;
};

template <> bool json_as<bool>(const Json& value, const std::string& where);
template <> int64_t json_as<int64_t>(const Json& value, const std::string& where);
template <> int json_as<int>(const Json& value, const std::string& where);
template <> double json_as<double>(const Json& value, const std::string& where);
template <> float json_as<float>(const Json& value, const std::string& where);
template <> std::string json_as<std::string>(const Json& value, const std::string& where);
template <> Json json_as<Json>(const Json& value, const std::string& where);

// Whether a value is a list; throws Error{kInvalidArgument} if not. Not for callers.
void check_json_list(const Json& value, const std::string& where);

template <class T> T json_as(const Json& value, const std::string& where) {
  check_json_list(value, where);
  T out;
  for (size_t i = 0; i < value.size(); ++i)
    out.push_back(json_as<typename T::value_type>(value[i], "item " + std::to_string(i) + " of " + where));
  return out;
}

}  // namespace qdq::format
