#include "format/json.h"

#include "base/nearest_word.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "format/bytes.h"
#include "tensor/strings.h"

namespace qdq::format {

namespace {

constexpr size_t kMaxJsonDepth = 512;
// Objects below this size are searched for a second key of one name; larger ones keep a set.
constexpr size_t kSmallObject = 16;

// "line 3, column 14", both counted from 1, columns in bytes.
std::string place_in(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return concat("line ", line, ", column ", column);
}

// Words that stand for NaN, Infinity and -Infinity while the text is parsed: strings with a character that the text
// does not have, of the same length as the word, so that places stay right.
constexpr std::string_view kNan = "\"\x7f\"", kInfinity = "\"\x7f     \"", kMinusInfinity = "\"\x7f      \"";

struct NonFinite {
  std::string_view word, marker;
  double value;
};
const NonFinite kNonFinite[] = {
    {"-Infinity", kMinusInfinity, -std::numeric_limits<double>::infinity()},
    {"Infinity", kInfinity, std::numeric_limits<double>::infinity()},
    {"NaN", kNan, std::numeric_limits<double>::quiet_NaN()},
};

// The text with its bare NaN and Infinity replaced by their markers; nothing if there are none.
std::string mark_non_finite(std::string_view text) {
  if (text.find("NaN") == std::string_view::npos && text.find("Infinity") == std::string_view::npos) return {};
  for (const std::string_view taken : {"\x7f", "\\u007f", "\\u007F"})
    if (text.find(taken) != std::string_view::npos) return {};
  std::string out(text);
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    if (in_string) continue;
    for (const NonFinite& entry : kNonFinite) {
      if (text.substr(i, entry.word.size()) != entry.word) continue;
      out.replace(i, entry.word.size(), entry.marker);
      i += entry.word.size() - 1;
      break;
    }
  }
  return out;
}

// Builds the value from the parser's events. nlohmann's own builder looks every key up, which is quadratic in an
// object's size, has no limit of depth and takes the last of two equal keys. An object's members are gathered first:
// one of nlohmann's that grows copies its members, with all that is in them, because their keys are constants.
class JsonBuilder : public nlohmann::json_sax<Json> {
 public:
  JsonBuilder(std::string_view text, const std::string& what, bool marked)
      : text_(text), what_(what), marked_(marked) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override {
    if (marked_ && !value.empty() && value[0] == '\x7f')
      for (const NonFinite& entry : kNonFinite)
        if (value.size() + 2 == entry.marker.size()) return add(entry.value);
    return add(std::move(value));
  }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    Members& members = level.members;
    bool twice;
    if (members.size() < kSmallObject) {
      twice = std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
    } else {
      if (level.keys.empty())
        for (const auto& member : members) level.keys.insert(member.first);
      twice = !level.keys.insert(name).second;
    }
    if (twice) fail(ErrorCode::kBadFile, what_, ": the key '", name, "' appears twice in one object");
    members.emplace_back(std::move(name), Json());
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // The library's sentence begins with its own error number and place.
    std::string reason = error.what();
    const size_t colon = reason.find(": ");
    if (colon != std::string::npos) reason.erase(0, colon + 2);
    fail(ErrorCode::kBadFile, what_, " is not JSON at ", place_in(text_, position == 0 ? 0 : position - 1), ": ",
         reason);
  }

 private:
  using Members = std::vector<std::pair<std::string, Json>>;
  struct Level {
    Json* value;
    Members members;
    std::unordered_set<std::string> keys;
  };

