// What the command line says and takes beside its work: help, JSON, quiet, colors, completions, the manual, doubts.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "format/bytes.h"
#include "format/json.h"
#include "report/evaluation.h"
#include "unit/cli/cli_fixture.h"
#include "unit/cli/onnx_node.h"

namespace qdq::words_test {
namespace {

using format::Json;

struct WordsTest : CliTest {
  bool says(const std::string& part) const { return host.err.find(part) != std::string::npos; }
  Json printed() const { return format::parse_json(host.out, "the output"); }
  std::string drawn(const std::string& file) { return std::string(format::text_of(host.contents[file])); }
};

TEST_F(WordsTest, HelpIsAVerbToo) {
  ASSERT_EQ(run({"help"}), 0);
  const std::string all = host.out;
  ASSERT_EQ(run({"--help"}), 0);
  EXPECT_EQ(host.out, all);
  ASSERT_EQ(run({"help", "quantize"}), 0);
  EXPECT_NE(host.out.find("--calibrate"), std::string::npos);
  for (const auto& args : {std::vector<std::string>{"help", "quantise"}, {"quantise", "--help"}}) {
    EXPECT_EQ(run(args), 2);
    EXPECT_TRUE(says("did you mean quantize?")) << host.err;
  }
}

TEST_F(WordsTest, HelpFitsATerminalOf80Columns) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"help"}, {"help", "quantize"}, {"help", "train"}, {"help", "recipe"}}) {
    ASSERT_EQ(run(words), 0);
    std::istringstream lines(host.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
  ASSERT_EQ(run({"help", "run"}), 0);
  EXPECT_NE(host.out.find("\n  MODEL (required)            the model (.pt2 or .onnx)\n"), std::string::npos)
      << host.out;
  EXPECT_NE(host.out.find("\n  --top-k K                   draw among the K most likely tokens only (all)\n"
                          "                              (needs --generate)\n"),
            std::string::npos)
      << host.out;
}

TEST_F(WordsTest, HelpGroupsOptionsAndEndsWithACommandThatRuns) {
  ASSERT_EQ(run({"help", "quantize"}), 0);
  size_t at = 0;
  for (const char* heading :
       {"\nOptions:\n  --calibrate", "\nWhat to quantize:\n  --quantizer", "\nSamples:\n  --preprocess",
        "\nAccuracy, size and speed:\n  --recover", "\nReports:\n  --observers", "\nONNX files:\n  --onnx-opset",
        "\nGeneral:\n  -h,--help", "\nExample:\n  qdq quantize"}) {
    const size_t found = host.out.find(heading, at);
    ASSERT_NE(found, std::string::npos) << heading << "\n" << host.out;
    at = found;
  }
  for (const char* verb : {"quantize", "calibrate", "merge", "train", "run", "evaluate", "compare", "sensitivity",
                           "benchmark", "inspect", "recipe", "convert", "fuse"}) {
    ASSERT_EQ(run({"help", verb}), 0);
    std::istringstream words(host.out.substr(host.out.find("\nExample:\n  qdq ") + 16));
    std::vector<std::string> command;
    for (std::string word; words >> word;)
      if (word != "\\" && !word.starts_with('>')) command.push_back(word);
    ASSERT_EQ(command.at(0), verb);
    const bool is_there = std::ranges::find(command, "model.pt2") != command.end();
    EXPECT_EQ(run(command), is_there ? 0 : 1) << verb << ": " << host.err;
    EXPECT_TRUE(is_there || says("no such file")) << verb << ": " << host.err;
  }
}

TEST_F(WordsTest, EvaluateTellsOfSamplesThatAreNoNumbers) {
  const Tensor samples = noise({10, 2, 4, 4}, 4);
  host.contents["data.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", samples}});
  const std::vector<std::string> words = {"evaluate", "model.pt2",    "model.pt2", "--data",
                                          "data.npz", "--batch-size", "4"};
  ASSERT_EQ(run(words), 0) << host.err;
  EXPECT_FALSE(says("NaN")) << host.err;
  for (const int64_t row : {9, 6}) samples.span<float>()[static_cast<size_t>(row * 32 + 5)] = NAN;
  host.contents["data.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", samples}});
  ASSERT_EQ(run(words), 0) << host.err;
  EXPECT_TRUE(says("warning: sample 6 (counted from 0) holds NaN, so that its answers say nothing")) << host.err;
  ASSERT_EQ(run({"run", "model.pt2", "--inputs", "data.npz", "-o", "out.npz", "--batch-size", "4"}), 0) << host.err;
  EXPECT_TRUE(says("warning: sample 6 (counted from 0) holds NaN, so that its outputs say nothing")) << host.err;
}

