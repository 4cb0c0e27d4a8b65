// The limit on memory, and how much of it is left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qdq {

// The limit on memory, and the end of a refusal, which says whose limit it is and what helps:
//   "a run needs at least 6400 MB of memory, and 300 MB are left of the " "500 MB that --max-memory allows; use smaller
//   batches, or allow more"
// For files, whose size does not depend on batches, it ends in "... allows; allow more".
struct MemoryLimit {
  // `whose`: "that --max-memory allows".
  MemoryLimit(uint64_t bytes, std::string_view whose, std::string_view remedy = "allow more");

  uint64_t bytes;
  std::string words, words_of_files;
};

// The limit that was set. Initially none natively, and in WebAssembly the 4 GB that 32-bit addresses reach, which
// nothing can raise.
const std::optional<MemoryLimit>& memory_limit();
// Sets the limit of all work that begins afterwards; without a value, the initial one. In WebAssembly the memory does
// not grow beyond it, so the limit covers everything. Natively it covers only tensors, not the program and its
// libraries, unless count_process_memory() was called.
void set_memory_limit(std::optional<MemoryLimit> limit);
// From now on limits cover all memory that the system counts for this process (base/process_memory.h), for tensors and
// for available_memory(). Native builds under Linux only.
void count_process_memory();

// "memory", or "what is left of the 500 MB that --max-memory allows; ...": the end of a sentence about something that
// does not fit into it.
std::string memory_in_words();

// The bytes that are still available; no value if there is no limit.
std::optional<uint64_t> available_memory();

// Throws Error{kOutOfMemory} if so many bytes are not available. `what` names the work that needs them: "a run of the
// program". Called before large work begins; smaller allocations fail on their own.
void check_memory(uint64_t bytes, std::string_view what);
// The same of work whose size is that of a file: "reading model.pt2".
void check_memory_of_file(uint64_t bytes, std::string_view what);

// Count the memory that a tensor takes and gives back. take_memory throws as check_memory does.
void take_memory(uint64_t bytes);
void give_memory_back(uint64_t bytes);

}  // namespace qdq
