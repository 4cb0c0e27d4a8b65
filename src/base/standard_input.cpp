#include "base/standard_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/descriptor_io.h"
#include "base/disk_output.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/scratch_file.h"

namespace qdq {

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
    const auto from_input = [](std::byte* into, size_t count, size_t) { return ::read(STDIN_FILENO, into, count); };
    const auto got = read_all(piece, from_input);
    if (got < 0) fail(ErrorCode::kIo, "cannot read the standard input: ", reason_of(errno));
    if (!write_all(file_, std::span(piece).first(static_cast<size_t>(got)))) refuse();
    size_ += static_cast<uint64_t>(got);
    if (got < std::ssize(piece)) return;
  }
}

std::vector<std::byte> StandardInput::read(uint64_t offset, uint64_t count) const {
  count = offset < size_ ? std::min(count, size_ - offset) : 0;
  check_memory_of_file(count, "reading the standard input");
  std::vector<std::byte> out(static_cast<size_t>(count));
  const auto got = read_all_at(file_, out, begin_ + offset);
  if (got < 0) fail(ErrorCode::kIo, "cannot read the standard input: ", reason_of(errno));
  out.resize(static_cast<size_t>(got));
  return out;
}

}  // namespace qdq
