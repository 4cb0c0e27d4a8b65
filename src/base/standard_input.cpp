#include "base/standard_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/disk_output.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/scratch_file.h"

namespace qdq {

namespace {

// read and pread until all is done; false where the system refuses.
template <class Read> bool read_all(std::byte* into, size_t count, size_t& done, const Read& read) {
  for (done = 0; done < count;) {
    const ssize_t got = read(into + done, count - done, done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

StandardInput& StandardInput::get() {
  static StandardInput input;
  return input;
}

StandardInput::StandardInput() {
  struct stat status{};
  const off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
  if (at >= 0 && fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode)) {
    file_ = STDIN_FILENO;
    begin_ = static_cast<uint64_t>(at);
    size_ = status.st_size > at ? static_cast<uint64_t>(status.st_size - at) : 0;
    return;
  }
  const std::string folder = scratch_folder();
  const auto refuse = [&] {
    fail(ErrorCode::kIo, "cannot put the standard input into a file in ", folder, ": ", reason_of(errno),
         "; name another folder by TMPDIR, or give the data as a file");
  };
  file_ = open_scratch(folder);
  if (file_ < 0) refuse();
  std::vector<std::byte> piece(size_t{1} << 18);
  for (;;) {
    size_t got = 0;
    const auto from_input = [](std::byte* into, size_t count, size_t) { return ::read(STDIN_FILENO, into, count); };
    if (!read_all(piece.data(), piece.size(), got, from_input))
      fail(ErrorCode::kIo, "cannot read the standard input: ", reason_of(errno));
    for (size_t done = 0; done < got;) {
      const ssize_t wrote = ::write(file_, piece.data() + done, got - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) refuse();
      done += static_cast<size_t>(wrote);
    }
    size_ += got;
    if (got < piece.size()) return;
  }
}

std::vector<std::byte> StandardInput::read(uint64_t offset, uint64_t count) const {
  count = offset < size_ ? std::min(count, size_ - offset) : 0;
  check_memory(count, "reading the standard input");
  std::vector<std::byte> out(static_cast<size_t>(count));
  size_t got = 0;
  const auto from_file = [&](std::byte* into, size_t most, size_t done) {
    return pread(file_, into, most, static_cast<off_t>(begin_ + offset + done));
  };
  if (!read_all(out.data(), out.size(), got, from_file))
    fail(ErrorCode::kIo, "cannot read the standard input: ", reason_of(errno));
  out.resize(got);
  return out;
}

}  // namespace qdq
