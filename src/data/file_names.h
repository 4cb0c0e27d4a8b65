// What the names of samples' files tell.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace qdq {

inline bool ends_with(std::string_view text, std::string_view end) {
  if (text.size() < end.size()) return false;
  return std::equal(
      end.begin(), end.end(), text.end() - static_cast<std::ptrdiff_t>(end.size()),
      [](char wanted, char found) { return wanted == (found >= 'A' && found <= 'Z' ? found + ('a' - 'A') : found); });
}

inline bool ends_with_one_of(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return ends_with(name, end); });
}

inline bool is_image(std::string_view name) { return ends_with_one_of(name, {".jpg", ".jpeg", ".png", ".bmp"}); }

// An image of a kind that is not read.
inline bool is_foreign_image(std::string_view name) {
  return ends_with_one_of(
      name, {".webp", ".gif", ".tif", ".tiff", ".avif", ".heic", ".heif", ".jxl", ".jp2", ".jfif", ".ppm", ".pgm"});
}

// The first part of a path of several, else "".
inline std::string_view front_of(std::string_view file) {
  const size_t slash = file.find('/');
  return slash == std::string_view::npos ? std::string_view() : file.substr(0, slash);
}

}  // namespace qdq
