// Reading the form of recipes.
#include "recipe/recipe_schema.h"

#include <algorithm>
#include <vector>

#include "base/nearest_word.h"
#include "format/json.h"
#include "quant/fx/backend_config.h"
#include "quant/fx/qconfig.h"
#include "quant/observers/observer.h"
#include "quant/quantizers/annotation_quantizer.h"
#include "recipe/recipe_template.h"

namespace qdq {

namespace {

using format::Fields;
using format::Json;
using format::json_as;

// What recipe.schema.json has beyond JSON Schema:
//   $words       one of the words of this name below
//   $or_null     of $words: null, too
//   $or_function of $words: a function, too, which only JavaScript can give
//   $include     the properties of another definition, too
//   $form        of a list whose items are given one by one: how it looks
//   $why         what a refusal says in place of the words that are known
//   $chosen_by   of objects among others in anyOf: the fields that tell that this one is meant
//   $javascript  only a recipe of a program in JavaScript has it; the parser says so
//   $refused     nobody has it, and why

// Words that a place of a recipe takes.
struct Words {
  std::vector<std::string> known;
  bool may_have_prefix = false;  // "torch.int8" for "int8"
  std::string more{};            // a word that never has the prefix

  std::vector<std::string> all() const {
    std::vector<std::string> out = known;
    if (!more.empty()) out.push_back(more);
    return out;
  }
  bool has(std::string_view word) const {
    constexpr std::string_view kPrefix = "torch.";
    if (word == more && !more.empty()) return true;
    if (may_have_prefix && word.starts_with(kPrefix)) word.remove_prefix(kPrefix.size());
    return std::find(known.begin(), known.end(), word) != known.end();
  }
};

template <class Names> std::vector<std::string> texts(const Names& names) { return {names.begin(), names.end()}; }

std::vector<std::string> plain_dtypes() {
  std::vector<std::string> out;
  for (int64_t number = 0; number < 64; ++number)
    if (const auto dtype = dtype_from_number(number)) out.emplace_back(to_string(*dtype));
  return out;
}

std::vector<std::string> observer_dtypes() {
  std::vector<std::string> out = texts(quantized_dtype_names());
  for (std::string& plain : plain_dtypes()) out.push_back(std::move(plain));
  return out;
}

Words make_words(std::string_view name) {
  if (name == "dtypes") return {plain_dtypes(), true};
  if (name == "observer_dtypes") return {observer_dtypes(), true};
  if (name == "backend_dtypes") return {observer_dtypes(), true, "float"};
  if (name == "qschemes") return {texts(qscheme_names()), true};
  if (name == "observers") return {texts(observer_class_names())};
  if (name == "observers_and_identity") return {texts(observer_class_names()), false, "Identity"};
  if (name == "rules") return {texts(derive_rule_names())};
  if (name == "qconfigs") {
    std::vector<std::string> names = named_qconfigs();
    names.emplace_back("default_equalization_qconfig");  // of an equalization config
    return {std::move(names)};
  }
  if (name == "qconfig_backends") return {texts(qconfig_backend_names())};
  if (name == "backends") return {texts(backend_config_names())};
  QDQ_CHECK(name == "observation_types", kInternal, "the schema of recipes needs unknown words ", name);
  return {texts(observation_type_names())};
}

// The template with $include carried out.
const Json& grammar() {
  static const Json out = [] {
    Json grammar = format::parse_json(recipe_template(), "the schema of recipes");
    Json& definitions = grammar["definitions"];
    for (auto& [name, definition] : definitions.items()) {
      if (!definition.contains("$include")) continue;
      const Json& from = definitions[definition["$include"].get<std::string>()]["properties"];
      for (const auto& [key, shape] : from.items())
        if (!definition["properties"].contains(key)) definition["properties"][key] = shape;
      definition.erase("$include");
    }
    definitions.erase("RecipeFields");
    return grammar;
  }();
  return out;
}

const Json& definition(std::string_view name) {
  const Json& definitions = grammar()["definitions"];
  const auto found = definitions.find(std::string(name));
  QDQ_CHECK(found != definitions.end(), kInternal, "the schema of recipes has no definition ", name);
  return *found;
}

// "#/definitions/Edge" -> that definition; "#" is nobody's here.
const Json& resolved(const Json& shape) {
  const Json* out = &shape;
  while (out->contains("$ref")) {
    const auto& target = (*out)["$ref"].get_ref<const std::string&>();
    if (target == "#") break;
    out = &definition(std::string_view(target).substr(target.rfind('/') + 1));
  }
  return *out;
}

const Json* find(const Json& shape, const char* key) {
  const auto found = shape.find(key);
  return found == shape.end() ? nullptr : &*found;
}

// The kinds of values that a shape without anyOf takes.
std::vector<std::string> kinds_of(const Json& shape) {
  if (find(shape, "$words"))
    return find(shape, "$or_null") ? std::vector<std::string>{"string", "null"} : std::vector<std::string>{"string"};
  if (find(shape, "const")) return {"string"};
  if (const Json* words = find(shape, "enum")) return {words->front().is_string() ? "string" : "integer"};
  const Json* type = find(shape, "type");
  if (type == nullptr) return {};
  return type->is_array() ? type->get<std::vector<std::string>>() : std::vector<std::string>{type->get<std::string>()};
}

bool is_of(const Json& value, const std::string& kind) {
  if (kind == "null") return value.is_null();
  if (kind == "boolean") return value.is_boolean();
  if (kind == "string") return value.is_string();
  if (kind == "array") return value.is_array();
  if (kind == "object") return value.is_object();
  return value.is_number();
}

std::string in_words(const std::string& kind) {
  if (kind == "boolean") return "true or false";
  if (kind == "array") return "a list";
  if (kind == "null") return kind;
  return concat(kind == "integer" || kind == "object" ? "an " : "a ", kind);
}

[[noreturn]] void refuse(const std::string& word, const std::vector<std::string>& known, const std::string& where,
                         const std::string& why) {
  const std::string nearest = nearest_word(word, known);
  std::string names;
  for (const std::string& name : known)
    if (!name.starts_with('_')) names += concat(names.empty() ? "" : ", ", name);
  fail(ErrorCode::kInvalidArgument, where, " is '", word, "'; ",
       !why.empty()      ? why
       : nearest.empty() ? concat("wanted ", known.size() > 1 ? "one of " : "", names)
                         : concat("did you mean '", nearest, "'?"));
}

struct Branch {
  const Json* shape;
  std::string why;
};

// What anyOf of the shape offers, and what that offers in turn.
void add_branches(const Json& shape, const std::string& why, std::vector<Branch>& out) {
  const Json& own = resolved(shape);
  const Json* because = find(own, "$why");
  const std::string reason = because ? because->get<std::string>() : why;
  const Json* any = find(own, "anyOf");
  if (any && !find(own, "type"))
    for (const Json& branch : *any) add_branches(branch, reason, out);
  else out.push_back({&own, reason});
}

// The branch that a value is meant as. Throws Error{kInvalidArgument} if there is none of its kind.
Branch branch_for(const Json& value, const Json& shape, const std::string& where) {
  std::vector<Branch> all, fitting;
  add_branches(shape, "", all);
  if (all.size() == 1) return all[0];
  std::vector<std::string> kinds;
  for (const Branch& branch : all) {
    const std::vector<std::string> own = kinds_of(*branch.shape);
    if (std::any_of(own.begin(), own.end(), [&](const std::string& kind) { return is_of(value, kind); }))
      fitting.push_back(branch);
    for (const std::string& kind : own)
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  if (fitting.empty()) {
    std::string wanted;
    for (size_t i = 0; i < kinds.size(); ++i)
      wanted += concat(i == 0 ? "" : i + 1 == kinds.size() ? " or " : ", ", in_words(kinds[i]));
    fail(ErrorCode::kInvalidArgument, where, " must be ", wanted);
  }
  if (fitting.size() == 1) return fitting[0];
  // Objects that a constant tells apart, as "spec" does.
  for (const auto& [key, property] : (*fitting[0].shape)["properties"].items()) {
    if (!property.contains("const")) continue;
    const auto word = Fields(value, where).required<std::string>(key);
    std::vector<std::string> known;
    for (const Branch& branch : fitting) {
      known.push_back((*branch.shape)["properties"][key]["const"].get<std::string>());
      if (known.back() == word) return branch;
    }
    refuse(word, known, Fields(value, where).where(key), fitting[0].why);
  }
  const Branch* otherwise = nullptr;
  for (const Branch& branch : fitting) {
    const Json* keys = find(*branch.shape, "$chosen_by");
    if (keys == nullptr && otherwise == nullptr) otherwise = &branch;
    if (keys && std::any_of(keys->begin(), keys->end(), [&](const Json& key) { return value.contains(key); }))
      return branch;
  }
  QDQ_CHECK(otherwise, kInternal, "the schema of recipes has no branch for ", where);
  return *otherwise;
}

void check(const Json& value, const Json& wanted, const std::string& where, const std::string& because = "");

void check_object(const Json& value, const Json& shape, const std::string& where, const std::string& why) {
  const Fields fields(value, where);
  const Json* properties = find(shape, "properties");
  if (properties == nullptr) return;  // a map, whose keys the parser reads
  fields.find("$comment");
  for (const auto& [key, property] : properties->items()) {
    const Json* field = fields.find(key);
    if (const Json* reason = find(property, "$refused"))
      QDQ_CHECK(!field, kInvalidArgument, fields.where(key), " ", reason->get_ref<const std::string&>());
  }
  if (value.contains("custom") && find(*properties, "custom")) return;  // the parser asks JavaScript
  // What tells objects apart comes first: one of another kind has other fields.
  for (const auto& [key, property] : properties->items())
    if (const Json* field = fields.find(key); field && property.contains("const"))
      check(*field, property, fields.where(key), why);
  fields.reject_unknown();
  if (const Json* required = find(shape, "required"))
    for (const Json& key : *required) fields.required<Json>(key.get_ref<const std::string&>());
  for (const auto& [key, property] : properties->items())
    if (const Json* field = fields.find(key)) check(*field, property, fields.where(key), why);
}

void check_list(const Json& value, const Json& shape, const std::string& where) {
  format::check_json_list(value, where);
  const Json& items = shape["items"];
  if (items.is_array()) {
    QDQ_CHECK(value.size() == items.size(), kInvalidArgument, where, " has ", value.size(), " items, wanted ",
              shape["$form"].get_ref<const std::string&>());
    for (size_t i = 0; i < items.size(); ++i) check(value[i], items[i], concat("item ", i, " of ", where));
    return;
  }
  const size_t least = shape.value("minItems", size_t{0}), most = shape.value("maxItems", SIZE_MAX);
  QDQ_CHECK(least <= value.size() && value.size() <= most, kInvalidArgument, where, " has ", value.size(),
            " items; wanted ", most == SIZE_MAX ? concat("at least ", least) : concat(least, " to ", most));
  for (size_t i = 0; i < value.size(); ++i) check(value[i], items, concat("item ", i, " of ", where));
}

void check_number(const Json& value, const Json& shape, bool whole, const std::string& where) {
  QDQ_CHECK(whole || value.is_number(), kInvalidArgument, where, " must be a number");
  if (whole) json_as<int64_t>(value, where);
  const Json *least = find(shape, "minimum"), *most = find(shape, "maximum");
  const auto number = value.get<double>();
  QDQ_CHECK((!least || number >= least->get<double>()) && (!most || number <= most->get<double>()), kInvalidArgument,
            where, " is ", value.dump(), "; wanted ",
            most ? concat(least->dump(), " to ", most->dump()) : concat("at least ", least->dump()));
}

// `because`: why no other word is known here, of an object's fields that name its kind.
void check(const Json& value, const Json& wanted, const std::string& where, const std::string& because) {
  if (wanted.contains("$javascript") || wanted.value("$ref", "") == "#") return;
  const Branch branch = branch_for(value, wanted, where);
  const Json& shape = *branch.shape;
  if (const Json* name = find(shape, "$words")) {
    if (value.is_null() && find(shape, "$or_null")) return;
    if (value.is_object() && value.contains("custom") && find(shape, "$or_function")) return;
    const Words words = make_words(name->get_ref<const std::string&>());
    const auto word = json_as<std::string>(value, where);
    if (!words.has(word)) refuse(word, words.all(), where, branch.why);
    return;
  }
  if (const Json* word = find(shape, "const")) {
    if (value != *word) refuse(json_as<std::string>(value, where), {word->get<std::string>()}, where, because);
    return;
  }
  if (const Json* known = find(shape, "enum")) {
    if (std::find(known->begin(), known->end(), value) != known->end()) return;
    if (known->front().is_string())
      refuse(json_as<std::string>(value, where), known->get<std::vector<std::string>>(), where, branch.why);
    const auto number = json_as<int64_t>(value, where);
    if (std::find(known->begin(), known->end(), number) == known->end())
      fail(ErrorCode::kInvalidArgument, where, " is ", number, "; wanted one of ", known->dump());
    return;
  }
  for (const std::string& kind : kinds_of(shape)) {
    if (kind == "null" || (value.is_null() && kinds_of(shape).size() > 1)) continue;
    if (kind == "boolean") json_as<bool>(value, where);
    else if (kind == "string") json_as<std::string>(value, where);
    else if (kind == "object") check_object(value, shape, where, branch.why);
    else if (kind == "array") check_list(value, shape, where);
    else check_number(value, shape, kind == "integer", where);
  }
}

// A shape in the words of JSON Schema alone.
Json published(const Json& shape) {
  if (!shape.is_object()) return shape;
  Json out = Json::object();
  for (const auto& [key, value] : shape.items()) {
    if (key == "properties") {
      // Conditions have properties, too; objects say that they are objects.
      Json& properties = out[key] = Json::object();
      for (const auto& [name, property] : value.items())
        if (!property.contains("$javascript") && !property.contains("$refused")) properties[name] = published(property);
      if (shape.value("type", Json()) == "object") properties["$comment"] = Json::object();
    } else if (key == "$words") {
      const Words words = make_words(value.get_ref<const std::string&>());
      Json any = Json::array({{{"enum", words.all()}}});
      std::string prefixed;
      for (const std::string& word : words.known) prefixed += concat(prefixed.empty() ? "" : "|", word);
      if (words.may_have_prefix) any.push_back({{"type", "string"}, {"pattern", concat("^torch\\.(", prefixed, ")$")}});
      if (find(shape, "$or_null")) any.push_back({{"type", "null"}});
      if (any.size() == 1) out["enum"] = words.all();
      else out["anyOf"] = std::move(any);
    } else if (key == "$form") {
      out["minItems"] = shape["items"].size();
      out["additionalItems"] = false;
    } else if (key == "anyOf" || (key == "items" && value.is_array())) {
      Json& list = out[key] = Json::array();
      for (const Json& item : value) list.push_back(published(item));
    } else if (key == "items" || key == "additionalProperties") {
      out[key] = published(value);
    } else if (!key.starts_with('$') || key == "$ref") {
      out[key] = value;
    }
  }
  if (shape.value("type", Json()) == "object" && shape.contains("properties")) out["additionalProperties"] = false;
  return out;
}

Json commented(const Json& value, const Json& wanted) {
  const Json& shape = *branch_for(value, wanted, "the recipe").shape;
  const Json* properties = find(shape, "properties");
  if (!value.is_object() || properties == nullptr) {
    const Json* items = find(shape, "items");
    if (!value.is_array() || items == nullptr || items->value("$ref", "") != "#") return value;
    Json list = Json::array();
    for (const Json& recipe : value) {
      list.push_back(commented_recipe(recipe));
      if (!recipe.contains("compat")) list.back().erase("compat");  // that of the whole holds
    }
    return list;
  }
  Json out = {{"$comment", nullptr}}, comments = Json::object();
  for (const auto& [key, property] : properties->items()) {
    if (property.contains("$javascript") || property.contains("$refused") || key == "$schema") continue;
    comments[key] = property.value("description", "");
    if (const Json* given = find(value, key.c_str())) out[key] = commented(*given, property);
    else if (const Json* otherwise = find(property, "default")) out[key] = commented(*otherwise, property);
  }
  out["$comment"] = std::move(comments);
  return out;
}

}  // namespace

Json recipe_schema() {
  Json out = {{"$schema", "http://json-schema.org/draft-07/schema#"}};
  for (const auto& [key, value] : grammar().items()) {
    if (key != "definitions") {
      out[key] = value;
      continue;
    }
    for (const auto& [name, shape] : value.items()) out[key][name] = published(shape);
  }
  return out;
}

void check_form(const Json& value, std::string_view name, const std::string& what) {
  check(value, definition(name), what);
}

void check_quantizer(const std::string& name, const std::string& what) {
  std::vector<std::string> known;
  for (const Json& recipe : grammar()["anyOf"]) {
    const auto& target = recipe["$ref"].get_ref<const std::string&>();
    known.push_back(target.substr(target.rfind('/') + 1));
    if (known.back() == name) return;
  }
  const std::string nearest = nearest_word(name, known);
  std::string names;
  for (size_t i = 0; i < known.size(); ++i)
    names += concat(i == 0 ? "" : i + 1 == known.size() ? " or " : ", ", known[i]);
  fail(ErrorCode::kInvalidArgument, "there is no quantizer '", name, "', which ", what, " names; ",
       nearest.empty() ? concat("wanted ", names) : concat("did you mean '", nearest, "'?"));
}

Json without_comments(Json value) {
  if (value.is_object()) value.erase("$comment");
  if (value.is_structured())
    for (Json& part : value) part = without_comments(std::move(part));
  return value;
}

Json commented_recipe(const Json& recipe) {
  return commented(recipe, definition(Fields(recipe, "the recipe").required<std::string>("quantizer")));
}

}  // namespace qdq