  Json* place(Json&& value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    Json* out =
        level.value->is_array() ? &level.value->get_ref<Json::array_t&>().emplace_back() : &level.members.back().second;
    *out = std::move(value);
    return out;
  }
  bool add(Json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(Json&& value) {
    if (levels_.size() >= kMaxJsonDepth) fail(ErrorCode::kBadFile, what_, " nests more than ", kMaxJsonDepth, " deep");
    levels_.push_back({place(std::move(value)), {}, {}});
    return true;
  }
  bool close() {
    Level& level = levels_.back();
    if (level.value->is_object()) {
      auto& members = level.value->get_ref<Json::object_t&>();
      members.reserve(level.members.size());
      for (auto& [name, value] : level.members) members.emplace_back(std::move(name), std::move(value));
    }
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& what_;
  bool marked_;
  Json root_;
  std::vector<Level> levels_;
};

class Printer {
 public:
  explicit Printer(int indent) : indent_(indent) {}

  std::string print(const Json& value) {
    // The library prints the same on one line, ten times as fast, but knows no word for numbers that are not finite.
    if (indent_ < 0 && is_finite(value)) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
    write(value, 0);
    return std::move(out_);
  }

 private:
  static bool is_finite(const Json& value) {
    if (value.is_structured()) return std::all_of(value.begin(), value.end(), is_finite);
    return !value.is_number_float() || std::isfinite(value.get<double>());
  }

  void write(const Json& value, int level) {
    if (value.is_number_float() && !std::isfinite(value.get<double>())) {
      const double number = value.get<double>();
      out_ += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
    } else if (!value.is_structured()) {
      out_ += value.dump(-1, ' ', false, Json::error_handler_t::replace);
    } else if (value.is_object()) {
      list(value, level, '{', '}', value.empty(), [&](const auto& item, int below) {
        out_ += Json(item.key()).dump(-1, ' ', false, Json::error_handler_t::replace) + (indent_ < 0 ? ":" : ": ");
        write(item.value(), below);
      });
    } else {
      const bool flat = std::none_of(value.begin(), value.end(), [](const Json& item) { return item.is_structured(); });
      list(value, level, '[', ']', flat, [&](const auto& item, int below) { write(item.value(), below); });
    }
  }

  template <class Item> void list(const Json& value, int level, char first, char last, bool flat, Item&& item) {
    const auto new_line = [&](int at) {
      if (indent_ < 0 || flat) return;
      out_ += '\n';
      out_.append(static_cast<size_t>(at * indent_), ' ');
    };
    out_ += first;
    bool comma = false;
    for (const auto& entry : value.items()) {
      if (comma) out_ += flat && indent_ >= 0 ? ", " : ",";
      comma = true;
      new_line(level + 1);
      item(entry, level + 1);
    }
    if (comma) new_line(level);
    out_ += last;
  }

  int indent_;
  std::string out_;
};

// The kind of a value in words: "the string 'abc'", "a list".
std::string describe(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return value.is_string() ? "the string " + text : text;
}

[[noreturn]] void wrong_kind(const Json& value, const std::string& where, std::string_view wanted) {
  fail(ErrorCode::kInvalidArgument, where, " is ", describe(value), ", wanted ", wanted);
}

}  // namespace

Json JsonPart::value() const {
  switch (kind_) {
    case Kind::kNull: break;
    case Kind::kCString: return c_string_;
    case Kind::kString: return *string_;
    case Kind::kView: return std::string_view(view_.data, view_.size);
    case Kind::kReal: return real_;
    case Kind::kTemporary: return std::move(*temporary_);
    case Kind::kValue: return *value_;
    case Kind::kTexts: return *texts_;
    case Kind::kIntegers: return *integers_;
    case Kind::kTruth: return signed_ != 0;
    case Kind::kSigned: return signed_;
    case Kind::kUnsigned: return unsigned_;
  }
  return nullptr;
}

void append_field(Json& object, std::string key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(std::move(key), std::move(value));
}

Json json_object(std::initializer_list<JsonField> fields) {
  Json out = Json::object();
  auto& members = out.get_ref<Json::object_t&>();
  members.reserve(fields.size());
  for (const JsonField& field : fields) members.emplace_back(field.key, field.value.value());
  return out;
}

Json parse_json(std::string_view text, const std::string& what) {
  QDQ_CHECK(is_utf8(text), kBadFile, what, " is not UTF-8 text, as JSON is");
  QDQ_CHECK(text.find_first_not_of(" \t\r\n") != std::string_view::npos, kBadFile, what, " is empty, wanted JSON");
  const std::string marked = mark_non_finite(text);
  const std::string_view source = marked.empty() ? text : marked;
  JsonBuilder builder(source, what, !marked.empty());
  Json::sax_parse(source.begin(), source.end(), &builder);
  return builder.take();
}

std::string print_json(const Json& value, int indent) { return Printer(indent).print(value); }

Json json_of_number(double value) {
  if (std::isfinite(value)) return value;
  Json out = Json::object();
  out["float"] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return out;
}

double number_of_json(const Json& value, const std::string& where) {
  if (value.is_number()) return value.get<double>();
  const Json* word = &value;
  if (value.is_object() && value.size() == 1 && value.begin().key() == "float") word = &value.begin().value();
  if (word->is_string()) {
    const auto& text = word->get_ref<const std::string&>();
    if (text == "inf" || text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-inf" || text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "nan" || text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  fail(ErrorCode::kBadFile, where, " is ", describe(value), ", wanted a number");
}

template <> bool json_as<bool>(const Json& value, const std::string& where) {
  if (!value.is_boolean()) wrong_kind(value, where, "true or false");
  return value.get<bool>();
}

template <> int64_t json_as<int64_t>(const Json& value, const std::string& where) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::floor(number) == number && std::fabs(number) <= 9007199254740992.0) return static_cast<int64_t>(number);
  } else if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return value.get<int64_t>();
  } else if (value.is_number()) {
    return value.get<int64_t>();
  }
  wrong_kind(value, where, "an integer");
}

