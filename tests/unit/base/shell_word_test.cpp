#include "base/shell_word.h"

#include <gtest/gtest.h>

namespace qdq::shell_word_test {
namespace {

TEST(ShellWord, QuotesWhatAShellTreatsSpecially) {
  EXPECT_EQ(shell_word("past_key.0=1,32"), "past_key.0=1,32");
  EXPECT_EQ(shell_word("C:\\data\\x.npz"), "C:\\data\\x.npz");
  EXPECT_EQ(shell_word("my input=VALUE"), "'my input=VALUE'");
  EXPECT_EQ(shell_word("$(rm)"), "'$(rm)'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace qdq::shell_word_test
