// The command line from words to exit status, on files in memory.
#include "unit/cli/cli_fixture.h"

#include <gtest/gtest.h>

#include "format/json.h"
#include "format/npz.h"
#include "io/pt2.h"
#include "lower/lower.h"
#include "op/infer.h"
#include "op/op.h"

namespace qdq::cli_test {
namespace {

TEST_F(CliTest, QuantizeTellsWhichLayersAreNoFaster) {
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2", "--time-layers"}), 0) << host.err;
  EXPECT_NE(host.out.find(" of 2 layers that were timed"), std::string::npos) << host.out;
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2", "--time-layers", "--json"}), 0)
      << host.err;
  const format::Json times = format::parse_json(host.out, "the summary").at("times");
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].at("node"), "conv2d_default");
  EXPECT_EQ(times[1].at("node"), "linear_default");
  for (const format::Json& layer : times)
    for (const char* key : {"seconds", "float_seconds"}) EXPECT_GT(layer.at(key).get<double>(), 0) << key;
  EXPECT_NE(run({"quantize", "model.pt2", "--weights-only", "-o", "out.pt2", "--time-layers"}), 0);
  EXPECT_NE(host.err.find("--time-layers runs both models"), std::string::npos) << host.err;
}

TEST_F(CliTest, QuantizesAndSummarizes) {
  ASSERT_EQ(run(quantize({"--observers", "observers.json"})), 0) << host.err;
  EXPECT_EQ(host.err, "calibrating: 3 batches\n");
  EXPECT_NE(host.out.find("calibrated on 10 samples in 3 batches"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("layers quantized  2 of 2"), std::string::npos) << host.out;
  const Program out = load_pt2(host.contents["out.pt2"]);
  for (const Attribute& attribute : out.attributes) EXPECT_NE(attribute.name, "conv.weight");
  const auto observers = format::parse_json(format::text_of(host.contents["observers.json"]), "observers.json");
  ASSERT_GT(observers.size(), 3U);
  EXPECT_EQ(observers[0]["covers"][0]["edge"][0], "x");
  EXPECT_EQ(observers[0]["state"]["histogram"].size(), 2048U);
}

TEST_F(CliTest, QuantizesDynamicallyWithoutData) {
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "global": {"is_dynamic": true}})");
  ASSERT_EQ(run({"quantize", "model.pt2", "--recipe", "recipe.json", "-o", "out.pt2", "--report", "report.html"}), 0)
      << host.err;
  EXPECT_EQ(host.out.find("calibrated"), std::string::npos) << host.out;
  ASSERT_EQ(
      run({"quantize", "model.pt2", "--recipe", "recipe.json", "-o", "after_data.pt2", "--calibrate", "data.npz"}), 0)
      << host.err;
  EXPECT_EQ(host.contents["out.pt2"], host.contents["after_data.pt2"]);
  EXPECT_EQ(host.err.find("calibrating"), std::string::npos) << host.err;
  EXPECT_NE(host.out.find("not calibrated: the recipe needs no samples\n"), std::string::npos) << host.out;

  EXPECT_EQ(run({"quantize", "model.pt2", "-o", "none.pt2"}), 2);
  EXPECT_NE(host.err.find("--calibrate"), std::string::npos) << host.err;
  EXPECT_EQ(host.contents.count("none.pt2"), 0U);
}

// Short words write what their recipe writes.
TEST_F(CliTest, ShortWordsStandForRecipes) {
  const auto written = [&](const std::vector<std::string>& words) {
    host.contents.erase("out.pt2");
    EXPECT_EQ(run(quantize(words)), 0) << host.err;
    return host.contents["out.pt2"];
  };
  const auto expect_same = [&](const std::vector<std::string>& words, const char* recipe) {
    host.add("recipe.json", recipe);
    EXPECT_EQ(written(words), written({"--recipe", "recipe.json"})) << recipe;
  };
  expect_same({"--dynamic"}, R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": true,
      "is_dynamic": true}})");
  expect_same({"--dynamic", "--quantizer", "x86-inductor"},
              R"({"quantizer": "X86InductorQuantizer", "global": {"is_dynamic": true}})");
  expect_same({"--reduce-range"}, R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": true,
      "weight_qmin": -64, "weight_qmax": 63}})");
  expect_same({"--fx", "qnnpack"}, R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "qnnpack"}})");
  expect_same({"--fx", "x86", "--dynamic"}, R"({"quantizer": "QConfigMapping",
      "qconfig_mapping": {"global": {"named": "default_dynamic_qconfig"}}})");
  expect_same({"--exclude", "torch.ops.aten.conv2d"}, R"({"quantizer": "XNNPACKQuantizer",
      "global": {"is_per_channel": true}, "object_type": [["torch.ops.aten.conv2d", null]]})");

  host.add("recipe.json", R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86"}})");
  EXPECT_EQ(written({"--recipe", "recipe.json", "--exclude", "torch.nn.functional.linear"}),
            written({"--fx", "x86", "--exclude", "torch.nn.functional.linear"}));
  EXPECT_NE(host.out.find("layers quantized  1 of 2"), std::string::npos) << host.out;

  written({"--weights-only"});
  EXPECT_NE(host.out.find("not calibrated: the recipe needs no samples"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("layers quantized  2 of 2"), std::string::npos) << host.out;

  written({"--exclude", "haed"});
  EXPECT_NE(host.err.find("qdq: warning: "), std::string::npos) << host.err;
  EXPECT_NE(host.err.find("haed"), std::string::npos) << host.err;
}

