#include "base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace qdq {
namespace {

TEST(Memory, WhatDoesNotFitIsRefusedInOneSentence) {
  check_memory(5'000'000, "a run", 5'000'000);
  check_memory(UINT64_MAX, "a run", std::nullopt);
  try {
    check_memory(6'400'000'000, "a run of the program", 4'100'000'000);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(error.message,
              "a run of the program needs at least 6400 MB of memory, and 4100 MB are left of the 4 GB that WebAssembly has; use smaller "
              "batches, or the native program");
  }
}

TEST(Memory, OnlyShortAddressesHaveAKnownLimit) {
  const std::optional<uint64_t> before = available_memory();
  ASSERT_EQ(before.has_value(), sizeof(void*) == 4);
  if (!before) return;
  std::vector<char> block(50'000'000, 'x');
  char* volatile seen = block.data();  // else the compiler may leave the block out
  EXPECT_EQ(*seen, 'x');
  const uint64_t taken = *before - *available_memory();
  EXPECT_GE(taken, block.size());
  EXPECT_LE(taken, block.size() + 1'000'000);
}

}  // namespace
}  // namespace qdq
