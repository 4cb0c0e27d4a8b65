// Makes text from files safe to show to a person.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qdq {

inline constexpr size_t kLongestMessage = 2000;  // bytes

// The text with what a terminal or a reader could be deceived by spelled out as \uXXXX: control characters (but for
// newlines and tabs), marks that turn the direction of writing, and bytes that are not UTF-8, one by one. JSON stays
// JSON, since such characters stand inside of its strings. A text that is longer than `longest` bytes loses its middle,
// and says how much that was.
std::string readable(std::string_view text, size_t longest = std::string_view::npos);

// The name of a node, an operator or a module in a table: readable, on one line, of at most 120 bytes but for what says
// that its middle is left out.
std::string readable_name(std::string_view name);

// Each line on its own, so that rows stay rows.
std::string readable_lines(std::string_view text, size_t longest_line);

}  // namespace qdq
