// Zip archives: what is read, what is written, and every refusal.
#include "format/zip.h"

#include <gtest/gtest.h>

#include <array>

#include "unit/format/expect_error.h"

namespace qdq::format::zip_test {
namespace {

Bytes sample(ZipWriter::Options options = {}) {
  ZipWriter writer(options);
  writer.add("a.txt", bytes_of("hello"));
  writer.add("folder/b.bin", bytes_of(std::string_view("\0\1\2\3\4\5\6\7\10\11", 10)));
  writer.add("empty", {});
  return writer.finish();
}

// Made by Python 3.13's zipfile with ZIP_DEFLATED: the member "t.txt" = b"qdq " * 64.
Bytes deflated() {
  static constexpr unsigned char kBytes[] = {
      80, 75, 3,  4, 20, 0, 0,   0,  8,   0,   0,   0,  33,  0,   210, 157, 211, 189, 9,   0,  0,   0,   0,   1,
      0,  0,  5,  0, 0,  0, 116, 46, 116, 120, 116, 43, 76,  41,  84,  40,  28,  193, 24,  0,  80,  75,  1,   2,
      20, 3,  20, 0, 0,  0, 8,   0,  0,   0,   33,  0,  210, 157, 211, 189, 9,   0,   0,   0,  0,   1,   0,   0,
      5,  0,  0,  0, 0,  0, 0,   0,  0,   0,   0,   0,  128, 1,   0,   0,   0,   0,   116, 46, 116, 120, 116, 80,
      75, 5,  6,  0, 0,  0, 0,   1,  0,   1,   0,   51, 0,   0,   0,   44,  0,   0,   0,   0,  0,
  };
  return {reinterpret_cast<const std::byte*>(kBytes), reinterpret_cast<const std::byte*>(kBytes) + sizeof(kBytes)};
}

template <class T> void poke(Bytes& bytes, size_t at, T value) { std::memcpy(bytes.data() + at, &value, sizeof(T)); }

size_t find(const Bytes& bytes, std::string_view what) {
  const size_t at = text_of(bytes).find(what);
  EXPECT_NE(at, std::string_view::npos);
  return at;
}

TEST(ZipWriter, DeflatesWhatGetsSmaller) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += concat("{\"name\": \"node_", i % 97, "\"}, ");
  Bytes noise(3000);
  uint32_t state = 1;
  for (std::byte& byte : noise) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  for (const bool wide : {false, true}) {
    ZipWriter writer({wide ? size_t{64} : size_t{1}, wide});
    writer.add_deflated("text.json", bytes_of(text));
    writer.add_deflated("noise.bin", noise);
    writer.add_deflated("empty", {});
    writer.add("behind", bytes_of("it"));
    const Bytes archive = writer.finish();
    const ZipReader reader(archive);
    EXPECT_LT(reader.find("text.json")->compressed_size, text.size() / 10);
    EXPECT_EQ(reader.find("text.json")->size, text.size());
    EXPECT_EQ(reader.find("noise.bin")->method, 0);
    EXPECT_EQ(text_of(reader.read("text.json").bytes()), text);
    EXPECT_EQ(text_of(reader.read("noise.bin").bytes()), text_of(noise));
    EXPECT_EQ(reader.find("empty")->size, 0U);
    EXPECT_EQ(text_of(reader.read("behind").bytes()), "it");
  }
}

TEST(Zip, Crc32IsThatOfTheStandard) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926u);
  EXPECT_EQ(crc32({}), 0u);
}

TEST(Zip, Crc32OfAnyLengthIsThatOfItsBits) {
  Bytes bytes;
  uint32_t expected = 0xFFFFFFFF;
  for (uint32_t i = 0; i < 9000; ++i) {
    if (i % 61 == 0 || (i > 4080 && i < 4140)) {
      EXPECT_EQ(crc32(bytes), ~expected) << i;
    }
    bytes.push_back(static_cast<std::byte>(i * i * 2654435761u >> 24));
    expected ^= static_cast<uint32_t>(bytes.back());
    for (int bit = 0; bit < 8; ++bit) expected = expected >> 1 ^ (expected & 1 ? 0xEDB88320u : 0);
  }
}

TEST(Zip, MembersComeBackInOrder) {
  for (const bool wide : {false, true}) {
    for (const size_t alignment : {size_t{1}, size_t{64}}) {
      const Bytes bytes = sample({alignment, wide});
      const ZipReader reader(bytes);
      ASSERT_EQ(reader.entries().size(), 3u);
      EXPECT_EQ(reader.entries()[0].name, "a.txt");
      EXPECT_EQ(reader.entries()[1].name, "folder/b.bin");
      EXPECT_EQ(reader.read("a.txt").text(), "hello");
      EXPECT_EQ(reader.read("folder/b.bin").bytes().size(), 10u);
      EXPECT_TRUE(reader.read("empty").bytes().empty());
      EXPECT_EQ(reader.find("absent"), nullptr);
      const ByteData data = reader.read("folder/b.bin");
      EXPECT_GE(data.bytes().data(), bytes.data()) << "a stored member must be a view";
      EXPECT_EQ(static_cast<size_t>(data.bytes().data() - bytes.data()) % alignment, 0u);
    }
  }
}