TEST_F(CliTest, ShortWordsThatContradictEachOtherAreRefused) {
  host.add("recipe.json", R"({"quantizer": "EmbeddingQuantizer"})");
  const auto refuse = [&](std::vector<std::string> words, int status, const char* reason) {
    EXPECT_EQ(run(quantize(std::move(words))), status) << reason;
    EXPECT_NE(host.err.find(reason), std::string::npos) << host.err;
    EXPECT_EQ(host.contents.count("out.pt2"), 0U) << reason;
  };
  refuse({"--dynamic", "--weights-only"}, 2, "--dynamic excludes --weights-only");
  refuse({"--recipe", "recipe.json", "--dynamic"}, 2, "--recipe");
  refuse({"--fx", "arm"}, 2, "found arm, wanted x86, fbgemm, qnnpack, onednn or executorch");
  refuse({"--fx", "x86", "--reduce-range"}, 2, "--reduce-range does not go with --fx");
  refuse({"--fx", "x86", "--weights-only"}, 2, "--weights-only does not go with --fx");
  refuse({"--recipe", "recipe.json", "--exclude", "conv"}, 2, "which has no place for --exclude");
}

TEST_F(CliTest, ComparesModelsLayerByLayer) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  ASSERT_EQ(run({"convert", "out.pt2", "out.onnx"}), 0) << host.err;
  ASSERT_EQ(run({"compare", "model.pt2", "out.pt2", "out.onnx", "--data", "data.npz", "--batch-size", "4"}), 0)
      << host.err;
  EXPECT_NE(host.out.find("out.pt2 beside model.pt2: 4 operators"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("out.onnx beside model.pt2: 4 operators"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("linear_default (aten.linear.default)"), std::string::npos) << host.out;
  // The model's output is called alike in both ONNX files, where integers lie in between, too.
  ASSERT_EQ(run({"convert", "model.pt2", "-o", "float.onnx"}), 0) << host.err;
  ASSERT_EQ(run({"quantize", "float.onnx", "--calibrate", "data.npz", "-o", "int8.onnx"}), 0) << host.err;
  ASSERT_EQ(run({"compare", "float.onnx", "int8.onnx", "--data", "data.npz"}), 0) << host.err;
  EXPECT_NE(host.out.find("int8.onnx beside float.onnx: 4 operators"), std::string::npos) << host.out;
  EXPECT_EQ(host.out.find("without a counterpart"), std::string::npos) << host.out;
  ASSERT_EQ(run({"compare", "model.pt2", "out.pt2", "--data", "data.npz", "--most", "1"}), 0) << host.err;
  EXPECT_NE(host.out.find("and 3 more; --most 0 shows all"), std::string::npos) << host.out;

  ASSERT_EQ(run({"compare", "model.pt2", "out.pt2", "--data", "data.npz", "--json", "--report", "layers.html"}), 0)
      << host.err;
  const auto all = format::parse_json(host.out, "the output");
  EXPECT_EQ(all["samples"], 10);
  EXPECT_EQ(all["candidates"][0]["layers"].size(), 4U);
  EXPECT_EQ(all["candidates"][0]["unmatched"], format::parse_json("[[], []]", "nothing"));
  EXPECT_NE(format::text_of(host.contents["layers.html"]).find("\"errors\""), std::string::npos);

  EXPECT_EQ(run({"compare", "model.pt2", "out.pt2", "out.onnx", "--data", "data.npz", "--report", "layers.html"}), 2);
  EXPECT_NE(host.err.find("--report compares one model"), std::string::npos) << host.err;
  EXPECT_EQ(run({"compare", "model.pt2", "--data", "data.npz"}), 2);

  // A candidate that differs where the reference is zero is infinitely wrong, not equal.
  Program zeros = classifier();
  for (const char* name : {"conv.weight", "conv.bias"}) {
    Tensor& tensor = zeros.find_attribute(name)->tensor;
    tensor = Tensor::full(tensor.sizes(), DType::kF32, 0);
  }
  host.contents["zeros.pt2"] = save_pt2(zeros);
  ASSERT_EQ(run({"compare", "zeros.pt2", "model.pt2", "--data", "data.npz"}), 0) << host.err;
  EXPECT_NE(host.out.find("-inf"), std::string::npos) << host.out;
}

TEST_F(CliTest, CountsAreWholeNumbersFromOne) {
  for (const char* words : {"--limit=0", "--limit=-3", "--limit=x", "--batch-size=0", "--threads=0"}) {
    EXPECT_EQ(run(quantize({words})), 2) << words;
    EXPECT_NE(host.err.find("wanted a whole number"), std::string::npos) << host.err;
  }
}

TEST_F(CliTest, QuantizesFromStatistics) {
  for (const char* recipe : {R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": true}})",
                             R"({"quantizer": "X86InductorQuantizer", "global": {}})"}) {
    host.add("recipe.json", recipe);
    ASSERT_EQ(run(quantize({"--recipe", "recipe.json", "--observers", "seen.json"})), 0) << host.err;
    const std::vector<std::byte> wanted = host.contents["out.pt2"], seen = host.contents["seen.json"];
    const std::vector<std::string> again{"quantize", "model.pt2", "--calibrate", "seen.json",
                                         "-o",       "again.pt2", "--recipe",    "recipe.json"};
    std::vector<std::string> writing = again;
    writing.insert(writing.end(), {"--observers", "second.json"});
    ASSERT_EQ(run(writing), 0) << host.err;
    EXPECT_EQ(host.contents["again.pt2"], wanted);
    EXPECT_EQ(host.contents["second.json"], seen);
    // Samples for the report may come from elsewhere.
    std::vector<std::string> reporting = again;
    reporting.insert(reporting.end(), {"--report", "r.html", "--test", "data.npz"});
    ASSERT_EQ(run(reporting), 0) << host.err;
    EXPECT_EQ(report_in(host.contents["r.html"])["accuracy"]["samples"], 10);
    // Another recipe, another model, and files that are something else.
    host.add("other.json", R"({"quantizer": "XNNPACKQuantizer", "global": {"weight_qmin": -8, "weight_qmax": 7}})");
    EXPECT_EQ(run({"quantize", "model.pt2", "--calibrate", "seen.json", "-o", "no.pt2", "--recipe", "other.json"}), 1);
    EXPECT_NE(host.err.find("seen.json"), std::string::npos) << host.err;
    Program program = classifier();
    program.find_attribute("conv.weight")->tensor.span<float>()[0] = 9;
    host.contents["others.pt2"] = save_pt2(program);
    EXPECT_EQ(run({"quantize", "others.pt2", "--calibrate", "seen.json", "-o", "no.pt2", "--recipe", "recipe.json"}),
              1);
    EXPECT_NE(host.err.find("has seen other values here"), std::string::npos) << host.err;
    EXPECT_FALSE(host.contents.contains("no.pt2"));
  }
  host.add("list.json", "[1, 2]");
  EXPECT_EQ(run({"quantize", "model.pt2", "--calibrate", "list.json", "-o", "no.pt2"}), 1);
  EXPECT_NE(host.err.find("list.json is not the statistics of this model's"), std::string::npos) << host.err;
  auto seen = format::parse_json(format::text_of(host.contents["seen.json"]), "seen");
  seen[0]["state"]["histogram"].erase(0);
  host.add("short.json", format::print_json(seen));
  EXPECT_EQ(run({"quantize", "model.pt2", "--calibrate", "short.json", "-o", "no.pt2", "--recipe", "recipe.json"}), 1);
  EXPECT_NE(host.err.find("2048 counts"), std::string::npos) << host.err;
  seen = format::parse_json(format::text_of(host.contents["seen.json"]), "seen");
  seen[0]["state"]["min_val"] = 1000;
  host.add("crossed.json", format::print_json(seen));
  EXPECT_EQ(run({"quantize", "model.pt2", "--calibrate", "crossed.json", "-o", "no.pt2", "--recipe", "recipe.json"}),
            1);
  EXPECT_EQ(host.err.find("qdq: crossed.json, observer 0 at "), 0u) << host.err;
  EXPECT_NE(host.err.find(": its least value 1000 is not below its largest, "), std::string::npos) << host.err;
}

TEST_F(CliTest, SaysWhyLayersStayFloat) {
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "operator_type": [["torch.ops.aten.linear", {}]]})");
  ASSERT_EQ(run(quantize({"--recipe", "recipe.json"})), 0) << host.err;
  EXPECT_NE(host.out.find("layers quantized  1 of 2"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("    conv2d_default (aten.conv2d.default): "), std::string::npos) << host.out;
}

