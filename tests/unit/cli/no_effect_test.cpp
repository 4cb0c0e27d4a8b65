// What would do nothing is refused or warned of, before any work.
#include <cmath>

#include "cli/verbs.h"
#include "io/onnx.h"
#include "quant/qat.h"
#include "unit/cli/cli_fixture.h"

namespace qdq::no_effect_test {
namespace {

using format::NamedTensor;

struct NoEffect : CliTest {
  NoEffect() {
    host.contents["labels.npy"] = format::write_npy(Tensor::of<int64_t>({10}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0}));
  }
  void expect_refused(const std::vector<std::string>& args, int code, const std::string& words) {
    EXPECT_EQ(run(args), code) << args[0];
    EXPECT_NE(host.err.find(words), std::string::npos) << host.err;
    EXPECT_FALSE(host.contents.contains("out.pt2"));
    EXPECT_FALSE(host.contents.contains("out.onnx"));
  }
  std::vector<std::string> evaluate(const std::string& labels, std::vector<std::string> more = {}) {
    std::vector<std::string> args{"evaluate", "model.pt2", "--data", "data.npz", "--labels", labels};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::vector<std::string> train(const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> args{"train", model, "--data", "data.npz", "-o", "out.pt2"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

TEST_F(NoEffect, LabelsAreOneForEachSample) {
  EXPECT_EQ(run(evaluate("labels.npy")), 0) << host.err;
  EXPECT_EQ(run(evaluate("labels.npy", {"--limit", "4"})), 0) << host.err;
  host.contents["many.npy"] = format::write_npy(Tensor::full({12}, DType::kS64, 1));
  host.contents["few.npy"] = format::write_npy(Tensor::full({9}, DType::kS64, 1));
  host.contents["hot.npy"] = format::write_npy(Tensor::full({10, 3}, DType::kS64, 1));
  host.contents["column.npy"] = format::write_npy(Tensor::full({10, 1}, DType::kS64, 1));
  expect_refused(evaluate("many.npy"), 1, "many.npy holds 12 labels for 10 samples; wanted one for each");
  expect_refused(evaluate("many.npy", {"--limit", "4"}), 1, "12 labels for 10 samples, of which --limit takes 4");
  expect_refused(evaluate("few.npy"), 1, "few.npy holds 9 labels for 10 samples");
  expect_refused(evaluate("hot.npy"), 1, "(one-hot) save the argmax along axis 1");
  EXPECT_EQ(run(evaluate("column.npy")), 0) << host.err;
  EXPECT_EQ(run(evaluate("labels.npy", {"--limit", "4"})), 0) << host.err;
}

TEST_F(NoEffect, ArraysThatNoInputReads) {
  host.contents["more.npz"] =
      format::write_npz(std::vector<NamedTensor>{{"x", noise({4, 2, 4, 4}, 4)}, {"z", noise({4}, 5)}});
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "more.npz", "-o", "out.pt2"}), 0) << host.err;
  EXPECT_EQ(host.err.rfind(
                "qdq: warning: more.npz holds an array z that no input of the program reads; its inputs are x\n", 0),
            0u)
      << host.err;
  host.contents.erase("out.pt2");
  // Two models that read the same samples warn once.
  ASSERT_EQ(run({"evaluate", "model.pt2", "model.pt2", "--data", "more.npz"}), 0) << host.err;
  const size_t first = host.err.find("holds an array z");
  EXPECT_EQ(host.err.find("holds an array z", first + 1), std::string::npos) << host.err;
  host.contents["labelled.npz"] = format::write_npz(
      std::vector<NamedTensor>{{"x", noise({4, 2, 4, 4}, 4)}, {"labels", Tensor::of<int64_t>({4}, {0, 1, 2, 0})}});
  EXPECT_EQ(run({"evaluate", "model.pt2", "--data", "labelled.npz", "--labels", "labelled.npz"}), 0) << host.err;
}

TEST_F(NoEffect, WordsThatNoOptionHasAreWrongUsage) {
  for (const auto& [option, word, wanted] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--quantizer", "xnpack", "found xnpack (did you mean xnnpack?), wanted xnnpack, x86-inductor, "},
           {"--observer", "entropi",
            "found entropi (did you mean entropy?), wanted min-max, percentile, entropy or mse"},
           {"--backend", "onednm", "found onednm (did you mean onednn?), wanted simd or onednn"}})
    expect_refused({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2", option, word}, 2,
                   option + ": " + wanted);
  for (const auto& [option, word, wanted] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--loss", "l1", "found l1, wanted cross_entropy or mse"},
           {"--schedule", "cosinus", "found cosinus (did you mean cosine?), wanted cosine, step or constant"}})
    expect_refused(train("model.pt2", {"--distill", "1", option, word}), 2, option + ": " + wanted);
  expect_refused({"run", "model.pt2", "--inputs", "data.npz", "-o", "out.npz", "--backend", "cuda"}, 2,
                 "--backend: found cuda, wanted reference, simd or onednn; see qdq run --help");
}

TEST_F(NoEffect, SignedActivationsWhereNoneIsInt8) {
  const std::string warning = "--onnx-signed-activations does nothing: the model has no int8 activations";
  for (const bool is_int8 : {true, false}) {
    std::vector<std::string> args{"quantize", "model.pt2", "-o", "out.onnx", "--onnx-signed-activations"};
    if (is_int8) args.insert(args.end(), {"--calibrate", "data.npz"});
    else args.emplace_back("--weights-only");
    ASSERT_EQ(run(args), 0) << host.err;
    EXPECT_EQ(host.err.find(warning) == std::string::npos, is_int8) << host.err;
  }
  ASSERT_EQ(run({"convert", "model.pt2", "float.onnx", "--onnx-signed-activations"}), 0) << host.err;
  EXPECT_NE(host.err.find(warning), std::string::npos) << host.err;
}

TEST_F(NoEffect, LengthsBeyondTheTraining) {
  const std::string checkpoint = "--checkpoint";
  expect_refused(train("model.pt2", {"--distill", "1", "--epochs", "2", "--bn-epochs", "3"}), 2,
                 "--bn-epochs 3 is more than the training has, --epochs 2");
  expect_refused(train("model.pt2", {"--distill", "1", "--epochs", "2", checkpoint, "c", "--checkpoint-steps", "99"}),
                 2, "--checkpoint-steps 99 never comes: the training has 2 batches");
}

TEST_F(NoEffect, AShardWithoutBatchesIsWarnedOf) {
  ASSERT_EQ(run({"calibrate", "model.pt2", "--data", "data.npz", "--shard", "1/100", "-o", "s.json"}), 0) << host.err;
  EXPECT_NE(host.err.find("--shard 1/100 has none of the 1 batch: there are more shards than batches"),
            std::string::npos)
      << host.err;
}

TEST_F(NoEffect, OptionsOfSamplesBesideStatistics) {
  ASSERT_EQ(run({"calibrate", "model.pt2", "--data", "data.npz", "-o", "s.json"}), 0) << host.err;
  for (const auto& [option, value] :
       {std::pair("--limit", "3"), std::pair("--batch-size", "2"), std::pair("--backend", "simd")})
    expect_refused({"quantize", "model.pt2", "--calibrate", "s.json", "-o", "out.pt2", option, value}, 2,
                   std::string(option) + " requires --calibrate with samples");
  EXPECT_EQ(run({"quantize", "model.pt2", "--calibrate", "s.json", "-o", "out.pt2"}), 0) << host.err;
}

TEST_F(NoEffect, AnOpsetThatIsNoneIsRefusedBeforeTheWork) {
  for (const char* opset : {"16", "22", "-1", "x"})
    expect_refused({"quantize", "missing.pt2", "-o", "out.onnx", "--onnx-opset", opset}, 2,
                   std::string("--onnx-opset: found ") + opset + ", wanted a whole number from 17 to 21");
}

TEST_F(NoEffect, SettingsOfTrainingThatAnotherOneDoesNotRead) {
  expect_refused(train("model.pt2", {"--distill", "1", "--loss", "mse", "--temperature", "2"}), 2,
                 "--temperature requires --loss cross_entropy");
  expect_refused(train("model.pt2", {"--distill", "1", "--weights-only"}), 2, "has no option --weights-only");
}

TEST_F(NoEffect, OptionsOfWhatIsNotThere) {
  host.add("classes.txt", "a\nb\nc\n");
  host.add("nothing.json", "{}");
  expect_refused({"evaluate", "model.pt2", "model.pt2", "--data", "data.npz", "--classes", "classes.txt"}, 2,
                 "--classes requires --labels");
  expect_refused(train("model.pt2", {"--distill", "1", "--classes", "classes.txt"}), 2, "--classes requires --labels");
  expect_refused(train("model.pt2", {"--distill", "1", "--augment", "nothing.json"}), 1,
                 "nothing.json changes nothing; give crop, flip");
  expect_refused(train("model.pt2", {"--distill", "1", "--schedule", "step", "--step-epochs", "3"}), 2,
                 "--step-epochs 3 is not less than --epochs 3");
  expect_refused({"recipe", "--schema", "--dynamic"}, 2, "--dynamic excludes --schema");
  for (const auto& [option, value] : {std::pair("--limit", "3"), std::pair("--batch-size", "2")})
    expect_refused({"run", "model.pt2", "--generate", "3", "--prompt", "1,2", option, value}, 2, "--generate excludes");
  expect_refused({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2", "--max-size", "0"}, 2,
                 "--max-size: found 0, wanted a size");
  expect_refused({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2", "--target-agreement", "101"}, 2,
                 "wanted a percentage above 0, at most 100");
}

TEST_F(NoEffect, SettingsThatTheFilesOfTransformersJsDoNotRead) {
  const auto folder = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"quantize", "model.pt2", "--for", "transformers.js", "-o", "folder"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  for (const std::string option : {"--observer", "--backend"})
    expect_refused(folder({"--calibrate", "data.npz", option, option == "--backend" ? "simd" : "mse"}), 2,
                   option + " is for one file");
  for (const std::string flag : {"--dynamic", "--onnx-data"})
    expect_refused(folder({flag}), 2, flag + " is for one file");
  expect_refused(folder({"--calibrate", "data.npz", "--dtypes", "q8,fp16"}), 2,
                 "--calibrate rounds the weights of q4 and q4f16 alone");
  expect_refused(folder({"--dtypes", "q8,q8"}), 2, "--dtypes names q8 twice");
  ASSERT_EQ(run(folder({"--dtypes", "q8", "--exclude", "nowhere"})), 0) << host.err;
  EXPECT_NE(host.err.find("the setting for module nowhere reaches nothing"), std::string::npos) << host.err;
}

TEST_F(NoEffect, ProfilesCalibrateInParts) {
  for (const char* runtime : {"ort", "x86", "qnn", "openvino"}) {
    ASSERT_EQ(run({"calibrate", "model.pt2", "--data", "data.npz", "--for", runtime, "-o", "s.json"}), 0) << host.err;
    ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "s.json", "--for", runtime, "-o", "p.onnx"}), 0) << host.err;
    EXPECT_NE(host.out.find("layers quantized  2 of 2"), std::string::npos) << host.out;
  }
}

