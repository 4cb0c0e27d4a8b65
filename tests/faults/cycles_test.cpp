// The same work many times in one process: nothing stays in use.
#include <gtest/gtest.h>

#include "base/process_memory.h"
#include "faults/failing_memory.h"
#include "faults/faulty_verbs.h"

namespace qdq {
namespace {

struct Cycles : FaultyVerbs {};

// Prints what is in use, for QDQ_CYCLES of many thousands.
TEST_P(Cycles, LeaveNothingInUse) {
  const Verb verb = verbs()[GetParam()];
  const uint64_t cycles = number_of("QDQ_CYCLES", 40), warm = 10;
  int64_t blocks = 0;
  uint64_t bytes = 0;
  for (uint64_t i = 1; i <= warm + cycles; ++i) {
    restore({});
    Console console;
    ASSERT_EQ(run_cli(verb.words, console), 0) << console.err;
    if (i == warm) {
      blocks = blocks_in_use();
      bytes = process_memory();
    }
    if (i <= warm) continue;
    ASSERT_EQ(blocks_in_use(), blocks) << "cycle " << i - warm;
  }
  const uint64_t end = process_memory();
  std::printf("%s, %llu cycles: %lld blocks in use before and behind, %.1f MB and %.1f MB\n", verb.name,
              static_cast<unsigned long long>(cycles), static_cast<long long>(blocks),
              1e-6 * static_cast<double>(bytes), 1e-6 * static_cast<double>(end));
  EXPECT_LT(end, bytes + 4'000'000);
}

INSTANTIATE_TEST_SUITE_P(Verbs, Cycles, testing::Range<size_t>(0, verbs().size()),
                         [](const auto& info) { return std::string(verbs()[info.param].name); });

}  // namespace
}  // namespace qdq
