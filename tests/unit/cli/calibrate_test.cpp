// qdq calibrate and qdq merge: any shards give the bytes of one process, and nothing else is taken for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "cli/cli.h"
#include "format/bytes.h"
#include "format/json.h"
#include "format/npz.h"
#include "unit/cli/memory_host.h"
#include "source_dir.h"

namespace qdq::calibrate_test {
namespace {

namespace fs = std::filesystem;

const fs::path kShapesFolder = fs::path(kSourceDir) / "examples/shapes";

void add_file(MemoryHost& host, const std::string& name, const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.good()) << path;
  host.add(name, std::string(std::istreambuf_iterator<char>(in), {}));
}

struct CalibrateTest : testing::Test {
  CalibrateTest() {
    add_file(host, "model.pt2", kShapesFolder / "model.pt2");
    add_file(host, "preprocess.json", kShapesFolder / "preprocess.json");
    for (const auto& entry : fs::directory_iterator(kShapesFolder / "calibration"))
      if (entry.path().extension() == ".png")
        add_file(host, "images/" + entry.path().filename().string(), entry.path());
  }
  int run(std::vector<std::string> args) {
    host.out.clear();
    host.err.clear();
    return run_cli(args, host);
  }
  std::vector<std::string> calibrate(const std::string& shard, const std::string& out,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"calibrate",    "model.pt2", "--data",       "images",          "--shard", shard,
                                  "-o",           out,         "--preprocess", "preprocess.json", "--limit", "30",
                                  "--batch-size", "4"};
    for (const std::string& word : more)  // a later option replaces an earlier one
      if (const auto found = std::find(args.begin(), args.end(), word); word[0] == '-' && found != args.end())
        args.erase(found, found + 2);
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string text(const std::string& file) const {
    const auto found = host.contents.find(file);
    return found == host.contents.end() ? "there is no " + file : std::string(format::text_of(found->second));
  }
  void expect_error(const std::vector<std::string>& args, std::initializer_list<std::string> words) {
    EXPECT_EQ(run(args), 1);
    for (const std::string& word : words) EXPECT_NE(host.err.find(word), std::string::npos) << host.err;
  }
  MemoryHost host;
};

TEST_F(CalibrateTest, JsonTellsWhatWasDone) {
  ASSERT_EQ(run(calibrate("2/3", "2.json", {"--json"})), 0) << host.err;
  const format::Json part = format::parse_json(host.out, "what was printed");
  EXPECT_EQ(part["output"], "2.json");
  EXPECT_EQ(part["shard"], "2/3");
  EXPECT_EQ(part["samples"], 30);
  EXPECT_EQ(part["batches"]["all"], 8);
  EXPECT_EQ(part["bytes"], text("2.json").size());
  ASSERT_EQ(run({"merge", "2.json", "--partial", "-o", "merged.json", "--json"}), 0) << host.err;
  const format::Json merged = format::parse_json(host.out, "what was printed");
  EXPECT_EQ(merged["parts"], 1);
  EXPECT_EQ(merged["shards"], "2/3");
  EXPECT_EQ(merged["samples"], 30);
  EXPECT_EQ(host.err.find("--partial does nothing"), std::string::npos) << host.err;
  ASSERT_EQ(run(calibrate("1/1", "all.json")), 0) << host.err;
  ASSERT_EQ(run({"merge", "all.json", "--partial", "-o", "merged.json"}), 0) << host.err;
  EXPECT_NE(host.err.find("warning: --partial does nothing: no part is missing"), std::string::npos) << host.err;
}

TEST_F(CalibrateTest, AnyShardsMergedInAnyWayAreOneProcess) {
  std::mt19937 random(3);
  host.add("parts/README.md", "no part");
  for (const std::string quantizer : {"xnnpack", "x86-inductor"}) {
    ASSERT_EQ(run(calibrate("1/1", "whole.json", {"--quantizer", quantizer})), 0) << host.err;
    ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "whole.json", "--quantizer", quantizer, "-o", "whole.pt2"}),
              0)
        << host.err;
    for (const int of : {2, 7, 64}) {
      std::vector<std::string> parts;
      for (int k = 1; k <= of; ++k) {
        parts.push_back(concat("parts/", k, ".json"));
        ASSERT_EQ(run(calibrate(concat(k, "/", of), parts.back(), {"--quantizer", quantizer})), 0) << host.err;
      }
      std::shuffle(parts.begin(), parts.end(), random);
      ASSERT_EQ(run({"merge", "parts", "-o", "folder.json"}), 0) << host.err;
      EXPECT_EQ(text("folder.json"), text("whole.json"));
      std::string chain = parts[0];  // one after the other
      for (size_t i = 1; i < parts.size(); ++i) {
        ASSERT_EQ(run({"merge", parts[i], chain, "--partial", "-o", "chain.json"}), 0) << host.err;
        chain = "chain.json";
      }
      EXPECT_EQ(text(chain), text("whole.json")) << of;
      const size_t half = parts.size() / 2;  // two halves
      std::vector<std::string> left{"merge", "--partial", "-o", "left.json"},
          right{"merge", "--partial", "-o", "r.json"};
      left.insert(left.end(), parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(half));
      right.insert(right.end(), parts.begin() + static_cast<std::ptrdiff_t>(half), parts.end());
      ASSERT_EQ(run(left), 0) << host.err;
      ASSERT_EQ(run(right), 0) << host.err;
      ASSERT_EQ(run({"merge", "r.json", "left.json", "-o", "tree.json"}), 0) << host.err;
      EXPECT_EQ(text("tree.json"), text("whole.json")) << of;
      for (const std::string& part : parts) host.contents.erase(part);
    }
    ASSERT_EQ(
        run({"quantize", "model.pt2", "--calibrate", "folder.json", "--quantizer", quantizer, "-o", "merged.pt2"}), 0)
        << host.err;
    EXPECT_EQ(text("merged.pt2"), text("whole.pt2"));
    EXPECT_NE(host.out.find("layers quantized"), std::string::npos) << host.out;
  }
}

