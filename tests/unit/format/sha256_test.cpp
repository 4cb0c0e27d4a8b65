// Known answers of SHA-256 (FIPS 180-4 examples).
#include "format/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

namespace qdq::format::sha256_test {
namespace {

std::string hash(const std::string& text) { return sha256(std::as_bytes(std::span(text.data(), text.size()))); }

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, TakesBytesPieceByPiece) {
  std::string text;
  while (text.size() < 1000) text += static_cast<char>(text.size() * 7 % 251);
  for (const size_t step : {1, 7, 63, 64, 65, 500}) {
    for (const size_t size : {0, 1, 55, 56, 63, 64, 119, 128, 1000}) {
      Sha256 pieces;
      for (size_t at = 0; at < size; at += step)
        pieces.add(std::as_bytes(std::span(text).subspan(at, std::min(step, size - at))));
      EXPECT_EQ(pieces.finish(), hash(text.substr(0, size))) << step << " " << size;
    }
  }
}

}  // namespace
}  // namespace qdq::format::sha256_test
