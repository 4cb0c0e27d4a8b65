// A folder with a small model, the verbs that write there, and processes in which they may break.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "format/npz.h"
#include "io/pt2.h"
#include "unit/cli/cli_fixture.h"

namespace qdq {

namespace fs = std::filesystem;

// The disk, and a console that needs no memory.
struct Console final : Host {
  Console() : Host(disk()) {}
  void print(const std::string&) override {}
  void print_error(const std::string& text) override {
    const size_t count = std::min(text.size(), sizeof err - 1 - size);
    std::copy_n(text.data(), count, err + size);
    size += count;
    err[size] = 0;
  }
  bool error_is_terminal() override { return false; }
  double now_seconds() override { return clock += 0.125; }

  char err[4096] = "";
  size_t size = 0;
  double clock = 0;
};

using Words = std::vector<std::string>;
using Texts = std::map<std::string, std::string>;

struct Verb {
  const char* name;
  Words words;
  bool may_crash = false;  // in a library; its outputs are old or whole all the same
};

inline std::vector<Verb> verbs() {
  return {
      {"quantize",
       {"quantize", "model.pt2", "--calibrate", "data.npz", "--batch-size", "4", "-o", "out/q.pt2", "--observers",
        "out/q.json"}},
      {"quantize_onnx",
       {"quantize", "model.onnx", "--calibrate", "data.npz", "--batch-size", "4", "-o", "out/q.onnx", "--onnx-data"}},
      {"train",
       {"train", "model.pt2", "--data", "data.npz", "--labels", "labels.csv", "--epochs", "1", "-o", "out/t.pt2",
        "--checkpoint", "out/checkpoint"}},
      {"run", {"run", "int8.pt2", "--inputs", "data.npz", "-o", "out/r.npz", "--backend", "simd"}},
      {"run_float", {"run", "model.onnx", "--inputs", "data.npz", "-o", "out/r.npz", "--backend", "simd"}},
      // oneDNN uses some of its own small objects before it looks whether it got them.
      {"run_onednn", {"run", "int8.pt2", "--inputs", "data.npz", "-o", "out/r.npz"}, true},
  };
}

inline std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Texts outputs() {
  Texts out;
  for (const fs::directory_entry& entry : fs::directory_iterator("out"))
    out[entry.path().filename().string()] = text_of(entry.path());
  return out;
}

inline void restore(const Texts& files) {
  fs::remove_all("out");
  fs::create_directory("out");
  for (const auto& [name, bytes] : files) std::ofstream("out/" + name, std::ios::binary) << bytes;
}

// What a verb writes without a fault; nothing if it fails, and then it says why.
inline Texts whole_outputs(const Verb& verb) {
  restore({});
  Console console;
  if (run_cli(verb.words, console) != 0) std::fputs(console.err, stderr);
  return outputs();
}

// A number of the environment.
inline uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Runs `body` in a process of its own, and returns how it ended: 0, what it returned, or 128 and the signal.
template <class Body> int in_child(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int status = body();
    std::fflush(nullptr);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What a walk tells its parent, in memory that both see.
struct Told {
  uint64_t at = 0, next = 1, refused = 0, done = 0, wrong = 0, ended = 0;
};

struct FaultyVerbs : testing::TestWithParam<size_t> {
  FaultyVerbs() {
    std::string name = (fs::temp_directory_path() / "qdq-faults-XXXXXX").string();
    folder = mkdtemp(name.data());
    fs::current_path(folder);
    told = new (mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Told;
    // In a child, so that this process knows no operator yet.
    EXPECT_EQ(in_child([] {
                restore({});
                const auto put = [](const char* path, std::span<const std::byte> bytes) { disk().write(path, bytes); };
                put("model.pt2", save_pt2(classifier()));
                put("data.npz", format::write_npz(std::vector<format::NamedTensor>{{"x", noise({10, 2, 4, 4}, 4)}}));
                std::ofstream("labels.csv") << "0,0\n1,1\n2,2\n3,0\n4,1\n5,2\n6,0\n7,1\n8,2\n9,0\n";
                Console console;
                const int status =
                    run_cli(Words{"convert", "model.pt2", "model.onnx"}, console) +
                    run_cli(Words{"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "int8.pt2"}, console);
                if (status != 0) std::fputs(console.err, stderr);
                return status;
              }),
              0);
  }
  ~FaultyVerbs() override {
    munmap(told, sizeof(Told));
    fs::current_path("/");
    fs::remove_all(folder);
  }

  fs::path folder;
  Told* told;
};

}  // namespace qdq
