#include "base/readable.h"

#include <gtest/gtest.h>

namespace qdq::readable_test {
namespace {

TEST(Readable, KeepsTextsOfAllLanguages) {
  for (const char* text : {"", "conv1", "größe", "层1\t归一化\n", "🙂"}) EXPECT_EQ(readable(text), text);
}

TEST(Readable, SpellsOutWhatDeceives) {
  EXPECT_EQ(readable("\x1b[2Jgone\r\x07"), "\\u001b[2Jgone\\u000d\\u0007");
  EXPECT_EQ(readable("a\x7f\xc2\x9b"), "a\\u007f\\u009b");
  EXPECT_EQ(readable("safe\xe2\x80\xae"
                     "2tp.exe"),
            "safe\\u202e2tp.exe");
  EXPECT_EQ(readable(std::string_view("a\0b", 3)), "a\\u0000b");
}

TEST(Readable, SpellsOutBytesThatAreNoText) {
  EXPECT_EQ(readable("\xff\xc3"), "\\u00ff\\u00c3");
  EXPECT_EQ(readable("\xc0\xaf"), "\\u00c0\\u00af");             // a longer form than needed
  EXPECT_EQ(readable("\xed\xa0\x80"), "\\u00ed\\u00a0\\u0080");  // half of a pair
  EXPECT_EQ(readable("\xf5\x80\x80\x80"), "\\u00f5\\u0080\\u0080\\u0080");
}

TEST(Readable, LeavesOutTheMiddleOfLongTexts) {
  const std::string text = std::string(1000000, 'a') + "end";
  const std::string shown = readable(text, 100);
  EXPECT_EQ(shown, std::string(75, 'a') + " [999903 bytes are left out] " + std::string(22, 'a') + "end");
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ä";
  for (size_t longest = 5; longest < 30; ++longest)
    EXPECT_EQ(readable(umlauts, longest).find("\\u"), std::string::npos);
}

TEST(Readable, NamesStayOnOneLineAndRowsStayRows) {
  EXPECT_EQ(readable_name("conv1\nqdq: warning"), "conv1 qdq: warning");
  EXPECT_LT(readable_name(std::string(100000, 'a')).size(), 200U);
  EXPECT_EQ(readable_lines("a\nbb\n\nc", 100), "a\nbb\n\nc");
  const std::string lines = readable_lines(std::string(1000, 'a') + "\nb\n", 100);
  EXPECT_LT(lines.size(), 200U);
  EXPECT_TRUE(lines.ends_with("\nb\n")) << lines;
}

}  // namespace
}  // namespace qdq::readable_test
