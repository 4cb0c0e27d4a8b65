// What the names of samples' files tell.
#pragma once

#include <algorithm>
#include <string_view>

namespace qdq {

inline bool ends_with(std::string_view text, std::string_view end) {
  if (text.size() < end.size()) return false;
  return std::equal(
      end.begin(), end.end(), text.end() - static_cast<std::ptrdiff_t>(end.size()),
      [](char wanted, char found) { return wanted == (found >= 'A' && found <= 'Z' ? found + ('a' - 'A') : found); });
}

inline bool is_image(std::string_view name) {
  static constexpr std::string_view kEnds[] = {".jpg", ".jpeg", ".png", ".bmp"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) { return ends_with(name, end); });
}

// The first part of a path of several, else "".
inline std::string_view front_of(std::string_view file) {
  const size_t slash = file.find('/');
  return slash == std::string_view::npos ? std::string_view() : file.substr(0, slash);
}

}  // namespace qdq
