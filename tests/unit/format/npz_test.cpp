// NumPy's files: round trips, headers of all versions and every refusal.
#include "format/npz.h"

#include <gtest/gtest.h>

#include "format/zip.h"
#include "tensor/strings.h"
#include "unit/format/expect_error.h"

namespace qdq::format::npz_test {
namespace {

Bytes npy(const std::string& header, std::string_view data, int version = 1) {
  Bytes out;
  append(out, bytes_of("\x93NUMPY"));
  append_number(out, static_cast<uint8_t>(version));
  append_number(out, uint8_t{0});
  if (version == 1) append_number(out, static_cast<uint16_t>(header.size()));
  else append_number(out, static_cast<uint32_t>(header.size()));
  append(out, bytes_of(header));
  append(out, bytes_of(data));
  return out;
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  const std::string order = fortran ? "True" : "False";
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

Tensor counted(const Shape& shape) {
  Tensor out = Tensor::empty(shape, DType::kS64);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<int64_t>()[i] = i;
  return out;
}

TEST(Npz, EveryDtypeComesBack) {
  std::vector<NamedTensor> arrays;
  for (const DType dtype : {DType::kU8, DType::kS8, DType::kS16, DType::kS32, DType::kS64, DType::kF16, DType::kF32,
                            DType::kF64, DType::kBool, DType::kU16, DType::kU32, DType::kU64})
    arrays.push_back({std::string(to_string(dtype)), counted({2, 3}).to(dtype)});
  arrays.push_back({"scalar", Tensor::scalar(2.5f)});
  arrays.push_back({"vector", Tensor::of<int64_t>({3}, {1, -2, 3})});
  arrays.push_back({"nothing", Tensor::empty({0, 4}, DType::kF32)});
  const Bytes bytes = write_npz(arrays);
  EXPECT_EQ(bytes, write_npz(arrays));
  const std::vector<NamedTensor> back = read_npz(bytes);
  ASSERT_EQ(back.size(), arrays.size());
  for (size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].name, arrays[i].name);
    EXPECT_TRUE(bitwise_equal(back[i].tensor, arrays[i].tensor)) << arrays[i].name;
  }
}

TEST(Npz, WhatNumpyLacksIsWrittenAsFloat32) {
  const Tensor back = read_npy(write_npy(Tensor::of<BF16>({2}, {BF16(1.5f), BF16(-3.0f)})));
  EXPECT_TRUE(bitwise_equal(back, Tensor::of<float>({2}, {1.5f, -3.0f})));
  const Tensor eight = Tensor::of<float>({2}, {1.5f, -3.0f}).to(DType::kF8E4M3FN);
  EXPECT_TRUE(bitwise_equal(read_npy(write_npy(eight)), Tensor::of<float>({2}, {1.5f, -3.0f})));
}

TEST(Npz, TheHeaderIsThatOfNumpy) {
  const Bytes bytes = write_npy(Tensor::of<float>({1}, {0.0f}));
  EXPECT_EQ(bytes.size(), 128u + 4u);
  EXPECT_NE(text_of(bytes).find("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"), std::string_view::npos);
}

TEST(Npz, AStridedTensorIsWrittenInCOrder) {
  const Tensor matrix = Tensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(
      bitwise_equal(read_npy(write_npy(matrix.transpose(0, 1))), Tensor::of<float>({3, 2}, {0, 3, 1, 4, 2, 5})));
}

TEST(Npz, FortranOrderAndLaterVersionsAreRead) {
  const std::string_view data("\1\0\2\0\3\0\4\0\5\0\6\0", 12);
  const Tensor expected = Tensor::of<int16_t>({2, 3}, {1, 3, 5, 2, 4, 6});
  for (const int version : {1, 2, 3})
    EXPECT_TRUE(bitwise_equal(read_npy(npy(header("<i2", "(2, 3)", true), data, version)), expected));
  EXPECT_TRUE(bitwise_equal(read_npy(npy("{\"shape\":(6L,),\"fortran_order\":False,\"descr\":\"=i2\"}", data)),
                            Tensor::of<int16_t>({6}, {1, 2, 3, 4, 5, 6})));
}

TEST(Npz, Texts) {
  const std::string texts[] = {"", "Z\xC3\xBCrich", "\xE6\x97\xA5\xE6\x9C\xAC", "a"};
  const Tensor strings = string_tensor({2, 2}, texts);
  const Bytes bytes = write_npy(strings);
  EXPECT_NE(text_of(bytes).find("'<U6'"), std::string_view::npos);
  EXPECT_TRUE(bitwise_equal(read_npy(bytes), strings));
  EXPECT_TRUE(
      bitwise_equal(read_npy(write_npy(Tensor::empty({0}, DType::kString))), Tensor::empty({0}, DType::kString)));
  EXPECT_TRUE(bitwise_equal(read_npy(npy(header("|S2", "(2, 1)", true), std::string_view("a\0bc", 4))),
                            string_tensor({2, 1}, std::vector<std::string>{"a", "bc"})));
  expect_error(ErrorCode::kBadFile, "needs more bytes", [] { read_npy(npy(header("<U9", "(3,)"), "abcd")); });
  expect_error(ErrorCode::kBadFile, "not text in UTF-8", [] { read_npy(npy(header("|S1", "(1,)"), "\xFF")); });
  expect_error(ErrorCode::kUnsupported, "without room", [] { read_npy(npy(header("<U0", "(99999,)"), "")); });
  expect_error(ErrorCode::kBadFile, "which is none", [] { read_npy(npy(header("<U99999999", "(1,)"), "")); });
  expect_error(ErrorCode::kUnsupported, "big endian", [] { read_npy(npy(header(">U1", "(1,)"), "abcd")); });
}

TEST(Npz, BoolsAreZeroOrOne) {
  const Tensor bools = read_npy(npy(header("|b1", "(3,)"), std::string_view("\0\7\1", 3)));
  EXPECT_TRUE(bitwise_equal(bools, Tensor::of<bool>({3}, {false, true, true})));
}

TEST(Npz, BadFilesAreRefused) {
  const auto refuse = [](const Bytes& bytes, std::string_view words, ErrorCode code = ErrorCode::kBadFile) {
    expect_error(code, words, [&] { read_npy(bytes, "x.npy"); });
  };
  const std::string_view four("\0\0\0\0", 4);
  refuse({}, "x.npy: this is not a .npy file, as numpy.save writes it; it is empty");
  ZipWriter archive;
  refuse(archive.finish(), "it is a zip archive without files");
  refuse(npy(header("<f4", "(1,)"), four, 4), "version 4", ErrorCode::kUnsupported);
  refuse(npy(header("<f4", "(2,)"), four),
         "needs more bytes than the 4 that are there; the file was cut off or changed");
  refuse(npy(header("<f4", "()"), "12345678"), "has 4 bytes, found 8");
  refuse(npy(header("<f4", "(0, 5)"), four), "has 0 bytes, found 4");
  refuse(npy(header("<f4", "(9223372036854775807, 9223372036854775807)"), four), "beyond 64 bits");
  refuse(npy(header("<f4", "(4611686018427387904, 4, 0)"), four), "has 0 bytes, found 4");
  for (const char* shape : {"(0, 4611686018427387904, 4611686018427387904)", "(4611686018427387904, 0)"})
    refuse(npy(header("<f4", shape), ""), "x.npy: the shape [");
  refuse(npy(header("<f4", "(1000000000, 1000000000, 1000000000)"), four), "needs more bytes");
  refuse(npy(header("<f4", "(-1,)"), four), "should have a size");
  refuse(npy(header("<f4", "(1,)") + "x", four), "goes on after its end");
  refuse(npy("{'descr': '<f4', 'shape': (1,)}", four), "lacks 'descr'");
  refuse(npy("{'descr': '<f4', 'order': 3}", four), "unknown key 'order'");
  refuse(npy("{'descr': '<f4", four), "string without an end");
  refuse(npy("{'fortran_order': maybe}", four), "True or False");
  refuse(npy(header(">f4", "(1,)"), four), "big endian", ErrorCode::kUnsupported);
  refuse(npy(header("|O", "(1,)"), four), "not executed", ErrorCode::kUnsupported);
  refuse(npy(header("<c16", "(1,)"), four), "NumPy type '<c16'", ErrorCode::kUnsupported);
  refuse(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", four), "structures",
         ErrorCode::kUnsupported);
  std::string deep = "(";
  for (int i = 0; i < 65; ++i) deep += "1,";
  refuse(npy(header("<f4", deep + ")"), four), "64 dimensions");

  ZipWriter writer;
  writer.add("readme.txt", bytes_of(four));
  expect_error(ErrorCode::kBadFile, "calib.npz: the member 'readme.txt' is not a .npy file",
               [&] { read_npz(writer.finish(), "calib.npz"); });
}

}  // namespace
}  // namespace qdq::format::npz_test
