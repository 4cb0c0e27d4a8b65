#include "base/large_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace qdq::large_blocks_test {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

class LargeBlocks : public testing::Test {
 protected:
  void SetUp() override { release_kept_blocks(); }
  void TearDown() override { release_kept_blocks(); }

  // Whether blocks are kept at all: under Linux, without the address sanitizer.
  static bool are_kept() {
    give_block(take_block(kMebibyte), kMebibyte);
    release_kept_blocks();
    return block_use().most > 0;
  }
};

TEST_F(LargeBlocks, HoldWhatIsWrittenAtAnySize) {
  const uint64_t before = block_use().taken;
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  unsigned char mark = 1;
  for (const size_t bytes : {size_t{1}, size_t{64}, kMebibyte - 1, kMebibyte, kMebibyte + 1, 3 * kMebibyte,
                             9 * kMebibyte + 5, 2 * kMebibyte}) {
    auto* block = static_cast<unsigned char*>(take_block(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    std::memset(block, mark++, bytes);
    blocks.emplace_back(block, bytes);
  }
  for (size_t i = 0; i < blocks.size(); ++i)
    for (size_t at = 0; at < blocks[i].second; at += 997) ASSERT_EQ(blocks[i].first[at], i + 1);
  for (const auto& [block, bytes] : blocks) give_block(block, bytes);
  EXPECT_EQ(block_use().taken, before);
}

TEST_F(LargeBlocks, AreUsedAgainCutAndJoined) {
  if (!are_kept()) GTEST_SKIP() << "no blocks are kept here";
  auto* whole = static_cast<char*>(take_block(12 * kMebibyte));
  give_block(whole, 12 * kMebibyte);
  EXPECT_EQ(block_use().kept, 12 * kMebibyte);
  // Cut into three, which are given back in an order that joins on both sides.
  auto *first = static_cast<char*>(take_block(3 * kMebibyte)), *second = static_cast<char*>(take_block(4 * kMebibyte));
  auto* third = static_cast<char*>(take_block(5 * kMebibyte));
  EXPECT_EQ(first, whole);
  EXPECT_EQ(second, first + 3 * kMebibyte);
  EXPECT_EQ(third, second + 4 * kMebibyte);
  give_block(first, 3 * kMebibyte);
  give_block(third, 5 * kMebibyte);
  give_block(second, 4 * kMebibyte);
  EXPECT_EQ(take_block(12 * kMebibyte), whole);
  give_block(whole, 12 * kMebibyte);
  release_kept_blocks();
  EXPECT_EQ(block_use().kept, 0u);
}

TEST_F(LargeBlocks, AreNeverMoreThanWereInUseAtATime) {
  if (!are_kept()) GTEST_SKIP() << "no blocks are kept here";
  struct Block {
    unsigned char* data;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  uint32_t state = 7;
  const auto random = [&](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  for (int step = 0; step < 400; ++step) {
    if (blocks.size() < 6 && random(3) > 0) {
      const size_t bytes = kMebibyte + random(6 << 20);
      Block block{static_cast<unsigned char*>(take_block(bytes)), bytes, static_cast<unsigned char>(step)};
      for (size_t at = 0; at < bytes; at += 4096) block.data[at] = block.mark;
      blocks.push_back(block);
    } else if (!blocks.empty()) {
      const size_t i = random(static_cast<uint32_t>(blocks.size()));
      for (size_t at = 0; at < blocks[i].bytes; at += 4096) ASSERT_EQ(blocks[i].data[at], blocks[i].mark) << step;
      give_block(blocks[i].data, blocks[i].bytes);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const BlockUse use = block_use();
    ASSERT_LE(use.taken + use.kept, use.most + 8 * kMebibyte) << step;
  }
  for (const Block& block : blocks) give_block(block.data, block.bytes);
}

TEST_F(LargeBlocks, ComeAndGoInSeveralThreads) {
  if (!are_kept()) GTEST_SKIP() << "no blocks are kept here";
  const uint64_t before = block_use().taken;
  std::vector<std::thread> threads;
  for (unsigned char t = 1; t <= 3; ++t)
    threads.emplace_back([t] {
      for (size_t i = 0; i < 50; ++i) {
        const size_t bytes = kMebibyte + i % 7 * 300'000;
        auto* block = static_cast<unsigned char*>(take_block(bytes));
        for (size_t at = 0; at < bytes; at += 4096) block[at] = t;
        for (size_t at = 0; at < bytes; at += 4096) ASSERT_EQ(block[at], t);
        give_block(block, bytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(block_use().taken, before);
}

}  // namespace
}  // namespace qdq::large_blocks_test
