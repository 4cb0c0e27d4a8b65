// Every call that opens, writes, closes, renames or links a file fails once.
#include <gtest/gtest.h>

#include <cerrno>
#include <regex>

#include "base/disk_output.h"
#include "faults/failing_files.h"
#include "faults/faulty_verbs.h"

namespace qdq {
namespace {

struct FailingFiles : FaultyVerbs {};

Texts old_of(const Texts& whole) {
  Texts old;
  for (const auto& [name, bytes] : whole)
    if (name != "checkpoint") old[name] = "old";  // else training would go on from it
  return old;
}

// One run in which the n-th call fails. False if there are fewer.
bool walk_one(const Verb& verb, uint64_t n, int error, const Texts& old, const Texts& whole) {
  restore(old);
  Console console;
  fail_file_call(n, error);
  const int status = run_cli(verb.words, console);
  const bool is_last = file_calls() < n;
  const std::string call = failed_file_call();
  fail_file_call(0, 0);
  SCOPED_TRACE(
      concat(verb.name, ", call ", n, " (", call, "): ", reason_of(error), "; status ", status, ", ", console.err));
  if (status != 0) {
    EXPECT_EQ(status, 1);
    const std::regex sentence("qdq: [^\n]*" + reason_of(error) + "[^\n]*\n");
    const std::string err = console.err;
    const size_t last = err.rfind("qdq: ");
    EXPECT_TRUE(last != std::string::npos && std::regex_match(err.substr(last), sentence));
  }
  const Texts left = outputs();
  for (const auto& [name, bytes] : left) {
    const auto wanted = whole.find(name), before = old.find(name);
    EXPECT_TRUE(wanted != whole.end()) << name << " is left";
    if (wanted == whole.end()) continue;
    EXPECT_TRUE(bytes == wanted->second || (status != 0 && before != old.end() && bytes == before->second)) << name;
  }
  for (const auto& [name, bytes] : status == 0 ? whole : old) EXPECT_TRUE(left.contains(name)) << name << " is lost";
  return !is_last;
}

TEST_P(FailingFiles, EveryCallOnce) {
  const Verb verb = verbs()[GetParam()];
  if (verb.may_crash) GTEST_SKIP() << "its files are those of run";
  const Texts whole = whole_outputs(verb);
  ASSERT_FALSE(whole.empty());
  for (const int error : {EMFILE, ENOSPC, EIO, EDQUOT})
    for (const Texts& old : {old_of(whole), Texts()}) {
      uint64_t n = 1;
      while (walk_one(verb, n, error, old, whole)) ++n;
      EXPECT_GT(n, 4U);
    }
}

TEST_P(FailingFiles, SystemsThatTakeHalfOfWhatTheyAreGiven) {
  const Verb verb = verbs()[GetParam()];
  const Texts whole = whole_outputs(verb);
  write_by_halves(true);
  const Texts halves = whole_outputs(verb);
  write_by_halves(false);
  EXPECT_TRUE(halves == whole);
}

INSTANTIATE_TEST_SUITE_P(Verbs, FailingFiles, testing::Range<size_t>(0, verbs().size()),
                         [](const auto& info) { return std::string(verbs()[info.param].name); });

}  // namespace
}  // namespace qdq