TEST_F(WordsTest, SamplesAreLimitedOnlyWhereThereAreSome) {
  for (const char* option : {"--limit", "--batch-size", "--preprocess"}) {
    EXPECT_EQ(run({"run", "model.pt2", "-o", "out.npz", option, "3"}), 2) << option;
    EXPECT_TRUE(says(concat(option, " requires --inputs"))) << host.err;
  }
}

TEST_F(WordsTest, OutputsThatAreNumbersOrNothingAreTold) {
  Program program = classifier();
  Node* output = program.graph->output_node();
  Node* linear = output->arg(0).list()[0].node();
  Node* size = nullptr;
  {
    const auto point = program.graph->insert_after(linear);
    size = program.graph->call("torch.ops.aten.sym_size.int", {program.graph->placeholders()[0], 0});
  }
  output->set_arg(0, Argument(Argument::List{Argument(linear), Argument(), Argument(size)}));
  infer_shapes(program);
  host.contents["mixed.pt2"] = save_pt2(program);
  ASSERT_EQ(run({"inspect", "mixed.pt2"}), 0) << host.err;
  EXPECT_NE(host.out.find("outputs\n  linear_default: float32[s0, 3]\n  None\n  sym_size_int: a number\n"),
            std::string::npos)
      << host.out;
  ASSERT_EQ(run({"run", "mixed.pt2", "--inputs", "data.npz", "--batch-size", "4", "-o", "out.npz"}), 0) << host.err;
  std::map<std::string, Shape> shapes;
  for (const auto& array : format::read_npz(host.contents["out.npz"], "out.npz"))
    shapes[array.name] = array.tensor.sizes();
  EXPECT_EQ(shapes, (std::map<std::string, Shape>{
                        {"output_0", {10, 3}}, {"b0_output_1", {}}, {"b1_output_1", {}}, {"b2_output_1", {}}}));
  ASSERT_EQ(run({"convert", "mixed.pt2", "mixed.onnx"}), 0) << host.err;
  ASSERT_EQ(run({"run", "mixed.onnx", "--inputs", "data.npz", "-o", "out.npz"}), 0) << host.err;
  const auto arrays = format::read_npz(host.contents["out.npz"], "out.npz");
  ASSERT_EQ(arrays.size(), 2u);  // ONNX leaves out None
  EXPECT_EQ(arrays[1].tensor.to(DType::kS64).data<int64_t>()[0], 10);
}

TEST_F(WordsTest, MisspeltOptionsAreMetWithTheNearest) {
  for (const auto& [args, meant] :
       {std::pair(std::vector<std::string>{"quantize", "model.pt2", "--calibrte", "data.npz"}, "--calibrate"),
        std::pair(quantize({"--recove"}), "--recover"),
        std::pair(std::vector<std::string>{"evaluate", "--label=labels.csv"}, "--labels")}) {
    EXPECT_EQ(run(args), 2);
    EXPECT_TRUE(says(concat("did you mean ", meant, "?"))) << host.err;
    EXPECT_EQ(std::count(host.err.begin(), host.err.end(), '\n'), 1) << host.err;
  }
  // Verbs have other words for their samples, and some words are options of a verb.
  EXPECT_EQ(run({"sensitivity", "model.pt2", "--data", "data.npz"}), 2);
  EXPECT_TRUE(says("qdq sensitivity has no option --data; did you mean --calibrate? See qdq sensitivity --help"))
      << host.err;
  EXPECT_EQ(run({"explain", "model.pt2"}), 2);
  EXPECT_TRUE(says("there is no verb explain; --explain is an option of benchmark, inspect; see qdq --help"))
      << host.err;
  EXPECT_EQ(run(quantize({"--zzzzzzzzzzzz"})), 2);
  EXPECT_TRUE(says("qdq quantize has no option --zzzzzzzzzzzz; see qdq quantize --help")) << host.err;
}

