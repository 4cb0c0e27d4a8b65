// Text of files as a person may be shown it.
#include "base/readable.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "base/error.h"

namespace qdq {

namespace {

// How many bytes the character at the front of a text that is not empty has, and its number; 0 for no UTF-8.
struct Character {
  size_t size;
  uint32_t number;
};
Character front_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {1, first};
  const size_t size = first >= 0xF0 && first < 0xF5 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (size == 0 || first >= 0xF5 || text.size() < size) return {0, first};
  uint32_t number = first & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, first};
    number = number << 6 | (byte(i) & 0x3Fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = number >= 0xD800 && number < 0xE000;
  return number < kLeast[size] || number > 0x10FFFF || is_surrogate ? Character{0, first} : Character{size, number};
}

bool is_deceptive(uint32_t c) {
  const bool is_control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
  const bool turns = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                     (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029;
  return is_control || turns;
}

// Where a cut does not part a character, at `at` or just before.
size_t border(std::string_view text, size_t at) {
  for (size_t back = 0; back < 4 && at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80; ++back) --at;
  return at;
}

void append_readable(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const Character front = front_of(text);
    const size_t size = front.size == 0 ? 1 : front.size;
    if (front.size == 0 || is_deceptive(front.number)) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(front.number & 0xFFFF));
      out += escaped;
    } else {
      out.append(text.substr(0, size));
    }
    text.remove_prefix(size);
  }
}

}  // namespace

std::string readable(std::string_view text, size_t longest) {
  std::string out;
  if (text.size() <= longest) {
    append_readable(text, out);
    return out;
  }
  const size_t head = border(text, longest / 4 * 3), tail = border(text, text.size() - longest / 4);
  append_readable(text.substr(0, head), out);
  out += concat(" [", tail - head, " bytes are left out] ");
  append_readable(text.substr(tail), out);
  return out;
}

std::string readable_name(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string line(name);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return readable(line, kLongest);
}

std::string readable_lines(std::string_view text, size_t longest_line) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += readable(text.substr(0, end), longest_line);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace qdq
