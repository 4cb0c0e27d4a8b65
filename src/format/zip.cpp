#include "format/zip.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>

#include <stb/stb_image.h>

#include "base/disk_blocks.h"
#include "base/large_pages.h"
#include "base/stable_sort.h"
#include "format/file_kind.h"
#include "format/stb.h"
#include "tensor/strings.h"

namespace qdq::format {

namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kEnd64Locator = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20;
constexpr uint16_t kZip64Extra = 1, kStored = 0, kDeflated = 8;
constexpr uint16_t kEncrypted = 1, kDescriptor = 8, kUtf8 = 0x800;
constexpr uint32_t kIn64 = 0xFFFFFFFF;
constexpr uint16_t kCountIn64 = 0xFFFF, kDate1980 = 0x21;
// Deflate cannot do better than 1032 : 1 (258 bytes for two bits).
constexpr uint64_t kDeflateLimit = 1032;

template <class T> T number_at(ByteSpan bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

constexpr uint32_t kPolynomial = 0xEDB88320;

// Eight tables, so that eight bytes are folded at a time: member data is often hundreds of megabytes.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ kPolynomial : value >> 1;
    tables[0][i] = value;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xFF];
  return tables;
}
constexpr CrcTables kCrc = make_crc_tables();

// The register after eight more bytes. Inline by force: a call costs a quarter more.
inline __attribute__((always_inline)) uint32_t crc_after(uint32_t crc, ByteSpan bytes, size_t at) {
  const uint32_t low = number_at<uint32_t>(bytes, at) ^ crc, high = number_at<uint32_t>(bytes, at + 4);
  return kCrc[7][low & 0xFF] ^ kCrc[6][low >> 8 & 0xFF] ^ kCrc[5][low >> 16 & 0xFF] ^ kCrc[4][low >> 24] ^
         kCrc[3][high & 0xFF] ^ kCrc[2][high >> 8 & 0xFF] ^ kCrc[1][high >> 16 & 0xFF] ^ kCrc[0][high >> 24];
}

// The product of two polynomials modulo the CRC's; the highest bit stands for x^0.
uint32_t crc_product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if (a >> 31 != 0) product ^= b;
    b = b >> 1 ^ (b & 1 ? kPolynomial : 0);
  }
  return product;
}

// What a register becomes by so many bytes of zeros is its product with x^(8 * bytes).
uint32_t crc_shift(uint64_t bytes) {
  uint32_t power = uint32_t{1} << 31, square = uint32_t{1} << 23;
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) power = crc_product(power, square);
    square = crc_product(square, square);
  }
  return power;
}

}  // namespace

uint32_t crc32(ByteSpan bytes, uint32_t before) {
  uint32_t crc = ~before;
  size_t i = 0;
  // Four stretches side by side, because each step of one must wait for the step before.
  if (bytes.size() >= 4096) {
    const size_t stretch = bytes.size() / 32 * 8;
    uint32_t second = 0, third = 0, fourth = 0;
    for (; i < stretch; i += 8) {
      crc = crc_after(crc, bytes, i);
      second = crc_after(second, bytes, stretch + i);
      third = crc_after(third, bytes, 2 * stretch + i);
      fourth = crc_after(fourth, bytes, 3 * stretch + i);
    }
    const uint32_t shift = crc_shift(stretch);
    for (const uint32_t next : {second, third, fourth}) crc = crc_product(crc, shift) ^ next;
    i = 4 * stretch;
  }
  for (; i + 8 <= bytes.size(); i += 8) crc = crc_after(crc, bytes, i);
  for (; i < bytes.size(); ++i) crc = kCrc[0][(crc ^ static_cast<uint32_t>(bytes[i])) & 0xFF] ^ crc >> 8;
  return ~crc;
}

namespace {

// Of bytes that may be on disk: piece by piece, so that they never are in memory together.
uint32_t crc32_by_pieces(ByteSpan bytes, uint32_t crc) {
  constexpr size_t kPiece = size_t{1} << 24;
  while (!bytes.empty()) {
    const ByteSpan piece = bytes.first(std::min(kPiece, bytes.size()));
    crc = crc32(piece, crc);
    release_pages(piece);
    bytes = bytes.subspan(piece.size());
  }
  return crc;
}

}  // namespace

