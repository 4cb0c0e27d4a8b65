#include "base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/process_memory.h"
#include "message_of.h"
#include "unit/base/limited_memory.h"

namespace qdq::memory_test {
namespace {

constexpr bool kShortAddresses = sizeof(void*) == 4;

std::string refusal(uint64_t bytes, std::string_view what) {
  return message_of([&] { check_memory(bytes, what); }, ErrorCode::kOutOfMemory);
}

TEST(Memory, WhatDoesNotFitIsRefusedInOneSentence) {
  const LimitedMemory limit(500'000'000);
  check_memory(300'000'000, "a run");
  EXPECT_THAT(refusal(6'400'000'000, "a run of the program"),
              testing::MatchesRegex("a run of the program needs at least 6400 MB of memory, and (500|49[0-9]) MB are "
                                    "left of the 500 MB that the test "
                                    "allows; use smaller batches, or allow more"));
  // A file is as large as it is, whatever the batches are.
  try {
    check_memory_of_file(6'400'000'000, "reading model.pt2");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message, testing::MatchesRegex("reading model.pt2 needs .* that the test allows; allow more"));
    EXPECT_THAT(error.message, testing::Not(testing::HasSubstr("batches")));
  }
}

TEST(Memory, OnlyShortAddressesHaveALimitOfTheirOwn) {
  ASSERT_EQ(memory_limit().has_value(), kShortAddresses);
  ASSERT_EQ(available_memory().has_value(), kShortAddresses);
  if (!kShortAddresses) {
    check_memory(UINT64_MAX, "a run");
    return;
  }
  EXPECT_THAT(refusal(6'400'000'000, "a run"),
              testing::MatchesRegex("a run needs at least 6400 MB of memory, and 4[0-9]+ MB are left of the 4 GB that "
                                    "WebAssembly has; use smaller batches, or allow more than 4 GB in Node 24 or a "
                                    "current Chromium, or use the native program"));
  const uint64_t before = *available_memory();
  std::vector<char> block(50'000'000, 'x');
  char* volatile seen = block.data();  // else the compiler may leave the block out
  EXPECT_EQ(*seen, 'x');
  const uint64_t taken = before - *available_memory();
  EXPECT_GE(taken, block.size());
  EXPECT_LE(taken, block.size() + 1'000'000);
}

TEST(Memory, NothingRaisesTheLimitOfShortAddresses) {
  const LimitedMemory limit(uint64_t{1} << 40);
  EXPECT_EQ(memory_limit()->bytes, kShortAddresses ? uint64_t{1} << 32 : uint64_t{1} << 40);
}

TEST(Memory, WhatTensorsTakeIsCountedUntilTheyGiveItBack) {
  if (kShortAddresses) GTEST_SKIP() << "the allocator counts everything here";
  const LimitedMemory limit(1000);
  const uint64_t before = *available_memory();
  take_memory(before - 100);
  EXPECT_EQ(*available_memory(), 100u);
  EXPECT_THROW(take_memory(101), Error);
  EXPECT_THROW(take_memory(UINT64_MAX), Error);
  EXPECT_EQ(*available_memory(), 100u);
  take_memory(100);
  EXPECT_EQ(*available_memory(), 0u);
  give_memory_back(before);
  EXPECT_EQ(*available_memory(), before);
}

#if defined(__linux__) && !defined(__EMSCRIPTEN__)
// In a process of its own, for it stays so.
TEST(WholeProcess, WhatIsNoTensorCountsToo) {
  constexpr uint64_t kRoom = 100'000'000;
  const auto is_refused = [](uint64_t bytes) {
    try {
      take_memory(bytes);
    } catch (const Error& error) {
      return error.code == ErrorCode::kOutOfMemory;
    }
    give_memory_back(bytes);
    return false;
  };
  const auto steps = [&] {
    count_process_memory();
    const LimitedMemory limit(process_memory() + kRoom);
    if (is_refused(kRoom / 4) || !is_refused(2 * kRoom)) return 1;
    const std::vector<char> file(kRoom / 10 * 9, 'x');
    if (!is_refused(kRoom / 4)) return 2;
    if (available_memory().value_or(kRoom) > kRoom / 5) return 3;
    return file.back() == 'x' ? 0 : 4;
  };
  EXPECT_EXIT(std::exit(steps()), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace qdq::memory_test
