#include "base/memory.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/large_blocks.h"
#include "base/process_memory.h"

#if defined(__EMSCRIPTEN__) || defined(__GLIBC__)
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
  return MemoryLimit(kAddresses, "that WebAssembly has",
                     kHas64Bits ? "use the native program"
                                : "allow more than 4 GB in Node 24 or a current Chromium, or use the native program");
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
std::atomic<bool> counts_process{false};
// What the process has besides tensors, and what tensors had taken when that was looked at.
std::atomic<uint64_t> besides_tensors{0}, looked_at{0};

void look_at_process(uint64_t tensors) {
  static const uint64_t program = process_memory();
  // Blocks that are kept are there for the next tensors. What was never written of a tensor the system does not count.
  const uint64_t all = process_memory(), known = tensors + block_use().kept;
  besides_tensors = std::max(program, all - std::min(all, known));
  looked_at = tensors;
}

// To ask the system takes some microseconds: it is asked for large tensors, when a sixteenth of the limit has come or
// gone in small ones, and always where the limit is near.
uint64_t memory_in_use(uint64_t tensors, uint64_t wanted, const MemoryLimit& limit) {
  constexpr uint64_t kLarge = uint64_t{1} << 20;
  if (!counts_process) return tensors;
  const uint64_t last = looked_at, changed = std::max(tensors, last) - std::min(tensors, last);
  const bool is_near = wanted > limit.bytes / 8 * 7 || tensors + besides_tensors > limit.bytes / 8 * 7 - wanted;
  if (wanted >= kLarge || is_near || changed > limit.bytes / 16) look_at_process(tensors);
  return tensors + besides_tensors;
}

uint64_t left_for(uint64_t wanted, uint64_t tensors, const MemoryLimit& limit) {
  const auto left = [&] { return limit.bytes - std::min(limit.bytes, memory_in_use(tensors, wanted, limit)); };
  if (const uint64_t now = left(); !counts_process || wanted <= now) return now;
  // What is kept for later is needed now.
  release_kept_blocks();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  return left();
}
#endif

uint64_t left_of(const MemoryLimit& limit, [[maybe_unused]] uint64_t wanted) {
#ifdef __EMSCRIPTEN__
  return limit.bytes - std::min(limit.bytes, memory_in_use());
#else
  return left_for(wanted, taken, limit);
#endif
}

[[noreturn]] void refuse(uint64_t bytes, std::string_view what, uint64_t left, std::string_view words) {
  fail(ErrorCode::kOutOfMemory, what, " needs at least ", size_text(bytes), " of memory, and ", size_text(left),
       " are left of the ", words);
}

void check(uint64_t bytes, std::string_view what, std::string MemoryLimit::* words) {
  const std::optional<MemoryLimit>& limit = memory_limit();
  if (!limit) return;
  const uint64_t left = left_of(*limit, bytes);
  if (bytes > left) refuse(bytes, what, left, *limit.*words);
}

}  // namespace

MemoryLimit::MemoryLimit(uint64_t bytes, std::string_view whose, std::string_view remedy)
    : bytes(bytes), words(concat(size_text(bytes), " ", whose, "; use smaller batches, or ", remedy)),
      words_of_files(concat(size_text(bytes), " ", whose, "; ", remedy)) {}

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
  return limit ? std::optional(left_of(*limit, 0)) : std::nullopt;
}

void check_memory(uint64_t bytes, std::string_view what) { check(bytes, what, &MemoryLimit::words); }
void check_memory_of_file(uint64_t bytes, std::string_view what) { check(bytes, what, &MemoryLimit::words_of_files); }

#ifdef __EMSCRIPTEN__
void take_memory(uint64_t bytes) { taken.fetch_add(bytes, std::memory_order_relaxed); }
void count_process_memory() {}

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
  if (!limit) return;
  const uint64_t left = left_for(bytes, before, *limit);
  if (bytes <= left) return;
  give_memory_back(bytes);
  refuse(bytes, "a tensor", left, limit->words);
}

void count_process_memory() {
  counts_process = process_memory() > 0;
  look_at_process(taken);
}
#endif
void give_memory_back(uint64_t bytes) { taken.fetch_sub(bytes, std::memory_order_relaxed); }

}  // namespace qdq
