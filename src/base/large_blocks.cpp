#include "base/large_blocks.h"

#include <new>

// The address sanitizer would see nothing of what happens inside of a block.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define QDQ_LARGE_BLOCKS 1
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/large_pages.h"
#else
#define QDQ_LARGE_BLOCKS 0
#endif

namespace qdq {
namespace {

constexpr std::align_val_t kAlignment{64};

#if QDQ_LARGE_BLOCKS
constexpr size_t kLarge = size_t{1} << 18;
// sizes are multiples of it, so that a kept block fits tensors of nearly one size
constexpr size_t kGrain = size_t{1} << 14;
constexpr size_t kLargePage = size_t{1} << 21;
constexpr size_t kFewest = size_t{1} << 23;  // what is asked of the system at once: smaller blocks share large pages

size_t rounded(size_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

class KeptBlocks {
 public:
  char* take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto best = kept_.end();
    for (auto at = kept_.begin(); at != kept_.end(); ++at)
      if (at->second >= bytes && (best == kept_.end() || at->second < best->second)) best = at;
    char* block = nullptr;
    if (best != kept_.end()) {
      block = best->first;
      auto rest = kept_.extract(best);
      rest.key() += bytes;
      rest.mapped() -= bytes;
      if (rest.mapped() > 0) kept_.insert(std::move(rest));
      use_.kept -= bytes;
    } else {
      const uint64_t in_use = use_.taken + bytes, most = std::max(use_.most, in_use);
      keep_at_most(most - in_use);
      const size_t mapped = std::max(bytes, kFewest);
      block = map_pages(mapped);
      if (mapped > bytes) keep(block + bytes, mapped - bytes);
    }
    use_.taken += bytes;
    use_.most = std::max(use_.most, use_.taken);
    return block;
  }

  void give(char* block, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    use_.taken -= bytes;
    keep(block, bytes);
  }

  void release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    keep_at_most(0);
  }

  BlockUse use() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return use_;
  }

 private:
  // Joins a block with the kept ones beside it.
  void keep(char* block, size_t bytes) {
    use_.kept += bytes;
    const auto behind = kept_.lower_bound(block);
    const bool joins_behind = behind != kept_.end() && behind->first == block + bytes;
    if (behind != kept_.begin()) {
      const auto before = std::prev(behind);
      if (before->first + before->second == block) {
        before->second += bytes;
        if (joins_behind) {
          before->second += behind->second;
          kept_.erase(behind);
        }
        return;
      }
    }
    if (joins_behind) {
      auto node = kept_.extract(behind);
      node.key() = block;
      node.mapped() += bytes;
      kept_.insert(std::move(node));
      return;
    }
    try {
      kept_.emplace(block, bytes);
    } catch (const std::bad_alloc&) {
      unmap(block, bytes);
    }
  }

  void unmap(char* block, size_t bytes) {
    munmap(block, bytes);
    use_.kept -= bytes;
  }

  void keep_at_most(uint64_t bytes) {
    while (use_.kept > bytes) {
      const auto largest = std::max_element(kept_.begin(), kept_.end(),
                                            [](const auto& a, const auto& b) { return a.second < b.second; });
      const size_t cut = static_cast<size_t>(std::min<uint64_t>(largest->second, use_.kept - bytes));
      char* const end = largest->first + largest->second;
      largest->second -= cut;
      if (largest->second == 0) kept_.erase(largest);
      unmap(end - cut, cut);
    }
  }

  // A multiple of kGrain of new pages, from the beginning of a large one where they fill some.
  static char* map_pages(size_t bytes) {
    const size_t slack = bytes >= 2 * kLargePage ? kLargePage : 0;
    if (bytes + slack < bytes) throw std::bad_alloc();
    void* const found = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    char* block = static_cast<char*>(found);
    if (slack > 0) {
      const size_t front = (kLargePage - reinterpret_cast<uintptr_t>(block) % kLargePage) % kLargePage;
      if (front > 0) munmap(block, front);
      block += front;
      if (front < slack) munmap(block + bytes, slack - front);
    }
    prefer_large_pages(block, bytes);
    return block;
  }

  std::mutex mutex_;
  std::map<char*, size_t> kept_;
  BlockUse use_;
};

KeptBlocks& blocks() {
  static KeptBlocks* const instance = new KeptBlocks;  // tensors may outlive what the end of the process destroys
  return *instance;
}
#endif

}  // namespace

void* take_block(size_t bytes) {
#if QDQ_LARGE_BLOCKS
  if (bytes >= kLarge) {
    if (rounded(bytes) < bytes) throw std::bad_alloc();
    return blocks().take(rounded(bytes));
  }
#endif
  return ::operator new(bytes, kAlignment);
}

void give_block(void* block, size_t bytes) noexcept {
#if QDQ_LARGE_BLOCKS
  if (bytes >= kLarge) return blocks().give(static_cast<char*>(block), rounded(bytes));
#else
  (void)bytes;
#endif
  ::operator delete(block, kAlignment);
}

void release_kept_blocks() {
#if QDQ_LARGE_BLOCKS
  blocks().release();
#endif
}

BlockUse block_use() {
#if QDQ_LARGE_BLOCKS
  return blocks().use();
#else
  return {};
#endif
}

}  // namespace qdq
