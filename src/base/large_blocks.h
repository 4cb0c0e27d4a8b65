// The memory of large tensors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qdq {

// Memory for `bytes` bytes, at a multiple of 64. Throws std::bad_alloc.
//
// Activations of a batch are as large as weights, come and go at every operator, and have many sizes. A heap of all of
// them grows by the holes between them: to 450 MB where 300 were in use at the same time (ResNet-50, batch 16). Pages
// of their own for each, given back when it is freed, cost 5 % of the time to find and clear them again. So under Linux
// a block of 256 KiB or more consists of whole pages, is kept when it is freed, and is cut or joined with its
// neighbours for the next one. The blocks in use and those that are kept are never more together than were in use at
// some moment, but for 8 MiB of pages that were not used yet; what is beyond goes back to the system.
void* take_block(size_t bytes);
// Frees a block that take_block gave for as many bytes.
void give_block(void* block, size_t bytes) noexcept;

// Gives what is kept back to the system: after a run, when no other of its kind follows soon.
void release_kept_blocks();

// Of the large blocks, in bytes: in use now, kept for later, and the most that were in use at a time. Zeros where there
// are none.
struct BlockUse {
  uint64_t taken = 0, kept = 0, most = 0;
};
BlockUse block_use();

}  // namespace qdq
