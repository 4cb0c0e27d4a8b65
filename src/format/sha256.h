// SHA-256, to compare large data with its recorded hash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace qdq::format {

// The hash of the bytes in lower-case hexadecimal (FIPS 180-4).
std::string sha256(std::span<const std::byte> bytes);

// The same of bytes that come piece by piece.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  // The hash of all that was added; nothing may be added afterwards.
  std::string finish();

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};  // what does not fill a block yet
  uint64_t size_ = 0;
};

}  // namespace qdq::format
