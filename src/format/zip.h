// Zip archives: the container of .pt2, of torch.save files and of .npz.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>

#include "format/parts.h"
#include "format/source.h"

namespace qdq::format {

// The CRC-32 of zip and PNG (polynomial 0xEDB88320). `before`: that of the bytes in front of these.
uint32_t crc32(ByteSpan bytes, uint32_t before = 0);

struct ZipEntry {
  std::string name;
  uint64_t size = 0;             // of the member
  uint64_t compressed_size = 0;  // of its bytes in the archive; equal to size if stored
  uint64_t header_offset = 0;    // of the local header from the start of the archive
  uint32_t crc = 0;
  uint16_t method = 0;  // of compression: 0 stored, 8 deflated
};

// Reads an archive, in memory or part by part: stored and deflated members, zip64, data descriptors. The directory is
// checked as a whole when the reader is made: members lie inside the archive and do not overlap, and a name stands
// there once.
class ZipReader {
 public:
  // The bytes must outlive the reader and the ByteData it gives out. `what` names the archive in errors: "model.pt2".
  // Throws Error{kBadFile} if this is not a zip archive or its directory contradicts itself, Error{kUnsupported} if it
  // is split over several disks. `is_verified`: the bytes are known to be what was written, for instance as a member of
  // another archive; then the CRCs of stored members are not computed once more.
  explicit ZipReader(ByteSpan bytes, std::string what = "the zip archive", bool is_verified = false);
  // The same of bytes that are read when they are asked for; what it gives out has bytes of its own.
  explicit ZipReader(std::shared_ptr<const ByteSource> source, std::string what, bool is_verified = false);
  ZipReader(ZipReader&&) = default;
  ZipReader& operator=(ZipReader&&) = default;

  // In the order of the directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  // The member of that name, or nullptr.
  const ZipEntry* find(std::string_view name) const;

  // The bytes of a member, verified by its CRC. Throws Error{kBadFile} if they are damaged, Error{kUnsupported} if they
  // are encrypted or compressed otherwise than by deflate.
  ByteData read(const ZipEntry& entry) const;
  // The same by name. Throws Error{kBadFile} if there is no such member.
  ByteData read(std::string_view name) const;
  // The same, written to `out`, which has the member's size, piece by piece. Nothing of those in scratch files
  // (base/disk_blocks.h) stays in memory.
  void read_into(const ZipEntry& entry, std::span<std::byte> out) const;
  // The bytes of a member to be read part by part: of a stored one as they lie in the archive, verified before.
  std::shared_ptr<const ByteSource> source_of(const ZipEntry& entry) const;
  // Where the bytes of a stored member lie in the archive, verified piece by piece. Throws as read() does.
  uint64_t offset_of_stored(const ZipEntry& entry) const;

 private:
  struct Directory {
    uint64_t offset, size, count;
  };
  Directory find_directory() const;
  void read_directory(const Directory& directory);
  void check_overlaps() const;
  // Where the bytes of a member begin. Throws Error{kUnsupported} if they are encrypted.
  uint64_t data_offset(const ZipEntry& entry) const;
  template <class... Parts> [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorCode::kBadFile, what_, ": ", parts...);
  }

  std::shared_ptr<const ByteSource> source_;
  std::string what_;
  bool is_verified_;
  std::vector<ZipEntry> entries_;
  // Views of the names in entries_, which does not change afterwards.
  std::unordered_map<std::string_view, size_t> by_name_;
};

// Writes an archive. Equal input gives equal bytes: all dates are 1980-01-01.
class ZipWriter {
 public:
  struct Options {
    // Member data starts at a multiple of this (a power of two up to 4096). More than 1: every local header gets an
    // extra field "FB" filled with Z, as PyTorch's writer does it (caffe2/serialize/inline_container.cc).
    size_t alignment = 1;
    // Write the zip64 records even where 32 bits would do.
    bool always_zip64 = false;
  };
  ZipWriter();
  explicit ZipWriter(Options options);

  // Takes memory for members with so many bytes in all, with what the archive puts around them, so that nothing is
  // copied as it grows. Members that are Parts do not count.
  void expect(size_t members, uint64_t bytes);
  // Throws Error{kInvalidArgument} if the name is empty, too long (65535 bytes) or was added before.
  void add(std::string_view name, ByteSpan data);
  // The same of bytes that are not copied but stay where they are.
  void add_parts(std::string_view name, const Parts& data);
  // The same, deflated where that is smaller; members of a gigabyte and more are stored.
  void add_deflated(std::string_view name, ByteSpan data);
  // The whole archive. The writer is empty afterwards.
  Bytes finish();
  Parts finish_parts();

 private:
  // `packed`: the member's bytes as they stand in the archive.
  void add(std::string_view name, ByteSpan data, ByteSpan packed, uint16_t method);
  // Of a member whose bytes follow.
  void add_header(const ZipEntry& entry);
  uint64_t position() const { return done_.size() + out_.size(); }
  void finish_directory();

  Options options_;
  Parts done_;  // in front of out_
  Bytes out_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace qdq::format
