// Files of the operating system.
#include <gtest/gtest.h>
#include <unistd.h>
#ifndef __EMSCRIPTEN__
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#endif

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "message_of.h"
#include "unit/base/limited_memory.h"

namespace qdq::disk_test {
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
  static std::string refusal(const std::function<void()>& work) { return message_of(work, ErrorCode::kIo); }

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

TEST_F(DiskTest, KnowsWhereNoFileCanBeMadeAndLeavesNothing) {
  EXPECT_EQ(disk().why_not_written(folder), "");
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_EQ(disk().why_not_written("/proc"), "no such file or directory");
  EXPECT_EQ(disk().why_not_written(folder + "/none"), "no such file or directory");
}

TEST_F(DiskTest, WritesThroughSymbolicLinks) {
  const fs::path target = fs::path(folder) / "deep" / "target.bin", link = fs::path(folder) / "link.bin";
  fs::create_directories(target.parent_path());
  fs::create_symlink("deep/target.bin", link);
  for (const char* text : {"new", "newer"}) {
    disk().write(link.string(), bytes_of(text));
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(disk().read(target.string()), bytes_of(text));
  }
  fs::create_symlink("circle", fs::path(folder) / "circle");
  // The rest are the system's words, which differ between C libraries.
  const std::string message = refusal([&] { disk().write(folder + "/circle", {}); });
  EXPECT_TRUE(message.starts_with("cannot write " + folder + "/circle: ")) << message;
  EXPECT_NE(message.find("symbolic link"), std::string::npos) << message;
}

TEST_F(DiskTest, KeepsThePermissionsOfWhatItReplaces) {
  const std::string path = folder + "/a.bin";
  disk().write(path, bytes_of("old"));
  const auto mode = fs::perms::owner_read | fs::perms::owner_write;
  fs::permissions(path, mode);
  disk().write(path, bytes_of("new"));
  EXPECT_EQ(fs::status(path).permissions(), mode);
  EXPECT_EQ(disk().read(path), bytes_of("new"));
}

#ifndef __EMSCRIPTEN__
TEST_F(DiskTest, WritesToPipesAndReplacesNoFolderSocketOrDevice) {
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<std::byte> bytes = bytes_of(std::string(300000, 'x'));
  std::vector<std::byte> read;
  std::thread reader([&] { read = disk().read(pipe); });
  disk().write(pipe, bytes);
  reader.join();
  EXPECT_EQ(read, bytes);
  EXPECT_TRUE(fs::is_fifo(pipe));

  // A reader that goes away is an error and not the end of the process.
  const int opened = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  std::thread leaver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    close(opened);
  });
  EXPECT_EQ(refusal([&] { disk().write(pipe, bytes); }), "cannot write " + pipe + ": broken pipe");
  leaver.join();

  EXPECT_EQ(refusal([&] { disk().write(folder, bytes); }),
            "cannot write " + folder + ": it is a folder, a file was wanted");
  EXPECT_EQ(refusal([&] { disk().write("/dev/null", bytes); }),
            "cannot write /dev/null: it is a device, a file was wanted");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(DiskTest, RemovesWhatEndedProcessesLeft) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  ASSERT_EQ(waitpid(ended, nullptr, 0), ended);
  const auto part = [&](const std::string& pid) { return folder + "/a.bin." + pid + ".part"; };
  const auto old = fs::file_time_type::clock::now() - std::chrono::minutes(2);
  const std::string stale = part(std::to_string(ended)), own = part(std::to_string(getpid())), words = part("1x");
  const std::string running = part(std::to_string(getppid())), other = folder + "/b.bin.1.part";
  for (const std::string& path : {stale, own, words, running, other}) {
    std::ofstream(path) << "half";
    fs::last_write_time(path, old);
  }
  disk().write(folder + "/a.bin", bytes_of("whole"));
  for (const std::string& path : {stale, own}) EXPECT_FALSE(fs::exists(path)) << path;
  for (const std::string& path : {words, running, other}) EXPECT_TRUE(fs::exists(path)) << path;
  std::ofstream(stale) << "half";
  disk().write(folder + "/a.bin", bytes_of("whole"));
  EXPECT_TRUE(fs::exists(stale)) << "another machine may still write it";
}

