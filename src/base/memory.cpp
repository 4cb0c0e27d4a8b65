#include "base/memory.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"

#ifdef __EMSCRIPTEN__
#include <malloc.h>
#endif

namespace qdq {
namespace {

std::string size_text(uint64_t bytes) {
  if (bytes >= uint64_t{4} << 30 && bytes % (uint64_t{1} << 30) == 0) return concat(bytes >> 30, " GB");
  return bytes < 10'000'000 ? concat((bytes + 500) / 1000, " kB")
                            : concat(bytes / 1'000'000 + (bytes % 1'000'000 >= 500'000 ? 1 : 0), " MB");
}

// What addresses of the module reach; of 64 bits, what engines give at most.
constexpr bool kHas64Bits = sizeof(void*) == 8;
constexpr uint64_t kAddresses = uint64_t{kHas64Bits ? 16 : 4} << 30;

std::optional<MemoryLimit> limit_of_addresses() {
#ifdef __EMSCRIPTEN__
  return MemoryLimit(kAddresses, kHas64Bits ? "that WebAssembly has; use smaller batches, or the native program"
                                            : "that WebAssembly has; use smaller batches, allow more than 4 GB in "
                                              "Node 24 or a current Chromium, or use the native program");
#else
  return std::nullopt;
#endif
}

std::optional<MemoryLimit>& limit_in_force() {
  static std::optional<MemoryLimit> limit = limit_of_addresses();
  return limit;
}

std::atomic<uint64_t> taken{0};

#ifdef __EMSCRIPTEN__
// The bytes of the limit in force, for who may not allocate.
std::atomic<uint64_t> limit_bytes{kAddresses};

// The allocator counts everything that is in use, but in 32 bits. Tensors have most of what is beyond.
uint64_t memory_in_use() {
  const uint64_t counted = static_cast<uint32_t>(mallinfo().uordblks);
  if constexpr (!kHas64Bits) return counted;
  constexpr uint64_t kWrap = uint64_t{1} << 32;
  const uint64_t tensors = taken.load(std::memory_order_relaxed);
  return counted >= tensors ? counted : counted + (tensors - counted + kWrap - 1) / kWrap * kWrap;
}
#else
uint64_t memory_in_use() { return taken.load(std::memory_order_relaxed); }
#endif

uint64_t left_of(const MemoryLimit& limit) { return limit.bytes - std::min(limit.bytes, memory_in_use()); }

[[noreturn]] void refuse(uint64_t bytes, std::string_view what, uint64_t left, const MemoryLimit& limit) {
  fail(ErrorCode::kOutOfMemory, what, " needs at least ", size_text(bytes), " of memory, and ", size_text(left),
       " are left of the ", limit.words);
}

}  // namespace

MemoryLimit::MemoryLimit(uint64_t bytes, std::string_view rest)
    : bytes(bytes), words(concat(size_text(bytes), " ", rest)) {}

const std::optional<MemoryLimit>& memory_limit() { return limit_in_force(); }

void set_memory_limit(std::optional<MemoryLimit> limit) {
  const std::optional<MemoryLimit> highest = limit_of_addresses();
  limit_in_force() = limit && (!highest || limit->bytes < highest->bytes) ? std::move(limit) : highest;
#ifdef __EMSCRIPTEN__
  limit_bytes = limit_in_force()->bytes;
#endif
}

std::string memory_in_words() {
  const std::optional<MemoryLimit>& limit = memory_limit();
  return limit ? concat("what is left of the ", limit->words) : "memory";
}

std::optional<uint64_t> available_memory() {
  const std::optional<MemoryLimit>& limit = memory_limit();
  return limit ? std::optional(left_of(*limit)) : std::nullopt;
}

void check_memory(uint64_t bytes, std::string_view what) {
  const std::optional<MemoryLimit>& limit = memory_limit();
  if (!limit) return;
  const uint64_t left = left_of(*limit);
  if (bytes > left) refuse(bytes, what, left, *limit);
}

#ifdef __EMSCRIPTEN__
void take_memory(uint64_t bytes) { taken.fetch_add(bytes, std::memory_order_relaxed); }

// Asked by the module's glue (bindings/memory.js) before its memory grows: in the midst of an allocation, so nothing
// here may allocate.
extern "C" double qdq_memory_limit() {
  constexpr uint64_t kPage = 65536, kMost = kAddresses - kPage;
  return static_cast<double>(std::min(limit_bytes.load(), kMost) / kPage * kPage);
}
#else
void take_memory(uint64_t bytes) {
  const uint64_t before = taken.fetch_add(bytes, std::memory_order_relaxed);
  const std::optional<MemoryLimit>& limit = memory_limit();
  if (!limit || (before <= limit->bytes && bytes <= limit->bytes - before)) return;
  give_memory_back(bytes);
  refuse(bytes, "a tensor", limit->bytes - std::min(limit->bytes, before), *limit);
}
#endif
void give_memory_back(uint64_t bytes) { taken.fetch_sub(bytes, std::memory_order_relaxed); }

}  // namespace qdq
