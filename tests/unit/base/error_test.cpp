#include "base/error.h"

#include <gtest/gtest.h>

#include <limits>

namespace qdq::error_test {
namespace {

TEST(Concat, PutsTextsAndNumbersTogether) {
  const std::string owned = "owned";
  EXPECT_EQ(concat("a ", owned, ' ', std::string_view("viewed whole").substr(0, 6)), "a owned viewed");
  EXPECT_EQ(concat(-1, " ", 2u, " ", std::numeric_limits<int64_t>::min(), " ", std::numeric_limits<uint64_t>::max()),
            "-1 2 -9223372036854775808 18446744073709551615");
  EXPECT_EQ(concat(static_cast<int8_t>(-128), " ", static_cast<uint8_t>(65), " ", true), "-128 65 1");
  EXPECT_EQ(concat(0.1, " ", 1e-30, " ", 2.f, " ", 1234567.0), "0.1 1e-30 2 1.23457e+06");
}

TEST(Check, ThrowsItsCodeAndItsSentence) {
  const int found = 3;
  try {
    QDQ_CHECK(found < 2, kBadFile, "found ", found, " of ", std::string("at most two"));
    FAIL() << "the check let 3 pass";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kBadFile);
    EXPECT_EQ(error.message, "found 3 of at most two");
    EXPECT_STREQ(error.what(), "found 3 of at most two");
  }
  EXPECT_NO_THROW(QDQ_CHECK(found == 3, kInternal, "never put together"));
}

}  // namespace
}  // namespace qdq::error_test
