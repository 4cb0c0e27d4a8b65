// The report that the command line writes.
#include "unit/cli/cli_fixture.h"

#include <gtest/gtest.h>

#include "format/json.h"
#include "format/npz.h"
#include "io/pt2.h"

namespace qdq::report_test {
namespace {

TEST_F(CliTest, WritesAReportThatNeedsNothingElse) {
  host.add("recipe.json",
           R"({"quantizer": "XNNPACKQuantizer", "global": {}, "operator_type": [["torch.ops.aten.linear", null]]})");
  host.contents["a<b.pt2"] = host.contents["model.pt2"];
  ASSERT_EQ(run({"quantize", "a<b.pt2", "--calibrate", "data.npz", "-o", "plain.pt2", "--recipe", "recipe.json"}), 0)
      << host.err;
  ASSERT_EQ(run({"quantize", "a<b.pt2", "--calibrate", "data.npz", "-o", "out.pt2", "--recipe", "recipe.json",
                 "--report", "report.html"}),
            0)
      << host.err;
  EXPECT_EQ(host.contents["out.pt2"], host.contents["plain.pt2"]);
  const std::string html(format::text_of(host.contents["report.html"]));
  EXPECT_EQ(html.find("http"), html.find("http-equiv")) << "it names another host";
  EXPECT_EQ(html.find("unsafe-inline"), std::string::npos);
  const std::string begin = "id=\"report\">";
  const size_t at = html.find(begin) + begin.size();
  const auto report = format::parse_json(html.substr(at, html.find("</script>", at) - at), "the report");
  EXPECT_EQ(report["model"], "a<b.pt2");
  EXPECT_EQ(report["recipe"]["operator_type"][0][0], "torch.ops.aten.linear");
  EXPECT_EQ(report["bytes"][1], host.contents["out.pt2"].size());
  EXPECT_EQ(report["samples"], 10);
  EXPECT_EQ(report["layers"]["quantized"], 1);
  EXPECT_EQ(report["layers"]["total"], 2);
  EXPECT_EQ(report["left"][0]["node"], "linear_default");
  EXPECT_EQ(report["operators"].size(), 4U);
  EXPECT_EQ(report["errors"].size(), 4U);
  EXPECT_EQ(report["observers"][0]["counts"].size(), 64U);
  // The graph of the float program, and what its values became.
  EXPECT_EQ(report["nodes"].size(), load_pt2(host.contents["a<b.pt2"]).graph->nodes().size());
  const auto weight = std::find_if(report["qparams"].begin(), report["qparams"].end(),
                                   [](const auto& value) { return !value["by"].empty(); });
  ASSERT_NE(weight, report["qparams"].end()) << report["qparams"].dump(1);
  EXPECT_EQ((*weight)["by"][0], "conv2d_default");
  EXPECT_EQ((*weight)["dtype"], "int8");
  EXPECT_EQ((*weight)["channels"], 1);
  EXPECT_GT((*weight)["scale"][0].get<double>(), 0);
  // Its modules are one script without what only readers of the sources need.
  const std::string script = html.substr(html.rfind("<script"));
  EXPECT_NE(script.find("function graphView("), std::string::npos);
  for (const char* left : {"\nimport ", "\nexport ", "@param", "\n//", "QDQ_REPORT"})
    EXPECT_EQ(script.find(left), std::string::npos) << left;
}

TEST_F(CliTest, TheReportShowsWhatEvaluateTells) {
  host.contents["test.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", noise({8, 2, 4, 4}, 5)}});
  host.add("classes.txt", "red\ngreen\nblue\n");
  host.add("test.csv", "0,0\n1,1\n2,2\n3,0\n4,1\n5,2\n6,0\n7,1\n");
  ASSERT_EQ(
      run(quantize({"--report", "r.html", "--test", "test.npz", "--labels", "test.csv", "--classes", "classes.txt"})),
      0)
      << host.err;
  const format::Json report = report_in(host.contents["r.html"]);
  EXPECT_EQ(report["samples"], 10);
  EXPECT_EQ(report["accuracy"]["samples"], 8);
  EXPECT_EQ(report["classes"], (std::vector<std::string>{"red", "green", "blue"}));
  EXPECT_EQ(report["predictions"].size(), 8U);
  EXPECT_EQ(report["predictions"][0]["file"], concat("sample ", report["predictions"][0]["sample"].get<int>()));
  EXPECT_GT(report["speed"]["int8"].get<double>(), 0);
  ASSERT_EQ(run({"evaluate", "model.pt2", "out.pt2", "--data", "test.npz", "--labels", "test.csv", "--json",
                 "--batch-size", "4"}),
            0)
      << host.err;
  const auto scores = format::parse_json(host.out, "scores");
  EXPECT_EQ(report["accuracy"]["top1"], (std::vector<double>{scores[0]["top1"], scores[1]["top1"]}));
  EXPECT_EQ(report["accuracy"]["agreement"], scores[1]["agreement"]);
  // Without test data: the calibration's, and without labels no top-1.
  ASSERT_EQ(run(quantize({"--report", "r.html"})), 0) << host.err;
  EXPECT_EQ(report_in(host.contents["r.html"])["accuracy"]["samples"], 10);
  EXPECT_FALSE(report_in(host.contents["r.html"])["accuracy"].contains("top1"));
  // Labels that do not fit are refused before the calibration.
  host.contents.erase("out.pt2");
  EXPECT_EQ(run(quantize({"--report", "r.html", "--labels", "folders"})), 1);
  EXPECT_EQ(host.err.find("calibrating"), std::string::npos) << host.err;
  EXPECT_FALSE(host.contents.contains("out.pt2"));
  EXPECT_EQ(run(quantize({"--test", "test.npz"})), 2);
}

// Nothing that could be compared has float values.
TEST_F(CliTest, AModelOfIntegersAloneHasAReport) {
  Program program = classifier();
  Graph& graph = *program.graph;
  Node* output = graph.output_node();
  {
    const auto point = graph.insert_before(output);
    output->set_arg(
        0, Argument(Argument::List{graph.call("torch.ops.aten.argmax.default", {graph.placeholders()[0], 1})}));
  }
  graph.eliminate_dead_code();
  infer_shapes(program);
  host.contents["model.pt2"] = save_pt2(program);
  ASSERT_EQ(run(quantize({"--report", "r.html"})), 0) << host.err;
  EXPECT_FALSE(report_in(host.contents["r.html"]).contains("errors"));
}

// Whoever calibrates for an hour should not be told at its end.
TEST_F(CliTest, WhatHasNoOnnxFormIsRefusedBeforeTheCalibration) {
  Program program = classifier();
  Graph& graph = *program.graph;
  Node* output = graph.output_node();
  {
    const auto point = graph.insert_before(output);
    output->set_arg(0,
                    Argument(Argument::List{graph.call("torch.ops.aten.digamma.default", {output->arg(0).list()[0]})}));
  }
  infer_shapes(program);
  host.contents["model.pt2"] = save_pt2(program);
  ASSERT_EQ(run(quantize()), 0) << host.err;
  EXPECT_NE(host.err.find("calibrating"), std::string::npos) << host.err;
  ASSERT_EQ(run({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.onnx"}), 1) << host.err;
  EXPECT_NE(host.err.find("no ONNX form for torch.ops.aten.digamma.default"), std::string::npos) << host.err;
  EXPECT_EQ(host.err.find("calibrating"), std::string::npos) << host.err;
}

}  // namespace
}  // namespace qdq::report_test
