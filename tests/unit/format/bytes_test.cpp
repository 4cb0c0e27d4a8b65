#include "format/bytes.h"

#include <gtest/gtest.h>

namespace qdq::format::bytes_test {
namespace {

TEST(Base64, GoesBothWays) {
  Bytes bytes;
  for (int i = 0; i < 300; ++i) {
    const std::string text = base64(bytes);
    EXPECT_EQ(base64_bytes(text, "the text"), bytes) << text;
    bytes.push_back(static_cast<std::byte>(i * 37));
  }
  EXPECT_EQ(base64(bytes_of("light work.")), "bGlnaHQgd29yay4=");
}

TEST(Base64, RefusesWhatItDoesNotWrite) {
  for (const char* text : {"A", "AAA", "AA=A", "A===", "====", "AB==", "AAB=", "AA==AAAA", "AAA*", "AAA\n"})
    EXPECT_THROW(base64_bytes(text, "the text"), Error) << text;
}

}  // namespace
}  // namespace qdq::format::bytes_test