TEST_F(WordsTest, NamesOfOtherKindsOfFilesAreWrongUsage) {
  host.contents["notes.txt"] = {std::byte{0x68}, std::byte{0x69}};
  const std::string data = "notes.txt is not data that qdq reads; wanted an .npz";
  for (const auto& [args, wanted] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"quantize", "model.pt2", "--calibrate", "notes.txt", "-o", "out.pt2"}, data},
           {{"evaluate", "model.pt2", "model.pt2", "--data", "notes.txt"}, data},
           {{"run", "model.pt2", "--inputs", "notes.txt", "-o", "out.npz"}, data},
           {{"evaluate", "model.pt2", "--data", "data.npz", "--labels", "notes.txt"},
            "notes.txt is not a file of labels; wanted .npy, .npz or .csv"},
           {{"evaluate", "model.pt2", "model.pt2", "--data", "data.npz", "--metric", "box-f2"},
            "--metric: found box-f2, wanted box-f1, box-map, token-f1, perplexity, or a command"},
           {{"fuse", "model.pt2", "f.pt2", "--fx", "onedn"}, "--fx: found onedn (did you mean onednn?), wanted native"},
           {{"convert", "model.pt2", "m.onnx", "--onnx-format", "qdqq"}, "--onnx-format: found qdqq"},
           {{"convert", "model.pt2", "m.onnx", "--onnx-groups", "rows"}, "wanted matmul-nbits or blocks"},
           {{"inspect", "model.pt2", "--lowered", "low"}, "wanted a name that ends in .json"},
           {{"run", "model.pt2"}, "there is nothing to run model.pt2 on; give --inputs"},
           {{"run", "model.pt2", "--inputs", "data.npz"}, "give -o"}}) {
    EXPECT_EQ(run(args), 2) << wanted;
    EXPECT_TRUE(says(wanted)) << host.err;
  }
  for (const auto& [args, wanted] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"benchmark", "model.pt2", "--runs", "99999999999999999999"}, "wanted a whole number of at least 1"},
           {{"train", "model.pt2", "--lr", "fast"}, "--lr: found fast, wanted a number; see qdq train --help"},
           {quantize({"-o", "b.pt2"}), "--output is given more than once; wanted one value"},
           {{"evaluate", "model.pt2", "--data"}, "--data has no value behind it"},
           {{"--json"}, "a verb is missing"}}) {
    EXPECT_EQ(run(args), 2) << wanted;
    EXPECT_TRUE(says(wanted)) << host.err;
  }
  // A file that is not there is told first: the work fails.
  EXPECT_EQ(run({"evaluate", "model.pt2", "model.pt2", "--data", "nowhere.txt"}), 1);
  EXPECT_TRUE(says("cannot read nowhere.txt")) << host.err;
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(host.err, "qdq: a verb is missing, such as quantize; see qdq --help\n");
}

