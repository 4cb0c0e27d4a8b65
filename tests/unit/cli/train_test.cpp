// `qdq train` on files in memory.
#include <gtest/gtest.h>

#include <set>

#include "cli/cli.h"
#include "format/npz.h"
#include "io/pt2.h"
#include "unit/cli/memory_host.h"
#include "unit/quant/program_builder.h"

namespace qdq::train_test {
namespace {

// x[4, 2, 6, 6] -> conv -> batch norm -> relu -> mean -> linear -> [4, 3]
Program classifier() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 2, 6, 6});
  Node* conv =
      b.call("conv2d.default", {x, b.weight("conv.weight", {5, 2, 3, 3})}, "conv", "torch.nn.modules.conv.Conv2d");
  Node* mean = b.parameter("bn.running_mean", Tensor::empty({5}, DType::kF32));
  Node* var = b.parameter("bn.running_var", Tensor::full({5}, DType::kF32, 1));
  Node* gamma = b.parameter("bn.weight", Tensor::full({5}, DType::kF32, 1));
  Node* norm = b.call("batch_norm.default", {conv, gamma, b.weight("bn.bias", {5}), mean, var, false, 0.1, 1e-5, true},
                      "bn", "torch.nn.modules.batchnorm.BatchNorm2d");
  Node* relu = b.call("relu.default", {norm}, "relu", "torch.nn.modules.activation.ReLU");
  Node* flat = b.call("mean.dim", {relu, Argument::List{2, 3}});
  Program program = b.finish(
      {b.call("linear.default", {flat, b.weight("head.weight", {3, 5})}, "head", "torch.nn.modules.linear.Linear")});
  for (const char* statistic : {"bn.running_mean", "bn.running_var"}) {
    program.find_attribute(statistic)->kind = Attribute::Kind::kBuffer;
    program.find_attribute(statistic)->requires_grad = false;
  }
  return program;
}

struct TrainTest : testing::Test {
  TrainTest() {
    host.contents["model.pt2"] = save_pt2(classifier());
    host.contents["data.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", sample({12, 2, 6, 6}, 4)}});
    host.add("labels.csv", "0,0\n1,1\n2,2\n3,0\n4,1\n5,2\n6,0\n7,1\n8,2\n9,0\n10,1\n11,2\n");
  }
  int run(std::vector<std::string> more) {
    std::vector<std::string> args{"train",      "model.pt2", "--data",  "data.npz", "--labels",
                                  "labels.csv", "-o",        "out.pt2", "--lr",     "0.01"};
    args.insert(args.end(), more.begin(), more.end());
    host.out.clear();
    host.err.clear();
    return run_cli(args, host);
  }
  double loss_of(int epoch) const {
    const std::string line = concat("epoch ", epoch, "  loss ");
    return std::stod(host.out.substr(host.out.find(line) + line.size()));
  }
  MemoryHost host;
};

TEST_F(TrainTest, TheLossFallsAndTheModelIsInt8) {
  ASSERT_EQ(run({"--epochs", "30"}), 0) << host.err;
  EXPECT_LT(loss_of(30), 0.8 * loss_of(1)) << host.out;
  EXPECT_NE(host.out.find("layers quantized  2 of 2"), std::string::npos) << host.out;
  const Program out = load_pt2(host.contents["out.pt2"]);
  for (const Node* node : out.graph->nodes()) EXPECT_FALSE(node->is("torch.ops.aten.batch_norm.default"));
  EXPECT_EQ(out.find_attribute("conv.weight"), nullptr);
}

TEST_F(TrainTest, TheSameSeedGivesTheSameBytesWithAnyNumberOfThreads) {
  ASSERT_EQ(run({"--epochs", "3", "--optimizer", "sgd"}), 0) << host.err;
  const auto one = host.contents["out.pt2"];
  ASSERT_EQ(run({"--epochs", "3", "--optimizer", "sgd", "--threads", "3"}), 0) << host.err;
  EXPECT_TRUE(one == host.contents["out.pt2"]);
  ASSERT_EQ(run({"--epochs", "3", "--optimizer", "sgd", "--seed", "1"}), 0) << host.err;
  EXPECT_FALSE(one == host.contents["out.pt2"]);
}

TEST_F(TrainTest, TakesEveryRecipe) {
  ASSERT_EQ(run({"--epochs", "1", "--fx", "x86"}), 0) << host.err;
  ASSERT_EQ(run({"--epochs", "1", "--quantizer", "x86-inductor"}), 0) << host.err;
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "global": {}, "module_name": [["head", null]]})");
  ASSERT_EQ(run({"--epochs", "1", "--recipe", "recipe.json"}), 0) << host.err;
  EXPECT_NE(host.out.find("layers quantized  1 of 2"), std::string::npos) << host.out;
}