ZipReader::ZipReader(ByteSpan bytes, std::string what, bool is_verified)
    : ZipReader(std::make_shared<MemorySource>(bytes), std::move(what), is_verified) {}

ZipReader::ZipReader(std::shared_ptr<const ByteSource> source, std::string what, bool is_verified)
    : source_(std::move(source)), what_(std::move(what)), is_verified_(is_verified) {
  read_directory(find_directory());
  check_overlaps();
  by_name_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i)
    if (!by_name_.emplace(entries_[i].name, i).second)
      bad("the member '", entries_[i].name, "' is in the archive twice");
}

constexpr std::string_view kDamaged = "' is damaged: its CRC does not match; copy the file again, or make it anew";
constexpr std::string_view kCutOff =
    "the end record of the zip archive is missing; the file was probably cut off, so copy it again";

// The end record stands last, but a comment of up to 65535 bytes may follow it.
ZipReader::Directory ZipReader::find_directory() const {
  const uint64_t size = source_->size();
  const ByteData front = source_->read(0, std::min<uint64_t>(size, sizeof kLocalHeader));
  const uint32_t magic = size < sizeof kLocalHeader ? 0 : number_at<uint32_t>(front.bytes(), 0);
  if (magic != kLocalHeader && magic != kEnd)
    bad("this is not a zip archive, as .npz and .pt2 files are; ", kind_of_file(*source_));
  if (size < kEndSize) bad(kCutOff);
  const uint64_t tail_size = std::min<uint64_t>(size, kLocatorSize + kEndSize + 0xFFFF), begin = size - tail_size;
  const ByteData tail_data = source_->read(begin, tail_size);
  const ByteSpan tail = tail_data.bytes();
  size_t end = tail.size() - kEndSize;
  const size_t lowest = end > 0xFFFF ? end - 0xFFFF : 0;
  while (number_at<uint32_t>(tail, end) != kEnd || end + kEndSize + number_at<uint16_t>(tail, end + 20) > tail.size()) {
    if (end == lowest) bad(kCutOff);
    --end;
  }
  const uint16_t disk = number_at<uint16_t>(tail, end + 4);
  QDQ_CHECK(disk == 0 || disk == 0xFFFF, kUnsupported, what_,
            ": a zip archive that is split over several disks; write it as one file");
  Directory directory{number_at<uint32_t>(tail, end + 16), number_at<uint32_t>(tail, end + 12),
                      number_at<uint16_t>(tail, end + 10)};
  uint64_t limit = begin + end;
  const bool wide = directory.offset == kIn64 || directory.size == kIn64 || directory.count == kCountIn64;
  if (wide && end >= kLocatorSize && number_at<uint32_t>(tail, end - kLocatorSize) == kEnd64Locator) {
    const uint64_t at = number_at<uint64_t>(tail, end - kLocatorSize + 8), locator = begin + end - kLocatorSize;
    const bool fits = at <= locator && locator - at >= kEnd64Size;
    const ByteData record = fits ? source_->read(at, kEnd64Size) : ByteData(ByteSpan());
    if (!fits || number_at<uint32_t>(record.bytes(), 0) != kEnd64)
      bad("the zip64 end record is not at offset ", at, ", where its locator says");
    directory = {number_at<uint64_t>(record.bytes(), 48), number_at<uint64_t>(record.bytes(), 40),
                 number_at<uint64_t>(record.bytes(), 32)};
    limit = at;
  }
  if (directory.offset > limit || directory.size > limit - directory.offset)
    bad("the directory of ", directory.size, " bytes at offset ", directory.offset, " does not fit into ", limit,
        " bytes");
  if (directory.count > directory.size / kCentralSize)
    bad("the directory of ", directory.size, " bytes cannot hold ", directory.count, " entries");
  return directory;
}

