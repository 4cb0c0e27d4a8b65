#include "base/disk_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/descriptor_io.h"
#include "base/disk_blocks.h"
#include "base/error.h"
#include "base/folder.h"

namespace qdq {

std::string reason_of(int error) {
  std::string reason = std::strerror(error);
  reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  return reason;
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_output(const std::string& path, const std::string& reason) {
  fail(ErrorCode::kIo, "cannot write ", path, ": ", reason);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  // Some file systems tell of a full disk only here.
  bool close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

using Parts = std::span<const std::span<const std::byte>>;

// False with errno set if not all could be written.
bool write_parts(int descriptor, Parts parts) {
  constexpr size_t kMost = size_t{1} << 26;  // no system takes 2 GB at once, and what is on disk comes to memory
  for (std::span<const std::byte> bytes : parts) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kMost));
      if (!write_all(descriptor, piece)) return false;
      release_pages(piece);
      bytes = bytes.subspan(piece.size());
    }
  }
  return true;
}

// The name behind all symbolic links, which may be of a file that is not there yet.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;
  fs::path name = path;
  for (int links = 0;; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(name, error))) return name.string();
    if (links == kMostLinks) refuse_output(path, reason_of(ELOOP));
    const fs::path next = fs::read_symlink(name, error);
    if (error) refuse_output(path, reason_of(error.value()));
    name = name.parent_path() / next;  // an absolute name stands for itself
  }
}

// While one lives, a pipe whose reader has gone is an error and does not end the process.
class WithoutPipeSignal {
#if defined(__EMSCRIPTEN__)
};
#else
 public:
  WithoutPipeSignal() {
    sigset_t pending;
    sigpending(&pending);
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutPipeSignal() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};
#endif

void write_stream(const std::string& path, Parts parts) {
  [[maybe_unused]] const WithoutPipeSignal quiet;
  Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || !write_parts(file.number(), parts) || !file.close()) refuse_output(path, reason_of(errno));
}

bool has_ended(pid_t process) {
#if defined(__EMSCRIPTEN__)
  return process == getpid();
#else
  return process == getpid() || (kill(process, 0) != 0 && errno == ESRCH);
#endif
}

// Removes NAME.PID.part of processes that have ended. One that another machine or container may still write, which has
// processes of its own, is younger than a minute.
void remove_stale_parts(const fs::path& file) {
  constexpr time_t kStale = 60;
  const std::string begin = file.filename().string() + ".", end = ".part";
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  for_each_name_in(folder.string(), [&](std::string_view name) {
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) return;
    const char *number = name.data() + begin.size(), *behind = name.data() + name.size() - end.size();
    pid_t process = 0;
    const auto [stop, wrong] = std::from_chars(number, behind, process);
    const fs::path part = folder / name;
    struct stat found{};
    if (wrong != std::errc() || stop != behind || process <= 0 || lstat(part.c_str(), &found) != 0) return;
    if (S_ISREG(found.st_mode) && has_ended(process) && time(nullptr) - found.st_mtime > kStale) ::unlink(part.c_str());
  });
}

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

#if defined(O_TMPFILE) && !defined(__EMSCRIPTEN__)
Descriptor open_unnamed(const std::string& folder) {
  return Descriptor(open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
}
#else
Descriptor open_unnamed(const std::string&) { return Descriptor(-1); }
#endif

constexpr mode_t kPermissions = S_IRWXU | S_IRWXG | S_IRWXO;

// A file that takes its name only when it is whole.
class Part {
 public:
  // `shown`: the name for errors. `old`: the file that it will replace, if there is one.
  Part(std::string shown, const std::string& path, const struct stat* old, bool may_be_unnamed)
      : shown_(std::move(shown)), path_(path), part_(concat(path, ".", getpid(), ".part")), file_(-1) {
    if (may_be_unnamed) file_ = open_unnamed(folder_of(path_));
    if (!file_) {
      file_ = Descriptor(open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
      if (!file_) refuse();
      is_named_ = true;
    }
    if (old == nullptr) return;
    // Only root can give a file away; who cannot writes a file of one's own.
    const bool is_ours = old->st_uid == geteuid() && old->st_gid == getegid();
    if (!is_ours && fchown(file_.number(), old->st_uid, old->st_gid) != 0) errno = 0;
    if (fchmod(file_.number(), old->st_mode & kPermissions) != 0) refuse();
  }
  ~Part() {
    if (is_named_) ::unlink(part_.c_str());
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // False where a file without a name cannot be given one: nothing is left then.
  bool put(Parts parts) {
    if (!write_parts(file_.number(), parts)) refuse();
    if (!is_named_) {
      if (link_as(path_)) return true;
      if (errno != EEXIST) return false;
      // What is there cannot be replaced by a new name alone.
      ::unlink(part_.c_str());
      is_named_ = link_as(part_);
      if (!is_named_) return false;
    }
    if (!file_.close() || std::rename(part_.c_str(), path_.c_str()) != 0) refuse();
    is_named_ = false;
    return true;
  }

 private:
#if defined(O_TMPFILE) && !defined(__EMSCRIPTEN__)
  bool link_as(const std::string& name) const {
    const std::string self = concat("/proc/self/fd/", file_.number());
    return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }
#else
  static bool link_as(const std::string&) { return false; }
#endif
  [[noreturn]] void refuse() const { refuse_output(shown_, reason_of(errno)); }

  const std::string shown_, path_, part_;
  bool is_named_ = false;  // whether part_ is a file of ours
  Descriptor file_;
};

}  // namespace

std::string why_no_file_in(const std::string& folder) {
  if (open_unnamed(folder)) return "";
  const std::string name = concat(folder, "/qdq.", getpid(), ".part");
  const Descriptor file(open(name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file) return reason_of(errno);
  ::unlink(name.c_str());
  return "";
}

void write_file(const std::string& path, Parts parts) {
  struct stat found{};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) refuse_output(path, "it is a folder, a file was wanted");
  if (exists && S_ISFIFO(found.st_mode)) return write_stream(path, parts);
  if (exists && !S_ISREG(found.st_mode))
    refuse_output(path, concat("it is a ", S_ISSOCK(found.st_mode) ? "socket" : "device", ", a file was wanted"));
  if (exists && access(path.c_str(), W_OK) != 0) refuse_output(path, reason_of(errno));
  const std::string name = behind_links(path);
  // Two threads that write one file would take one part.
  static std::mutex writing;
  const std::lock_guard<std::mutex> lock(writing);
  remove_stale_parts(name);
  const struct stat* old = exists ? &found : nullptr;
  if (Part(path, name, old, true).put(parts)) return;
  Part(path, name, old, false).put(parts);
}

}  // namespace qdq
