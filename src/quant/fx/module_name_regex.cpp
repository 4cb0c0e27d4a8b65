// A matcher that tries alternatives in turn, as Python's does. <regex> of libc++ would do it in three lines, but adds
// 143 kB to the WebAssembly module (48 kB as Brotli, with -Oz), since it brings the locales, which nothing else needs;
// this file adds 18 kB (8 kB) with its errors.
#include "quant/fx/module_name_regex.h"

#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"

namespace qdq {

namespace {

constexpr size_t kNoLimit = ~size_t{0};

struct Item;
using Sequence = std::vector<Item>;
struct Item {
  enum class Kind { kCharacters, kGroup, kBegin, kEnd } kind = Kind::kCharacters;
  bool set[256] = {};               // kCharacters: those that match
  std::vector<Sequence> choices{};  // kGroup
  size_t least = 1, most = 1;       // how often
  bool lazy = false;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Sequence> parse() {
    std::vector<Sequence> out = choices();
    if (at_ < text_.size()) refuse("has a ) without a (");
    return out;
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    fail(ErrorCode::kInvalidArgument, "the regular expression '", text_, "' ", what, ", at character ", at_ + 1);
  }
  bool more() const { return at_ < text_.size(); }
  bool accept(char c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char next() {
    if (!more()) refuse("ends too early");
    return text_[at_++];
  }

  std::vector<Sequence> choices() {
    if (++depth_ > 100) refuse("nests too deep");
    std::vector<Sequence> out(1);
    while (more() && text_[at_] != ')') {
      if (accept('|')) out.emplace_back();
      else out.back().push_back(repeated(atom()));
    }
    --depth_;
    return out;
  }

  static void add_class(Item& item, char name) {
    const auto is_in = [](char wanted, int c) {
      const bool digit = c >= '0' && c <= '9';
      if (wanted == 'd') return digit;
      if (wanted == 's') return c == ' ' || (c >= '\t' && c <= '\r');
      return digit || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    const char lower = name >= 'a' ? name : static_cast<char>(name - 'A' + 'a');
    for (int c = 0; c < 256; ++c) item.set[c] = item.set[c] || is_in(lower, c) == (name == lower);
  }

  // Behind a backslash; the character that it stands for, or nothing for a class.
  std::optional<char> escaped(Item& item) {
    const char c = next();
    if (std::string_view("dDwWsS").find(c) != std::string_view::npos) {
      add_class(item, c);
      return std::nullopt;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      refuse("has an escape that is not known");
    item.set[static_cast<unsigned char>(c)] = true;
    return c;
  }

  Item set() {
    Item item;
    const bool inverted = accept('^');
    for (bool first = true; first || !accept(']'); first = false) {
      char from = next();
      if (from == '\\') {
        const std::optional<char> plain = escaped(item);
        if (!plain) continue;
        from = *plain;
      }
      char to = from;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        to = next();
      }
      if (static_cast<unsigned char>(to) < static_cast<unsigned char>(from))
        refuse("has a range that ends before it begins");
      for (int c = static_cast<unsigned char>(from); c <= static_cast<unsigned char>(to); ++c) item.set[c] = true;
    }
    if (inverted)
      for (bool& is_in : item.set) is_in = !is_in;
    return item;
  }

  Item atom() {
    Item item;
    const char c = next();
    if (c == '(') {
      if (accept('?') && !accept(':')) refuse("has a (? that is not (?:");
      item.kind = Item::Kind::kGroup;
      item.choices = choices();
      if (!accept(')')) refuse("has a ( without a )");
    } else if (c == '[') {
      return set();
    } else if (c == '\\') {
      escaped(item);
    } else if (c == '.') {
      for (bool& is_in : item.set) is_in = true;
      item.set[static_cast<unsigned char>('\n')] = false;
    } else if (c == '^' || c == '$') {
      item.kind = c == '^' ? Item::Kind::kBegin : Item::Kind::kEnd;
    } else if (c == '*' || c == '+' || c == '?') {
      refuse("repeats nothing");
    } else {
      item.set[static_cast<unsigned char>(c)] = true;
    }
    return item;
  }

  std::optional<size_t> number() {
    if (!more() || text_[at_] < '0' || text_[at_] > '9') return std::nullopt;
    size_t out = 0;
    while (more() && text_[at_] >= '0' && text_[at_] <= '9') {
      out = out * 10 + static_cast<size_t>(next() - '0');
      if (out > 1000) refuse("repeats too often");
    }
    return out;
  }

  Item repeated(Item item) {
    if (accept('*')) {
      item.least = 0;
      item.most = kNoLimit;
    } else if (accept('+')) {
      item.most = kNoLimit;
    } else if (accept('?')) {
      item.least = 0;
    } else if (accept('{')) {
      const std::optional<size_t> least = number();
      item.least = least.value_or(0);
      item.most = item.least;
      if (accept(',')) item.most = number().value_or(kNoLimit);
      else if (!least) refuse("has a { without a number");
      if (!accept('}') || item.most < item.least) refuse("has a { } that is not a count");
    } else {
      return item;
    }
    item.lazy = accept('?');
    if (more() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) refuse("repeats a repetition");
    return item;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Calls `rest` with every place where a beginning may end, until it accepts one.
class RegexMatcher {
 public:
  using Rest = std::function<bool(size_t)>;
  RegexMatcher(std::string_view regex, std::string_view text) : regex_(regex), text_(text) {}

  bool any(const std::vector<Sequence>& choices, size_t at, const Rest& rest) {
    for (const Sequence& choice : choices)
      if (sequence(choice, 0, at, rest)) return true;
    return false;
  }

 private:
  bool sequence(const Sequence& items, size_t i, size_t at, const Rest& rest) {
    if (i == items.size()) return rest(at);
    const Rest behind = [&](size_t end) { return sequence(items, i + 1, end, rest); };
    return items[i].kind == Item::Kind::kCharacters ? run(items[i], at, behind) : times(items[i], 0, at, behind);
  }

  // Repeated characters without recursion, since ".*" takes the whole name.
  bool run(const Item& item, size_t at, const Rest& rest) {
    size_t most = 0;
    while (most < item.most && at + most < text_.size() && item.set[static_cast<unsigned char>(text_[at + most])])
      ++most;
    for (size_t i = 0; item.least + i <= most; ++i) {
      count_step();
      if (rest(at + (item.lazy ? item.least + i : most - i))) return true;
    }
    return false;
  }

  void count_step() {
    QDQ_CHECK(++steps_ < 1000000, kInvalidArgument, "the regular expression '", regex_,
              "' takes too long; write it with fewer repetitions");
  }

  bool times(const Item& item, size_t done, size_t at, const Rest& rest) {
    count_step();
    const auto once_more = [&] {
      if (done >= item.most) return false;
      // A round that matches nothing would go on for ever.
      return once(item, at,
                  [&](size_t end) { return (end != at || done < item.least) && times(item, done + 1, end, rest); });
    };
    if (done < item.least) return once_more();
    return item.lazy ? rest(at) || once_more() : once_more() || rest(at);
  }

  bool once(const Item& item, size_t at, const Rest& rest) {
    switch (item.kind) {
      case Item::Kind::kGroup: return any(item.choices, at, rest);
      case Item::Kind::kBegin: return at == 0 && rest(at);
      case Item::Kind::kEnd: return (at == text_.size() || (at + 1 == text_.size() && text_[at] == '\n')) && rest(at);
      case Item::Kind::kCharacters: return run(item, at, rest);
    }
    return false;
  }

  std::string_view regex_, text_;
  size_t steps_ = 0;
};

}  // namespace

bool matches_at_start(std::string_view regex, std::string_view text) {
  constexpr size_t kLongest = 1000;  // repeated groups cost stack
  QDQ_CHECK(text.size() <= kLongest, kInvalidArgument, "a module name of ", text.size(),
            " characters is too long for regular expressions");
  return RegexMatcher(regex, text).any(Parser(regex).parse(), 0, [](size_t) { return true; });
}

}  // namespace qdq