void ZipReader::read_directory(const Directory& directory) {
  const ByteData data = source_->read(directory.offset, directory.size);
  ByteReader in(data.bytes(), what_);
  entries_.reserve(static_cast<size_t>(directory.count));
  for (uint64_t i = 0; i < directory.count; ++i) {
    const ByteSpan header = in.take(kCentralSize);
    if (number_at<uint32_t>(header, 0) != kCentralHeader) bad("entry ", i, " of the directory has a wrong signature");
    ZipEntry entry;
    entry.method = number_at<uint16_t>(header, 10);
    entry.crc = number_at<uint32_t>(header, 16);
    entry.compressed_size = number_at<uint32_t>(header, 20);
    entry.size = number_at<uint32_t>(header, 24);
    entry.header_offset = number_at<uint32_t>(header, 42);
    entry.name = text_of(in.take(number_at<uint16_t>(header, 28)));
    ByteReader extra(in.take(number_at<uint16_t>(header, 30)), what_);
    in.take(number_at<uint16_t>(header, 32));
    if (!is_utf8(entry.name)) bad("the name of member ", i, " is not UTF-8");
    while (extra.remaining() >= 4) {
      const auto id = extra.number<uint16_t>();
      ByteReader field(extra.take(extra.number<uint16_t>()), "the zip64 field of a member");
      if (id != kZip64Extra) continue;
      for (uint64_t* value : {&entry.size, &entry.compressed_size, &entry.header_offset})
        if (*value == kIn64) *value = field.number<uint64_t>();
    }
    if (entry.header_offset > directory.offset || directory.offset - entry.header_offset < kLocalSize ||
        entry.compressed_size > directory.offset - entry.header_offset - kLocalSize)
      bad("the member '", entry.name, "' of ", entry.compressed_size, " bytes at offset ", entry.header_offset,
          " does not lie before the directory at ", directory.offset);
    // Other methods are refused by name where the member is read.
    if (entry.method == kStored ? entry.size != entry.compressed_size
                                : entry.method == kDeflated && entry.size > entry.compressed_size * kDeflateLimit)
      bad("the member '", entry.name, "' claims ", entry.size, " bytes, but takes ", entry.compressed_size,
          " in the archive");
    entries_.push_back(std::move(entry));
  }
}