TEST_F(CliTest, DrawsABarOnATerminal) {
  host.terminal = true;
  ASSERT_EQ(run(quantize()), 0);
  EXPECT_NE(host.err.find("\rcalibrating [##########....................] 1/3 batches, "), std::string::npos)
      << host.err;
  EXPECT_NE(host.err.find("[##############################] 3/3 batches"), std::string::npos);
  EXPECT_TRUE(host.err.ends_with(" \r"));
}

TEST_F(CliTest, RunsInBatchesAndAtOnceAlike) {
  ASSERT_EQ(run({"run", "model.pt2", "--inputs", "data.npz", "-o", "a.npz", "--batch-size", "3"}), 0) << host.err;
  ASSERT_EQ(run({"run", "model.pt2", "--inputs", "data.npz", "-o", "b.npz", "--backend", "simd"}), 0) << host.err;
  const auto a = format::read_npz(host.contents["a.npz"]), b = format::read_npz(host.contents["b.npz"]);
  EXPECT_EQ(a[0].name, "output_0");
  EXPECT_EQ(a[0].tensor.sizes(), (Shape{10, 3}));
  EXPECT_EQ(b[0].tensor.sizes(), (Shape{10, 3}));
  for (size_t i = 0; i < 30; ++i) EXPECT_NEAR(a[0].tensor.span<float>()[i], b[0].tensor.span<float>()[i], 1e-4);
}