// A process may write so many bytes to a file; a full disk fails at the same calls.
TEST_F(DiskTest, LeavesTheOldFileAndNothingElseWhereTheNewOneDoesNotFit) {
  const std::string path = folder + "/a.bin";
  disk().write(path, bytes_of("old"));
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{100000, 100000};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string said = refusal([&] { disk().write(path, bytes_of(std::string(200000, 'x'))); });
    _exit(said == "cannot write " + path + ": file too large" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(disk().read(path), bytes_of("old"));
  EXPECT_EQ(disk().list(folder), std::vector<std::string>{"a.bin"});
}

TEST_F(DiskTest, SaysThatThereAreNoDescriptors) {
  const std::string path = folder + "/a.bin";
  disk().write(path, bytes_of("old"));
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{0, 0};
    setrlimit(RLIMIT_NOFILE, &limit);
    const std::string written = refusal([&] { disk().write(path, bytes_of("new")); });
    const std::string read = refusal([&] { disk().read(path); });
    _exit(written == "cannot write " + path + ": too many open files" &&
                  read == "cannot read " + path + ": too many open files"
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(disk().read(path), bytes_of("old"));
}

TEST_F(DiskTest, LeavesWholeFilesAloneWhereverAWriterIsKilled) {
  const std::string path = folder + "/a.bin";
  const std::vector<std::byte> a(3000000, std::byte{'a'}), b(3000000, std::byte{'b'});
  disk().write(path, a);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0)
      for (;;) {
        disk().write(path, b);
        disk().write(path, a);
      }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 617 * i % 9000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::vector<std::byte> found = disk().read(path);
    EXPECT_TRUE(found == a || found == b) << i;
  }
}

TEST_F(DiskTest, EndsReadingWhatHasNoEnd) {
  const LimitedMemory limited(10'000'000);
  try {
    disk().read("/dev/zero");
    FAIL() << "it has no end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
    EXPECT_TRUE(error.message.starts_with("reading /dev/zero needs at least ")) << error.message;
  }
}
#endif

#ifndef __EMSCRIPTEN__
// In a process of its own, whose standard input is `path` from its second byte on, or a pipe with the same.
bool standard_input_is_read(const std::string& path, bool is_pipe, const std::string& wanted) {
  const pid_t child = fork();
  if (child == 0) {
    int ends[2] = {open(path.c_str(), O_RDONLY), -1};
    if (is_pipe && pipe(ends) != 0) _exit(1);
    std::thread writer([&] {
      if (!is_pipe) return;
      for (size_t at = 1; at < wanted.size();)
        if (const ssize_t wrote = write(ends[1], wanted.data() + at, wanted.size() - at); wrote > 0)
          at += static_cast<size_t>(wrote);
      close(ends[1]);
    });
    dup2(ends[0], STDIN_FILENO);
    if (!is_pipe) lseek(STDIN_FILENO, 1, SEEK_SET);
    const auto part = [&](uint64_t offset, uint64_t count) {
      const std::vector<std::byte> bytes = disk().read_part("-", offset, count);
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    const bool is_right = disk().size_of("-") == wanted.size() - 1 &&
                          part(wanted.size() - 11, 100) == wanted.substr(wanted.size() - 10) &&
                          part(3, 300000) == wanted.substr(4, 300000) && part(wanted.size(), 1).empty();
    writer.join();
    _exit(is_right ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(DiskTest, ReadsTheStandardInputByParts) {
  std::string text;
  while (text.size() < 1000000) text += std::to_string(text.size());
  disk().write(folder + "/input", bytes_of(text));
  EXPECT_TRUE(standard_input_is_read(folder + "/input", false, text));
  EXPECT_TRUE(standard_input_is_read(folder + "/input", true, text));
}
#endif

TEST_F(DiskTest, ReadsBesideAFileOnlyWhatLiesInItsFolder) {
  const fs::path home = fs::path(folder) / "home";
  fs::create_directories(home / "data");
  fs::create_directories(fs::path(folder) / "outside");
  const std::string model = (home / "model.onnx").string();
  for (const fs::path& path : {home / "a.bin", home / "data" / "b.bin", fs::path(folder) / "outside" / "c.bin"})
    std::ofstream(path) << path.filename().string();
  fs::create_symlink("data/b.bin", home / "inner.bin");
  fs::create_symlink("../outside/c.bin", home / "outer.bin");
  fs::create_directory_symlink("../outside", home / "linked");
  EXPECT_EQ(disk().read_beside(model, "a.bin"), bytes_of("a.bin"));
  EXPECT_EQ(disk().read_beside(model, "data/b.bin"), bytes_of("b.bin"));
  EXPECT_EQ(disk().read_beside(model, "inner.bin"), bytes_of("b.bin"));
  for (const char* name : {"outer.bin", "linked/c.bin"}) {
    const std::string said = refusal([&] { disk().read_beside(model, name); });
    EXPECT_TRUE(said.starts_with("cannot read " + (home / name).string() + ": links lead to ")) << said;
    EXPECT_TRUE(said.ends_with("which is not in the folder of " + model + "; put a copy of the file there")) << said;
  }
#ifndef __EMSCRIPTEN__
  ASSERT_EQ(mkfifo((home / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal([&] { disk().read_beside(model, "pipe"); }),
            "cannot read " + (home / "pipe").string() + ": it is not an ordinary file");
#endif
  EXPECT_EQ(refusal([&] { disk().read_beside(model, "none"); }),
            "cannot read " + (home / "none").string() + ": no such file or directory");
}

}  // namespace
}  // namespace qdq::disk_test
