// Copies between tensors with different orders of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace qdq {

// Copies numbers of `bytes` bytes (1, 2, 4 or 8) from one place to another, [sizes...] at both, strides in numbers. No
// number is written twice, and nothing that is written is read. Small squares go from the one order to the other while
// they are in the cache.
void copy_strided(std::span<const int64_t> sizes, size_t bytes, const std::byte* from,
                  std::span<const int64_t> from_strides, std::byte* to, std::span<const int64_t> to_strides);

}  // namespace qdq