TEST_F(NoEffect, OnnxModelsTrain) {
  ASSERT_EQ(run({"convert", "model.pt2", "model.onnx"}), 0) << host.err;
  for (const char* output : {"t.onnx", "t.pt2"}) {
    ASSERT_EQ(run({"train", "model.onnx", "--data", "data.npz", "--labels", "labels.npy", "-o", output, "--epochs", "4",
                   "--lr", "0.02", "--json"}),
              0)
        << host.err;
    const format::Json losses = format::parse_json(host.out, "the output")["losses"];
    EXPECT_LT(losses.back().get<double>(), 0.9 * losses[0].get<double>()) << losses.dump();
  }
}

TEST_F(NoEffect, OnnxModelsTrainWhatLayersRead) {
  const Program program = load_onnx(save_onnx(load_pt2(host.contents["model.pt2"])));
  QuantizerOptions options;
  options.qat = true;
  const std::unique_ptr<Quantizer> quantizer = open_quantizer(options, host);
  const Prepared prepared = prepare_qat_pt2e(program.clone(), *quantizer);
  int64_t learning = 0;
  for (const Attribute& attribute : prepared.program().attributes) learning += attribute.requires_grad;
  EXPECT_EQ(learning, 3);  // two weights and a bias
  for (const Attribute& attribute : program.attributes) EXPECT_FALSE(attribute.requires_grad);
}

