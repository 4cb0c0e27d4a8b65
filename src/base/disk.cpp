// The files of the operating system.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/large_pages.h"
#include "base/memory.h"

namespace qdq {

namespace {

namespace fs = std::filesystem;

// In words as Node has them.
std::string reason_of(int error) {
  std::string reason = std::strerror(error);
  reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  return reason;
}

using File = std::unique_ptr<FILE, decltype([](FILE* file) { std::fclose(file); })>;

class Disk final : public Files {
 public:
  std::vector<std::byte> read(const std::string& path) override {
    if (is_folder(path)) fail(ErrorCode::kIo, "cannot read ", path, ": it is a folder, a file was wanted");
    const bool is_input = path == "-";
    File file(is_input ? fdopen(dup(STDIN_FILENO), "rb") : std::fopen(path.c_str(), "rb"));
    if (!file) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    std::error_code unknown;
    const auto size = fs::file_size(path, unknown);
    std::vector<std::byte> bytes;
    if (!unknown) {
      check_memory(size, "reading " + path);
      bytes.reserve(size);
      prefer_large_pages(bytes.data(), size);
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
    while (const size_t count = std::fread(more, 1, sizeof more, file.get()))
      bytes.insert(bytes.end(), more, more + count);
    if (std::ferror(file.get())) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    return bytes;
  }

  uint64_t size_of(const std::string& path) override {
    if (is_folder(path)) fail(ErrorCode::kIo, "cannot read ", path, ": it is a folder, a file was wanted");
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(error.value()));
    return size;
  }

  std::vector<std::byte> read_part(const std::string& path, uint64_t offset, uint64_t count) override {
    check_memory(count, "reading " + path);
    File file(std::fopen(path.c_str(), "rb"));
    if (!file || fseeko(file.get(), static_cast<off_t>(offset), SEEK_SET) != 0)
      fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    std::vector<std::byte> bytes(static_cast<size_t>(count));
    if (!bytes.empty()) bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file.get()));
    if (std::ferror(file.get())) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    return bytes;
  }

  void write(const std::string& path, std::span<const std::byte> bytes) override {
    const std::string part = path + "." + std::to_string(getpid()) + ".part";
    File file(std::fopen(part.c_str(), "wb"));
    if (!file) fail(ErrorCode::kIo, "cannot write ", path, ": ", reason_of(errno));
    // Nothing may have no address.
    const bool written = bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
    const bool closed = std::fclose(file.release()) == 0;
    if (!written || !closed || std::rename(part.c_str(), path.c_str()) != 0) {
      const std::string reason = reason_of(errno);
      std::remove(part.c_str());
      fail(ErrorCode::kIo, "cannot write ", path, ": ", reason);
    }
  }

  std::vector<std::string> list(const std::string& folder) override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      names.push_back(at->path().filename().string());
    if (error) fail(ErrorCode::kIo, "cannot list ", folder, ": ", reason_of(error.value()));
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
  bool is_same(const std::string& a, const std::string& b) override {
    std::error_code error;
    return fs::equivalent(a, b, error) || Files::is_same(a, b);
  }
};

}  // namespace

uint64_t Files::size_of(const std::string& path) { return read(path).size(); }

std::vector<std::byte> Files::read_part(const std::string& path, uint64_t offset, uint64_t count) {
  std::vector<std::byte> bytes = read(path);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(offset, bytes.size())));
  if (bytes.size() > count) bytes.resize(static_cast<size_t>(count));
  return bytes;
}

bool Files::is_same(const std::string& a, const std::string& b) {
  return fs::path(a).lexically_normal() == fs::path(b).lexically_normal();
}

Files& disk() {
  static Disk files;
  return files;
}

}  // namespace qdq
