// SHA-256, to compare large data with its recorded hash.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace qdq::format {

// The hash of the bytes in lower-case hexadecimal (FIPS 180-4).
std::string sha256(std::span<const std::byte> bytes);

}  // namespace qdq::format
