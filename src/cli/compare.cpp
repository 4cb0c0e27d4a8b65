// `qdq compare`: models beside a reference, operator by operator.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/listed.h"
#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"
#include "format/bytes.h"
#include "format/json.h"
#include "io/model.h"
#include "report/graph_report.h"
#include "report/layer_comparison.h"
#include "report/quantization_report.h"
#include "report/svg_chart.h"

namespace qdq {

namespace {

using format::Json;

// A number of JSON, which infinite ones write as {"float": "inf"}, in a column; "-" where there is none.
std::string column(const Json& error, const char* name, const char* format) {
  char text[32] = "-";
  if (error.is_object() && error.contains(name)) {
    const Json& value = error[name];
    if (value.is_number()) std::snprintf(text, sizeof text, format, value.get<double>());
    else if (value.is_object()) std::snprintf(text, sizeof text, "%s", value["float"].get<std::string>().c_str());
    else if (std::string_view(name) == "sqnrDb") return "equal";
  }
  return text;
}

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

double own_db(const Json& layer) {
  const Json own = layer.value("own", Json());
  const Json value = own.is_object() ? own.value("sqnrDb", Json()) : Json();
  return value.is_number() ? value.get<double>() : value.is_object() ? -INFINITY : INFINITY;
}

std::string names(const std::vector<std::string>& all) { return listed(all, 3); }

// The layers of a model, the largest own error first.
Json worst_first(const LayerComparison& comparison, size_t candidate) {
  Json layers = comparison.json(candidate);
  std::stable_sort(layers.begin(), layers.end(), [](const Json& a, const Json& b) { return own_db(a) < own_db(b); });
  return layers;
}

size_t num_shown(const Json& layers, int64_t most) {
  return most > 0 ? std::min<size_t>(layers.size(), static_cast<size_t>(most)) : layers.size();
}

std::string chart(const LayerComparison& comparison, const CompareOptions& options) {
  const Json layers = worst_first(comparison, 0);
  const auto db = [](const Json& error) -> std::optional<double> {
    const Json value = error.is_object() ? error.value("sqnrDb", Json()) : Json();
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  };
  std::vector<ErrorBar> bars;
  for (size_t i = 0; i < num_shown(layers, options.most); ++i)
    bars.push_back({layers[i]["node"].get<std::string>(), db(layers[i].value("own", Json())), db(layers[i])});
  return error_chart(concat("Errors of ", file_name(options.candidates[0]), " beside ", file_name(options.reference)),
                     bars);
}

std::string table(const LayerComparison& comparison, size_t candidate, const CompareOptions& options) {
  const Json layers = worst_first(comparison, candidate);
  std::string out = concat(options.candidates[candidate], " beside ", options.reference, ": ",
                           counted(std::ssize(layers), "operators"), ", the largest own error first\n");
  const std::vector<std::string> lost = comparison.unmatched_in_reference(candidate);
  if (!lost.empty()) out += concat("  without a counterpart: ", names(lost), "\n");
  out += "  own dB  all dB  weight dB  cosine  largest error  worst sample  node\n";
  const size_t shown = num_shown(layers, options.most);
  for (size_t i = 0; i < shown; ++i) {
    const Json& layer = layers[i];
    const Json worst = layer.value("worst", Json());
    const std::string sample =
        worst.is_object() ? concat(worst["sample"].get<int64_t>(), ": ", column(worst, "sqnrDb", "%.1f")) : "-";
    const auto module = layer["module"].get<std::string>();
    out += concat("  ", padded(column(layer.value("own", Json()), "sqnrDb", "%.1f"), 6), "  ",
                  padded(column(layer, "sqnrDb", "%.1f"), 6), "  ",
                  padded(column(layer.value("weight", Json()), "sqnrDb", "%.1f"), 9), "  ",
                  padded(column(layer, "cosine", "%.4f"), 6), "  ", padded(column(layer, "maxError", "%.3g"), 13), "  ",
                  padded(sample, 12), "  ", layer["node"].get<std::string>(), module.empty() ? "" : " in " + module,
                  " (", layer["op"].get<std::string>(), ")\n");
  }
  if (shown < layers.size()) out += concat("  and ", layers.size() - shown, " more; --most 0 shows all\n");
  return out;
}

}  // namespace

void compare(const CompareOptions& options, Host& host) {
  std::vector<std::string> inputs = options.candidates;
  inputs.insert(inputs.end(), {options.reference, options.data, options.data_options.preprocess});
  check_outputs({{"--report", options.report, {".html", ".htm"}}, {"--chart", options.chart, {".svg"}}}, inputs, host);
  check_preprocess(options.data_options, {options.data});
  for (const auto& [option, path] : {std::pair("--report", &options.report), std::pair("--chart", &options.chart)})
    QDQ_CHECK_USAGE(path->empty() || options.candidates.size() == 1, option,
                    " compares one model with its reference, but there are ", options.candidates.size(),
                    "; compare each one alone");
  const Model reference = load_model(options.reference, host.files);
  std::vector<Model> candidates;
  for (const std::string& path : options.candidates) candidates.push_back(load_model(path, host.files));
  std::vector<const Program*> programs;
  for (const Model& candidate : candidates) programs.push_back(&candidate.program);
  const std::unique_ptr<Data> data = open_samples(options.data, reference.program, options.data_options, host);
  LayerComparison comparison(reference.program, programs);
  {
    Progress progress(host, "comparing", data->num_batches(), "batches");
    data->expect(0, data->num_batches());
    for (int64_t i = 0; i < data->num_batches(); ++i) {
      comparison.add(data->batch(i));
      progress.advance();
    }
  }
  if (!options.report.empty()) {
    Json report = graph_report(*reference.program.graph);
    report["made"] = made_by(options.command, host);
    report["model"] = file_name(options.candidates[0]);
    report["bytes"] = {reference.file_bytes, candidates[0].file_bytes};
    report["errors"] = comparison.json();
    host.files.write(options.report, format::bytes_of(report_html(report)));
  }
  if (!options.chart.empty()) host.files.write(options.chart, format::bytes_of(chart(comparison, options)));
  if (!options.json) {
    std::string out;
    for (size_t i = 0; i < candidates.size(); ++i) out += (i == 0 ? "" : "\n") + table(comparison, i, options);
    host.print(out);
    return;
  }
  Json all = Json::array();
  for (size_t i = 0; i < candidates.size(); ++i)
    all.push_back({{"model", options.candidates[i]},
                   {"layers", comparison.json(i)},
                   {"unmatched", {comparison.unmatched_in_reference(i), comparison.unmatched_in_candidate(i)}}});
  const Json out = {{"reference", options.reference}, {"samples", data->num_samples()}, {"candidates", all}};
  host.print(format::print_json(out, 1) + "\n");
}

void add_compare(CommandLine& line) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* verb = line.verb(
      "compare", "compare models with their float model, operator by operator",
      "qdq compare model.onnx model.int8.onnx --data samples.npz",
      [&line, options](Host& host) {
        options->command = line.command;
        compare(*options, host);
      },
      [&line, options] {
        const CLI::App& words = *line.app.get_subcommand("compare");
        require(words, "--most", !options->json || !options->chart.empty(),
                "--chart beside --json, which has all rows");
      });
  verb->add_option("REFERENCE", options->reference, "the model to compare with (.pt2 or .onnx)")->required();
  verb->add_option("MODEL", options->candidates, "models made from it by any tool (.pt2 or .onnx)")->required();
  verb->add_option("--data", options->data, "samples: .npz, .npy, or images in a folder or a .tar")
      ->required()
      ->type_name("DATA");
  verb->add_option("--most", options->most, "rows to show per model (20); 0: all")
      ->type_name("N")
      ->check(whole_number(0));
  verb->add_option("--report", options->report, "write an HTML file with the errors in the model's graph")
      ->type_name("FILE.html");
  verb->add_option("--chart", options->chart, "draw the errors of the layers in the table")->type_name("FILE.svg");
  verb->add_flag("--json", options->json, "print JSON, with all rows");
  add_data_options(*verb, options->data_options);
}

}  // namespace qdq