// What belongs to an option that is not there does nothing, and is refused.
TEST_F(WordsTest, OptionsThatWouldDoNothingAreRefused) {
  const auto train = [](std::vector<std::string> more) {
    std::vector<std::string> out = {"train",    "model.pt2",  "--data", "data.npz",
                                    "--labels", "labels.csv", "-o",     "t.pt2"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const std::vector<std::string> dynamic = {"quantize", "model.pt2", "--dynamic", "-o", "out.pt2"};
  for (auto [args, option, wanted] :
       std::vector<std::tuple<std::vector<std::string>, std::vector<std::string>, std::string>>{
           {dynamic, {"--limit", "4"}, "--calibrate"},
           {dynamic, {"--batch-size", "4"}, "--calibrate"},
           {dynamic, {"--backend", "simd"}, "--calibrate"},
           {train({}), {"--momentum", "0.5"}, "--optimizer sgd"},
           {train({"--optimizer", "adamw"}), {"--momentum", "0.5"}, "--optimizer sgd"},
           {train({}), {"--temperature", "3"}, "--distill"},
           {train({}), {"--lsq-lr", "0.1"}, "--lsq"},
           {train({}), {"--gamma", "0.5"}, "--schedule step"},
           {train({"--schedule", "cosine"}), {"--step-epochs", "2"}, "--schedule step"},
           {{"inspect", "model.pt2"}, {"--fx", "x86"}, "--explain or --capabilities"},
           {{"inspect", "model.pt2"}, {"--reduce-range"}, "--explain or --capabilities"},
           {{"inspect", "model.pt2"}, {"--exclude", "fc"}, "--explain or --capabilities"}}) {
    args.insert(args.end(), option.begin(), option.end());
    EXPECT_EQ(run(args), 2) << option[0];
    EXPECT_TRUE(says(concat(option[0], " requires ", wanted))) << host.err;
  }
  EXPECT_EQ(run(train({"--warmup-steps", "999"})), 2);
  EXPECT_TRUE(says("--warmup-steps 999 would last longer than the training")) << host.err;
}

TEST_F(WordsTest, VersionTellsBuildAndProcessor) {
  ASSERT_EQ(run({"--version"}), 0);
  EXPECT_TRUE(host.out.starts_with("qdq 0.1.0 (")) << host.out;
  EXPECT_NE(host.out.find("; integers by "), std::string::npos) << host.out;
}

TEST_F(WordsTest, QuantizeTellsInJsonWhatItDid) {
  host.add("r.json",
           R"({"quantizer": "XNNPACKQuantizer", "global": {}, "operator_type": [["torch.ops.aten.linear", null]]})");
  ASSERT_EQ(run(quantize({"--json", "--recover", "--recipe", "r.json"})), 0) << host.err;
  const Json out = printed();
  EXPECT_EQ(out["output"], "out.pt2");
  EXPECT_EQ(out["bytes"]["before"], host.contents["model.pt2"].size());
  EXPECT_EQ(out["bytes"]["after"], host.contents["out.pt2"].size());
  EXPECT_EQ(out["calibration"]["samples"], 10);
  EXPECT_EQ(out["calibration"]["batches"], 3);
  EXPECT_EQ(out["layers"], (Json{{"total", 2}, {"quantized", 1}}));
  ASSERT_EQ(out["left"].size(), 1U);
  EXPECT_EQ(out["left"][0]["node"], "linear_default");
  EXPECT_FALSE(out["recovery"].empty());
  EXPECT_GT(out["seconds"].get<double>(), 0);
}

TEST_F(WordsTest, RunConvertAndTrainTellInJsonWhatTheyDid) {
  ASSERT_EQ(run({"run", "model.pt2", "--inputs", "data.npz", "-o", "out.npz", "--json"}), 0) << host.err;
  EXPECT_EQ(printed()["outputs"], (Json{{{"name", "output_0"}, {"dtype", "float32"}, {"shape", {10, 3}}}}));
  ASSERT_EQ(run({"convert", "model.pt2", "model.onnx", "--json"}), 0) << host.err;
  EXPECT_EQ(printed()["bytes"]["after"], host.contents["model.onnx"].size());
  ASSERT_EQ(run({"train", "model.pt2", "--data", "data.npz", "--labels", "labels.csv", "-o", "t.pt2", "--json",
                 "--epochs", "2"}),
            0)
      << host.err;
  EXPECT_EQ(printed()["losses"].size(), 2U);
  EXPECT_EQ(printed()["samples"], 10);
}

TEST_F(WordsTest, ChartsAreWritten) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  ASSERT_EQ(run({"compare", "model.pt2", "out.pt2", "--data", "data.npz", "--chart", "errors.svg"}), 0) << host.err;
  EXPECT_TRUE(drawn("errors.svg").starts_with("<svg ")) << drawn("errors.svg");
  EXPECT_NE(drawn("errors.svg").find("Errors of out.pt2 beside model.pt2"), std::string::npos);
  ASSERT_EQ(run({"inspect", "model.pt2", "--chart", "weights.svg"}), 0) << host.err;
  EXPECT_NE(drawn("weights.svg").find("float32, "), std::string::npos);
  ASSERT_EQ(run({"inspect", "out.pt2", "--chart", "weights.svg"}), 0) << host.err;
  EXPECT_NE(drawn("weights.svg").find("int8, "), std::string::npos);
}

TEST_F(WordsTest, RecipesArePrintedWithWhatTheySay) {
  ASSERT_EQ(run({"recipe", "model.pt2"}), 0) << host.err;
  const Json recipe = printed();
  EXPECT_EQ(recipe["global"]["is_per_channel"], true);
  EXPECT_EQ(recipe["$comment"]["names in model.pt2"]["operators"][0], "torch.ops.aten.conv2d");
  host.add("r.json", host.out);
  ASSERT_EQ(run(quantize({"--recipe", "r.json"})), 0) << host.err;
  const auto by_recipe = host.contents["out.pt2"];
  ASSERT_EQ(run(quantize()), 0) << host.err;
  EXPECT_EQ(host.contents["out.pt2"], by_recipe);
  ASSERT_EQ(run({"recipe", "--schema"}), 0) << host.err;
  EXPECT_EQ(printed()["$schema"], "http://json-schema.org/draft-07/schema#");
}

TEST_F(WordsTest, PrintedRecipesOfEveryKindAreTaken) {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"--quantizer", "x86-inductor"}, Words{"--fx", "x86"}, Words{"--weights-only"}, Words{"--for", "ort"},
        Words{"--for", "executorch"}, Words{"--for", "openvino"}, Words{"--for", "qnn"}}) {
    Words verb{"recipe"};
    verb.insert(verb.end(), words.begin(), words.end());
    ASSERT_EQ(run(verb), 0) << host.err;
    host.add("r.json", host.out);
    EXPECT_EQ(run(quantize({"--recipe", "r.json"})), 0) << words.back() << ": " << host.err;
  }
}

