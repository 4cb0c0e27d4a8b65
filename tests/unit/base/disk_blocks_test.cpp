// Blocks in scratch files: what goes there, and what is left in memory.
#include "base/disk_blocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "unit/base/resident_blocks.h"

#ifdef __linux__

namespace qdq::disk_blocks_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

std::span<std::byte> taken(size_t bytes) { return {static_cast<std::byte*>(take_disk_block(bytes)), bytes}; }

TEST(DiskBlocks, AreForLargeTensorsWhileTheyAreWanted) {
  EXPECT_FALSE(goes_to_disk(kMegabyte));
  {
    const BlocksOnDisk outer, not_wanted(false);
    const BlocksOnDisk inner;
    EXPECT_TRUE(goes_to_disk(kMegabyte));
    EXPECT_FALSE(goes_to_disk(kMegabyte - 1));
  }
  EXPECT_FALSE(goes_to_disk(kMegabyte));
}

TEST(DiskBlocks, KeepTheirBytesWithoutMemory) {
  const std::span<std::byte> block = taken(8 * kMegabyte);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i * 7 + i / 4096);
  EXPECT_GE(resident_disk_bytes(), 8 * kMegabyte);
  release_pages(block.first(3 * kMegabyte + 5));
  EXPECT_LE(resident_disk_bytes(), 5 * kMegabyte);
  release_pages(block);
  EXPECT_LE(resident_disk_bytes(), 4096U);
  for (size_t i = 0; i < block.size(); ++i) ASSERT_EQ(block[i], static_cast<std::byte>(i * 7 + i / 4096)) << i;
  give_disk_block(block.data());
  EXPECT_EQ(resident_disk_bytes(), 0U);
}

TEST(DiskBlocks, KnowTheirAddresses) {
  const int elsewhere = 0;
  EXPECT_FALSE(has_disk_blocks());
  const std::span<std::byte> a = taken(kMegabyte), b = taken(2 * kMegabyte);
  for (const auto block : {a, b}) {
    EXPECT_TRUE(is_on_disk(block.data()));
    EXPECT_TRUE(is_on_disk(block.data() + block.size() - 1));
  }
  EXPECT_FALSE(is_on_disk(&elsewhere));
  release_pages(std::as_bytes(std::span(&elsewhere, 1)));
  give_disk_block(a.data());
  EXPECT_FALSE(is_on_disk(a.data()) && a.data() + a.size() != b.data());
  EXPECT_TRUE(has_disk_blocks());
  give_disk_block(b.data());
  EXPECT_FALSE(has_disk_blocks());
}

TEST(DiskBlocks, AFolderThatCannotHoldThemIsNamedWithTheRemedy) {
  const char* const folder = std::getenv("TMPDIR");
  const std::string before = folder ? folder : "";
  setenv("TMPDIR", "/nowhere", 1);
  std::string message;
  try {
    take_disk_block(kMegabyte);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kIo);
    message = error.message;
  }
  if (folder) setenv("TMPDIR", before.c_str(), 1);
  else unsetenv("TMPDIR");
  EXPECT_EQ(message,
            "cannot keep a tensor of 1048576 bytes of a large model in the folder /nowhere: no such file or directory; "
            "name a folder with room for the model in the environment variable TMPDIR");
}

}  // namespace
}  // namespace qdq::disk_blocks_test

#endif