// What calibrates in one process by the same recipe writes the same model.
TEST_F(CalibrateTest, TheModelIsThatOfTheRecipeWithMergeableObservers) {
  host.add("recipe.json",
           R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": true}, "mergeable": true})");
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "images", "--preprocess", "preprocess.json", "--limit", "30",
                 "--batch-size", "4", "--recipe", "recipe.json", "-o", "one.pt2", "--observers", "observers.json"}),
            0)
      << host.err;
  ASSERT_EQ(run(calibrate("1/1", "whole.json")), 0) << host.err;
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "whole.json", "-o", "two.pt2"}), 0) << host.err;
  EXPECT_EQ(text("one.pt2"), text("two.pt2"));
  // The file of --observers holds the same counts.
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "observers.json", "--recipe", "recipe.json", "-o", "3.pt2"}),
            0)
      << host.err;
  EXPECT_EQ(text("3.pt2"), text("one.pt2"));
}

TEST_F(CalibrateTest, FindsRangesByTheRuleThatIsAskedFor) {
  const auto quantized = [&](const std::string& file, std::vector<std::string> more) {
    std::vector<std::string> args = {"quantize",     "model.pt2",       "--calibrate", "images", "-o",           file,
                                     "--preprocess", "preprocess.json", "--limit",     "30",     "--batch-size", "4"};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(run(args), 0) << host.err;
    return text(file);
  };
  std::vector<std::string> files = {quantized("histogram.pt2", {})};
  for (const std::string rule : {"min-max", "percentile", "entropy", "mse"}) {
    files.push_back(quantized(rule + ".pt2", {"--observer", rule}));
    EXPECT_EQ(host.err.find("takes no place"), std::string::npos) << host.err;
    // In parts the same.
    ASSERT_EQ(run(calibrate("1/2", "a.json", {"--observer", rule})), 0) << host.err;
    EXPECT_EQ(host.err.find("warning: Mergeable"), std::string::npos) << host.err;
    ASSERT_EQ(run(calibrate("2/2", "b.json", {"--observer", rule})), 0) << host.err;
    ASSERT_EQ(run({"merge", "b.json", "a.json", "-o", "all.json"}), 0) << host.err;
    ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "all.json", "--observer", rule, "-o", "merged.pt2"}), 0)
        << host.err;
    EXPECT_TRUE(text("merged.pt2") == files.back()) << rule;
  }
  std::sort(files.begin(), files.end());
  EXPECT_TRUE(std::unique(files.begin(), files.end()) == files.end());
  EXPECT_EQ(run({"quantize", "model.pt2", "--observer", "kl", "--calibrate", "images", "-o", "x.pt2"}), 2);
  EXPECT_NE(host.err.find("--observer: found kl, wanted min-max, percentile, entropy or mse"), std::string::npos)
      << host.err;
  EXPECT_EQ(run({"quantize", "model.pt2", "--observer", "mse", "--dynamic", "-o", "x.pt2"}), 2);
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "global": {"is_dynamic": true},
                              "histogram_observer": "MSEObserver"})");
  ASSERT_EQ(run({"quantize", "model.pt2", "--recipe", "recipe.json", "-o", "x.pt2"}), 0) << host.err;
  EXPECT_NE(host.err.find("MSEObserver takes no place"), std::string::npos) << host.err;
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "histogram_observer": "PlaceholderObserver"})");
  expect_error({"quantize", "model.pt2", "--recipe", "recipe.json", "-o", "x.pt2"},
               {"wanted one of MinMaxObserver, Merge"});
}

