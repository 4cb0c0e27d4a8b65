// What the kernel tests share: seeded data, sums in the documented order, comparison and hashing of bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace qdq::kernel {

template <class T> decltype(auto) at(T& values, int64_t index) { return values[static_cast<size_t>(index)]; }

// xorshift64*, so that every build draws the same numbers.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Dull;
  }
  // In [0, 1), a multiple of 2^-24.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }
  std::vector<float> floats(int64_t n, float lo = -1.0f, float hi = 1.0f) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = lo + (hi - lo) * uniform();
    return values;
  }

 private:
  uint64_t state_;
};

// The sum that kernel/gemm.h documents.
class BlockSum {
 public:
  explicit BlockSum(int64_t length = 256) : length_(length) {}

  void add(float a, float b) {
    if (count_ == length_) {
      total_ = has_total_ ? total_ + block_ : block_;
      has_total_ = true;
      block_ = 0.0f;
      count_ = 0;
    }
    const float product = a * b;
    block_ = block_ + product;
    ++count_;
  }
  float total() const { return has_total_ ? total_ + block_ : block_; }

 private:
  int64_t length_;
  float total_ = 0.0f, block_ = 0.0f;
  bool has_total_ = false;
  int count_ = 0;
};

template <class T> testing::AssertionResult same_bits(const std::vector<T>& got, const std::vector<T>& want) {
  if (got.size() != want.size())
    return testing::AssertionFailure() << got.size() << " elements, wanted " << want.size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0)
      return testing::AssertionFailure() << "element " << i << " is " << +got[i] << ", wanted " << +want[i];
  }
  return testing::AssertionSuccess();
}

// FNV-1a of the bytes.
template <class T> uint64_t hash_bits(const std::vector<T>& values) {
  uint64_t hash = 0xcbf29ce484222325ull;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ull;
  return hash;
}

}  // namespace qdq::kernel
