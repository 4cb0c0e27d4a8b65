#include "format/tar.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "format/file_kind.h"

namespace qdq::format {

namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kMostText = uint64_t{1} << 20;  // of a long name or a pax record

std::string_view field(ByteSpan header, size_t at, size_t size) {
  const std::string_view text = text_of(header.subspan(at, size));
  return text.substr(0, text.find('\0'));
}

// Octal digits between spaces, or, with the highest bit set, a number of 8 bytes at the end of the field.
std::optional<uint64_t> number(ByteSpan header, size_t at, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(header[at + i]); };
  uint64_t value = 0;
  if (byte(0) & 0x80) {
    for (size_t i = 1; i < size; ++i) {
      if (value >> 55) return std::nullopt;
      value = value << 8 | byte(i);
    }
    return value;
  }
  std::string_view text = field(header, at, size);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The sum of the header's bytes, those of the sum itself taken as spaces.
uint64_t checksum(ByteSpan header) {
  constexpr size_t kAt = 148, kSize = 8;
  uint64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i)
    sum += i >= kAt && i < kAt + kSize ? ' ' : static_cast<uint64_t>(header[i]);
  return sum;
}

// What pax says of the next member: "30 path=a/b.jpg\n"...
void read_pax(std::string_view text, std::optional<std::string>& name, std::optional<uint64_t>& size) {
  while (!text.empty()) {
    uint64_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || length == 0 || length > text.size()) return;
    std::string_view record = text.substr(0, static_cast<size_t>(length));
    text.remove_prefix(static_cast<size_t>(length));
    record.remove_prefix(std::min(record.size(), static_cast<size_t>(end - record.data()) + 1));
    if (record.ends_with('\n')) record.remove_suffix(1);
    if (record.starts_with("path=")) name = record.substr(5);
    uint64_t value = 0;
    if (record.starts_with("size=") &&
        std::from_chars(record.data() + 5, record.data() + record.size(), value).ec == std::errc())
      size = value;
  }
}

}  // namespace

void for_each_in_tar(const ByteSource& source, const std::function<void(TarEntry)>& visit, const std::string& what) {
  bool is_tar = false;
  std::optional<std::string> long_name;
  std::optional<uint64_t> long_size;
  for (uint64_t at = 0; at + kBlock <= source.size();) {
    const ByteData block = source.read(at, kBlock);
    const ByteSpan header = block.bytes();
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) return;
    QDQ_CHECK(at != 0 || !text_of(header).starts_with("\x1F\x8B"), kUnsupported, what,
              " is compressed by gzip; unpack it with gunzip");
    const bool is_header = number(header, 148, 8) == checksum(header);
    QDQ_CHECK(is_header || at != 0, kBadFile, what, ": this is not a tar archive; ", kind_of_file(source));
    QDQ_CHECK(is_header, kBadFile, what, ": there is no tar header at offset ", at,
              "; the archive is damaged, so copy it again or pack it anew");
    const auto stated = number(header, 124, 12);
    const uint64_t left = source.size() - at - kBlock;
    const uint64_t size = long_size.value_or(stated.value_or(left + 1));
    QDQ_CHECK(size <= left, kBadFile, what, ": the member at offset ", at, " claims ", size, " bytes, and ", left,
              " are there; the archive was probably cut off; copy it again");
    const char kind = static_cast<char>(header[156]);
    if (kind == 'L' || kind == 'x') {
      QDQ_CHECK(size <= kMostText, kBadFile, what, ": the record at offset ", at, " has ", size, " bytes");
      const ByteData text = source.read(at + kBlock, size);
      if (kind == 'x') read_pax(text.text(), long_name, long_size);
      else long_name = std::string(text.text().substr(0, text.text().find('\0')));
    } else {
      const std::string_view prefix = header[257] == std::byte{'u'} ? field(header, 345, 155) : "";
      std::string name = std::string(prefix) + (prefix.empty() ? "" : "/") + std::string(field(header, 0, 100));
      if (kind == '0' || kind == '\0' || kind == '7') {
        is_tar = true;
        visit({long_name.value_or(name), at + kBlock, size});
      }
      long_name.reset();
      long_size.reset();
    }
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  QDQ_CHECK(is_tar, kBadFile, what, ": this is not a tar archive; ", kind_of_file(source));
}

}  // namespace qdq::format