TEST_F(NoEffect, TheFilesOfTransformersJsSayWhichSaturate) {
  ASSERT_EQ(run({"quantize", "model.pt2", "--for", "transformers.js", "-o", "folder", "--dtypes", "int8,uint8"}), 0)
      << host.err;
  EXPECT_NE(host.out.find("8-bit sums saturate in folder/onnx/model_int8.onnx, whose weights are signed"),
            std::string::npos)
      << host.out;
  ASSERT_EQ(run({"quantize", "model.pt2", "--for", "transformers.js", "-o", "folder", "--dtypes", "uint8"}), 0);
  EXPECT_EQ(host.out.find("saturate"), std::string::npos) << host.out;
}

// Each with one field more or less than makes sense.
TEST_F(NoEffect, SpecsOfRecipes) {
  const auto quantize_with = [&](const std::string& spec) {
    host.add("r.json", R"({"quantizer": "AnnotationQuantizer", "annotations": [{"node": "conv2d_default", "output": )" +
                           spec + "}]}");
    return run({"quantize", "model.pt2", "--calibrate", "data.npz", "--recipe", "r.json", "-o", "out.pt2"});
  };
  const std::string observer = R"("observer": {"class": "MinMaxObserver"})";
  const std::string head = R"({"spec": "quantization", "dtype": "int8", )" + observer;
  for (const auto& [more, words] :
       {std::pair(R"(, "quant_min": -100})", "bounds only one of quant_min and quant_max"),
        std::pair(R"(, "quant_max": 100})", "bounds only one of quant_min and quant_max"),
        std::pair(R"(, "ch_axis": 1})", "a spec without a qscheme does not read it"),
        std::pair(R"(, "qscheme": "per_tensor_symmetric", "ch_axis": 0})", "per_tensor_symmetric does not read it")}) {
    EXPECT_EQ(quantize_with(head + more), 1) << more;
    EXPECT_NE(host.err.find(words), std::string::npos) << host.err;
  }
  EXPECT_EQ(
      quantize_with(R"({"spec": "quantization", "dtype": "int8", "observer": {"class": "FixedQParamsObserver"}})"), 1);
  EXPECT_NE(host.err.find("wanted \"spec\": \"fixed_qparams\" with scale"), std::string::npos) << host.err;
  EXPECT_EQ(quantize_with(head + R"(, "quant_min": -100, "quant_max": 100, "qscheme": "per_tensor_symmetric"})"), 0)
      << host.err;
}

