// The native program: a Host made of the operating system around run_cli.
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/large_pages.h"
#include "base/memory.h"
#include "cli/cli.h"

namespace {

namespace fs = std::filesystem;
using qdq::ErrorCode;
using qdq::fail;

// In words as Node has them.
std::string reason_of(int error) {
  std::string reason = std::strerror(error);
  reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  return reason;
}

using File = std::unique_ptr<FILE, decltype([](FILE* file) { std::fclose(file); })>;

class NativeHost final : public qdq::Host {
 public:
  std::vector<std::byte> read_file(const std::string& path) override {
    if (is_folder(path)) fail(ErrorCode::kIo, "cannot read ", path, ": it is a folder, a file was wanted");
    File file(std::fopen(path.c_str(), "rb"));
    if (!file) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    std::error_code unknown;
    const auto size = fs::file_size(path, unknown);
    std::vector<std::byte> bytes;
    if (!unknown) {
      qdq::check_memory(size, "reading " + path);
      bytes.reserve(size);
      qdq::prefer_large_pages(bytes.data(), size);
    }
    // By pieces that stay in the cache between being cleared here and being read.
    constexpr size_t kPiece = size_t{1} << 18;
    for (size_t at = 0; at < bytes.capacity();) {
      bytes.resize(std::min(at + kPiece, bytes.capacity()));
      const size_t count = std::fread(bytes.data() + at, 1, bytes.size() - at, file.get());
      at += count;
      if (at < bytes.size()) {
        bytes.resize(at);
        break;
      }
    }
    // Pipes have no size, and a file may have grown.
    std::byte more[4096];
    while (const size_t count = std::fread(more, 1, sizeof more, file.get())) bytes.insert(bytes.end(), more, more + count);
    if (std::ferror(file.get())) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    return bytes;
  }

  void write_file_whole(const std::string& path, std::span<const std::byte> bytes) override {
    const std::string part = path + "." + std::to_string(getpid()) + ".part";
    File file(std::fopen(part.c_str(), "wb"));
    if (!file) fail(ErrorCode::kIo, "cannot write ", path, ": ", reason_of(errno));
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
    const bool closed = std::fclose(file.release()) == 0;
    if (!written || !closed || std::rename(part.c_str(), path.c_str()) != 0) {
      const std::string reason = reason_of(errno);
      std::remove(part.c_str());
      fail(ErrorCode::kIo, "cannot write ", path, ": ", reason);
    }
  }

  std::vector<std::string> list_folder(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) names.push_back(at->path().filename().string());
    if (error) fail(ErrorCode::kIo, "cannot list ", path, ": ", reason_of(error.value()));
    return names;
  }

  bool is_folder(const std::string& path) override {
    std::error_code error;
    return fs::is_directory(path, error);
  }
  bool is_file(const std::string& path) override {
    std::error_code error;
    return fs::exists(path, error) && !fs::is_directory(path, error);
  }

  void print(const std::string& text) override { std::fwrite(text.data(), 1, text.size(), stdout); }
  void print_error(const std::string& text) override { std::fwrite(text.data(), 1, text.size(), stderr); }
  bool error_is_terminal() override { return isatty(STDERR_FILENO) != 0; }
  // A container may have less than the machine.
  std::optional<uint64_t> machine_memory() override {
    const auto machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    unsigned long long container = 0;
    const File file(std::fopen("/sys/fs/cgroup/memory.max", "r"));
    return file && std::fscanf(file.get(), "%llu", &container) == 1 ? std::min<uint64_t>(machine, container) : machine;
  }
  double now_seconds() override { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
};

}  // namespace

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // What kernels need for a moment comes and goes at every operator: memory that went back to the system would be cleared page by page again.
  // Whole files do go back.
  mallopt(M_MMAP_THRESHOLD, 1 << 24);
  mallopt(M_TRIM_THRESHOLD, 1 << 26);
#endif
  NativeHost host;
  const std::vector<std::string> args(argv + 1, argv + argc);
  const int status = qdq::run_cli(args, host);
  // A full disk behind the standard output shows only now.
  return std::fflush(stdout) == 0 ? status : 1;
}
