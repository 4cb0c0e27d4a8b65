// Reads and writes files by their descriptors until every byte is done, whatever signals and limits interrupt it.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace qdq {

// False with errno set if not all could be written.
inline bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

// How many bytes there were, fewer than `into` has at the end of the file alone; -1 with errno set. `read` is
// read(into, count, bytes so far), such as pread.
template <class Read> ptrdiff_t read_all(std::span<std::byte> into, const Read& read) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = read(into.data() + done, into.size() - done, done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<ptrdiff_t>(done);
}

// From the file's byte `offset` on.
inline ptrdiff_t read_all_at(int descriptor, std::span<std::byte> into, uint64_t offset) {
  return read_all(into, [&](std::byte* to, size_t count, size_t done) {
    return pread(descriptor, to, count, static_cast<off_t>(offset + done));
  });
}

}  // namespace qdq
