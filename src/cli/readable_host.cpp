#include "cli/readable_host.h"

#include <utility>

#include "base/error.h"
#include "base/readable.h"

namespace qdq {

namespace {

std::string shown_message(std::string text) {
  const bool ends = text.ends_with('\n');
  if (ends) text.pop_back();
  return readable(text, kLongestMessage) + (ends ? "\n" : "");
}

}  // namespace

void ReadableHost::print(const std::string& text) { host_.print(readable(text)); }

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