TEST_F(WordsTest, QuietSaysNothingOfWhatWentWell) {
  ASSERT_EQ(run(quantize({"--quiet", "--recover"})), 0) << host.err;
  EXPECT_EQ(host.out, "");
  EXPECT_EQ(host.err.find("calibrating"), std::string::npos) << host.err;
  ASSERT_EQ(run({"convert", "model.pt2", "m.onnx", "-q", "--json"}), 0) << host.err;
  EXPECT_EQ(printed()["output"], "m.onnx");
  EXPECT_EQ(run({"convert", "none.pt2", "m.onnx", "-q"}), 1);
  EXPECT_TRUE(says("none.pt2")) << host.err;
}

TEST_F(WordsTest, WarningsAndErrorsHaveColorsWhereTheyAreWanted) {
  EXPECT_EQ(run({"convert", "none.pt2", "m.onnx"}), 1);
  EXPECT_TRUE(host.err.starts_with("qdq: ")) << host.err;
  host.colors = true;
  EXPECT_EQ(run({"convert", "none.pt2", "m.onnx"}), 1);
  EXPECT_TRUE(host.err.starts_with("\033[31mqdq:\033[0m ")) << host.err;
  EXPECT_EQ(run(quantize({"--allow-training-mode"})), 0);
  EXPECT_TRUE(says("\033[33mqdq: warning:\033[0m ")) << host.err;
}

TEST_F(WordsTest, AFolderThatTakesNoFilesIsNoticedBeforeTheWork) {
  host.add("out/other.txt", "");
  host.locked = {"out", ""};
  for (std::vector<std::string> args :
       {std::vector<std::string>{"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out/m.pt2"},
        std::vector<std::string>{"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "m.pt2"},
        std::vector<std::string>{"run", "model.pt2", "--inputs", "data.npz", "-o", "out/a.npz"}}) {
    host.reads.clear();
    EXPECT_EQ(run(args), 1);
    EXPECT_TRUE(says("permission denied")) << host.err;
    EXPECT_EQ(host.reads["model.pt2"], 0);
  }
}

// The native program's clock is tried by tests/faults.
TEST_F(WordsTest, ATimeLimitIsANumberAboveZeroAndRefusedWhereNothingHoldsIt) {
  for (const char* text : {"0", "-1", "nan", "inf", "1e10", "soon", ""}) {
    EXPECT_EQ(run(quantize({concat("--timeout=", text)})), 2) << text;
    EXPECT_TRUE(says("--timeout")) << host.err;
  }
  EXPECT_EQ(run(quantize({"--timeout", "60"})), 1);
  EXPECT_TRUE(says("only the native program has --timeout")) << host.err;
  EXPECT_FALSE(host.contents.contains("out.pt2"));
}

TEST_F(WordsTest, CompletionsAndTheManualNameEveryVerbAndOption) {
  const std::vector<std::string> verbs{"quantize",  "train",   "run",     "evaluate", "compare",   "sensitivity",
                                       "benchmark", "inspect", "convert", "fuse",     "completion"};
  std::vector<std::pair<std::string, std::string>> texts;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    ASSERT_EQ(run({"completion", shell}), 0) << host.err;
    texts.emplace_back(shell, host.out);
  }
  ASSERT_EQ(run({"man"}), 0);
  texts.emplace_back("man", host.out);
  for (const auto& [name, text] : texts) {
    for (const std::string& verb : verbs) EXPECT_NE(text.find(verb), std::string::npos) << name << " " << verb;
    for (const char* option : {"calibrate", "max-memory", "threads", "quiet", "checkpoint"})
      EXPECT_NE(text.find(name == "man" && option == std::string("max-memory") ? "max\\-memory" : option),
                std::string::npos)
          << name << " " << option;
  }
  EXPECT_EQ(run({"completion", "tcsh"}), 2);
  EXPECT_TRUE(says("bash, zsh or fish")) << host.err;
}

