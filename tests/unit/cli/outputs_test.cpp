// What verbs write: under names that say what it is, and at no cost of what they read.
#include "unit/cli/cli_fixture.h"

namespace qdq::outputs_test {
namespace {

using Args = std::vector<std::string>;

TEST_F(CliTest, NoOutputTakesThePlaceOfAFileThatIsRead) {
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "global": {}})");
  const std::vector<std::pair<Args, std::string>> cases{
      {quantize({"--report", "model.pt2"}), "--report model.pt2: the name says another kind of file"},
      {quantize({"--observers", "recipe.json", "--recipe", "recipe.json"}),
       "--observers recipe.json: this is an input file"},
      {{"run", "model.pt2", "--inputs", "data.npz", "-o", "data.npz"},
       "-o data.npz: this is an input file, which would be"},
      {{"compare", "model.pt2", "model.pt2", "--data", "data.npz", "--chart", "data.npz"},
       "--chart data.npz: the name"},
      {{"calibrate", "model.pt2", "--data", "data.npz", "--recipe", "recipe.json", "-o", "recipe.json"},
       "-o recipe.json"},
      {{"train", "model.pt2", "--data", "data.npz", "--labels", "labels.csv", "-o", "out.pt2", "--checkpoint",
        "data.npz"},
       "--checkpoint data.npz: this is an input file"},
      {{"train", "model.pt2", "--data", "data.npz", "--labels", "labels.csv", "-o", "out.pt2", "--checkpoint",
        "out.pt2"},
       "--checkpoint out.pt2: this is also the file of -o"},
      {{"inspect", "model.pt2", "--lowered", "model.pt2"}, "--lowered model.pt2: the name says another kind"},
  };
  const auto before = host.contents;
  for (const auto& [args, part] : cases) {
    EXPECT_EQ(run(args), 2) << part;
    EXPECT_NE(host.err.find(part), std::string::npos) << host.err;
    EXPECT_EQ(host.contents, before) << part;
  }
}

TEST_F(CliTest, AnOutputIsCalledWhatItIs) {
  const std::vector<std::pair<Args, std::string>> cases{
      {quantize({"--report", "report.pdf"}),
       "--report report.pdf: the name says another kind of file than is written; "
       "wanted one that ends in .html or .htm"},
      {quantize({"--observers", "seen.npz"}), "wanted one that ends in .json"},
      {{"inspect", "model.pt2", "--chart", "weights.png"}, "wanted one that ends in .svg"},
      {{"calibrate", "model.pt2", "--data", "data.npz", "-o", "part.npz"}, "wanted one that ends in .json"},
  };
  for (const auto& [args, part] : cases) {
    EXPECT_EQ(run(args), 2) << part;
    EXPECT_NE(host.err.find(part), std::string::npos) << host.err;
    EXPECT_NE(host.err.find(concat("; see qdq ", args[0], " --help")), std::string::npos) << host.err;
  }
  EXPECT_EQ(run(quantize({"--report", "report"})), 0) << host.err;
  EXPECT_TRUE(host.contents.contains("report"));
}

TEST_F(CliTest, AnOptionWithoutAValueIsNoOption) {
  for (const char* option : {"--quantizer", "--recipe", "--report", "--preprocess"}) {
    EXPECT_EQ(run(quantize({option, ""})), 2) << option;
    EXPECT_NE(host.err.find(concat(option, ": found nothing, wanted a value")), std::string::npos) << host.err;
  }
}

}  // namespace
}  // namespace qdq::outputs_test
