// Tests whether a regular expression matches a whole text, in the syntax of RE2 (github.com/google/re2/wiki/Syntax) as
// ONNX's RegexFullMatch has it. The time grows with the product of both lengths, whatever the expression is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qdq {

class FullMatch {
 public:
  // Throws Error{kUnsupported} if the pattern is none of RE2's, has a class of Unicode (\pL) or the byte \C, or is too
  // long: beyond 2^16 steps when counted repetitions are spelled out.
  explicit FullMatch(std::string_view pattern);
  bool operator()(std::string_view text) const;

 private:
  friend class PatternParser;
  // A set of characters: ranges, sorted by nothing.
  struct Set {
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool negated = false, any_case = false;
    bool has(char32_t c) const;
  };
  enum class Place : uint8_t { kTextBegin, kTextEnd, kLineBegin, kLineEnd, kWordEdge, kNoWordEdge };
  // A step of the automaton: a character of set `a`; the place `a`; on at `a`, or at `a` and `b`; the end.
  struct Step {
    enum class Kind : uint8_t { kCharacter, kPlace, kGo, kFork, kEnd } kind;
    size_t a = 0, b = 0;
  };

  void follow(std::vector<size_t>& at, std::vector<bool>& seen, size_t step, std::u32string_view text,
              size_t place) const;
  static bool is_at(Place place, std::u32string_view text, size_t i);

  std::vector<Set> sets_;
  std::vector<Step> steps_;
};

}  // namespace qdq
