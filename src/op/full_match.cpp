#include "op/full_match.h"

#include <algorithm>

#include "base/error.h"
#include "base/stable_sort.h"
#include "op/letter_case.h"
#include "tensor/strings.h"

namespace qdq {
namespace {

constexpr size_t kMostSteps = 1 << 16;
constexpr int kMostDepth = 200;         // groups in groups
constexpr int64_t kMostRepeats = 1000;  // RE2's own limit
constexpr char32_t kLast = 0x10FFFF;

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

struct NamedClass {
  std::string_view name;
  Ranges ranges;
};
const std::vector<NamedClass>& named_classes() {
  static const std::vector<NamedClass> all = {
      {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
      {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
      {"ascii", {{0, 127}}},
      {"blank", {{'\t', '\t'}, {' ', ' '}}},
      {"cntrl", {{0, 31}, {127, 127}}},
      {"digit", {{'0', '9'}}},
      {"graph", {{'!', '~'}}},
      {"lower", {{'a', 'z'}}},
      {"print", {{' ', '~'}}},
      {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
      {"space", {{'\t', '\r'}, {' ', ' '}}},
      {"upper", {{'A', 'Z'}}},
      {"word", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}},
      {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
      // Those behind a backslash.
      {"d", {{'0', '9'}}},
      {"s", {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}},
      {"w", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}},
  };
  return all;
}

void add_outside(const Ranges& of, Ranges& out) {
  Ranges sorted = of;
  sort_stably(sorted);
  char32_t next = 0;
  for (const auto& [first, last] : sorted) {
    if (first > next) out.emplace_back(next, first - 1);
    next = std::max<char32_t>(next, last + 1);
  }
  if (next <= kLast) out.emplace_back(next, kLast);
}

bool is_word(std::u32string_view text, size_t i) {
  if (i >= text.size()) return false;
  const char32_t c = text[i];
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

}  // namespace

// Reads a pattern and appends the steps of each part behind those of the parts before. A part is a stretch of steps
// that begins at its first one and leaves by its end, so it can be copied.
class PatternParser {
 public:
  PatternParser(std::string_view pattern, FullMatch& out)
      : pattern_(pattern), text_(characters_of(pattern)), out_(out) {}

  void parse() {
    alternatives(0);
    if (at_ < text_.size()) bad("has a ) too many");
    add(Kind::kEnd);
  }

 private:
  using Step = FullMatch::Step;
  using Kind = Step::Kind;
  using Place = FullMatch::Place;
  struct Flags {
    bool any_case = false, dot_takes_lines = false, lines = false;
  };

  [[noreturn]] void bad(std::string_view why) const {
    fail(ErrorCode::kUnsupported, "the regular expression '", pattern_, "' ", why, " (at character ", at_, ")");
  }
  bool has(size_t count) const { return at_ + count <= text_.size(); }
  bool accept(std::u32string_view word) {
    if (std::u32string_view(text_).substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  size_t add(Kind kind, size_t a = 0, size_t b = 0) {
    if (out_.steps_.size() >= kMostSteps) bad("is too long");
    out_.steps_.push_back({kind, a, b});
    return out_.steps_.size() - 1;
  }
  size_t end() const { return out_.steps_.size(); }
  // Makes room for one step at the front of the part that begins there.
  void insert_fork(size_t begin) {
    add(Kind::kGo);
    std::vector<Step>& steps = out_.steps_;
    for (size_t i = steps.size() - 1; i > begin; --i) steps[i] = shifted(steps[i - 1], begin, 1);
    steps[begin] = {Kind::kFork, begin + 1, begin + 1};
  }
  // The step with places from `from` on moved.
  static Step shifted(Step step, size_t from, size_t by) {
    if (step.kind != Kind::kGo && step.kind != Kind::kFork) return step;
    if (step.a >= from) step.a += by;
    if (step.kind == Kind::kFork && step.b >= from) step.b += by;
    return step;
  }

  void alternatives(int depth) {
    if (depth > kMostDepth) bad("has groups in groups beyond 200 levels");
    const size_t begin = end();
    std::vector<size_t> leaves;  // steps that go to the end
    size_t part = begin;
    sequence(depth);
    while (accept(U"|")) {
      insert_fork(part);
      for (size_t& leaf : leaves) leaf += leaf >= part ? 1 : 0;
      leaves.push_back(add(Kind::kGo));
      out_.steps_[part].b = end();
      part = end();
      sequence(depth);
    }
    for (const size_t leaf : leaves) out_.steps_[leaf].a = end();
  }

  void sequence(int depth) {
    bool may_repeat = false;
    size_t part = end();
    for (bool is_quoted = false; at_ < text_.size() && (is_quoted || (text_[at_] != '|' && text_[at_] != ')'));) {
      if (accept(is_quoted ? U"\\E" : U"\\Q")) {
        is_quoted = !is_quoted;
        continue;
      }
      int64_t least = 0, most = 0;
      if (!is_quoted && repetition(least, most)) {
        if (!may_repeat) bad("repeats nothing, or a repetition");
        repeat(part, least, most);
        may_repeat = false;
        continue;
      }
      part = end();
      may_repeat = true;
      if (is_quoted) literal(text_[at_++]);
      else may_repeat = piece(depth);
    }
  }

  // *, +, ?, {n}, {n,}, {n,m}, with a ? behind it or not, which makes no difference to a match of the whole.
  bool repetition(int64_t& least, int64_t& most) {
    constexpr int64_t kNone = -1;
    if (accept(U"*")) least = 0, most = kNone;
    else if (accept(U"+")) least = 1, most = kNone;
    else if (accept(U"?")) least = 0, most = 1;
    else if (!counted(least, most)) return false;
    accept(U"?");
    return true;
  }
  bool counted(int64_t& least, int64_t& most) {
    const size_t start = at_;
    const auto number = [&](int64_t& out) {
      const size_t first = at_;
      out = 0;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        out = std::min<int64_t>(out * 10 + static_cast<int64_t>(text_[at_] - '0'), kMostRepeats + 1);
      return at_ > first;
    };
    bool fits = accept(U"{") && number(least);
    most = least;
    if (fits && accept(U",") && !number(most)) most = -1;
    fits = fits && accept(U"}");
    if (!fits) {
      at_ = start;  // a brace as it is
      return false;
    }
    if (least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
      bad("repeats beyond 1000 times, or fewer than none");
    return true;
  }
  void repeat(size_t begin, int64_t least, int64_t most) {
    const std::vector<Step> part(out_.steps_.begin() + static_cast<std::ptrdiff_t>(begin), out_.steps_.end());
    out_.steps_.resize(begin);
    const auto copy = [&] {
      const size_t by = end() - begin;
      for (const Step& step : part) {
        const Step moved = shifted(step, begin, by);
        add(moved.kind, moved.a, moved.b);
      }
    };
    for (int64_t i = 0; i < least; ++i) copy();
    if (most < 0) {
      const size_t fork = add(Kind::kFork);
      copy();
      add(Kind::kGo, fork);
      out_.steps_[fork].a = fork + 1;
      out_.steps_[fork].b = end();
      return;
    }
    std::vector<size_t> forks;
    for (int64_t i = least; i < most; ++i) {
      forks.push_back(add(Kind::kFork));
      copy();
    }
    for (const size_t fork : forks) {
      out_.steps_[fork].a = fork + 1;
      out_.steps_[fork].b = end();
    }
  }

  // One character, class, place or group. False if it cannot be repeated: flags for what follows.
  bool piece(int depth) {
    if (accept(U"(")) return group(depth);
    if (accept(U"[")) return character_class(), true;
    if (accept(U".")) {
      if (flags_.dot_takes_lines) return set({{0, kLast}}), true;
      return set({{0, '\n' - 1}, {'\n' + 1, kLast}}), true;
    }
    if (accept(U"^")) return place(flags_.lines ? Place::kLineBegin : Place::kTextBegin), true;
    if (accept(U"$")) return place(flags_.lines ? Place::kLineEnd : Place::kTextEnd), true;
    if (accept(U"\\")) return escaped(), true;
    literal(text_[at_++]);
    return true;
  }

  bool group(int depth) {
    const Flags around = flags_;
    if (accept(U"?P<") || accept(U"?<")) {
      const size_t close = text_.find('>', at_);
      if (close == std::u32string::npos || close == at_) bad("has a group without a name");
      for (; at_ < close; ++at_)
        if (!is_word(text_, at_)) bad("has a group whose name is not a word");
      ++at_;
    } else if (accept(U"?")) {
      if (!group_flags()) return false;
    }
    alternatives(depth + 1);
    if (!accept(U")")) bad("has a group without an end");
    flags_ = around;
    return true;
  }
  // Behind "(?": flags up to ":" of a group, or up to ")" for what follows (false).
  bool group_flags() {
    bool on = true;
    for (; at_ < text_.size(); ++at_) switch (text_[at_]) {
        case 'i': flags_.any_case = on; break;
        case 's': flags_.dot_takes_lines = on; break;
        case 'm': flags_.lines = on; break;
        case 'U': break;
        case '-': on = false; break;
        case ':': return ++at_, true;
        case ')': return ++at_, false;
        default: bad("has a group of a kind that RE2 does not have");
      }
    bad("has a group without an end");
  }

  void place(Place place) { add(Kind::kPlace, static_cast<size_t>(place)); }
  void set(Ranges ranges, bool negated = false) {
    out_.sets_.push_back({std::move(ranges), negated, flags_.any_case});
    add(Kind::kCharacter, out_.sets_.size() - 1);
  }
  void literal(char32_t c) { set({{c, c}}); }

  // \d and the like: appends its characters. False if the letter is none of these.
  bool perl_class(char32_t letter, Ranges& out) {
    const char32_t small = to_lower(letter);
    if (small != 'd' && small != 's' && small != 'w') return false;
    for (const NamedClass& known : named_classes())
      if (known.name.size() == 1 && static_cast<char32_t>(known.name[0]) == small) {
        if (small == letter) out.insert(out.end(), known.ranges.begin(), known.ranges.end());
        else add_outside(known.ranges, out);
      }
    return true;
  }

  void escaped() {
    if (!has(1)) bad("ends with a backslash");
    const char32_t c = text_[at_];
    Ranges ranges;
    if (perl_class(c, ranges)) return ++at_, set(std::move(ranges));
    static constexpr std::pair<char32_t, Place> kPlaces[] = {
        {'A', Place::kTextBegin}, {'z', Place::kTextEnd}, {'b', Place::kWordEdge}, {'B', Place::kNoWordEdge}};
    for (const auto& [letter, where] : kPlaces)
      if (c == letter) return ++at_, place(where);
    literal(escaped_character());
  }

  // Behind a backslash, of what stands for one character.
  char32_t escaped_character() {
    if (!has(1)) bad("ends with a backslash");
    const char32_t c = text_[at_++];
    switch (c) {
      case 'a': return 7;
      case 'f': return '\f';
      case 't': return '\t';
      case 'n': return '\n';
      case 'r': return '\r';
      case 'v': return 11;
      case 'x': return hexadecimal();
      default: break;
    }
    if (c >= '0' && c <= '7') return octal(c);
    const bool is_plain = c >= 128 || is_word(std::u32string_view(&c, 1), 0);
    if (is_plain && c != '_') {
      --at_;
      bad("has an escape that RE2 does not have, or a class of Unicode, which qdq does not have");
    }
    return c;
  }
  static int digit(char32_t c) {
    if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
    return -1;
  }
  char32_t hexadecimal() {
    const bool is_long = accept(U"{");
    char32_t out = 0;
    size_t count = 0;
    for (; at_ < text_.size() && (is_long || count < 2) && digit(text_[at_]) >= 0 && out <= kLast; ++at_, ++count)
      out = out * 16 + static_cast<char32_t>(digit(text_[at_]));
    if (count == 0 || (!is_long && count != 2) || (is_long && !accept(U"}")) || out > kLast)
      bad("has a \\x that is not a character");
    return out;
  }
  // \0, \01, \012, \123; a single digit but 0 would be a reference to a group.
  char32_t octal(char32_t first) {
    auto out = static_cast<char32_t>(first - '0');
    const bool more = has(1) && text_[at_] >= '0' && text_[at_] <= '7';
    if (first != '0' && !more) bad("refers to a group, which RE2 does not");
    for (int i = 0; i < 2 && has(1) && text_[at_] >= '0' && text_[at_] <= '7'; ++i)
      out = out * 8 + (text_[at_++] - '0');
    return out;
  }

  void character_class() {
    const bool negated = accept(U"^");
    Ranges ranges;
    for (bool is_first = true; is_first || !accept(U"]"); is_first = false) {
      if (!has(1)) bad("has a [ without an end");
      if (accept(U"[:")) {
        named(ranges);
        continue;
      }
      if (text_[at_] == '\\' && has(2) && perl_class(text_[at_ + 1], ranges)) {
        at_ += 2;
        continue;
      }
      const char32_t low = class_character();
      char32_t high = low;
      if (has(2) && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        high = class_character();
      }
      if (high < low) bad("has a range that ends before it begins");
      ranges.emplace_back(low, high);
    }
    set(std::move(ranges), negated);
  }
  char32_t class_character() {
    if (!has(1)) bad("has a [ without an end");
    if (accept(U"\\")) return escaped_character();
    return text_[at_++];
  }
  // Behind "[:" in a class.
  void named(Ranges& out) {
    const bool negated = accept(U"^");
    for (const NamedClass& known : named_classes()) {
      if (known.name.size() == 1 || !accept(characters_of(concat(known.name, ":]")))) continue;
      if (negated) add_outside(known.ranges, out);
      else out.insert(out.end(), known.ranges.begin(), known.ranges.end());
      return;
    }
    bad("has a class of a name that RE2 does not have");
  }

  std::string_view pattern_;
  std::u32string text_;
  FullMatch& out_;
  size_t at_ = 0;
  Flags flags_;
};

FullMatch::FullMatch(std::string_view pattern) { PatternParser(pattern, *this).parse(); }

bool FullMatch::Set::has(char32_t c) const {
  const auto holds = [&](char32_t one) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& range) { return one >= range.first && one <= range.second; });
  };
  return (holds(c) || (any_case && (holds(to_lower(c)) || holds(to_upper(c))))) != negated;
}

bool FullMatch::is_at(Place place, std::u32string_view text, size_t i) {
  switch (place) {
    case Place::kTextBegin: return i == 0;
    case Place::kTextEnd: return i == text.size();
    case Place::kLineBegin: return i == 0 || text[i - 1] == '\n';
    case Place::kLineEnd: return i == text.size() || text[i] == '\n';
    case Place::kWordEdge:
    case Place::kNoWordEdge:
      return ((i > 0 && is_word(text, i - 1)) != is_word(text, i)) == (place == Place::kWordEdge);
  }
  return false;
}

// Appends the steps that wait for a character, or are the end, from `step` on.
void FullMatch::follow(std::vector<size_t>& at, std::vector<bool>& seen, size_t step, std::u32string_view text,
                       size_t place) const {
  std::vector<size_t> open = {step};
  while (!open.empty()) {
    const size_t i = open.back();
    open.pop_back();
    if (seen[i]) continue;
    seen[i] = true;
    const Step& here = steps_[i];
    switch (here.kind) {
      case Step::Kind::kGo: open.push_back(here.a); break;
      case Step::Kind::kFork:
        open.push_back(here.b);
        open.push_back(here.a);
        break;
      case Step::Kind::kPlace:
        if (is_at(static_cast<Place>(here.a), text, place)) open.push_back(i + 1);
        break;
      default: at.push_back(i);
    }
  }
}

bool FullMatch::operator()(std::string_view text) const {
  const std::u32string characters = characters_of(text);
  std::vector<size_t> now, next;
  std::vector<bool> seen(steps_.size(), false);
  follow(now, seen, 0, characters, 0);
  for (size_t i = 0; i < characters.size() && !now.empty(); ++i) {
    next.clear();
    seen.assign(steps_.size(), false);
    for (const size_t step : now)
      if (steps_[step].kind == Step::Kind::kCharacter && sets_[steps_[step].a].has(characters[i]))
        follow(next, seen, step + 1, characters, i + 1);
    std::swap(now, next);
  }
  return std::any_of(now.begin(), now.end(), [&](size_t step) { return steps_[step].kind == Step::Kind::kEnd; });
}

}  // namespace qdq
