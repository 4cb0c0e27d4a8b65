#include "base/process_memory.h"

#ifdef __linux__
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/disk_blocks.h"
#endif

namespace qdq {

uint64_t process_memory() {
#ifdef __linux__
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];  // "size resident shared text 0 data 0", in pages
  const ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return 0;
  text[count] = 0;
  char* at = text;
  std::strtoull(at, &at, 10);
  const uint64_t resident = std::strtoull(at, &at, 10), shared = std::strtoull(at, &at, 10);
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Once tensors lie in scratch files, "shared" is mostly theirs.
  return (has_disk_blocks() ? resident - shared : resident) * page;
#else
  return 0;
#endif
}

}  // namespace qdq
