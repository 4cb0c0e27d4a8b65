// Files of the operating system.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/files.h"

namespace qdq {
namespace {

namespace fs = std::filesystem;

class DiskTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  static std::vector<std::byte> bytes_of(const std::string& text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
  }
  static std::string refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kIo);
      return error.message;
    }
    return "nothing was refused";
  }

  const std::string folder = (fs::temp_directory_path() / concat("qdq_disk_", getpid())).string();
};

TEST_F(DiskTest, ReadsWhatWasWritten) {
  const std::string path = folder + "/a.bin";
  for (const size_t size : {size_t{0}, size_t{5}, (size_t{1} << 18) + 3}) {
    const std::vector<std::byte> bytes = bytes_of(std::string(size, 'x'));
    disk().write(path, bytes);
    EXPECT_EQ(disk().read(path), bytes) << size;
  }
  EXPECT_TRUE(disk().is_file(path));
  EXPECT_FALSE(disk().is_folder(path));
  EXPECT_TRUE(disk().is_folder(folder));
  EXPECT_FALSE(disk().is_file(folder));
  disk().write(folder + "/b.bin", {});
  std::vector<std::string> names = disk().list(folder);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a.bin", "b.bin"})) << "and no part of a file";
}

TEST_F(DiskTest, RefusesWithPathAndReason) {
  EXPECT_EQ(refusal([&] { disk().read(folder + "/none"); }),
            "cannot read " + folder + "/none: no such file or directory");
  EXPECT_EQ(refusal([&] { disk().read(folder); }), "cannot read " + folder + ": it is a folder, a file was wanted");
  EXPECT_EQ(refusal([&] { disk().list(folder + "/none"); }),
            "cannot list " + folder + "/none: no such file or directory");
  EXPECT_EQ(refusal([&] { disk().write(folder + "/none/a", {}); }),
            "cannot write " + folder + "/none/a: no such file or directory");
  EXPECT_FALSE(disk().is_file(folder + "/none"));
  EXPECT_FALSE(disk().is_folder(folder + "/none"));
}

}  // namespace
}  // namespace qdq
