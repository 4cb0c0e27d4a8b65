// What the command line does to gain accuracy: --recover, weights of few bits, operators left in float, sensitivities.
#include "unit/cli/cli_fixture.h"

#include <gtest/gtest.h>

#include "format/json.h"
#include "format/npz.h"
#include "io/pt2.h"

namespace qdq::recover_test {
namespace {

TEST_F(CliTest, RecoversAccuracyAndSaysWhatEachRemedyBrought) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  const auto plain = host.contents["out.pt2"];
  ASSERT_EQ(run(quantize({"--recover"})), 0) << host.err;
  EXPECT_NE(host.contents["out.pt2"], plain);
  for (const char* remedy : {"ranges", "outputs", "bias correction"})
    EXPECT_NE(host.out.find(concat("\n  ", remedy, " ")), std::string::npos) << host.out;
  EXPECT_NE(host.out.find(" dB, "), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("layers quantized  2 of 2"), std::string::npos) << host.out;
  for (const bool recovers : {false, true}) {
    ASSERT_EQ(run(quantize(recovers ? std::vector<std::string>{"--recover", "--report", "r.html"}
                                    : std::vector<std::string>{"--report", "r.html"})),
              0)
        << host.err;
    const std::string report(format::text_of(host.contents["r.html"]));
    EXPECT_EQ(report.find("\"remedy\":\"bias correction\"") != std::string::npos, recovers);
  }
  // Without samples there is nothing to judge by.
  EXPECT_NE(run({"quantize", "model.pt2", "--dynamic", "--recover", "-o", "out.pt2"}), 0);
  EXPECT_NE(host.err.find("--recover needs samples"), std::string::npos) << host.err;
  ASSERT_EQ(run(quantize({"--dynamic", "--recover"})), 0) << host.err;
  EXPECT_NE(host.err.find("--recover does nothing"), std::string::npos) << host.err;
}

TEST_F(CliTest, ShowsTheRemedyAtWorkOnATerminal) {
  ASSERT_EQ(run(quantize({"--recover", "--target-agreement", "99"})), 0) << host.err;
  EXPECT_EQ(host.err.find("ranges"), std::string::npos) << host.err;
  host.terminal = true;
  ASSERT_EQ(run(quantize({"--recover", "--target-agreement", "99"})), 0) << host.err;
  for (const char* stage : {"\rranges [", "\rbias correction [", "\rprecision ["})
    EXPECT_NE(host.err.find(stage), std::string::npos) << host.err;
  EXPECT_TRUE(host.err.ends_with(" \r")) << host.err;  // wiped
  ASSERT_EQ(run(quantize({"--recover", "--quiet"})), 0) << host.err;
  EXPECT_EQ(host.err.find("ranges"), std::string::npos) << host.err;
}

TEST_F(CliTest, SaysHowFarRecoveredOutputsAreAndWhatLeavesOperatorsInFloat) {
  Program program = classifier();
  program.graph->output_node()->set_arg(0, Argument(Argument::List{program.graph->find("relu_default")}));
  host.contents["places.pt2"] = save_pt2(program);
  const std::vector<std::string> words = {"quantize", "places.pt2",   "--calibrate", "data.npz", "-o",
                                          "out.pt2",  "--batch-size", "4",           "--recover"};
  ASSERT_EQ(run(words), 0) << host.err;
  EXPECT_EQ(host.out.find("still "), std::string::npos) << host.out;
  std::vector<std::string> few = words;
  few.insert(few.end(), {"--weight-bits", "2"});
  ASSERT_EQ(run(few), 0) << host.err;
  EXPECT_NE(host.out.find(" dB of signal to noise; to leave the operators in float"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("\n  --max-size "), std::string::npos) << host.out;
}

TEST_F(CliTest, CorrectsBiasesByBatchNormsWhereNoSamplesAreNeeded) {
  Program program = classifier();
  const auto add = [&](const char* name, float value) {
    return parameter(program, name, Tensor::of<float>({4}, {value, value, value, value}));
  };
  Node* conv = program.graph->find("conv2d_default");
  ASSERT_NE(conv, nullptr);
  {
    const auto point = program.graph->insert_before(program.graph->find("relu_default"));
    Node* norm = program.graph->call("torch.ops.aten.batch_norm.default", {conv, add("g", 1), add("b", 2), add("m", 0),
                                                                           add("v", 1), false, 0.1, 1e-5, true});
    Node* more = program.graph->call("torch.ops.aten.conv2d.default",
                                     {norm, parameter(program, "more.weight", noise({4, 4, 1, 1}, 7))});
    program.graph->find("relu_default")->set_args({more});
  }
  infer_shapes(program);
  host.contents["normed.pt2"] = save_pt2(program);
  const std::vector<std::string> words = {"quantize", "normed.pt2", "--weights-only", "--weight-bits",
                                          "4",        "-o",         "out.pt2"};
  ASSERT_EQ(run(words), 0) << host.err;
  const auto plain = host.contents["out.pt2"];
  auto with = words;
  with.push_back("--recover");
  ASSERT_EQ(run(with), 0) << host.err;
  EXPECT_NE(host.out.find("without data, by what batch norms tell"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("  bias correction   1 place\n"), std::string::npos) << host.out;
  EXPECT_NE(host.contents["out.pt2"], plain);
  EXPECT_EQ(host.err.find("does nothing"), std::string::npos) << host.err;
  with.push_back("--json");
  ASSERT_EQ(run(with), 0) << host.err;
  EXPECT_EQ(format::parse_json(host.out, "--json")["recovery"]["applied"][0]["changes"], 1);
}

TEST_F(CliTest, KeepsWhatWasRecoveredBeforeAnInterrupt) {
  const auto recover = [&](int64_t interrupt) {
    host.questions = 0;
    host.interrupt = interrupt;
    EXPECT_EQ(run(quantize({"--recover", "--target-agreement", "100", "--json"})), 0) << host.err;
    EXPECT_FALSE(host.held);
    return format::parse_json(host.out, "--json")["recovery"];
  };
  constexpr int64_t kNever = int64_t{1} << 40;
  const format::Json whole = recover(kNever);
  EXPECT_FALSE(whole.contains("interrupted"));
  EXPECT_EQ(host.err.find("interrupted"), std::string::npos) << host.err;
  const size_t remedies = whole["remedies"].size();
  const int64_t questions = host.questions;
  ASSERT_GT(questions, 20);

  ASSERT_EQ(run(quantize()), 0) << host.err;
  const auto plain = host.contents["out.pt2"];
  EXPECT_TRUE(recover(0)["remedies"].empty());
  EXPECT_NE(host.err.find("interrupted; what was gained so far is kept"), std::string::npos) << host.err;
  EXPECT_EQ(host.contents["out.pt2"], plain);

  const format::Json part = recover(questions / 2);
  EXPECT_EQ(part["interrupted"], true);
  EXPECT_FALSE(part.contains("precision"));
  ASSERT_GT(part["remedies"].size(), 0U);
  ASSERT_LT(part["remedies"].size(), remedies + 1);
  for (size_t i = 0; i < part["remedies"].size(); ++i)
    EXPECT_EQ(part["remedies"][i]["after"], whole["remedies"][i]["after"]);
  load_pt2(host.contents["out.pt2"]);
}

TEST_F(CliTest, SaysHowAnInterruptedSearchGoesOn) {
  const auto search = [&](int64_t interrupt) {
    host.questions = 0;
    host.interrupt = interrupt;
    return run(quantize({"--weight-bits", "2", "--target-agreement", "100", "--search", "s.json"}));
  };
  constexpr int64_t kNever = int64_t{1} << 40;
  ASSERT_EQ(search(kNever), 0) << host.err;
  const int64_t questions = host.questions;
  host.contents.erase("s.json");
  ASSERT_EQ(search(questions - 1), 0) << host.err;
  EXPECT_NE(host.err.find("is kept, and the same command goes on with the search in s.json\n"), std::string::npos)
      << host.err;
  ASSERT_EQ(search(kNever), 0) << host.err;
  EXPECT_NE(host.out.find("  going on behind "), std::string::npos) << host.out;
}

TEST_F(CliTest, GivesWeightsFewerBits) {
  ASSERT_EQ(run(quantize({"--weight-bits", "4"})), 0) << host.err;
  int64_t weights = 0;
  for (const Attribute& attribute : load_pt2(host.contents["out.pt2"]).attributes) {
    if (attribute.tensor.dtype() != DType::kS8) continue;
    ++weights;
    for (const int8_t value : attribute.tensor.span<int8_t>()) EXPECT_TRUE(value >= -8 && value <= 7) << int{value};
  }
  EXPECT_EQ(weights, 2);
  EXPECT_EQ(run(quantize({"--weight-bits", "9"})), 2);
  EXPECT_EQ(run(quantize({"--weight-bits", "4", "--reduce-range"})), 2);
  EXPECT_NE(run(quantize({"--weight-bits", "4", "--quantizer", "x86-inductor"})), 0);
  EXPECT_NE(host.err.find("goes with --quantizer xnnpack"), std::string::npos) << host.err;
  EXPECT_NE(run(quantize({"--weight-bits", "4", "--fx", "x86"})), 0);
  EXPECT_NE(host.err.find("--weight-bits does not go with --fx"), std::string::npos) << host.err;
}

TEST_F(CliTest, GivesScalesToGroupsAndRoundsThemBySamples) {
  const auto targets = [&] {
    const Program program = load_pt2(host.contents["out.pt2"]);
    std::string out;
    for (const Node* node : program.graph->nodes()) out += node->target() + "\n";
    return out;
  };
  std::vector<std::vector<std::byte>> files;
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--gptq"}}) {
    std::vector<std::string> words = {"--weights-only", "--weight-bits", "4", "--group-size", "32"};
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(run(quantize(words)), 0) << host.err;
    EXPECT_NE(host.out.find("layers quantized  1 of"), std::string::npos) << host.out;
    EXPECT_NE(host.out.find("its weight of shape [4, 2, 3, 3] has no rows of whole groups of 32"), std::string::npos);
    EXPECT_EQ(host.out.find("weights rounded   by 10 samples in 1 layer") != std::string::npos, !more.empty());
    EXPECT_NE(targets().find("dequantize_per_channel_group"), std::string::npos);
    EXPECT_EQ(targets().find("per_token"), std::string::npos);
    files.push_back(host.contents["out.pt2"]);
  }
  EXPECT_NE(files[0], files[1]);
  ASSERT_EQ(run(quantize({"--dynamic", "--weight-bits", "4", "--group-size", "32"})), 0) << host.err;
  EXPECT_NE(targets().find("dequantize_per_token"), std::string::npos);
  EXPECT_NE(run(quantize({"--group-size", "32"})), 0);
  EXPECT_NE(host.err.find("--group-size goes with --weights-only, or with --dynamic"), std::string::npos) << host.err;
  ASSERT_EQ(run(quantize({"--weights-only", "--gptq"})), 0) << host.err;
  EXPECT_NE(host.err.find("--gptq does nothing"), std::string::npos) << host.err;
  EXPECT_NE(run({"quantize", "model.pt2", "-o", "out.pt2", "--weights-only", "--group-size", "32", "--gptq"}), 0);
  EXPECT_NE(host.err.find("--gptq rounds weights by samples"), std::string::npos) << host.err;
}

TEST_F(CliTest, LeavesOperatorsInFloatForATarget) {
  const std::vector<std::string> target = {"--weight-bits", "2", "--target-agreement", "100"};
  ASSERT_EQ(run(quantize(target)), 0) << host.err;
  EXPECT_NE(host.out.find("choosing the precision (agreement on the samples)"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("   0 changed"), std::string::npos) << host.out;
  ASSERT_EQ(run(quantize({"--weight-bits", "2", "--target-agreement", "100", "--json"})), 0) << host.err;
  const auto fields = format::parse_json(host.out, "the summary");
  const auto& precision = fields["recovery"]["precision"];
  EXPECT_EQ(precision["reached"], true) << host.out;
  EXPECT_EQ(precision["after"], 100);
  ASSERT_LT(precision["before"].get<double>(), 100) << "nothing was to be done";
  EXPECT_GT(precision["operators"].size(), 0U);
  EXPECT_NE(host.out.find("so that the outputs reach the target"), std::string::npos) << host.out;

  for (const auto& [words, what] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--target-agreement", "101"}, "wanted a percentage"},
           {{"--target-drop", "-1", "--labels", "folders"}, "0 or more"},
           {{"--target-drop", "1"}, "needs the --labels"},
           {{"--target-drop", "1", "--target-agreement", "99"}, "excludes"}}) {
    EXPECT_NE(run(quantize(words)), 0) << what;
    EXPECT_NE(host.err.find(what), std::string::npos) << host.err;
  }
}

TEST_F(CliTest, TellsTheGoalOfASearch) {
  host.contents["labels.npy"] = format::write_npy(Tensor::of<int64_t>({10}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0}));
  ASSERT_EQ(run({"evaluate", "model.pt2", "--data", "data.npz", "--labels", "labels.npy", "--json"}), 0) << host.err;
  const auto of_float = format::parse_json(host.out, "the evaluation")[0]["top1"].get<double>();
  std::vector<std::string> args = quantize({"--target-drop", "5", "--labels", "labels.npy"});
  ASSERT_EQ(run(args), 0) << host.err;
  char words[80];
  std::snprintf(words, sizeof words, "  float %.2f %%, wanted %.2f %%\n", of_float, of_float - 5);
  EXPECT_NE(host.out.find(words), std::string::npos) << host.out;
  args.emplace_back("--json");
  ASSERT_EQ(run(args), 0) << host.err;
  const auto precision = format::parse_json(host.out, "the summary")["recovery"]["precision"];
  EXPECT_EQ(precision["float"], of_float);
  EXPECT_EQ(precision["wanted"], of_float - 5);
  ASSERT_EQ(run(quantize({"--target-agreement", "90"})), 0) << host.err;
  EXPECT_NE(host.out.find("  wanted 90.00 %\n"), std::string::npos) << host.out;
}

TEST_F(CliTest, TellsHowSensitiveTheOperatorsAre) {
  ASSERT_EQ(run({"sensitivity", "model.pt2", "--calibrate", "data.npz", "--most", "1"}), 0) << host.err;
  EXPECT_NE(host.out.find("operators in integers: "), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("own dB  alone dB  without dB  node\n"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("more; --most 0 shows all"), std::string::npos) << host.out;
  ASSERT_EQ(run({"sensitivity", "model.pt2", "--calibrate", "data.npz", "--json"}), 0) << host.err;
  const auto report = format::parse_json(host.out, "the report");
  std::vector<std::string> ops;
  for (const auto& each : report["operators"]) {
    ops.push_back(each["op"].get<std::string>());
    EXPECT_GE(each["alone"].get<double>(), report["all"].get<double>() - 1) << ops.back();
  }
  for (const char* op : {"aten.conv2d.default", "aten.linear.default"})
    EXPECT_EQ(std::count(ops.begin(), ops.end(), op), 1) << op;
}

}  // namespace
}  // namespace qdq::recover_test
