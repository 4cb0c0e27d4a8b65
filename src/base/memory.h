// How much memory may be used, and how much of it is left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qdq {

// The most memory that may be used, and how a refusal ends, which says whose limit it is and what helps:
//   "a run needs at least 6400 MB of memory, and 300 MB are left of the " "500 MB that --max-memory allows; use smaller
//   batches, or allow more"
struct MemoryLimit {
  // `rest`: "that --max-memory allows; use smaller batches, or allow more"
  MemoryLimit(uint64_t bytes, std::string_view rest);

  uint64_t bytes;
  std::string words;
};

// The limit that was set. Until then it is the 4 GB that 32-bit addresses (WebAssembly) reach, which nothing can raise;
// natively none.
const std::optional<MemoryLimit>& memory_limit();
// For all work that begins afterwards; nothing: the limit of the beginning. In WebAssembly the memory does not grow
// beyond it, so it holds for everything; natively it holds for what tensors take, and the program with its libraries
// comes on top.
void set_memory_limit(std::optional<MemoryLimit> limit);

// "memory", or "what is left of the 500 MB that --max-memory allows; ...": the end of a sentence about something that
// does not fit into it.
std::string memory_in_words();

// The bytes that can still be had. Nothing where there is no limit.
std::optional<uint64_t> available_memory();

// Throws Error{kOutOfMemory} if that many bytes are not to be had. `what` is what needs them: "a run of the program".
// For large pieces of work before they begin; whatever is refused later is refused by the allocation itself.
void check_memory(uint64_t bytes, std::string_view what);

// Counts what a tensor takes and gives back. take_memory throws as check_memory does.
void take_memory(uint64_t bytes);
void give_memory_back(uint64_t bytes);

}  // namespace qdq