TEST_F(CalibrateTest, SaysThatAnotherObserverTakesThePlaceOfTheDefault) {
  ASSERT_EQ(run(calibrate("1/2", "part.json")), 0) << host.err;
  EXPECT_NE(host.err.find("warning: MergeableHistogramObserver takes the place of HistogramObserver"),
            std::string::npos)
      << host.err;
  EXPECT_NE(host.out.find("shard             1/2: 4 of 8 batches"), std::string::npos) << host.out;
  const std::string activation = R"({"spec": "quantization", "dtype": "int8", "quant_min": -128, "quant_max": 127,
    "qscheme": "per_tensor_affine", "observer": {"class": "CLASS"}})";
  const auto recipe_with = [&](const std::string& name) {
    std::string spec = activation;
    spec.replace(spec.find("CLASS"), 5, name);
    host.add("recipe.json", concat(R"({"quantizer": "XNNPACKQuantizer", "global": {"input_activation": )", spec,
                                   R"(, "output_activation": )", spec, "}}"));
  };
  recipe_with("MergeableHistogramObserver");
  ASSERT_EQ(run(calibrate("1/2", "part.json", {"--recipe", "recipe.json"})), 0) << host.err;
  EXPECT_EQ(host.err.find("warning"), std::string::npos) << host.err;
  // What a recipe names is not replaced.
  recipe_with("HistogramObserver");
  expect_error(calibrate("1/2", "part.json", {"--recipe", "recipe.json"}),
               {"HistogramObserver", "name MergeableHistogramObserver in the recipe"});
  recipe_with("MovingAverageMinMaxObserver");
  expect_error(calibrate("1/2", "part.json", {"--recipe", "recipe.json"}), {"name MinMaxObserver in the recipe"});
  expect_error(calibrate("1/2", "part.json", {"--dynamic"}), {"nothing to calibrate"});
}

