// The standard input as a file that can be read in parts and in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace qdq {

class StandardInput {
 public:
  // Where the standard input is an ordinary file, that file from where it stands. A pipe is copied to its end into a
  // scratch file (base/scratch_file.h). Throws Error{kIo}.
  static StandardInput& get();

  uint64_t size() const { return size_; }
  // The bytes from `offset` on, fewer at the end. Throws Error{kIo}. May be called by several threads.
  std::vector<std::byte> read(uint64_t offset, uint64_t count) const;

 private:
  StandardInput();
  int file_ = 0;
  uint64_t begin_ = 0, size_ = 0;
};

}  // namespace qdq