TEST_F(TrainTest, TakesEveryOptimizerAndSchedule) {
  std::set<std::vector<std::byte>> models;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"--optimizer", "adamw", "--weight-decay", "0.5"},
                                             {"--optimizer", "sgd"},
                                             {"--schedule", "constant"},
                                             {"--schedule", "step", "--step-epochs", "2", "--gamma", "0.5"},
                                             {"--warmup-steps", "4"}}) {
    ASSERT_EQ(run(words), 0) << host.err;
    models.insert(host.contents["out.pt2"]);
  }
  EXPECT_EQ(models.size(), 6U);
}

TEST_F(TrainTest, DistillationNeedsNoLabels) {
  const std::vector<std::string> words{"train", "model.pt2", "--data",   "data.npz", "-o",        "out.pt2",
                                       "--lr",  "0.01",      "--epochs", "20",       "--distill", "1"};
  ASSERT_EQ(run_cli(words, host), 0) << host.err;
  EXPECT_LT(loss_of(20), 0.8 * loss_of(1)) << host.out;
  std::vector<std::string> squared = words;
  squared.insert(squared.end(), {"--loss", "mse"});
  host.out.clear();
  ASSERT_EQ(run_cli(squared, host), 0) << host.err;
  EXPECT_LT(loss_of(20), 0.8 * loss_of(1)) << host.out;
  EXPECT_EQ(run({"--distill", "0.5", "--temperature", "4"}), 0) << host.err;
}

// A host whose every write of the checkpoint may be the last thing that happens before the program is killed.
struct KilledHost : MemoryHost {
  void write(const std::string& path, std::span<const std::byte> bytes) override {
    MemoryHost::write(path, bytes);
    if (path == "checkpoint" && ++written == kill_at) fail(ErrorCode::kIo, "killed");
  }
  int written = 0, kill_at = 0;
};

TEST_F(TrainTest, AKilledTrainingGoesOnToTheSameBytes) {
  host.add("augment.json", R"({"crop": 1, "flip": 0.5, "brightness": 0.1})");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--checkpoint-steps", "2"}, {"--optimizer", "sgd"}, {"--optimizer", "adamw", "--distill", "0.5"}}) {
    std::vector<std::string> args{"train",       "model.pt2", "--data",    "data.npz",    "--labels", "labels.csv",
                                  "-o",          "out.pt2",   "--lr",      "0.01",        "--epochs", "4",
                                  "--bn-epochs", "2",         "--augment", "augment.json"};
    args.insert(args.end(), words.begin(), words.end());
    host.out.clear();
    ASSERT_EQ(run_cli(args, host), words[0] == "--checkpoint-steps" ? 2 : 0) << host.err;
    if (words[0] == "--checkpoint-steps") {
      EXPECT_NE(host.err.find("--checkpoint-steps needs --checkpoint"), std::string::npos) << host.err;
      std::vector<std::string> without(args.begin(), args.end() - 2);
      ASSERT_EQ(run_cli(without, host), 0) << host.err;
    }
    const std::vector<std::byte> whole = host.contents["out.pt2"];
    const std::string told = host.out.substr(0, host.out.find("  time"));
    args.insert(args.end(), {"--checkpoint", "checkpoint"});
    for (const int kill_at : {1, 2, 3}) {
      KilledHost killed;
      killed.contents = host.contents;
      killed.contents.erase("out.pt2");
      killed.kill_at = kill_at;
      int runs = 1;
      for (; run_cli(args, killed) != 0; ++runs) {
        ASSERT_NE(killed.err.find("killed"), std::string::npos) << killed.err;
        EXPECT_FALSE(killed.contents.contains("out.pt2"));
        killed.err.clear();
        killed.written = 0;
      }
      EXPECT_GT(runs, 1);
      EXPECT_TRUE(whole == killed.contents["out.pt2"]) << kill_at;
      EXPECT_NE(killed.err.find("going on from checkpoint: epoch "), std::string::npos) << killed.err;
      EXPECT_EQ(killed.out.substr(0, killed.out.find("  time")), told);
    }
  }
}

TEST_F(TrainTest, ACheckpointOfAnotherTrainingIsRefused) {
  ASSERT_EQ(run({"--checkpoint", "kept"}), 0) << host.err;
  ASSERT_EQ(run({"--checkpoint", "kept"}), 0) << host.err;  // nothing is left to do
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"--seed", "1"}, {"--epochs", "4"}, {"--optimizer", "sgd"}, {"--fx", "x86"}, {"--weight-decay", "1"}}) {
    std::vector<std::string> words{"--checkpoint", "kept"};
    words.insert(words.end(), other.begin(), other.end());
    EXPECT_EQ(run(words), 1) << other[0];
    EXPECT_NE(host.err.find("kept is the checkpoint of another training"), std::string::npos) << host.err;
  }
  host.contents["data.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", sample({12, 2, 6, 6}, 5)}});
  EXPECT_EQ(run({"--checkpoint", "kept"}), 1);
  host.add("kept", "no archive");
  EXPECT_EQ(run({"--checkpoint", "kept"}), 1);
  host.contents["kept"] = format::write_npz(std::vector<format::NamedTensor>{{"x", sample({2}, 5)}});
  EXPECT_EQ(run({"--checkpoint", "kept"}), 1);
  EXPECT_NE(host.err.find("kept has no run.identity, so it is not a checkpoint"), std::string::npos) << host.err;
}

