#include "base/scratch_bytes.h"

#include <algorithm>

#include "base/error.h"
#ifndef __EMSCRIPTEN__
#include "base/descriptor_io.h"
#include "base/disk_output.h"
#include "base/scratch_file.h"
#endif

namespace qdq {

void ScratchBytes::append(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (chunks_.empty() || chunks_.back().size() == kChunk) chunks_.emplace_back();
    const std::string_view part = bytes.substr(0, kChunk - chunks_.back().size());
    chunks_.back() += part;
    bytes.remove_prefix(part.size());
    if (chunks_.back().size() == kChunk && wrote(chunks_.back())) chunks_.pop_back();
  }
}

std::string ScratchBytes::read(uint64_t offset, size_t count) const {
  std::string out;
#ifndef __EMSCRIPTEN__
  if (offset < in_file_) {
    out.resize(static_cast<size_t>(std::min<uint64_t>(count, in_file_ - offset)));
    const auto got = read_all_at(file_, std::as_writable_bytes(std::span(out)), offset);
    QDQ_CHECK(got == std::ssize(out), kIo, "cannot read a scratch file in ", scratch_folder(), ": ",
              got < 0 ? reason_of(errno) : "it has become shorter");
  }
#endif
  while (out.size() < count) {
    const auto at = static_cast<size_t>(offset + out.size() - in_file_);
    out.append(chunks_[at / kChunk], at % kChunk, count - out.size());
  }
  return out;
}

size_t ScratchBytes::bytes_in_memory() const {
  size_t sum = 0;
  for (const std::string& chunk : chunks_) sum += chunk.capacity();
  return sum;
}

#ifndef __EMSCRIPTEN__

ScratchBytes::~ScratchBytes() {
  if (file_ >= 0) close(file_);
}

// What lies in memory stays there where there is no file, so that order is kept.
bool ScratchBytes::wrote(const std::string& chunk) {
  if (file_ < 0 && has_disk_) {
    file_ = open_scratch(scratch_folder());
    has_disk_ = file_ >= 0;
  }
  if (!has_disk_) return false;
  if (!write_all(file_, std::as_bytes(std::span(chunk))))
    fail(ErrorCode::kIo, "cannot write a scratch file in ", scratch_folder(), ": ", reason_of(errno),
         "; name a folder with room in the environment variable TMPDIR");
  in_file_ += chunk.size();
  return true;
}

#else

ScratchBytes::~ScratchBytes() = default;
bool ScratchBytes::wrote(const std::string& /*chunk*/) { return false; }

#endif

}  // namespace qdq
