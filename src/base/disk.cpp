// The files of the operating system.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/disk_output.h"
#include "base/error.h"
#include "base/files.h"
#include "base/folder.h"
#include "base/large_pages.h"
#include "base/memory.h"
#include "base/standard_input.h"

namespace qdq {

namespace {

namespace fs = std::filesystem;

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
      check_memory_of_file(size, "reading " + path);
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
    // Pipes have no size, devices no end, and a file may have grown.
    std::byte more[4096];
    while (const size_t count = std::fread(more, 1, sizeof more, file.get())) {
      // Both the old and the new bytes are there while the vector grows.
      if (bytes.size() + count > bytes.capacity()) check_memory_of_file(3 * uint64_t{bytes.size()}, "reading " + path);
      bytes.insert(bytes.end(), more, more + count);
    }
    if (std::ferror(file.get())) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    return bytes;
  }

  uint64_t size_of(const std::string& path) override {
    if (path == "-") return StandardInput::get().size();
    if (is_folder(path)) fail(ErrorCode::kIo, "cannot read ", path, ": it is a folder, a file was wanted");
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(error.value()));
    return size;
  }

  std::vector<std::byte> read_part(const std::string& path, uint64_t offset, uint64_t count) override {
    if (path == "-") return StandardInput::get().read(offset, count);
    check_memory_of_file(count, "reading " + path);
    File file(std::fopen(path.c_str(), "rb"));
    if (!file || fseeko(file.get(), static_cast<off_t>(offset), SEEK_SET) != 0)
      fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    std::vector<std::byte> bytes(static_cast<size_t>(count));
    if (!bytes.empty()) bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file.get()));
    if (std::ferror(file.get())) fail(ErrorCode::kIo, "cannot read ", path, ": ", reason_of(errno));
    return bytes;
  }

  std::vector<std::byte> read_beside(const std::string& beside, const std::string& name) override {
    return read(*path_beside(beside, name));
  }

  std::optional<std::string> path_beside(const std::string& beside, const std::string& name) override {
    const fs::path folder = fs::path(beside).parent_path(), path = folder / name;
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    const fs::path home = error ? fs::path() : fs::canonical(folder.empty() ? "." : folder, error);
    const auto refuse = [&](const std::string& reason) {
      fail(ErrorCode::kIo, "cannot read ", path.string(), ": ", reason);
    };
    if (error) refuse(reason_of(error.value()));
    if (std::mismatch(home.begin(), home.end(), real.begin(), real.end()).first != home.end())
      refuse(concat("links lead to ", real.string(), ", which is not in the folder of ", beside,
                    "; put a copy of the file there"));
    if (!fs::is_regular_file(real, error)) refuse("it is not an ordinary file");
    return real.string();
  }

  void write(const std::string& path, std::span<const std::byte> bytes) override { write_file(path, {&bytes, 1}); }
  void write_parts(const std::string& path, std::span<const std::span<const std::byte>> parts) override {
    write_file(path, parts);
  }

  std::string why_not_written(const std::string& folder) override {
    return why_no_file_in(folder.empty() ? "." : folder);
  }

  void make_folder(const std::string& folder) override {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail(ErrorCode::kIo, "cannot make the folder ", folder, ": ", reason_of(error.value()));
  }

  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    for_each_name(folder, [&](std::string name) { names.push_back(std::move(name)); });
    return names;
  }

  void for_each_name(const std::string& folder, const std::function<void(std::string)>& take) override {
    if (const int error = for_each_name_in(folder, take); error != 0)
      fail(ErrorCode::kIo, "cannot list ", folder, ": ", reason_of(error));
  }

  bool serves_threads() const override { return true; }

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

std::optional<std::string> Files::path_beside(const std::string& /*beside*/, const std::string& /*name*/) {
  return std::nullopt;
}

void Files::write_parts(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  if (parts.size() == 1) return write(path, parts[0]);
  size_t size = 0;
  for (const std::span<const std::byte> part : parts) size += part.size();
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  for (const std::span<const std::byte> part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
  write(path, bytes);
}

std::vector<std::byte> Files::read_beside(const std::string& beside, const std::string& name) {
  return read(beside.substr(0, beside.find_last_of("/\\") + 1) + name);
}

uint64_t Files::size_of(const std::string& path) { return read(path).size(); }

std::vector<std::byte> Files::read_part(const std::string& path, uint64_t offset, uint64_t count) {
  std::vector<std::byte> bytes = read(path);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(offset, bytes.size())));
  if (bytes.size() > count) bytes.resize(static_cast<size_t>(count));
  return bytes;
}

void Files::for_each_name(const std::string& folder, const std::function<void(std::string)>& take) {
  for (std::string& name : list(folder)) take(std::move(name));
}

bool Files::is_same(const std::string& a, const std::string& b) {
  return fs::path(a).lexically_normal() == fs::path(b).lexically_normal();
}

Files& disk() {
  static Disk files;
  return files;
}

}  // namespace qdq