TEST(Zip, EqualInputGivesEqualBytes) { EXPECT_EQ(sample(), sample()); }

TEST(Zip, AnEmptyArchiveIsRead) { EXPECT_TRUE(ZipReader(ZipWriter().finish()).entries().empty()); }

TEST(Zip, MoreMembersThan16BitsCountNeedZip64) {
  ZipWriter writer;
  for (int i = 0; i < 65540; ++i) writer.add(std::to_string(i), {});
  const Bytes bytes = writer.finish();
  const ZipReader reader(bytes);
  EXPECT_EQ(reader.entries().size(), 65540u);
  EXPECT_NE(reader.find("65539"), nullptr);
}

// The bytes of some parts, which may be more than the memory: one of them can stand there often.
class PartsSource final : public ByteSource {
 public:
  explicit PartsSource(Parts parts) : parts_(std::move(parts)) {}
  uint64_t size() const override { return parts_.size(); }
  ByteData read(uint64_t offset, uint64_t count) const override {
    Bytes out;
    for (const ByteSpan part : parts_.spans()) {
      const uint64_t skipped = std::min<uint64_t>(offset, part.size());
      const ByteSpan rest = part.subspan(static_cast<size_t>(skipped));
      append(out, rest.first(static_cast<size_t>(std::min<uint64_t>(count - out.size(), rest.size()))));
      offset -= skipped;
    }
    return ByteData(std::move(out));
  }

 private:
  Parts parts_;
};

// A member of more than 4 GB, which is one piece of zeros a thousand times, one that begins behind 4 GB, and their end
// record there.
#if !defined(__SANITIZE_ADDRESS__)  // a minute for checksums of zeros
TEST(Zip, ArchivesAboveFourGigabytesAreWrittenAndRead) {
  const auto zeros = std::make_shared<const Bytes>(size_t{1} << 22);
  constexpr int kTimes = 1030;
  Parts large, small;
  for (int i = 0; i < kTimes; ++i) large.add(zeros, *zeros);
  small.add(Bytes(5000, std::byte{7}));
  ZipWriter writer({64, false});
  writer.add("first", bytes_of("1"));
  writer.add_parts("large", large);
  writer.add_parts("small", small);
  writer.add("last", bytes_of("2"));
  const Parts archive = writer.finish_parts();
  ASSERT_GT(archive.size(), uint64_t{1} << 32);
  const ZipReader reader(std::make_shared<PartsSource>(archive), "the archive");
  ASSERT_EQ(reader.entries().size(), 4U);
  EXPECT_EQ(reader.find("large")->size, large.size());
  EXPECT_GT(reader.find("small")->header_offset, uint64_t{1} << 32);
  EXPECT_EQ(reader.read("first").text(), "1");
  EXPECT_EQ(reader.read("last").text(), "2");
  EXPECT_EQ(reader.offset_of_stored(*reader.find("small")) % 64, 0U);
  Bytes found(5000);
  reader.read_into(*reader.find("small"), found);
  EXPECT_EQ(found, small.joined());
  const auto part = reader.source_of(*reader.find("small"));
  EXPECT_EQ(part->size(), 5000U);
  EXPECT_EQ(part->read(4999, 1).bytes()[0], std::byte{7});
}
#endif

TEST(Zip, DeflatedMembersAreInflated) {
  const Bytes bytes = deflated();
  const ZipReader reader(bytes);
  std::string expected;
  for (int i = 0; i < 64; ++i) expected += "qdq ";
  EXPECT_EQ(reader.read("t.txt").text(), expected);
}

TEST(Zip, ACommentAfterTheEndIsSkipped) {
  Bytes bytes = sample();
  poke<uint16_t>(bytes, bytes.size() - 2, 7);
  append(bytes, bytes_of("comment"));
  EXPECT_EQ(ZipReader(bytes).read("a.txt").text(), "hello");
}

TEST(Zip, ADataDescriptorIsTolerated) {
  Bytes bytes = sample();
  poke<uint16_t>(bytes, 6, 0x808);
  poke<uint64_t>(bytes, 14, 0);
  poke<uint32_t>(bytes, 22, 0);
  EXPECT_EQ(ZipReader(bytes).read("a.txt").text(), "hello");
}

