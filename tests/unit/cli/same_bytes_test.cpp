// The bit-exact mode from end to end: the shapes classifier quantizes to the same bytes and computes the same numbers
// with any number of threads and on every instruction set. tests/js holds the WASM build against the same files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "base/parallel.h"
#include "cli/cli.h"
#include "format/npz.h"
#include "format/sha256.h"
#include "unit/cli/memory_host.h"
#include "source_dir.h"

#if !defined(__EMSCRIPTEN__)
#include "hwy/targets.h"
#endif

namespace qdq::same_bytes_test {
namespace {

namespace fs = std::filesystem;

const fs::path kShapes = fs::path(kSourceDir) / "examples/shapes";

std::vector<std::byte> bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

// The first half of the hashes of what every build and processor finds: all that observers saw, and the scales that
// follow. They change with what is written there, and then here, on purpose.
const std::map<std::string, std::string> kRecorded = {{"x86-inductor.json", "903e3216a542c42865bac807dbc9cd5a"},
                                                      {"xnnpack.json", "c93cff9f02ddf4bcde611197430f1b89"}};

struct SameBytes : testing::Test {
  SameBytes() {
    host.contents["model.pt2"] = bytes_of_file(kShapes / "model.pt2");
    host.contents["preprocess.json"] = bytes_of_file(kShapes / "preprocess.json");
    for (const auto& entry : fs::directory_iterator(kShapes / "calibration"))
      if (entry.path().extension() == ".png")
        host.contents["images/" + entry.path().filename().string()] = bytes_of_file(entry.path());
    const Tensor x = Tensor::empty({3, 3, 40, 40}, DType::kF32);
    std::minstd_rand random(7);
    for (float& value : x.span<float>()) value = static_cast<float>(random() % 4001) / 1000 - 2;
    host.contents["in.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"arr_0", x}});
  }
  ~SameBytes() override { set_num_threads(1); }

  // The files that quantizing and running make, by name.
  std::map<std::string, std::string> hashes(const std::string& threads) {
    std::map<std::string, std::string> out;
    const auto run = [&](std::vector<std::string> args) {
      args.insert(args.end(), {"--threads", threads});
      EXPECT_EQ(run_cli(args, host), 0) << host.err;
    };
    for (const std::string quantizer : {"xnnpack", "x86-inductor"}) {
      const std::string file = quantizer + ".pt2";
      run({"quantize", "model.pt2", "--calibrate", "images", "--preprocess", "preprocess.json", "--limit", "20",
           "--batch-size", "7", "--quantizer", quantizer, "--observers", quantizer + ".json", "-o", file});
      run({"run", file, "--inputs", "in.npz", "--backend", "simd", "-o", quantizer + ".npz"});
      std::vector<std::string> files = {file, quantizer + ".json", quantizer + ".npz"};
#if !defined(__SANITIZE_ADDRESS__)  // minutes; recover_test runs the same remedies there
      const std::string recovered = quantizer + ".recovered.pt2";
      run({"quantize", "model.pt2", "--calibrate", "images", "--preprocess", "preprocess.json", "--limit", "20",
           "--batch-size", "7", "--quantizer", quantizer, "--recover", "-o", recovered});
      files.push_back(recovered);
#endif
      for (const std::string& name : files) out[name] = format::sha256(host.contents.at(name));
    }
    return out;
  }

  MemoryHost host;
};

TEST_F(SameBytes, WithAnyNumberOfThreadsOnEveryInstructionSet) {
  const auto wanted = hashes("1");
  for (const auto& [name, hash] : kRecorded) EXPECT_EQ(wanted.at(name).substr(0, hash.size()), hash) << name;
  EXPECT_EQ(hashes("2"), wanted) << "with 2 threads";
  EXPECT_EQ(hashes("3"), wanted) << "with 3 threads";
#if !defined(__EMSCRIPTEN__) && !defined(__SANITIZE_ADDRESS__)  // the tests of kernels run on all of them there
  int narrower = 0;
  for (const int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SSE2}}) {
    if (!(hwy::SupportedTargets() & target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    EXPECT_EQ(hashes("2"), wanted) << "on " << hwy::TargetName(target);
    hwy::SetSupportedTargetsForTest(0);
    ++narrower;
  }
  EXPECT_GE(narrower, 1);  // every x86-64 has SSE2
#endif
}

}  // namespace
}  // namespace qdq::same_bytes_test
