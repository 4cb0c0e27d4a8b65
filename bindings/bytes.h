// Bytes on their way across the border.
#pragma once

#include <emscripten/val.h>

#include <span>
#include <vector>

#include "base/memory.h"

namespace qdq {

// The bytes where they lie, for as long as the memory does not grow.
inline auto view_of(std::span<const std::byte> bytes) {
  return emscripten::typed_memory_view(bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
}

inline std::vector<std::byte> bytes_from(const emscripten::val& array) {
  const auto length = array["length"].as<double>();
  check_memory_of_file(static_cast<uint64_t>(length), "a copy of these bytes");
  std::vector<std::byte> bytes(static_cast<size_t>(length));
  emscripten::val(view_of(bytes)).call<void>("set", array);
  return bytes;
}

// A Uint8Array of its own.
inline emscripten::val bytes_to(std::span<const std::byte> bytes) {
  return emscripten::val::global("Uint8Array").new_(emscripten::val(view_of(bytes)));
}

}  // namespace qdq