TEST_F(NoEffect, ArgumentsOfObserversInQConfigs) {
  const auto quantize_with = [&](const std::string& activation) {
    host.add("r.json", R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"global": {"activation": )" + activation +
                           R"(, "weight": {"class": "MinMaxObserver", "args": {"dtype": "int8"}}}}})");
    return run({"quantize", "model.pt2", "--calibrate", "data.npz", "--recipe", "r.json", "-o", "out.pt2"});
  };
  EXPECT_EQ(quantize_with(R"({"class": "MinMaxObserver", "args": {"quant_min": 0}})"), 1);
  EXPECT_NE(host.err.find("bounds only one of quant_min"), std::string::npos) << host.err;
  EXPECT_EQ(quantize_with(R"({"class": "FixedQParamsObserver", "args": {"dtype": "uint8"}})"), 1);
  EXPECT_NE(host.err.find("cannot work without the arguments scale and zero_point"), std::string::npos) << host.err;
  EXPECT_EQ(quantize_with(R"({"class": "MinMaxObserver", "args": {"eps": -1}})"), 1);
  EXPECT_NE(host.err.find("is -1; wanted at least 0"), std::string::npos) << host.err;
}

// Status 2 for the words of the command line, 1 for what files hold.
TEST_F(NoEffect, OptionsThatDoNotGoTogetherAreWrongUsage) {
  const auto quantize = [](std::vector<std::string> more) {
    std::vector<std::string> args{"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  expect_refused(quantize({"--onnx-opset", "18"}), 2, "--onnx-opset is for .onnx files only");
  expect_refused(quantize({"--group-size", "32"}), 2, "--group-size goes with --weights-only");
  expect_refused(quantize({"--search", "s.json"}), 2, "--search needs a goal");
  expect_refused(quantize({"--target-drop", "1"}), 2, "--target-drop needs the --labels of the samples");
  expect_refused({"quantize", "model.pt2", "-o", "out.pt2", "--recover"}, 2, "takes the ranges of activations");
  expect_refused({"run", "model.pt2", "--generate", "3"}, 2, "--generate needs --prompt");
  host.add("r.json", R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_chanel": true}})");
  expect_refused(quantize({"--recipe", "r.json"}), 1, "is_per_chanel");
  expect_refused(quantize({"--recipe", "none.json"}), 1, "none.json");
}

TEST_F(NoEffect, NamesThatTheModelOfARecipeDoesNotHave) {
  const auto recipe = [&](const std::string& excluded) {
    EXPECT_EQ(run({"recipe", "model.pt2", "--exclude", excluded}), 0) << host.err;
    return host.err;
  };
  EXPECT_NE(recipe("nowhere").find("warning: the setting for module nowhere reaches nothing"), std::string::npos);
  EXPECT_NE(recipe("torch.nn.Conv9d").find("torch.nn.Conv9d reaches nothing"), std::string::npos);
  ASSERT_EQ(run({"recipe", "--exclude", "nowhere"}), 0);
  EXPECT_EQ(host.err, "") << "without a model there is nothing to compare with";
}

TEST_F(NoEffect, ViewsOfInspectAreOneAtATime) {
  expect_refused({"inspect", "model.pt2", "--chart", "c.svg", "--lowered", "l.json"}, 2, "excludes");
  expect_refused({"inspect", "model.pt2", "--chart", "c.svg", "--json"}, 2, "excludes");
  expect_refused({"inspect", "model.pt2", "--lowered", "l.json", "--for", "ort"}, 2, "excludes");
  expect_refused({"inspect", "--capabilities", "--lowered", "l.json"}, 2, "excludes");
  for (const std::string option : {"--reduce-range", "--qat"})
    expect_refused({"inspect", "--capabilities", option}, 2, option + " requires --explain");
  EXPECT_EQ(run({"inspect", "--capabilities", "--json", "--fx", "x86"}), 0) << host.err;
}

TEST_F(NoEffect, RowsOfWhatPrintsAll) {
  expect_refused({"compare", "model.pt2", "model.pt2", "--data", "data.npz", "--json", "--most", "1"}, 2,
                 "--most requires --chart beside --json");
  expect_refused({"sensitivity", "model.pt2", "--calibrate", "data.npz", "--json", "--most", "1"}, 2, "excludes");
}

TEST_F(NoEffect, FormsOfTheGraphThatChangeNothing) {
  for (const std::string option : {"--no-fold-quantize", "--reference-representation"}) {
    ASSERT_EQ(run({"quantize", "model.pt2", "--weights-only", "--group-size", "48", "-o", "out.pt2", option}), 0)
        << host.err;
    EXPECT_NE(host.err.find(option + " does nothing"), std::string::npos) << host.err;
    ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2", option}), 0) << host.err;
    EXPECT_EQ(host.err.find("does nothing"), std::string::npos) << host.err;
  }
}

TEST_F(NoEffect, NamesOfClassesThatNothingShows) {
  host.add("classes.txt", "a\nb\nc\n");
  host.add("labels.csv", "0,a\n1,b\n2,c\n3,a\n4,b\n5,c\n6,a\n7,b\n8,c\n9,a\n");
  const std::string words = "--classes does nothing: labels.npy holds numbers";
  ASSERT_EQ(run(evaluate("labels.npy", {"--classes", "classes.txt"})), 0) << host.err;
  EXPECT_NE(host.err.find(words), std::string::npos) << host.err;
  ASSERT_EQ(run(train("model.pt2", {"--labels", "labels.npy", "--classes", "classes.txt", "--epochs", "1"})), 0);
  EXPECT_NE(host.err.find(words), std::string::npos) << host.err;
  ASSERT_EQ(run(evaluate("labels.csv", {"--classes", "classes.txt"})), 0) << host.err;
  EXPECT_EQ(host.err.find("does nothing"), std::string::npos) << host.err;
}

TEST_F(NoEffect, EpochsOfNormsThatTheModelDoesNotHave) {
  ASSERT_EQ(run(train("model.pt2", {"--distill", "1", "--epochs", "2", "--bn-epochs", "2"})), 0) << host.err;
  EXPECT_NE(host.err.find("--bn-epochs does nothing: the model has no batch norms"), std::string::npos) << host.err;
  ASSERT_EQ(run(train("model.pt2", {"--distill", "1", "--epochs", "2"})), 0) << host.err;
  EXPECT_EQ(host.err.find("--bn-epochs"), std::string::npos) << host.err;
}

// Calibration ends at the NaN, so that other sentences come before it.
struct BeforeCalibration : NoEffect {
  BeforeCalibration() {
    const Tensor x = Tensor::empty({10, 2, 4, 4}, DType::kF32);
    for (float& value : x.span<float>()) value = NAN;
    host.contents["nan.npz"] = format::write_npz(std::vector<NamedTensor>{{"x", x}});
  }
  std::vector<std::string> quantize(const std::string& output, std::vector<std::string> more) {
    std::vector<std::string> args{"quantize", "model.pt2", "--calibrate", "nan.npz", "-o", output};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

// x [s0, 2, 4, 4] -> relu
Program no_classifier() {
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {SymInt::symbol("s0"), 2, 4, 4}, {}, false}};
  program.symbol_ranges["s0"] = {1, 1024};
  program.symbol_hints["s0"] = 2;
  Node* relu = program.graph->call("torch.ops.aten.relu.default", {x});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(relu)})});
  infer_shapes(program);
  return program;
}

