// The files that qdq reads and writes: those on the disk, or others that a program which embeds qdq provides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qdq {

class Files {
 public:
  virtual ~Files() = default;

  // The bytes of a file; on the disk, "-" is the standard input. Throws Error{kIo} with path and reason.
  virtual std::vector<std::byte> read(const std::string& path) = 0;
  // The number of bytes of a file, and `count` bytes from `offset` on, or fewer at its end. By default they use read().
  // If the standard input is a pipe, the disk first copies it to a file without a name (in $TMPDIR, otherwise in
  // /var/tmp); do not read it in other ways then. Throws Error{kIo}.
  virtual uint64_t size_of(const std::string& path);
  virtual std::vector<std::byte> read_part(const std::string& path, uint64_t offset, uint64_t count);
  // The bytes of a file that another file names: the one called `name`, "weights.data" or "data/weights.bin", in the
  // folder of the file `beside`. Of the disk an ordinary file that lies in that folder or deeper, whichever way links
  // lead. Throws Error{kIo}.
  virtual std::vector<std::byte> read_beside(const std::string& beside, const std::string& name);
  // Puts the bytes where a reader sees either the old file or the whole new one; the disk's write_file
  // (base/disk_output.h) says what becomes of links, FIFOs and devices. Throws Error{kIo}.
  virtual void write(const std::string& path, std::span<const std::byte> bytes) = 0;
  // Why files cannot be written to a folder ("": the current one), as far as it is known in advance; empty if
  // there is none.
  virtual std::string why_not_written(const std::string& /*folder*/) { return {}; }
  // Makes a folder, and the folders around it, if they are missing. By default it does nothing: names need no folders.
  // Throws Error{kIo}.
  virtual void make_folder(const std::string& /*folder*/) {}
  // The names of files and folders in a folder, in any order. Throws Error{kIo}.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  // Calls `take` with each of them; on the disk, without holding all names at once. Throws Error{kIo}, and what `take`
  // throws.
  virtual void for_each_name(const std::string& folder, const std::function<void(std::string)>& take);
  virtual bool is_folder(const std::string& path) = 0;
  virtual bool is_file(const std::string& path) = 0;
  // Whether several threads may read files at the same time.
  virtual bool serves_threads() const { return false; }
  // Whether both names mean one file. By default: whether they are the same but for "." and "..".
  virtual bool is_same(const std::string& a, const std::string& b);

  // For models that are larger than the memory: a path under which read_part reads what read_beside reads, which throws
  // as that does; by default there is none.
  virtual std::optional<std::string> path_beside(const std::string& beside, const std::string& name);
  // write() of bytes that lie in several places, one part behind the other. By default they are put together in memory;
  // the disk writes one after the other, and takes the pages of those in scratch files (base/disk_blocks.h) out of
  // memory as it goes.
  virtual void write_parts(const std::string& path, std::span<const std::span<const std::byte>> parts);
};

// The files of the operating system; it may be called by any thread. A WASM module has it only if it was linked with a
// file system.
Files& disk();

}  // namespace qdq