TEST_F(TrainTest, AugmentationChangesWhatIsLearnt) {
  ASSERT_EQ(run({}), 0) << host.err;
  const std::vector<std::byte> plain = host.contents["out.pt2"];
  host.add("augment.json", R"({"flip": 0.5})");
  ASSERT_EQ(run({"--augment", "augment.json"}), 0) << host.err;
  EXPECT_FALSE(plain == host.contents["out.pt2"]);
  host.add("augment.json", R"({"flop": 0.5})");
  EXPECT_EQ(run({"--augment", "augment.json"}), 1);
  EXPECT_NE(host.err.find("unknown field 'flop' in augment.json"), std::string::npos) << host.err;
}

TEST_F(TrainTest, ScalesAreLearntAndKept) {
  ASSERT_EQ(run({"--epochs", "4"}), 0) << host.err;
  const std::vector<std::byte> plain = host.contents["out.pt2"];
  ASSERT_EQ(run({"--epochs", "4", "--lsq"}), 0) << host.err;
  const std::vector<std::byte> learnt = host.contents["out.pt2"];
  EXPECT_FALSE(plain == learnt);
  EXPECT_NE(host.out.find("layers quantized  2 of 2"), std::string::npos) << host.out;
  KilledHost killed;
  killed.contents = host.contents;
  killed.kill_at = 2;
  const std::vector<std::string> args{"train",      "model.pt2", "--data",  "data.npz",     "--labels",
                                      "labels.csv", "-o",        "out.pt2", "--lr",         "0.01",
                                      "--epochs",   "4",         "--lsq",   "--checkpoint", "checkpoint"};
  EXPECT_EQ(run_cli(args, killed), 1);
  ASSERT_EQ(run_cli(args, killed), 0) << killed.err;
  EXPECT_TRUE(learnt == killed.contents["out.pt2"]);
}

// `--qat` on other verbs: what training begins with.
TEST_F(TrainTest, OtherVerbsPrepareAsTrainingDoes) {
  const std::vector<std::string> quantize{"quantize", "model.pt2", "--calibrate", "data.npz",      "-o",
                                          "qat.pt2",  "--qat",     "--observers", "observers.json"};
  ASSERT_EQ(run_cli(quantize, host), 0) << host.err;
  // The products that scale weights for training are no layers of the model.
  EXPECT_NE(host.out.find("layers quantized  2 of 2"), std::string::npos) << host.out;
  const auto& observers = host.contents["observers.json"];
  const std::string text(reinterpret_cast<const char*>(observers.data()), observers.size());
  EXPECT_NE(text.find("FusedMovingAvgObsFakeQuantize"), std::string::npos) << text;
  const Program prepared = load_pt2(host.contents["qat.pt2"]);
  for (const Node* node : prepared.graph->nodes()) EXPECT_FALSE(node->is("torch.ops.aten.batch_norm.default"));
  const std::vector<std::string> inspect{"inspect", "model.pt2", "--explain", "--qat"};
  EXPECT_EQ(run_cli(inspect, host), 0) << host.err;
}

TEST_F(TrainTest, SaysWhatIsWrong) {
  EXPECT_EQ(run({"--epochs", "0"}), 2);
  EXPECT_EQ(run({"--bn-epochs", "-1"}), 2);
  EXPECT_EQ(run({"--optimizer", "rmsprop"}), 2);
  EXPECT_EQ(host.err, "qdq: --optimizer: found rmsprop, wanted adam, adamw or sgd; see qdq train --help\n");
  EXPECT_EQ(run({"--distill", "1"}), 2);
  EXPECT_NE(host.err.find("--labels do nothing with --distill 1"), std::string::npos) << host.err;
  EXPECT_EQ(run({"--loss", "mse"}), 2);
  EXPECT_NE(host.err.find("labels are classes"), std::string::npos) << host.err;
  const std::vector<std::string> bare{"train", "model.pt2", "--data", "data.npz", "-o", "out.pt2"};
  host.err.clear();
  EXPECT_EQ(run_cli(bare, host), 2);
  EXPECT_NE(host.err.find("training needs --labels"), std::string::npos) << host.err;
  EXPECT_EQ(run({"--schedule", "plateau"}), 2);
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "global": {"is_qat": false}})");
  EXPECT_EQ(run({"--recipe", "recipe.json"}), 1);
  EXPECT_NE(host.err.find("give it settings with is_qat"), std::string::npos) << host.err;
  host.add("labels.csv", "0,0\n1,1\n2,7\n");
  EXPECT_EQ(run({}), 1);
  EXPECT_EQ(host.contents.count("out.pt2"), 0U);
}

}  // namespace
}  // namespace qdq::train_test