TEST_F(BeforeCalibration, FormsOfOnnxFilesThatTheModelDoesNotHave) {
  expect_refused(quantize("out.onnx", {}), 1, "NaN");
  expect_refused(quantize("out.onnx", {"--onnx-groups", "blocks"}), 1, "but the model has none");
  expect_refused(quantize("out.onnx", {"--onnx-accuracy-level", "4"}), 1, "but the model has none");
  host.add("r.json", R"({"quantizer": "AnnotationQuantizer", "annotations": [{"node": "conv2d_default", "output":
      {"spec": "quantization", "dtype": "int8", "observer": {"class": "MinMaxObserver"}}}]})");
  expect_refused(quantize("out.onnx", {"--onnx-format", "qoperator", "--recipe", "r.json"}), 1,
                 "none has quantized inputs and a quantized result");
  expect_refused(quantize("out.onnx", {"--onnx-dedicated-pairs"}), 1, "--onnx-dedicated-pairs does nothing");
  expect_refused({"quantize", "model.pt2", "--weights-only", "-o", "out.onnx", "--onnx-dedicated-pairs"}, 1,
                 "no activation of the model is quantized with a known range");
  EXPECT_EQ(host.err.find("warning"), std::string::npos) << host.err;
  expect_refused(quantize("out.pt2", {"--recipe", "r.json", "--no-fold-quantize"}), 1,
                 "--no-fold-quantize does nothing");
  const std::vector<std::string> trained{
      "train", "model.pt2", "--data", "nan.npz",       "-o",  "out.onnx",      "--distill",
      "1",     "--epochs",  "1",      "--onnx-format", "qdq", "--onnx-groups", "blocks"};
  expect_refused(trained, 1, "but the model has none");
}

