#include "faults/failing_files.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace qdq {
namespace {

std::atomic<uint64_t> count{0}, failing{0};
int error_of_failing = 0;
const char* failed = "";
bool halves = false;

bool fails(const char* name) {
  if (++count != failing) return false;
  failed = name;
  errno = error_of_failing;
  return true;
}

template <class Function> Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void fail_file_call(uint64_t n, int error) {
  failing = 0;
  count = 0;
  failed = "";
  error_of_failing = error;
  failing = n;
}
uint64_t file_calls() { return count; }
const char* failed_file_call() { return failed; }
void write_by_halves(bool wanted) { halves = wanted; }

}  // namespace qdq

using qdq::fails;
using qdq::next;

extern "C" {
int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  std::va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return fails("open") ? -1 : real(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  static auto* const real = next<FILE*(const char*, const char*)>("fopen");
  return fails("fopen") ? nullptr : real(path, mode);
}
DIR* opendir(const char* path) {
  static auto* const real = next<DIR*(const char*)>("opendir");
  return fails("opendir") ? nullptr : real(path);
}
ssize_t write(int file, const void* bytes, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  return fails("write") ? -1 : real(file, bytes, qdq::halves && size > 1 ? size / 2 : size);
}
int close(int file) {
  static auto* const real = next<int(int)>("close");
  const int result = real(file);
  return fails("close") ? -1 : result;
}
int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return fails("rename") ? -1 : real(from, to);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, int)>("linkat");
  return fails("linkat") ? -1 : real(from_folder, from, to_folder, to, flags);
}
int fchmod(int file, mode_t mode) noexcept {
  static auto* const real = next<int(int, mode_t)>("fchmod");
  return fails("fchmod") ? -1 : real(file, mode);
}
}
