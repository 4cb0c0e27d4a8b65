// Sets bytes aside in scratch files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qdq {

// Bytes that are appended and can be read in any order. Natively it keeps at most a megabyte of them in memory and the
// others in a scratch file (base/scratch_file.h). All stay in memory in WebAssembly, or if it cannot make such a file.
class ScratchBytes {
 public:
  ScratchBytes() = default;
  ~ScratchBytes();
  ScratchBytes(const ScratchBytes&) = delete;
  ScratchBytes& operator=(const ScratchBytes&) = delete;

  // Throws Error{kIo} if the disk is full.
  void append(std::string_view bytes);
  uint64_t size() const { return size_; }
  // The bytes [offset, offset + count), which must exist. Throws Error{kIo}.
  std::string read(uint64_t offset, size_t count) const;
  size_t bytes_in_memory() const;

 private:
  // Whether it went into the file.
  bool wrote(const std::string& chunk);

  static constexpr size_t kChunk = size_t{1} << 20;
  std::vector<std::string> chunks_;  // behind those in the file, each full but for the last
  uint64_t size_ = 0, in_file_ = 0;
#ifndef __EMSCRIPTEN__
  int file_ = -1;
  bool has_disk_ = true;
#endif
};

}  // namespace qdq
