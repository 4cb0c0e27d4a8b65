// What the short fuzzings share: settings from the environment and their random numbers.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace qdq {

// The number in an environment variable, or the other one.
inline int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

// xorshift64*: the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t below(uint64_t count) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545F4914F6CDD1Dull >> 16) % count;
  }

 private:
  uint64_t state_;
};

}  // namespace qdq
