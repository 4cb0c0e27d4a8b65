// Files of tests/golden.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "format/bytes.h"
#include "source_dir.h"

namespace qdq {

// `path` below tests/golden. Throws Error{kIo} if there is none.
inline format::Bytes golden_bytes(const std::string& path) {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/" + path, std::ios::binary);
  QDQ_CHECK(file, kIo, "tests/golden/", path, " is missing");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const format::ByteSpan bytes = format::bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

}  // namespace qdq
