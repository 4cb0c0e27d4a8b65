// Keeps the bytes of tensors in files, for models that are larger than the memory.
#pragma once

#include <cstddef>
#include <span>

namespace qdq {

// While one that is wanted lives, tensors of a megabyte and more, of all threads, are made in scratch files: without a
// name, in the folder of the environment variable TMPDIR or else /var/tmp, gone with the tensor or the process. What is
// in memory of them the system takes away as it likes, or who knows better by release_pages. In WebAssembly it does
// nothing.
class BlocksOnDisk {
 public:
  explicit BlocksOnDisk(bool wanted = true);
  ~BlocksOnDisk();
  BlocksOnDisk(const BlocksOnDisk&) = delete;
  BlocksOnDisk& operator=(const BlocksOnDisk&) = delete;

 private:
  bool wanted_;
};

// Whether a block of so many bytes is to be on disk now.
bool goes_to_disk(size_t bytes);
// A block of zeros in a scratch file, whose room on the disk is taken at once. Throws Error{kIo} with folder, reason
// and remedy.
void* take_disk_block(size_t bytes);
// Frees it.
void give_disk_block(void* block) noexcept;
// Whether the address lies in such a block.
bool is_on_disk(const void* address);
// Whether there is any.
bool has_disk_blocks();
// Takes the pages of these bytes out of memory if they lie in such a block; they come back when they are used. Never
// changes what the bytes are.
void release_pages(std::span<const std::byte> bytes);

}  // namespace qdq