TEST_F(WordsTest, EvaluatesWithoutLabelsBesideTheFirstModel) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  ASSERT_EQ(run({"evaluate", "model.pt2", "out.pt2", "--data", "data.npz", "--json"}), 0) << host.err;
  const Json out = printed();
  ASSERT_EQ(out.size(), 2U);
  EXPECT_FALSE(out[0].contains("top1"));
  EXPECT_EQ(out[0]["agreement"], 100.0);
  EXPECT_TRUE(out[0]["sqnr"].is_null());
  EXPECT_GT(out[1]["sqnr"].get<double>(), 10);
  EXPECT_LT(out[1]["sqnr"].get<double>(), 80);
  ASSERT_EQ(run({"evaluate", "model.pt2", "out.pt2", "--data", "data.npz"}), 0) << host.err;
  EXPECT_EQ(host.out.find("top-1"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("SQNR"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find(" dB"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("equal"), std::string::npos) << host.out;
  EXPECT_EQ(run({"evaluate", "model.pt2", "--data", "data.npz"}), 2);
  EXPECT_TRUE(says("nothing to judge model.pt2 by")) << host.err;
}

TEST_F(WordsTest, MeasuresByACommand) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  const std::vector<std::string> evaluate = {"evaluate", "model.pt2", "out.pt2", "--data", "data.npz", "--json"};
  const auto with = [&](const std::string& command, std::vector<std::string> more = {}) {
    std::vector<std::string> args = evaluate;
    args.insert(args.end(), {"--metric", command});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  ASSERT_EQ(run(with("mean {outputs} {labels}", {"--labels", "it's mine.csv"})), 0) << host.err;
  const Json out = printed();
  EXPECT_NEAR(out[0]["metric"].get<double>(), out[1]["metric"].get<double>(), 0.1);
  EXPECT_FALSE(out[0].contains("top1"));  // the command reads the labels
  EXPECT_EQ(host.commands, std::vector<std::string>(2, "mean {outputs} 'it'\\''s mine.csv'"));
  EXPECT_EQ(run({"evaluate", "out.pt2", "--data", "data.npz", "--metric", "mean {outputs}"}), 0) << host.err;
  EXPECT_NE(host.out.find("metric"), std::string::npos) << host.out;

  EXPECT_EQ(run(with("mean")), 2);
  EXPECT_TRUE(says("write {outputs} there")) << host.err;
  for (const auto& [command, wanted] : {std::pair("mean {outputs} {labels}", "give their file with --labels"),
                                        std::pair("median {outputs}", "ended with status 127; wanted 0"),
                                        std::pair("mean {outputs} silent", "printed is ''; wanted a number")}) {
    EXPECT_EQ(run(with(command)), std::string_view(command).ends_with("{labels}") ? 2 : 1);
    EXPECT_TRUE(says(wanted)) << host.err;
  }
}

TEST_F(WordsTest, LeavesOperatorsInFloatUntilACommandIsContent) {
  // More than any program has: all stay in integers, and a warning says so.
  ASSERT_EQ(run(quantize({"--target-metric", "1e9", "--metric", "mean {outputs}"})), 0) << host.err;
  EXPECT_NE(host.out.find("choosing the precision (metric on the samples)"), std::string::npos) << host.out;
  EXPECT_TRUE(says("nothing that was tried reaches metric of 1e+09; the nearest is ")) << host.err;
  ASSERT_EQ(run(quantize({"--target-metric", "-1e9", "--metric", "mean {outputs}"})), 0) << host.err;
  EXPECT_FALSE(says("reach")) << host.err;
  EXPECT_EQ(run(quantize({"--target-metric", "1"})), 2);
  EXPECT_EQ(run(quantize({"--metric", "mean {outputs}"})), 2);
  EXPECT_EQ(run(quantize({"--target-metric", "1", "--metric", "mean"})), 2);
  EXPECT_TRUE(says("write {outputs} there")) << host.err;
}

TEST_F(WordsTest, ChoosesPrecisionsWithinASize) {
  ASSERT_EQ(run(quantize({"--json"})), 0) << host.err;
  const auto least = printed()["bytes"]["after"].get<uint64_t>();
  const std::string limit = std::to_string(least + 300);
  const auto search = [&](const std::string& size) {
    return quantize({"--max-size", size, "--precisions", "bf16,float", "--search", "search.json", "--json"});
  };
  ASSERT_EQ(run(search(limit)), 0) << host.err;
  const Json first = printed()["recovery"]["precision"];
  EXPECT_EQ(first["reached"], true);
  EXPECT_EQ(first["score"], "signal to noise dB");
  EXPECT_GT(first["after"].get<double>(), first["before"].get<double>());
  EXPECT_EQ(printed()["bytes"]["after"], first["best"]["bytes"]);
  EXPECT_LE(host.contents["out.pt2"].size(), least + 300);
  const auto bytes = host.contents["out.pt2"];
  // The same once more, from what the file tells.
  ASSERT_EQ(run(search(limit)), 0) << host.err;
  const Json second = printed()["recovery"]["precision"];
  EXPECT_EQ(second["resumed"], first["trials"].size());
  EXPECT_EQ(second["trials"], first["trials"]);
  EXPECT_EQ(host.contents["out.pt2"], bytes);

  ASSERT_EQ(run(search("1kB")), 0);
  EXPECT_TRUE(says("nothing that was tried is within 1.0 kB; the nearest is ")) << host.err;
  EXPECT_EQ(host.contents["out.pt2"].size(), least);
  ASSERT_EQ(run(quantize({"--max-size", "1MB", "--max-latency", "1000"})), 0) << host.err;
  EXPECT_NE(host.out.find(" ms  *\n"), std::string::npos) << host.out;
  // A search belongs to one model and recipe.
  EXPECT_EQ(run(quantize({"--max-size", "1MB", "--weight-bits", "4", "--search", "search.json"})), 1);
  EXPECT_TRUE(says("search.json is the search of another program")) << host.err;
  for (const char* name : {"int3", "int8", "bf16,int8"}) {
    EXPECT_EQ(run(quantize({"--max-size", "1MB", "--precisions", name})), 2) << name;
    EXPECT_TRUE(says("wanted int8-weights, int16, bf16 or float")) << host.err;
  }
  for (const auto& [words, wanted] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--precisions", "float"}, "--precisions needs a goal"},
           {{"--search", "s.json"}, "--search needs a goal"},
           {{"--max-size", "1MB", "--no-fold-quantize"}, "leave out --no-fold-quantize"},
           {{"--max-latency", "0"}, "wanted milliseconds above 0"}}) {
    EXPECT_EQ(run(quantize(words)), 2) << wanted;
    EXPECT_TRUE(says(wanted)) << host.err;
  }
}

TEST_F(WordsTest, ASearchLeavesOutFormsThatAProgramInFloatDoesNotHave) {
  const auto search = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.onnx", "--json"};
    more.insert(more.end(), {"--precisions", "float", "--onnx-format", "qoperator"});
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  };
  const auto is_of_integers = [&] {
    const auto file = format::read_onnx_file(host.contents["out.onnx"]);
    return std::any_of(file.nodes.begin(), file.nodes.end(),
                       [](const auto& node) { return node.op_type.starts_with("QLinear") || node.op_type == "QGemm"; });
  };
  // All in float is the best that fits.
  ASSERT_EQ(search({"--max-size", "1MB"}), 0) << host.err;
  EXPECT_TRUE(says("--onnx-format does nothing: in the chosen precision no operator of the model has that form"));
  EXPECT_FALSE(is_of_integers());
  // Nothing fits, so that all stays in integers.
  ASSERT_EQ(search({"--max-size", "10"}), 0) << host.err;
  EXPECT_FALSE(says("does nothing")) << host.err;
  EXPECT_TRUE(is_of_integers());
}