TEST_F(CliTest, RunsAModelWithoutInputs) {
  Program program;
  program.add_attribute({"table", Tensor::of<float>({3}, {1, 2, 3})});
  Node* table = program.graph->get_attr("table", "table");
  table->meta.val.value = TensorMeta{DType::kF32, {3}, {}, false};
  Node* sum = program.graph->call("torch.ops.aten.add.Tensor", {table, table});
  infer_value(*sum);
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})}, {}, "output");
  host.contents["constant.pt2"] = save_pt2(program);
  ASSERT_EQ(run({"run", "constant.pt2", "-o", "a.npz"}), 0) << host.err;
  EXPECT_EQ(format::read_npz(host.contents["a.npz"])[0].tensor.span<float>()[2], 6);
  EXPECT_EQ(run({"run", "model.pt2", "-o", "a.npz"}), 2);
  EXPECT_NE(host.err.find("there is nothing to run model.pt2 on; give --inputs"), std::string::npos) << host.err;
}

TEST_F(CliTest, RunsAndEvaluatesNodeByNode) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  ASSERT_EQ(run({"run", "out.pt2", "--inputs", "data.npz", "-o", "a.npz"}), 0) << host.err;
  ASSERT_EQ(run({"run", "out.pt2", "--inputs", "data.npz", "-o", "b.npz", "--node-by-node"}), 0) << host.err;
  const auto a = format::read_npz(host.contents["a.npz"]), b = format::read_npz(host.contents["b.npz"]);
  for (size_t i = 0; i < 30; ++i) EXPECT_NEAR(a[0].tensor.span<float>()[i], b[0].tensor.span<float>()[i], 0.1);
  const auto top1 = [&](std::vector<std::string> flags) {
    std::vector<std::string> args{"evaluate", "out.pt2", "--data", "data.npz", "--labels", "labels.csv", "--json"};
    args.insert(args.end(), flags.begin(), flags.end());
    EXPECT_EQ(run(args), 0) << host.err;
    return format::parse_json(host.out, "scores")[0]["top1"].get<double>();
  };
  EXPECT_NEAR(top1({}), top1({"--node-by-node"}), 20.0);  // two of ten samples
}

TEST_F(CliTest, EvaluatesModelsSideBySide) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  ASSERT_EQ(run({"evaluate", "model.pt2", "out.pt2", "--data", "data.npz", "--labels", "labels.csv", "--json"}), 0)
      << host.err;
  const auto scores = format::parse_json(host.out, "scores");
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0]["agreement"], 100.0);
  EXPECT_EQ(scores[0]["top5"], 100.0);
  EXPECT_EQ(scores[0]["ties"], 0.0);
  EXPECT_GE(scores[1]["agreement"].get<double>(), 80.0);
  ASSERT_EQ(run({"evaluate", "model.pt2", "--data", "data.npz", "--labels", "labels.csv"}), 0);
  EXPECT_TRUE(host.out.starts_with("model")) << host.out;
}

