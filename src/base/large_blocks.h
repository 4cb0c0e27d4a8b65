// Allocates the memory of large tensors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qdq {

// Memory for `bytes` bytes, at a multiple of 64. Throws std::bad_alloc.
//
// Activations of a batch are as large as weights, come and go at every operator, and have many sizes. In one heap the
// holes between them add up: it grew to 450 MB where 300 were in use at the same time (ResNet-50, batch 16). Giving
// each block pages of its own, and returning them to the system, costs 5 % of the time for finding and clearing pages.
// So under Linux a block of 256 KiB or more consists of whole pages. When it is freed, it is kept, and split or joined
// with its neighbours for the next one. Used and kept blocks together never exceed the largest use so far by more than
// 8 MiB of fresh pages; the rest goes back to the system.
void* take_block(size_t bytes);
// Frees a block that take_block returned for this number of bytes.
void give_block(void* block, size_t bytes) noexcept;

// Returns all kept blocks to the system; call it after a run if no similar run follows soon.
void release_kept_blocks();

// The bytes of large blocks: in use now, kept for later, and the largest use so far. All are 0 where there are no large
// blocks.
struct BlockUse {
  uint64_t taken = 0, kept = 0, most = 0;
};
BlockUse block_use();

}  // namespace qdq