// Tokens [s0, 4] of 0 to 6 -> embedding [7, 8] -> linear -> logits [s0, 4, 7].
Program language_model() {
  Program program;
  Graph& graph = *program.graph;
  Node* words = parameter(program, "words.weight", noise({7, 8}, 1));
  Node* head = parameter(program, "head.weight", noise({7, 8}, 2));
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kS64, {SymInt::symbol("s0"), 4}, {}, false}};
  program.symbol_ranges["s0"] = {1, 1024};
  program.symbol_hints["s0"] = 2;
  Node* embedding = graph.call("torch.ops.aten.embedding.default", {words, x});
  Node* linear = graph.call("torch.ops.aten.linear.default", {embedding, head});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(linear)})});
  infer_shapes(program);
  return program;
}

TEST_F(WordsTest, MeasuresByMetricsOfItsOwn) {
  host.contents["model.pt2"] = save_pt2(language_model());
  const std::vector<int64_t> text = {1, 2, 3, 4, 6, 5, 0, 1, 2, 2, 2, 3, 0, 6, 1, 5};
  const Tensor tokens = Tensor::of<int64_t>({4, 4}, std::span<const int64_t>(text));
  host.contents["data.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", tokens}});
  host.contents["labels.npy"] = format::write_npy(tokens);
  ASSERT_EQ(run(quantize()), 0) << host.err;
  const auto measured = [&](const std::string& metric, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"evaluate", "model.pt2", "out.pt2", "--data",       "data.npz",
                                     "--json",   "--metric",  metric,    "--batch-size", "3"};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(run(args), 0) << host.err;
    return host.out.empty() ? std::vector<double>(2)
                            : std::vector<double>{printed()[0]["metric"], printed()[1]["metric"]};
  };
  const std::vector<double> next = measured("perplexity"), told = measured("perplexity", {"--labels", "labels.npy"});
  EXPECT_GT(next[0], 1);
  EXPECT_NE(next[0], next[1]);
  EXPECT_NEAR(next[0], next[1], 0.5);
  EXPECT_NE(next[0], told[0]);
  EXPECT_EQ(measured("token-f1")[0], 1);
  EXPECT_LT(measured("token-f1", {"--labels", "labels.npy"})[0], 1);

  // A perplexity that any program has, and one that none has: less is better.
  ASSERT_EQ(run(quantize({"--target-metric", "1000", "--metric", "perplexity", "--json"})), 0) << host.err;
  EXPECT_NEAR(printed()["recovery"]["precision"]["after"].get<double>(), next[1], 1e-3 * next[1]);
  EXPECT_FALSE(says("reach")) << host.err;
  ASSERT_EQ(run(quantize({"--target-metric", "1", "--metric", "perplexity"})), 0) << host.err;
  EXPECT_TRUE(says("nothing that was tried reaches metric of 1; the nearest is the recipe's own precision with 8.97"))
      << host.err;

  for (const auto& [args, wanted] :
       {std::pair(std::vector<std::string>{"--metric", "box-f1"}, "box-f1 does not fit the model's outputs"),
        std::pair(std::vector<std::string>{"--metric", "box-f1", "--labels", "labels.npy"}, "leave out --labels")}) {
    std::vector<std::string> all = {"evaluate", "model.pt2", "out.pt2", "--data", "data.npz"};
    all.insert(all.end(), args.begin(), args.end());
    EXPECT_EQ(run(all), 2);
    EXPECT_TRUE(says(wanted)) << host.err;
  }
  EXPECT_EQ(run({"evaluate", "out.pt2", "--data", "data.npz", "--metric", "box-map"}), 2);
  EXPECT_TRUE(says("box-map compares with the float model; give it in front of out.pt2")) << host.err;
}

