#include "graph/schema.h"

#include <cctype>
#include <cstdlib>

namespace qdq {
namespace {

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  Schema parse() {
    Schema out;
    out.name = name();
    expect("(");
    bool kwarg_only = false;
    while (!accept(")")) {
      if (accept("*")) {
        kwarg_only = true;
      } else {
        out.arguments.push_back(argument());
        out.arguments.back().kwarg_only = kwarg_only;
      }
      accept(",");
    }
    expect("->");
    returns(out);
    return out;
  }
  std::string_view name() { return word("."); }

 private:
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    QDQ_CHECK(accept(token), kInternal, "the operator schema '", text_, "' lacks '", token, "' at character ", at_);
  }
  std::string_view word(std::string_view more = "") {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  more.find(text_[at_]) != std::string_view::npos))
      ++at_;
    QDQ_CHECK(at_ > begin, kInternal, "the operator schema '", text_, "' lacks a name at character ", at_);
    return text_.substr(begin, at_ - begin);
  }

  // "Tensor(a!)", "Tensor?[]", "int[2]?", "SymInt[]"
  void type(SchemaArgument& out) {
    out.type = word();
    if (accept("(")) {
      while (!accept(")")) {
        out.is_mutated = out.is_mutated || text_[at_] == '!';
        ++at_;
      }
    }
    if (accept("?")) out.is_optional = true;
    if (accept("[")) {
      out.elements_optional = out.is_optional;
      out.is_optional = false;
      out.is_list = true;
      if (!accept("]")) {
        out.list_size = std::atoll(std::string(word()).c_str());
        expect("]");
      }
      if (accept("(")) {
        while (!accept(")")) ++at_;
      }
      if (accept("?")) out.is_optional = true;
    }
  }

  SchemaArgument argument() {
    SchemaArgument out;
    type(out);
    out.name = word();
    if (accept("=")) out.default_value = constant(out);
    return out;
  }

  Argument constant(const SchemaArgument& of) {
    skip_space();
    if (accept("[")) {
      Argument::List list;
      while (!accept("]")) {
        list.push_back(constant(of));
        accept(",");
      }
      return list;
    }
    if (text_[at_] == '"' || text_[at_] == '\'') {
      const char quote = text_[at_++];
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != quote) ++at_;
      return std::string(text_.substr(begin, at_++ - begin));
    }
    const std::string token(word(".-+"));
    if (token == "None") return {};
    if (token == "True") return true;
    if (token == "False") return false;
    if (token == "contiguous_format") return MemoryFormat::kContiguous;
    if (token == "Mean") return 1;  // at::Reduction::Mean
    if (of.type == "MemoryFormat") return {};
    const bool is_float = of.type == "float" || token.find_first_of(".e") != std::string::npos;
    if (is_float) return std::strtod(token.c_str(), nullptr);
    char* end = nullptr;
    const int64_t integer = std::strtoll(token.c_str(), &end, 10);
    QDQ_CHECK(end != token.c_str() && *end == '\0', kInternal, "the operator schema '", text_, "' has the default '",
              token, "'");
    return integer;
  }

  void returns(Schema& out) {
    SchemaArgument one;
    if (!accept("(")) {
      type(one);
      out.returns_list = one.is_list;
      return;
    }
    out.num_returns = 0;
    while (!accept(")")) {
      type(one);
      ++out.num_returns;
      skip_space();
      if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')') word();
      accept(",");
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Schema Schema::parse(std::string_view text) { return SchemaParser(text).parse(); }

std::optional<size_t> Schema::index_of(std::string_view argument) const {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name == argument) return i;
  return std::nullopt;
}

size_t Schema::num_positional() const {
  size_t count = 0;
  while (count < arguments.size() && !arguments[count].kwarg_only) ++count;
  return count;
}

SchemaLine::SchemaLine(std::string_view text) : held_(std::make_shared<Held>()) { held_->text = text; }

std::string_view SchemaLine::name() const { return SchemaParser(text()).name(); }

bool SchemaLine::mutates_first() const { return text().substr(text().find('(')).starts_with("(Tensor(a!)"); }

const Schema& SchemaLine::operator*() const {
  std::call_once(held_->parsed, [this] { held_->schema = Schema::parse(held_->text); });
  return held_->schema;
}

}  // namespace qdq