TEST_F(BeforeCalibration, GoalsThatDoNotFit) {
  host.contents["few.npy"] = format::write_npy(Tensor::full({9}, DType::kS64, 1));
  expect_refused(quantize("out.pt2", {"--target-drop", "1", "--labels", "few.npy"}), 1, "few.npy holds 9 labels");
  expect_refused(quantize("out.pt2", {"--target-drop", "1", "--labels", "none.npy"}), 1, "none.npy");
  expect_refused(quantize("out.pt2", {"--target-metric", "1", "--metric", "token-f1", "--labels", "none.npy"}), 1,
                 "none.npy");
  for (const auto& [metric, wanted] :
       {std::pair("box-f1", "box-f1 does not fit the model's outputs, float32[s0, 3]: wanted [N, K, 6], "),
        std::pair("box-map", "or boxes [N, K, 4] beside scores; give another --metric (box-f1, "),
        std::pair("perplexity", "wanted logits [N, T, vocabulary]"), std::pair("token-f1", "two of [N, T]")})
    expect_refused(quantize("out.pt2", {"--target-metric", "1", "--metric", metric}), 2, wanted);
  host.contents["model.pt2"] = save_pt2(no_classifier());
  expect_refused(quantize("out.pt2", {"--target-agreement", "99"}), 2,
                 "but output 0 of the model is float32[s0, 2, 4, 4]");
}