TEST_F(CliTest, BenchmarksModelsInTurns) {
  ASSERT_EQ(run(quantize()), 0) << host.err;
  ASSERT_EQ(
      run({"benchmark", "model.pt2", "out.pt2", "--runs", "4", "--batch", "2", "--profile", "--explain", "--json"}), 0)
      << host.err;
  const auto report = format::parse_json(host.out, "report");
  ASSERT_EQ(report.size(), 2U);
  EXPECT_EQ(report[0]["model"], "model.pt2");
  EXPECT_EQ(report[1]["batch"], 2);
  EXPECT_EQ(report[1]["runs"], 4);
  EXPECT_EQ(report[1]["wall_seconds"]["median"], 0.125);  // the test's clock ticks so
  EXPECT_GE(report[1]["wall_seconds"]["p90"], report[1]["wall_seconds"]["p10"]);
  EXPECT_FALSE(report[1]["steps"].empty());
  for (const auto& step : report[1]["steps"]) {
    const bool is_product = step["what"] == "convolution" || step["what"] == "linear";
    EXPECT_EQ(step["operations"].get<double>() > 0, is_product) << step["name"];
    EXPECT_EQ(step["limit_seconds"].get<double>() > 0, is_product) << step["name"];
  }
  const auto node_of = [&](size_t model, const char* target) {
    for (const auto& node : report[model]["nodes"])
      if (node["target"] == target) return node;
    return format::Json();
  };
  // Float convolutions run in plans where oneDNN does them, and node by node elsewhere.
  EXPECT_EQ(node_of(0, "torch.ops.aten.conv2d.default")["step"] == "", backend_names().front() != "onednn");
  EXPECT_NE(node_of(1, "torch.ops.aten.conv2d.default")["step"], "");
  // On given inputs, of which the first batch counts.
  ASSERT_EQ(run({"benchmark", "model.pt2", "--runs", "1", "--inputs", "data.npz", "--profile"}), 0) << host.err;
  EXPECT_NE(host.out.find(", of it plain loops "), std::string::npos) << host.out;
  EXPECT_EQ(run({"benchmark", "model.pt2", "--inputs", "none.npz"}), 1);
  EXPECT_NE(run({"benchmark", "model.pt2", "--inputs", "data.npz", "--batch", "2"}), 0);
  ASSERT_EQ(run({"benchmark", "out.pt2", "--runs", "1", "--profile", "--explain"}), 0) << host.err;
  EXPECT_TRUE(host.out.starts_with("model ")) << host.out;
  EXPECT_NE(host.out.find("\nout.pt2: "), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("products "), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("torch.ops.aten.conv2d.default: "), std::string::npos) << host.out;
  if (backend_names().front() == "onednn") {  // each reason once, and its number where it holds
    EXPECT_NE(host.out.find("\n  [1] "), std::string::npos) << host.out;
    EXPECT_EQ(host.out.find("\n  [1] "), host.out.rfind("\n  [1] ")) << host.out;
    EXPECT_NE(host.out.find(", not by onednn [1]"), std::string::npos) << host.out;
  }
  EXPECT_EQ(run({"benchmark", "model.pt2", "--runs", "0"}), 2);
  EXPECT_EQ(host.err, "qdq: --runs: found 0, wanted a whole number of at least 1; see qdq benchmark --help\n");
  EXPECT_EQ(run({"benchmark", "model.pt2", "--batch", "0"}), 2);
  EXPECT_EQ(host.err, "qdq: --batch: found 0, wanted a whole number of at least 1; see qdq benchmark --help\n");
}

// Whether the elements of a value lie one behind the other, only a run tells.
TEST_F(CliTest, ExplainsWhichRunsWereLeftToTheReferenceLoops) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {2, 3, 4}, {}, false}};
  Node* turned = graph.call("torch.ops.aten.transpose.int", {x, 1, 2});
  Node* relu = graph.call("torch.ops.aten.relu_.default", {turned});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(relu)})});
  infer_shapes(program);
  host.contents["turned.pt2"] = save_pt2(program);
  ASSERT_EQ(run({"benchmark", "turned.pt2", "--runs", "2", "--explain"}), 0) << host.err;
  EXPECT_NE(host.out.find(" torch.ops.aten.relu_.default: simd"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find(" runs on the reference loops: it is in place and its elements do not lie one behind the "
                          "other\n"),
            std::string::npos)
      << host.out;
  ASSERT_EQ(run({"benchmark", "turned.pt2", "--runs", "2", "--explain", "--json"}), 0) << host.err;
  const auto nodes = format::parse_json(host.out, "report")[0]["nodes"];
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0]["fallbacks"], 0);
  EXPECT_GE(nodes[1]["fallbacks"].get<int>(), 2);
}