TEST_F(WordsTest, AReportTellsWhenAndHowItWasMade) {
  host.day = "2026-11-23";
  host.add("folder/note.txt", "");
  ASSERT_EQ(run(quantize({"--report", "folder/r.html"})), 0) << host.err;
  const std::vector<std::byte>& bytes = host.contents["folder/r.html"];
  const std::string page(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = page.find("\"made\":");
  ASSERT_NE(at, std::string::npos);
  const std::string made = page.substr(at, page.find('}', at) - at);
  EXPECT_NE(made.find("\"date\":\"2026-11-23\""), std::string::npos) << made;
  EXPECT_NE(made.find("\"by\":\"qdq 0.1.0\""), std::string::npos) << made;
  EXPECT_NE(made.find("qdq quantize model.pt2 --calibrate data.npz -o out.pt2 --batch-size 4 --report r.html"),
            std::string::npos)
      << made;
}

TEST_F(CliTest, EqualizeIsOneWord) {
  host.add("recipe.json", R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86"},
                              "equalization_config": {"global": {"named": "default_equalization_qconfig"}}})");
  ASSERT_EQ(run(quantize({"--recipe", "recipe.json"})), 0) << host.err;
  const auto by_recipe = host.contents["out.pt2"];
  ASSERT_EQ(run(quantize({"--fx", "x86"})), 0) << host.err;
  EXPECT_NE(host.contents["out.pt2"], by_recipe);
  ASSERT_EQ(run(quantize({"--fx", "x86", "--equalize"})), 0) << host.err;
  EXPECT_EQ(host.contents["out.pt2"], by_recipe);
  EXPECT_EQ(run(quantize({"--equalize"})), 2);
  EXPECT_NE(host.err.find("--fx"), std::string::npos) << host.err;
  EXPECT_EQ(run({"quantize", "model.pt2", "--fx", "x86", "--equalize", "--dynamic", "-o", "out.pt2"}), 2);
  EXPECT_NE(host.err.find("--equalize needs the ranges of samples"), std::string::npos) << host.err;
}

}  // namespace
}  // namespace qdq::words_test
