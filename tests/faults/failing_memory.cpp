#include "faults/failing_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <limits>

// What glibc has beneath the names that are taken here.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
}

namespace qdq {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

std::atomic<uint64_t> count{0}, first_failing{kNever}, last_failing{kNever};
std::atomic<int64_t> in_use{0};

bool fails() {
  const uint64_t n = ++count;
  if (n < first_failing || n > last_failing) return false;
  errno = ENOMEM;
  return true;
}

void* counted(void* block) {
  if (block != nullptr) ++in_use;
  return block;
}

}  // namespace

void fail_allocation(uint64_t n, bool all_after) {
  first_failing = kNever;
  count = 0;
  last_failing = all_after ? kNever : n;
  first_failing = n == 0 ? kNever : n;
}
uint64_t allocations() { return count; }
int64_t blocks_in_use() { return in_use; }

}  // namespace qdq

using qdq::counted;
using qdq::fails;

extern "C" {
void* malloc(size_t size) { return fails() ? nullptr : counted(__libc_malloc(size)); }
void* calloc(size_t number, size_t size) { return fails() ? nullptr : counted(__libc_calloc(number, size)); }
void* realloc(void* block, size_t size) {
  if (block == nullptr) return malloc(size);
  return fails() ? nullptr : __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) { return fails() ? nullptr : counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* const block = memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
void free(void* block) {
  if (block == nullptr) return;
  --qdq::in_use;
  __libc_free(block);
}
// The pages of large tensors.
void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) != 0 && fails()) return MAP_FAILED;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): so the system tells of an address
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}
}