TEST(Zip, DamageIsRefused) {
  for (const auto& [text, kind] :
       {std::pair("this is surely no zip archive", "it is a text that begins with \"this is surely n\""),
        std::pair("PK", "it is a text that begins with \"PK\""), std::pair("", "it is empty"),
        std::pair("\x93NUMPY\1\1", "it is a .npy file"), std::pair("\x1F\x8B\x08", "it is compressed by gzip"),
        std::pair("GGUF\3", "it is a file of GGUF, which holds weights"),
        std::pair("\x1C\1\1\1TFL3", "it is a file of TensorFlow Lite, which tf2onnx --tflite converts to ONNX"),
        std::pair("\x1C\1\1\1ORTM", "it is a model in ONNX Runtime's own format (.ort)"),
        std::pair("\1\2", "it begins with the bytes 01 02")})
    expect_error(ErrorCode::kBadFile, concat("this is not a zip archive, as .npz and .pt2 files are; ", kind),
                 [text = text] { ZipReader(bytes_of(text)); });
  expect_error(ErrorCode::kBadFile, "it is a file of safetensors, which holds weights without a graph",
               [] { ZipReader(bytes_of({"\x18\x13\0\0\0\0\0\0{\"__metadata__", 21})); });
  expect_error(ErrorCode::kBadFile, "it is a text", [] { ZipReader(bytes_of("{\"a\":[[{\"b\":1}]]}")); });
  expect_error(ErrorCode::kBadFile, "cut off", [] { ZipReader(bytes_of("PK\3\4")); });
  Bytes bytes = sample();
  bytes.resize(bytes.size() - 30);
  expect_error(ErrorCode::kBadFile, "cut off", [&] { ZipReader{bytes}; });

  bytes = sample();
  bytes[find(bytes, "hello")] = std::byte{'j'};
  expect_error(ErrorCode::kBadFile, "CRC", [&] { ZipReader(bytes).read("a.txt"); });

  bytes = deflated();
  bytes[find(bytes, "t.txt") + 6] ^= std::byte{0xFF};
  expect_error(ErrorCode::kBadFile, "damaged", [&] { ZipReader(bytes).read("t.txt"); });

  bytes = sample();
  expect_error(ErrorCode::kBadFile, "model.pt2: the member 'weights' is missing",
               [&] { ZipReader(bytes, "model.pt2").read("weights"); });
}

TEST(Zip, ADirectoryThatContradictsItselfIsRefused) {
  const size_t end = sample().size() - 22;
  const auto patched = [](size_t at, auto value) {
    Bytes bytes = sample();
    poke(bytes, at, value);
    return bytes;
  };
  const uint32_t start = [&] {
    uint32_t value;
    const Bytes bytes = sample();
    std::memcpy(&value, bytes.data() + end + 16, 4);
    return value;
  }();
  const auto refuse = [](const Bytes& bytes, std::string_view words, ErrorCode code = ErrorCode::kBadFile) {
    expect_error(code, words, [&] {
      const ZipReader reader(bytes);
      for (const ZipEntry& entry : reader.entries()) reader.read(entry);
    });
  };
  refuse(patched(end + 16, start + 1000), "does not fit");
  refuse(patched(end + 10, uint16_t{500}), "cannot hold 500 entries");
  refuse(patched(end + 4, uint16_t{1}), "several disks", ErrorCode::kUnsupported);
  refuse(patched(start, uint32_t{7}), "wrong signature");
  refuse(patched(start + 42, start), "does not lie before the directory");
  refuse(patched(start + 20, uint32_t{0x7FFFFFFF}), "does not lie before the directory");
  refuse(patched(start + 24, uint32_t{1u << 30}), "claims 1073741824 bytes");
  refuse(patched(start + 42, uint32_t{1}), "overlap");
  refuse(patched(0, uint32_t{0x06054b50}), "wrong signature");
  refuse(patched(18, uint32_t{6}), "says 6 bytes, the directory 5");
  refuse(patched(30, 'b'), "another name");
  refuse(patched(6, uint16_t{1}), "encrypted", ErrorCode::kUnsupported);
  refuse(patched(start + 46, '\xFF'), "not UTF-8");
  refuse(patched(8, uint16_t{8}), "says compression 8, the directory 0");
}

TEST(Zip, AnUnknownCompressionIsRefused) {
  Bytes bytes = sample();
  uint32_t start;
  std::memcpy(&start, bytes.data() + bytes.size() - 6, 4);
  poke(bytes, 8, uint16_t{12});
  poke(bytes, start + 10, uint16_t{12});
  expect_error(ErrorCode::kUnsupported, "method 12", [&] { ZipReader(bytes).read("a.txt"); });
  // Such members take fewer bytes than they have.
  poke(bytes, 22, uint32_t{900});
  poke(bytes, start + 24, uint32_t{900});
  expect_error(ErrorCode::kUnsupported, "method 12", [&] { ZipReader(bytes).read("a.txt"); });
}

TEST(Zip, ANameStandsOnce) {
  Bytes bytes = sample();
  const std::string_view text = text_of(bytes);
  poke(bytes, text.rfind("empty"), std::array<char, 5>{'a', '.', 't', 'x', 't'});
  expect_error(ErrorCode::kBadFile, "'a.txt' is in the archive twice", [&] { ZipReader{bytes}; });

  ZipWriter writer;
  writer.add("x", {});
  expect_error(ErrorCode::kInvalidArgument, "added twice", [&] { writer.add("x", {}); });
  expect_error(ErrorCode::kInvalidArgument, "needs a name", [&] { writer.add("", {}); });
  expect_error(ErrorCode::kInvalidArgument, "alignment 3", [] { ZipWriter({3, false}); });
}

}  // namespace
}  // namespace qdq::format::zip_test