TEST_F(CliTest, Inspects) {
  ASSERT_EQ(run({"inspect", "model.pt2"}), 0) << host.err;
  EXPECT_NE(host.out.find("x: float32[s0, 2, 4, 4]"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("aten.conv2d.default"), std::string::npos);
  ASSERT_EQ(run(quantize()), 0);
  ASSERT_EQ(run({"inspect", "out.pt2"}), 0);
  EXPECT_NE(host.out.find("4 x "), std::string::npos) << host.out;
  ASSERT_EQ(run({"inspect", "out.pt2", "--json"}), 0);
  const auto report = format::parse_json(host.out, "report");
  EXPECT_EQ(report["inputs"][0]["shape"][0], "s0");
  EXPECT_GT(report["qparams"].size(), 3U);
}

TEST_F(CliTest, ExplainsWhatAQuantizerWouldDo) {
  host.add("recipe.json",
           R"({"quantizer": "XNNPACKQuantizer", "global": {}, "operator_type": [["torch.ops.aten.linear", null]]})");
  ASSERT_EQ(run({"inspect", "model.pt2", "--explain", "--recipe", "recipe.json"}), 0) << host.err;
  EXPECT_NE(host.out.find("XNNPACKQuantizer conv_relu: the global setting asks for it"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("the settings leave torch.ops.aten.linear in float"), std::string::npos) << host.out;
  EXPECT_NE(host.out.find("4 operators: 1 float 3 quantized\n"), std::string::npos) << host.out;
  ASSERT_EQ(run({"inspect", "model.pt2", "--explain", "--quantizer", "x86-inductor", "--json"}), 0) << host.err;
  const auto report = format::parse_json(host.out, "report");
  ASSERT_EQ(report["operators"].size(), 4U);
  EXPECT_EQ(report["operators"][1]["outcome"], "fused");
  EXPECT_EQ(report["operators"][0]["tensors"][0]["edge"][0], "x");
  EXPECT_EQ(report["operators"][0]["decisions"][0]["taken"], true);
  EXPECT_EQ(run({"inspect", "model.pt2", "--recipe", "recipe.json"}), 2);  // says nothing without --explain
  ASSERT_EQ(run({"inspect", "--capabilities", "--quantizer", "x86-inductor"}), 0) << host.err;
  EXPECT_NE(host.out.find("linear (static, dynamic, qat): aten.linear.default\n"), std::string::npos) << host.out;
  host.add("both.json", R"({"quantizer": "ComposableQuantizer",
                            "quantizers": [{"quantizer": "EmbeddingQuantizer"}, {"quantizer": "XNNPACKQuantizer"}]})");
  ASSERT_EQ(run({"inspect", "--capabilities", "--recipe", "both.json", "--json"}), 0) << host.err;
  EXPECT_EQ(format::parse_json(host.out, "report")["parts"][0]["patterns"][0]["pattern"], "embedding");
  EXPECT_EQ(run({"inspect"}), 2);
  EXPECT_EQ(run({"inspect", "model.pt2", "--capabilities"}), 2);
}

TEST_F(CliTest, EndsWithOneAndOneLine) {
  host.add("broken.pt2", "PK\x03\x04 nothing more");
  host.add("recipe.json", R"({"quantizer": "XNNPACKQuantizer", "globl": {}})");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"inspect", "none.pt2"}, "cannot read none.pt2"},
      {{"inspect", "broken.pt2"}, "broken.pt2"},
      {quantize({"--recipe", "recipe.json"}), "globl"},
      {{"evaluate", "model.pt2", "--data", "data.npz", "--labels", "none.csv"}, "none.csv"},
  };
  for (const auto& [args, part] : cases) {
    EXPECT_EQ(run(args), 1) << part;
    EXPECT_TRUE(host.err.starts_with("qdq: ") && host.err.find('\n') == host.err.size() - 1) << host.err;
    EXPECT_NE(host.err.find(part), std::string::npos) << host.err;
    EXPECT_EQ(host.out, "");
    EXPECT_FALSE(host.contents.contains("out.pt2"));
  }
  host.full = true;
  EXPECT_EQ(run(quantize()), 1);
  EXPECT_NE(host.err.find("qdq: cannot write out.pt2: the disk is full\n"), std::string::npos) << host.err;
}

