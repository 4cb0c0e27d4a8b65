// The bytes of a file in tests/golden/format.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "format/bytes.h"
#include "source_dir.h"

namespace qdq::format {

inline Bytes golden_file(const std::string& name) {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/format/" + name, std::ios::binary);
  QDQ_CHECK(file, kIo, "tests/golden/format/", name, " is missing");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ByteSpan bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

}  // namespace qdq::format
