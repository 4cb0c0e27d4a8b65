// Little-endian numbers and text in spans of bytes, as every file format here needs them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace qdq::format {

static_assert(std::endian::native == std::endian::little,
              "files are little endian, and so are all machines qdq runs on");

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

// The bytes as text and back; no copy.
inline std::string_view text_of(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline void append(Bytes& out, ByteSpan bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

// Appends a number in little-endian order.
template <class T> void append_number(Bytes& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

// The bytes in base64 (RFC 4648), padded.
std::string base64(ByteSpan bytes);
// And back. Throws Error{kBadFile}, naming `what`, for text that base64() does not write.
Bytes base64_bytes(std::string_view text, std::string_view what);

// Reads a span from its front to its end; every read is checked.
class ByteReader {
 public:
  // `what` names the bytes in errors and must outlive the reader: "the zip directory".
  ByteReader(ByteSpan bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  // The next `count` bytes. Throws Error{kBadFile} if there are fewer.
  ByteSpan take(uint64_t count) {
    QDQ_CHECK(count <= remaining(), kBadFile, what_, " ends too early: ", count, " bytes were expected at offset ",
              position_, ", found ", remaining());
    const ByteSpan out = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return out;
  }

  // The next number in little-endian order. Throws Error{kBadFile} at the end.
  template <class T> T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  ByteSpan bytes_;
  std::string_view what_;
  size_t position_ = 0;
};

}  // namespace qdq::format