// What would be lost, or would not do what it says.
TEST_F(CliTest, RefusesOutputsAndOptionsThatCannotBeMeant) {
  host.add("preprocess.json", "{}");
  host.contents["fixed.pt2"] = [] {
    Program program = classifier();
    program.graph->find("x")->meta.val = {TensorMeta{DType::kF32, {1, 2, 4, 4}, {}, false}};
    infer_shapes(program);
    return save_pt2(program);
  }();
  const auto before = host.contents;
  const auto with = [](std::vector<std::string> args, std::vector<std::string> more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const std::vector<std::string> calibrate{"--calibrate", "data.npz"};
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {with({"quantize", "model.pt2", "-o", "model.pt2"}, calibrate), "-o model.pt2: this is an input file"},
      {{"convert", "model.pt2", "model.pt2"}, "OUT model.pt2: this is an input file"},
      {with({"quantize", "model.pt2", "-o", "x.tflite"}, calibrate), "wanted one that ends in .onnx or .pt2"},
      {quantize({"--onnx-data"}), "--onnx-data is for .onnx files only, but the output is out.pt2"},
      {{"convert", "model.pt2", "x.pt2", "--onnx-opset", "19"}, "--onnx-opset is for .onnx files only"},
      {{"fuse", "model.pt2", "x.pt2", "--onnx-signed-activations"},
       "--onnx-signed-activations is for .onnx files only"},
      {{"run", "model.pt2", "--inputs", "data.npz", "-o", "x.npy"},
       "-o x.npy: the name says another kind of file than is written; wanted one that ends in .npz"},
      {quantize({"--preprocess", "preprocess.json"}),
       "wanted uint8 pixels [N, H, W, 3], [N, H, W, 1] or [N, H, W], or no --preprocess"},
      {with({"quantize", "fixed.pt2", "-o", "out.pt2", "--batch-size", "4"}, calibrate), "has a fixed batch of 1"},
  };
  for (const auto& [args, part] : cases) {
    const bool is_in_samples = part.find("fixed batch") != std::string::npos || part.find("uint8") != std::string::npos;
    EXPECT_EQ(run(args), is_in_samples ? 1 : 2) << part;
    EXPECT_NE(host.err.find(part), std::string::npos) << host.err;
    EXPECT_EQ(host.contents, before) << part;
  }
  ASSERT_EQ(run(quantize()), 0) << host.err;
  EXPECT_EQ(run({"quantize", "out.pt2", "--calibrate", "data.npz", "-o", "twice.pt2"}), 1);
  EXPECT_NE(host.err.find("the program is quantized already (node dequantize_per_channel_default)"), std::string::npos)
      << host.err;
}

// What files say reaches the terminal as text, and no message is as long as a name in a file.
TEST_F(CliTest, ShowsNothingThatATerminalWouldObey) {
  Program program = classifier();
  program.graph->find("linear_default")->meta.nn_module_stack = {{"m", "a\x1b[2Jb", "T\x1b]0;x\x07"}};
  host.contents["escape.pt2"] = save_pt2(program);
  const std::string name = std::string(1000000, 'n') + "\x1b[31m";
  host.add("recipe.json", concat(R"({"quantizer": "XNNPACKQuantizer", "global": {}, "module_name": [[")",
                                 std::string(1000000, 'n'), "\\u001b[31m", R"(", null]]})"));
  const std::vector<std::vector<std::string>> all = {
      {"inspect", "escape.pt2"},
      {"inspect", "escape.pt2", "--json"},
      {"inspect", "escape.pt2", "--explain"},
      {"quantize", "escape.pt2", "--calibrate", "data.npz", "-o", "o.pt2", "--recipe", "recipe.json"},
      {"run", "none\x1b[2J.pt2", "--inputs", "data.npz", "-o", "o.npz"},
      {name},
  };
  for (const std::vector<std::string>& args : all) {
    run(args);
    EXPECT_FALSE(host.out.empty() && host.err.empty());
    EXPECT_EQ((host.out + host.err).find('\x1b'), std::string::npos) << args[0];
    EXPECT_LT(host.err.size(), 10000u) << args[0];
  }
  ASSERT_EQ(run({"inspect", "escape.pt2", "--json"}), 0);
  EXPECT_NO_THROW(format::parse_json(host.out, "the report"));
}

