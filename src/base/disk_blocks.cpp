#include "base/disk_blocks.h"

#include <atomic>

#include "base/error.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <string>

#include "base/disk_output.h"
#include "base/scratch_file.h"
#endif

namespace qdq {
namespace {

std::atomic<int> scopes_of_blocks{0};

#ifdef __linux__

// A file for less costs more than it saves.
constexpr size_t kLeastOnDisk = size_t{1} << 20;

class DiskBlocks {
 public:
  void add(const std::byte* block, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_.emplace(block, bytes);
    ++count_;
  }
  size_t remove(const std::byte* block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sizes_.find(block);
    const size_t bytes = found->second;
    sizes_.erase(found);
    --count_;
    return bytes;
  }
  // The bytes of the block around an address; none outside of all.
  std::span<const std::byte> around(const std::byte* address) {
    if (empty()) return {};
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto behind = sizes_.upper_bound(address);
    if (behind == sizes_.begin()) return {};
    const auto& [block, bytes] = *std::prev(behind);
    return address < block + bytes ? std::span(block, bytes) : std::span<const std::byte>();
  }
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, size_t> sizes_;
  std::atomic<size_t> count_{0};  // so that nobody else waits for anybody
};

DiskBlocks& disk_blocks() {
  static DiskBlocks* const instance = new DiskBlocks;  // tensors may outlive what the end of the process destroys
  return *instance;
}

#endif

}  // namespace

BlocksOnDisk::BlocksOnDisk(bool wanted) : wanted_(wanted) {
  if (wanted_) ++scopes_of_blocks;
}
BlocksOnDisk::~BlocksOnDisk() {
  if (wanted_) --scopes_of_blocks;
}

#ifdef __linux__

bool goes_to_disk(size_t bytes) { return bytes >= kLeastOnDisk && scopes_of_blocks.load() > 0; }

void* take_disk_block(size_t bytes) {
  const std::string folder = scratch_folder();
  const int file = open_scratch(folder);
  int error = file < 0 ? errno : posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* block = MAP_FAILED;
  if (error == 0) {
    block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (block == MAP_FAILED) error = errno;
  }
  if (file >= 0) close(file);
  if (error != 0)
    fail(ErrorCode::kIo, "cannot keep a tensor of ", bytes, " bytes of a large model in the folder ", folder, ": ",
         reason_of(error), "; name a folder with room for the model in the environment variable TMPDIR");
  disk_blocks().add(static_cast<const std::byte*>(block), bytes);
  return block;
}

void give_disk_block(void* block) noexcept {
  munmap(block, disk_blocks().remove(static_cast<const std::byte*>(block)));
}

bool is_on_disk(const void* address) { return !disk_blocks().around(static_cast<const std::byte*>(address)).empty(); }

bool has_disk_blocks() { return !disk_blocks().empty(); }

void release_pages(std::span<const std::byte> bytes) {
  const std::span<const std::byte> block = bytes.empty() ? bytes : disk_blocks().around(bytes.data());
  if (block.empty()) return;
  // Whole pages: what others have on the first and the last one comes back as well.
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = static_cast<size_t>(bytes.data() - block.data()) / page * page;
  const size_t last = static_cast<size_t>(bytes.data() - block.data()) + bytes.size();
  madvise(const_cast<std::byte*>(block.data()) + first, last - first, MADV_DONTNEED);
}

#else

bool goes_to_disk(size_t) { return false; }
void* take_disk_block(size_t) { fail(ErrorCode::kInternal, "there are no scratch files here"); }
void give_disk_block(void*) noexcept {}
bool is_on_disk(const void*) { return false; }
bool has_disk_blocks() { return false; }
void release_pages(std::span<const std::byte>) {}

#endif

}  // namespace qdq
