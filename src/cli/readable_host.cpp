#include "cli/readable_host.h"

#include <utility>

#include "base/error.h"
#include "base/readable.h"
#include "cli/options.h"

namespace qdq {

namespace {

std::string shown_message(std::string text) {
  const bool ends = text.ends_with('\n');
  if (ends) text.pop_back();
  // A warning or an error is one line, whatever the names in it are.
  if (text.starts_with("qdq:")) text = one_line(std::move(text));
  return readable(text, kLongestMessage) + (ends ? "\n" : "");
}

}  // namespace

// JSON is for programs, which want all of it.
void ReadableHost::print(const std::string& text) {
  constexpr size_t kLongestLine = 10000;  // bytes: lists of results in --graph are long
  const bool is_json = text.starts_with('{') || text.starts_with('[');
  host_.print(is_json ? readable(text) : readable_lines(text, kLongestLine));
}

void ReadableHost::print_error(const std::string& text) {
  // A progress bar is qdq's own words and begins with a carriage return.
  host_.print_error(text.starts_with('\r') ? text : colored(shown_message(text)));
}

// Warnings begin in yellow, errors in red.
std::string ReadableHost::colored(const std::string& text) {
  if (!host_.error_has_colors()) return text;
  for (const auto& [word, color] : {std::pair("qdq: warning:", "33"), std::pair("qdq:", "31")})
    if (text.starts_with(word))
      return concat("\033[", color, "m", word, "\033[0m", text.substr(std::string_view(word).size()));
  return text;
}

}  // namespace qdq