TEST_F(CliTest, WarnsOfSettingsThatReachNothing) {
  const auto warnings_of = [&](const char* recipe) {
    host.add("recipe.json", recipe);
    EXPECT_EQ(run(quantize({"--recipe", "recipe.json"})), 0) << host.err;
    return host.err;
  };
  for (const auto& [recipe, warning] : {
           std::pair(R"({"quantizer": "XNNPACKQuantizer", "global": {}, "module_type": [["torch.nn.Conv9d", null]]})",
                     "the setting for module type torch.nn.Conv9d reaches nothing"),
           {R"({"quantizer": "XNNPACKQuantizer", "global": {}, "operator_type": [["torch.ops.aten.liner", null]]})",
            "the program has no such operator; did you mean torch.ops.aten.linear?"},
           {R"({"quantizer": "X86InductorQuantizer", "global": {}, "function_type": [["torch.matmul", null]]})",
            "the setting for operator torch.ops.aten.matmul reaches nothing"},
           {R"({"quantizer": "X86InductorQuantizer", "global": {}, "module_type": [["torch.nn.Linera", null]]})",
            "does not quantize that; did you mean torch.nn.modules.linear.Linear?"},
           {R"({"quantizer": "X86InductorQuantizer", "global": {}, "module_name": [["heda", null]]})",
            "the setting for module heda reaches nothing"},
           {R"({"quantizer": "XNNPACKQuantizer"})", "has no setting, so that everything stays float"},
           {R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86", "module_name": [["heda", null]],
               "module_name_regex": [["zz.*", null]], "object_type": [["torch.nn.Frob", null]]}})",
            "the setting for modules like zz.* reaches nothing: no name of a module matches; it tells no such name"},
           {R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86",
               "object_type": [["torch.ops.aten.liner", null], ["other.linaer", null]]}})",
            "other.linaer reaches nothing: the program has no such type; did you mean"},
       })
    EXPECT_NE(warnings_of(recipe).find(warning), std::string::npos) << host.err;
  // Every spelling of an operator is taken by both.
  for (const char* quantizer : {"XNNPACKQuantizer", "X86InductorQuantizer"})
    for (const char* section : {"operator_type", "function_type", "object_type"})
      for (const char* spelling : {"torch.ops.aten.linear", "torch.nn.functional.linear"}) {
        const std::string recipe = concat(R"({"quantizer": ")", quantizer, R"(", "global": {}, ")", section,
                                          R"(": [[")", spelling, R"(", null]]})");
        EXPECT_EQ(warnings_of(recipe.c_str()), "calibrating: 3 batches\n") << recipe;
        EXPECT_NE(host.out.find("layers quantized  1 of 2"), std::string::npos) << recipe << host.out;
      }
  EXPECT_EQ(warnings_of(R"({"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86",
                "object_type": [["torch.ops.aten.linear", null]]}})"),
            "calibrating: 3 batches\n");
  EXPECT_NE(host.out.find("layers quantized  1 of 2"), std::string::npos) << host.out;
}

TEST_F(CliTest, RefusesATrainingModeUnlessItIsAllowed) {
  Program program = classifier();
  Node* relu = program.graph->find("relu_default");
  Node* reader = relu->users()[0];
  {
    const auto point = program.graph->insert_after(relu);
    reader->replace_input_with(relu, program.graph->call("torch.ops.aten.dropout.default", {relu, 0.5, true}));
  }
  infer_shapes(program);
  host.contents["training.pt2"] = save_pt2(program);
  EXPECT_EQ(run({"quantize", "training.pt2", "--calibrate", "data.npz", "-o", "out.pt2"}), 1);
  EXPECT_NE(
      host.err.find("exported in training mode: dropout_default drops values at random; export it after model.eval()"),
      std::string::npos)
      << host.err;
  EXPECT_EQ(run({"quantize", "training.pt2", "--calibrate", "data.npz", "-o", "out.pt2", "--allow-training-mode"}), 0)
      << host.err;
  EXPECT_EQ(run(quantize({"--allow-training-mode"})), 0);
  EXPECT_NE(host.err.find("--allow-training-mode does nothing"), std::string::npos) << host.err;
}

TEST_F(CliTest, EndsWithTwoOnWrongUsage) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{}, "see qdq --help"},
      {{"quantise", "model.pt2"}, "did you mean quantize?"},
      {{"quantize", "model.pt2"}, "see qdq quantize --help"},
      {quantize({"--quantizer", "xnnpack", "--recipe", "r.json"}), "--recipe"},
      {quantize({"--limit", "some"}), "--limit"},
      {quantize({"--limit", "0"}), "--limit"},
      {quantize({"--limit", "-5"}), "--limit"},
      {quantize({"--threads", "0"}), "--threads"},
      {quantize({"--threads", "1000000000"}), "--threads"},
      {quantize({"extra"}), "extra"},
      {quantize({"--quantizer", "int4"}), "--quantizer: found int4, wanted xnnpack"},
      {quantize({"--backend", "cuda"}), "--backend: found cuda, wanted simd or onednn"},
      {quantize({"--weight-bits", "12"}), "--weight-bits: found 12, wanted a whole number from 2 to 8"},
  };
  for (const auto& [args, part] : cases) {
    EXPECT_EQ(run(args), 2) << part;
    EXPECT_NE(host.err.find(part), std::string::npos) << host.err;
    EXPECT_EQ(host.err.find('\n'), host.err.size() - 1) << host.err;
  }
  EXPECT_EQ(run({"quantize", "--help"}), 0);
  EXPECT_NE(host.out.find("--calibrate"), std::string::npos);
}

}  // namespace
}  // namespace qdq::cli_test
