// A memory limit for as long as a test runs.
#pragma once

#include "base/memory.h"

namespace qdq {

struct LimitedMemory {
  explicit LimitedMemory(uint64_t bytes) { set_memory_limit(MemoryLimit(bytes, "that the test allows")); }
  ~LimitedMemory() { set_memory_limit(std::nullopt); }
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;
};

}  // namespace qdq