TEST_F(BeforeCalibration, ProgramsThatRecoveryDoesNotTake) {
  for (const std::vector<std::string>& goal :
       {std::vector<std::string>{"--recover"}, {"--target-agreement", "99"}, {"--max-size", "1MB"}}) {
    std::vector<std::string> words = goal;
    words.insert(words.end(), {"--qat"});
    expect_refused(quantize("out.pt2", words), 1, "the program was prepared for training");
    words = goal;
    words.insert(words.end(), {"--fx", "x86", "--equalize"});
    expect_refused(quantize("out.pt2", words), 1, "leave the equalization config out");
  }
  for (const std::string verb : {"sensitivity", "calibrate"}) {
    std::vector<std::string> words{verb, "model.pt2", "--fx", "x86", "--equalize"};
    const std::vector<std::string> samples = verb == "calibrate"
                                                 ? std::vector<std::string>{"--data", "nan.npz", "-o", "s.json"}
                                                 : std::vector<std::string>{"--calibrate", "nan.npz"};
    words.insert(words.end(), samples.begin(), samples.end());
    expect_refused(words, 1, "leave the equalization config out");
  }
}

TEST_F(BeforeCalibration, GroupsThatAreNotThere) {
  for (const std::string option : {"--gptq", "--awq"})
    expect_refused(quantize("out.pt2", {option}), 1, option + " does nothing");
}

TEST_F(NoEffect, ChangesOfImagesWhereThereAreNone) {
  host.add("a.json", R"({"flip": 0.5})");
  host.contents["data.npz"] =
      format::write_npz(std::vector<NamedTensor>{{"x", Tensor::full({4, 3}, DType::kF32, NAN)}});
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {4, 3}, {}, false}};
  Node* weight = parameter(program, "weight", noise({2, 3}, 1));
  Node* linear = program.graph->call("torch.ops.aten.linear.default", {x, weight});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(linear)})});
  infer_shapes(program);
  host.contents["model.pt2"] = save_pt2(program);
  expect_refused(train("model.pt2", {"--distill", "1", "--augment", "a.json"}), 2,
                 "--augment changes images, and the model has no float32 input of four axes");
}

}  // namespace
}  // namespace qdq::no_effect_test
