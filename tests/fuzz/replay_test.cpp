// Replays the corpus: every file of tests/fuzz/corpus/TARGET through its target, natively and with sanitizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/memory.h"

#define QDQ_TARGETS(each)                                                                                     \
  each(data) each(image) each(json) each(npz) each(onnx) each(onnx_run) each(pickle) each(pipeline) each(pt2) \
      each(recipe) each(statistics) each(tar) each(torch_file) each(zip)
#define QDQ_DECLARE(name) int fuzz_##name(const uint8_t* data, size_t size);
#define QDQ_ENTRY(name) {#name, fuzz_##name},

QDQ_TARGETS(QDQ_DECLARE)

extern const char* const kSourceDir;

namespace qdq {
namespace {

namespace fs = std::filesystem;

TEST(Corpus, IsRefusedOrReadByEveryTarget) {
  const std::map<std::string, int (*)(const uint8_t*, size_t)> targets = {QDQ_TARGETS(QDQ_ENTRY)};
  const fs::path corpus = fs::path(kSourceDir) / "tests/fuzz/corpus";
  std::map<std::string, int> replayed;
  for (const auto& [name, target] : targets) {
    // Those that run models are given the models that others read.
    const std::string folder = name == "onnx_run" || name == "pipeline" ? "onnx" : name;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(corpus / folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    EXPECT_FALSE(files.empty()) << folder;
    for (const fs::path& file : files) {
      SCOPED_TRACE(concat(name, " on ", file.string()));
      std::ifstream in(file, std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      EXPECT_NO_THROW(target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
    }
    ++replayed[folder];
  }
  set_memory_limit(std::nullopt);
  for (const auto& entry : fs::directory_iterator(corpus))
    EXPECT_TRUE(replayed.contains(entry.path().filename().string())) << entry.path() << " has no target";
}

}  // namespace
}  // namespace qdq