TEST_F(CalibrateTest, PartsThatDoNotBelongTogetherAreRefusedByName) {
  for (const char* shard : {"1/3", "2/3", "3/3"})
    ASSERT_EQ(run(calibrate(shard, concat(shard[0], ".json"))), 0) << host.err;
  expect_error({"merge", "1.json", "2.json", "-o", "out.json"}, {"missing: 3/3", "--partial"});
  expect_error({"merge", "1.json", "2.json", "1.json", "-o", "out.json"}, {"shard 1 of 3 is there twice", "1.json"});
  const auto refuses = [&](const std::vector<std::string>& more, const std::string& shard, const std::string& why) {
    std::vector<std::string> args = calibrate(shard, "odd.json", more);
    ASSERT_EQ(run(args), 0) << host.err;
    expect_error({"merge", "1.json", "2.json", "odd.json", "-o", "out.json"}, {"odd.json", "1.json", why});
  };
  refuses({}, "3/4", "number of shards");
  refuses({"--batch-size", "5"}, "3/3", "--batch-size");
  refuses({"--limit", "29"}, "3/3", "other data");
  refuses({"--quantizer", "x86-inductor"}, "3/3", "its program is");  // which has other observers in it
  refuses({"--exclude", "torch.nn.Linear"}, "3/3", "its program is");
  host.contents["half.json"] = host.contents["3.json"];
  host.contents["half.json"].resize(host.contents["half.json"].size() / 2);
  expect_error({"merge", "1.json", "2.json", "half.json", "-o", "out.json"}, {"half.json"});
  expect_error({"merge", "1.json", "2.json", "preprocess.json", "-o", "out.json"}, {"preprocess.json", "format"});
  expect_error({"merge", "images", "-o", "out.json"}, {"images", "has no parts"});
  EXPECT_FALSE(host.is_file("out.json"));
  // A part is not taken for the whole.
  expect_error({"quantize", "model.pt2", "--calibrate", "1.json", "-o", "out.pt2"}, {"1.json", "1/3", "qdq merge"});
  for (const char* shard : {"4/3", "1-2/3", "x"}) {
    EXPECT_EQ(run(calibrate(shard, "x.json")), 2);
    EXPECT_NE(host.err.find(concat("--shard: found ", shard, ", wanted one shard, counted from 1, such as 3/16")),
              std::string::npos)
        << host.err;
  }
  ASSERT_EQ(run({"merge", "3.json", "1.json", "2.json", "-o", "out.json"}), 0) << host.err;
  expect_error({"quantize", "model.pt2", "--calibrate", "out.json", "--quantizer", "x86-inductor", "-o", "out.pt2"},
               {"out.json", "another recipe"});
}

TEST_F(CalibrateTest, ArraysAreDividedToo) {
  const Tensor x = Tensor::empty({30, 3, 40, 40}, DType::kF32);
  std::minstd_rand random(7);
  for (float& value : x.span<float>()) value = static_cast<float>(random() % 4001) / 1000 - 2;
  for (const char* name : {"a.npz", "b.npz"}) {
    host.contents[name] = format::write_npz(std::vector<format::NamedTensor>{{"arr_0", x}});
    x.span<float>()[5000] = 7;
  }
  const auto part = [&](const std::string& shard, const std::string& data) {
    return std::vector<std::string>{"calibrate", "model.pt2", "--data", data,
                                    "--shard",   shard,       "-o",     shard.substr(0, 1)};
  };
  ASSERT_EQ(run(part("1/1", "a.npz")), 0) << host.err;
  const std::string whole = text("1");
  ASSERT_EQ(run(part("1/2", "a.npz")), 0) << host.err;
  ASSERT_EQ(run(part("2/2", "a.npz")), 0) << host.err;
  ASSERT_EQ(run({"merge", "2", "1", "-o", "out.json"}), 0) << host.err;
  EXPECT_EQ(text("out.json"), whole);
  ASSERT_EQ(run(part("2/2", "b.npz")), 0) << host.err;
  expect_error({"merge", "2", "1", "-o", "out.json"}, {"other data"});
}

}  // namespace
}  // namespace qdq::calibrate_test