// Members that share bytes are how a small archive claims to hold petabytes.
void ZipReader::check_overlaps() const {
  std::vector<size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  sort_stably(order, [&](size_t a, size_t b) { return entries_[a].header_offset < entries_[b].header_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const ZipEntry& before = entries_[order[i - 1]];
    const ZipEntry& after = entries_[order[i]];
    if (after.header_offset - before.header_offset < kLocalSize + before.name.size() + before.compressed_size)
      bad("the members '", before.name, "' and '", after.name, "' overlap");
  }
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &entries_[at->second];
}

// The local header repeats the directory's entry; where they differ, other readers may see another file than this one.
uint64_t ZipReader::data_offset(const ZipEntry& entry) const {
  const std::string where = what_ + ": the local header of '" + entry.name + "'";
  const uint64_t left = source_->size() - entry.header_offset;
  uint64_t size = std::min<uint64_t>(left, kLocalSize);
  if (size == kLocalSize) {
    const ByteData fixed = source_->read(entry.header_offset, size);
    size += number_at<uint16_t>(fixed.bytes(), 26) + number_at<uint16_t>(fixed.bytes(), 28);
  }
  const ByteData data = source_->read(entry.header_offset, std::min(left, size));
  ByteReader in(data.bytes(), where);
  const ByteSpan header = in.take(kLocalSize);
  if (number_at<uint32_t>(header, 0) != kLocalHeader)
    bad("the local header of '", entry.name, "' has a wrong signature");
  const uint16_t flags = number_at<uint16_t>(header, 6), method = number_at<uint16_t>(header, 8);
  if (method != entry.method)
    bad("the local header of '", entry.name, "' says compression ", method, ", the directory ", entry.method);
  if (text_of(in.take(number_at<uint16_t>(header, 26))) != entry.name)
    bad("the local header of '", entry.name, "' has another name than the directory");
  in.take(number_at<uint16_t>(header, 28));
  const uint32_t packed = number_at<uint32_t>(header, 18);
  if (!(flags & kDescriptor) && packed != kIn64 && packed != entry.compressed_size)
    bad("the local header of '", entry.name, "' says ", packed, " bytes, the directory ", entry.compressed_size);
  if (entry.compressed_size > left - in.position())
    bad("the member '", entry.name, "' reaches beyond the end of the archive");
  QDQ_CHECK(!(flags & kEncrypted), kUnsupported, what_, ": the member '", entry.name,
            "' is encrypted; write the archive without a password");
  return entry.header_offset + in.position();
}

uint64_t ZipReader::offset_of_stored(const ZipEntry& entry) const {
  const uint64_t begin = data_offset(entry);
  QDQ_CHECK(entry.method == kStored, kInternal, what_, ": the member '", entry.name, "' is compressed");
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  uint32_t crc = 0;
  for (uint64_t done = 0; !is_verified_ && done < entry.size; done += kPiece)
    crc = crc32(source_->read(begin + done, std::min(kPiece, entry.size - done)).bytes(), crc);
  if (!is_verified_ && crc != entry.crc) bad("the member '", entry.name, kDamaged);
  return begin;
}

ByteData ZipReader::read(const ZipEntry& entry) const {
  const uint64_t begin = data_offset(entry);
  QDQ_CHECK(entry.method == kStored || entry.method == kDeflated, kUnsupported, what_, ": the member '", entry.name,
            "' is compressed by method ", entry.method, "; only stored and deflated members are read");
  ByteData data = source_->read(begin, entry.compressed_size);
  const ByteSpan packed = data.bytes();
  if (entry.method == kStored) {
    if (!is_verified_ && crc32(packed) != entry.crc) bad("the member '", entry.name, kDamaged);
    return data;
  }
  constexpr uint64_t kMost = std::numeric_limits<int>::max();
  QDQ_CHECK(entry.size <= kMost && entry.compressed_size <= kMost, kUnsupported, what_, ": the deflated member '",
            entry.name, "' has ", entry.size, " bytes, more than 2 GiB; store it without compression");
  Bytes out(static_cast<size_t>(entry.size));
  // The decoder wants a place to write even where nothing is written.
  std::byte nothing{};
  const int count = stbi_zlib_decode_noheader_buffer(
      reinterpret_cast<char*>(out.empty() ? &nothing : out.data()), static_cast<int>(out.size()),
      reinterpret_cast<const char*>(packed.data()), static_cast<int>(packed.size()));
  if (count != static_cast<int>(out.size()) || crc32(out) != entry.crc)
    bad("the deflated member '", entry.name, "' is damaged; copy the file again, or make it anew");
  return ByteData(std::move(out));
}

void ZipReader::read_into(const ZipEntry& entry, std::span<std::byte> out) const {
  QDQ_CHECK(out.size() == entry.size, kInternal, what_, ": the member '", entry.name, "' has ", entry.size,
            " bytes, and room is for ", out.size());
  if (entry.method != kStored) {
    const ByteData data = read(entry);
    if (!out.empty()) std::memcpy(out.data(), data.bytes().data(), out.size());
    release_pages(out);
    return;
  }
  const uint64_t begin = data_offset(entry);
  constexpr size_t kPiece = size_t{1} << 24;
  uint32_t crc = 0;
  for (size_t done = 0; done < out.size(); done += kPiece) {
    const std::span<std::byte> piece = out.subspan(done, std::min(kPiece, out.size() - done));
    const ByteData data = source_->read(begin + done, piece.size());
    std::memcpy(piece.data(), data.bytes().data(), piece.size());
    if (!is_verified_) crc = crc32(piece, crc);
    release_pages(piece);
  }
  source_->let_go(entry.header_offset, begin + entry.size - entry.header_offset);
  if (!is_verified_ && crc != entry.crc) bad("the member '", entry.name, kDamaged);
}

std::shared_ptr<const ByteSource> ZipReader::source_of(const ZipEntry& entry) const {
  if (entry.method != kStored) return std::make_shared<MemorySource>(read(entry));
  return std::make_shared<PartSource>(source_, offset_of_stored(entry), entry.size);
}

ByteData ZipReader::read(std::string_view name) const {
  const ZipEntry* entry = find(name);
  if (!entry) bad("the member '", name, "' is missing");
  return read(*entry);
}

ZipWriter::ZipWriter() = default;

ZipWriter::ZipWriter(Options options) : options_(options) {
  QDQ_CHECK(std::has_single_bit(options.alignment) && options.alignment <= 4096, kInvalidArgument, "the alignment ",
            options.alignment, " of zip members is not a power of two up to 4096");
}

void ZipWriter::expect(size_t members, uint64_t bytes) {
  // Headers of both kinds and two names of about fifty bytes each.
  const uint64_t around = uint64_t{members} * (2 * options_.alignment + 256) + 1024;
  if (bytes + around <= std::numeric_limits<size_t>::max() / 2) out_.reserve(static_cast<size_t>(bytes + around));
  prefer_large_pages(out_.data(), out_.capacity());
}

void ZipWriter::add(std::string_view name, ByteSpan data) { add(name, data, data, kStored); }

void ZipWriter::add_deflated(std::string_view name, ByteSpan data) {
  constexpr size_t kMost = size_t{1} << 30;
  constexpr int kQuality = 8, kZlibHeader = 2, kZlibTrailer = 4;
  if (data.empty() || data.size() >= kMost) return add(name, data);
  const Bytes zlib = zlib_stream(data, kQuality);
  const ByteSpan packed = ByteSpan(zlib).first(zlib.size() - kZlibTrailer).subspan(kZlibHeader);
  if (packed.size() >= data.size()) return add(name, data);
  add(name, data, packed, kDeflated);
}

void ZipWriter::add(std::string_view name, ByteSpan data, ByteSpan packed, uint16_t method) {
  add_header({std::string(name), data.size(), packed.size(), position(), crc32(data), method});
  append(out_, packed);
}

void ZipWriter::add_parts(std::string_view name, const Parts& data) {
  uint32_t crc = 0;
  for (const ByteSpan part : data.spans()) crc = crc32_by_pieces(part, crc);
  add_header({std::string(name), data.size(), data.size(), position(), crc, kStored});
  done_.add(std::exchange(out_, {}));
  done_.add(data);
}

void ZipWriter::add_header(const ZipEntry& entry) {
  const std::string& name = entry.name;
  QDQ_CHECK(!name.empty() && name.size() <= 0xFFFF, kInvalidArgument,
            "a zip member needs a name of 1 to 65535 bytes, found ", name.size());
  QDQ_CHECK(by_name_.emplace(name, entries_.size()).second, kInvalidArgument, "the zip member '", name,
            "' was added twice");
  const bool wide = options_.always_zip64 || entry.size >= kIn64;
  Bytes extra;
  if (wide) {
    append_number(extra, kZip64Extra);
    append_number(extra, uint16_t{16});
    append_number(extra, entry.size);
    append_number(extra, entry.compressed_size);
  }
  if (options_.alignment > 1) {
    const uint64_t start = position() + kLocalSize + name.size() + extra.size() + 4;
    const auto padding = static_cast<size_t>((options_.alignment - start % options_.alignment) % options_.alignment);
    append(extra, bytes_of("FB"));
    append_number(extra, static_cast<uint16_t>(padding));
    extra.resize(extra.size() + padding, std::byte{'Z'});
  }
  const auto in_32 = [&](uint64_t size) { return wide ? kIn64 : static_cast<uint32_t>(size); };
  append_number(out_, kLocalHeader);
  append_number(out_, static_cast<uint16_t>(wide ? 45 : 20));
  append_number(out_, kUtf8);
  append_number(out_, entry.method);
  append_number(out_, uint16_t{0});
  append_number(out_, kDate1980);
  append_number(out_, entry.crc);
  append_number(out_, in_32(entry.compressed_size));
  append_number(out_, in_32(entry.size));
  append_number(out_, static_cast<uint16_t>(name.size()));
  append_number(out_, static_cast<uint16_t>(extra.size()));
  append(out_, bytes_of(name));
  append(out_, extra);
  entries_.push_back(entry);
}

namespace {

void append_central_header(Bytes& out, const ZipEntry& entry, bool always_zip64) {
  const bool wide_size = always_zip64 || entry.size >= kIn64;
  const bool wide_offset = always_zip64 || entry.header_offset >= kIn64;
  const size_t extra = (wide_size ? 16 : 0) + (wide_offset ? 8 : 0);
  const uint16_t version = extra ? 45 : 20;
  const auto in_32 = [&](uint64_t size) { return wide_size ? kIn64 : static_cast<uint32_t>(size); };
  append_number(out, kCentralHeader);
  append_number(out, version);
  append_number(out, version);
  append_number(out, kUtf8);
  append_number(out, entry.method);
  append_number(out, uint16_t{0});
  append_number(out, kDate1980);
  append_number(out, entry.crc);
  append_number(out, in_32(entry.compressed_size));
  append_number(out, in_32(entry.size));
  append_number(out, static_cast<uint16_t>(entry.name.size()));
  append_number(out, static_cast<uint16_t>(extra ? extra + 4 : 0));
  for (int zero = 0; zero < 5; ++zero) append_number(out, uint16_t{0});  // comment, disk, attributes
  append_number(out, wide_offset ? kIn64 : static_cast<uint32_t>(entry.header_offset));
  append(out, bytes_of(entry.name));
  if (!extra) return;
  append_number(out, kZip64Extra);
  append_number(out, static_cast<uint16_t>(extra));
  if (wide_size) append_number(out, entry.size);
  if (wide_size) append_number(out, entry.compressed_size);
  if (wide_offset) append_number(out, entry.header_offset);
}

}  // namespace

Bytes ZipWriter::finish() {
  if (!done_.empty()) return finish_parts().joined();
  finish_directory();
  return std::exchange(out_, {});
}

Parts ZipWriter::finish_parts() {
  finish_directory();
  done_.add(std::exchange(out_, {}));
  return std::exchange(done_, {});
}

void ZipWriter::finish_directory() {
  const uint64_t offset = position();
  const size_t count = entries_.size();
  for (const ZipEntry& entry : entries_) append_central_header(out_, entry, options_.always_zip64);
  const uint64_t end = position(), size = end - offset;
  if (options_.always_zip64 || offset >= kIn64 || size >= kIn64 || count >= kCountIn64) {
    append_number(out_, kEnd64);
    append_number(out_, uint64_t{kEnd64Size - 12});
    append_number(out_, uint16_t{45});
    append_number(out_, uint16_t{45});
    append_number(out_, uint64_t{0});  // this disk, the directory's disk
    append_number(out_, uint64_t{count});
    append_number(out_, uint64_t{count});
    append_number(out_, size);
    append_number(out_, offset);
    append_number(out_, kEnd64Locator);
    append_number(out_, uint32_t{0});
    append_number(out_, end);
    append_number(out_, uint32_t{1});
  }
  const auto count16 = static_cast<uint16_t>(options_.always_zip64 ? kCountIn64 : std::min<size_t>(count, kCountIn64));
  append_number(out_, kEnd);
  append_number(out_, uint32_t{0});
  append_number(out_, count16);
  append_number(out_, count16);
  append_number(out_, static_cast<uint32_t>(options_.always_zip64 ? kIn64 : std::min<uint64_t>(size, kIn64)));
  append_number(out_, static_cast<uint32_t>(options_.always_zip64 ? kIn64 : std::min<uint64_t>(offset, kIn64)));
  append_number(out_, uint16_t{0});
  entries_.clear();
  by_name_.clear();
}

}  // namespace qdq::format