template <> int json_as<int>(const Json& value, const std::string& where) {
  const int64_t wide = json_as<int64_t>(value, where);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
    wrong_kind(value, where, "an integer of 32 bits");
  return static_cast<int>(wide);
}

template <> double json_as<double>(const Json& value, const std::string& where) {
  try {
    return number_of_json(value, where);
  } catch (const Error&) {
    wrong_kind(value, where, "a number");
  }
}

template <> float json_as<float>(const Json& value, const std::string& where) {
  return static_cast<float>(json_as<double>(value, where));
}

template <> std::string json_as<std::string>(const Json& value, const std::string& where) {
  if (!value.is_string()) wrong_kind(value, where, "a string");
  return value.get<std::string>();
}

template <> Json json_as<Json>(const Json& value, const std::string&) { return value; }

void check_json_list(const Json& value, const std::string& where) {
  if (!value.is_array()) wrong_kind(value, where, "a list");
}

Fields::Fields(const Json& object, std::string what) : object_(&object), what_(std::move(what)) {
  if (!object.is_object()) wrong_kind(object, what_, "an object");
}

const Json* Fields::find(std::string_view key) const {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  for (const auto& [name, value] : object_->get_ref<const Json::object_t&>())
    if (name == key) return &value;
  return nullptr;
}

const Json* Fields::find_value(std::string_view key) const {
  const Json* value = find(key);
  return value && !value->is_null() ? value : nullptr;
}

Fields Fields::object(std::string_view key) const {
  const Json* value = find(key);
  if (!value) missing(key);
  return Fields(*value, where(key));
}

std::string Fields::where(std::string_view key) const { return concat("field '", key, "' of ", what_); }

void Fields::missing(std::string_view key) const { fail(ErrorCode::kInvalidArgument, where(key), " is missing"); }

void Fields::reject_unknown() const {
  for (const auto& [name, value] : object_->get_ref<const Json::object_t&>()) {
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    const std::string near = nearest_word(name, asked_);
    std::string known;
    for (const std::string& word : asked_) known += (known.empty() ? "" : ", ") + word;
    fail(ErrorCode::kInvalidArgument, "unknown field '", name, "' in ", what_,
         near.empty() ? "; it may have: " + known : "; did you mean '" + near + "'?");
  }
}

}  // namespace qdq::format
