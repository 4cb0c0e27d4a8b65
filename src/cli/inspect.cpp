// `qdq inspect`: what a model is made of.
#include <algorithm>
#include <cstdio>
#include <map>
#include <span>

#include "base/readable.h"
#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "io/model.h"
#include "profile/runtime_verdicts.h"
#include "op/facts.h"
#include "quant/explain.h"
#include "quant/qat.h"
#include "report/explanation_report.h"
#include "report/graph_report.h"
#include "report/lowered_graph.h"
#include "report/svg_chart.h"

#include "format/json.h"

namespace qdq {

namespace {

std::string describe(const Node& node) {
  const TensorMeta* tensor = node.meta.val.tensor();
  if (tensor) return concat(node.name(), ": ", to_string(tensor->dtype), to_string(tensor->sizes));
  const auto& value = node.meta.val.value;
  const bool is_number = std::holds_alternative<SymInt>(value) || std::holds_alternative<double>(value);
  return is_number ? concat(node.name(), ": a number") : node.name();
}

std::string operators(const Graph& graph) {
  std::map<std::string_view, int> counts;
  for (const Node* node : graph.nodes())
    if (node->op() == Node::Op::kCallFunction) ++counts[short_name(node->target())];
  std::vector<std::pair<std::string_view, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (const auto& [target, count] : sorted) {
    char line[160];
    std::snprintf(line, sizeof line, "  %5d  %.*s\n", count, static_cast<int>(std::min<size_t>(target.size(), 140)),
                  target.data());
    out += line;
  }
  return out;
}

std::string attributes(const Program& program) {
  struct Sum {
    int64_t tensors = 0, elements = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  std::map<const Storage*, bool> seen;
  for (const Attribute& attribute : program.attributes) {
    // Tied weights are two names for one storage and count once.
    if (!seen.emplace(attribute.tensor.storage().get(), true).second) continue;
    Sum& sum = sums[to_string(attribute.tensor.dtype())];
    ++sum.tensors;
    sum.elements += attribute.tensor.numel();
    sum.bytes += attribute.tensor.nbytes();
  }
  std::string out;
  for (const auto& [dtype, sum] : sums)
    out += concat("  ", dtype, ": ", sum.elements, " elements in ", sum.tensors, " tensors, ", human_bytes(sum.bytes),
                  "\n");
  return out;
}

std::string qparams_table(const Program& program) {
  std::string out;
  for (const QuantizedValue& value : quantized_values(program)) {
    char line[256];
    const auto [low, high] = value.scale.empty() ? std::pair(0.0, 0.0) : [&] {
      const auto [a, b] = std::minmax_element(value.scale.begin(), value.scale.end());
      return std::pair(*a, *b);
    }();
    std::string scale, zero_point;
    char number[64];
    if (value.scale.empty()) {
      scale = "at run time";
    } else if (value.scale.size() == 1) {
      std::snprintf(number, sizeof number, "%.9g", low);
      scale = number;
      if (!value.zero_point.empty()) zero_point = std::to_string(value.zero_point[0]);
    } else {
      std::snprintf(number, sizeof number, "%zu x %.3g..%.3g", value.scale.size(), low, high);
      scale = number;
      const bool zero = std::all_of(value.zero_point.begin(), value.zero_point.end(), [](int64_t z) { return z == 0; });
      zero_point = zero ? "0" : "per channel";
    }
    std::snprintf(line, sizeof line, "  %-36.80s %-6s [%lld, %lld]  scale %s  zero point %s\n", value.of.c_str(),
                  std::string(to_string(value.dtype)).c_str(), static_cast<long long>(value.quant_min),
                  static_cast<long long>(value.quant_max), scale.c_str(), zero_point.c_str());
    out += line;
  }
  return out;
}

// The histograms of its tensors that have more than a channel's worth of numbers, in the order of the file.
std::string weights_chart(const Program& program, const std::string& model) {
  constexpr int64_t kLeast = 16;
  std::vector<Histogram> histograms;
  std::map<const Storage*, bool> seen;
  for (const Attribute& attribute : program.attributes) {
    if (attribute.tensor.dim() < 2 || attribute.tensor.numel() < kLeast) continue;
    if (!seen.emplace(attribute.tensor.storage().get(), true).second) continue;
    Histogram histogram = histogram_of(attribute.name, attribute.tensor);
    if (!histogram.counts.empty()) histograms.push_back(std::move(histogram));
  }
  QDQ_CHECK(!histograms.empty(), kInvalidArgument, model, " has no weights of two axes or more to draw");
  return histogram_chart(concat("Weights of ", file_name(model)), histograms);
}

// One line an operator, and one for each of its tensors.
std::string explanation_table(const Prepared& prepared) {
  std::vector<Explanation> explanations = explain(prepared);
  for (Explanation& explanation : explanations)
    for (std::string* text : {&explanation.node, &explanation.op}) *text = readable_name(*text);
  size_t name_width = 0, op_width = 0;
  for (const Explanation& explanation : explanations) {
    name_width = std::max(name_width, explanation.node.size());
    op_width = std::max(op_width, explanation.op.size());
  }
  const auto padded = [](const std::string& text, size_t width) {
    return text + std::string(width - std::min(width, text.size()) + 2, ' ');
  };
  std::map<std::string_view, int> counts;
  std::string out;
  for (const Explanation& explanation : explanations) {
    const std::string_view outcome = to_string(explanation.outcome);
    ++counts[outcome];
    out += padded(explanation.node, name_width) + padded(explanation.op, op_width) + padded(std::string(outcome), 9);
    if (!explanation.pattern.empty()) out += concat(explanation.quantizer, " ", explanation.pattern, ": ");
    out += explanation.reason + "\n";
    for (const ExplainedTensor& tensor : explanation.tensors)
      out += concat("    ", readable_name(to_string(tensor.at)), ": ", tensor.becomes, "\n");
  }
  for (const SpecConflict& conflict : find_conflicts(prepared)) out += concat("conflict: ", conflict.message, "\n");
  out += concat(explanations.size(), " operators:");
  for (const auto& [outcome, count] : counts) out += concat(" ", count, " ", outcome);
  return out + "\n";
}

// One line a pattern: what it is made of, and in which modes.
std::string capabilities_table(const QuantizationCapabilities& capabilities) {
  std::string out = capabilities.quantizer + "\n";
  for (const PatternCapability& c : capabilities.patterns) {
    std::string modes, operators;
    const std::pair<const char*, bool> all[] = {
        {"static", c.static_quantization}, {"dynamic", c.dynamic_quantization}, {"qat", c.qat}};
    for (const auto& [name, has] : all)
      if (has) modes += (modes.empty() ? "" : ", ") + std::string(name);
    for (const auto& alternatives : c.operators) {
      operators += operators.empty() ? "" : "  ->  ";
      for (size_t i = 0; i < alternatives.size(); ++i) operators += (i == 0 ? "" : " | ") + alternatives[i];
    }
    out += concat("  ", c.pattern, " (", modes, "): ", operators, c.note.empty() ? "" : "; " + c.note, "\n");
  }
  if (capabilities.patterns.empty() && capabilities.parts.empty()) out += "  it does not tell\n";
  for (const QuantizationCapabilities& part : capabilities.parts) out += capabilities_table(part);
  return out;
}

// One line an operator, those that stay float last of their kind with the reason.
std::string verdicts_table(std::vector<RuntimeVerdict> verdicts, const RuntimeProfile& profile) {
  for (RuntimeVerdict& verdict : verdicts)
    for (std::string* text : {&verdict.node, &verdict.op}) *text = readable_name(*text);
  size_t name_width = 0, op_width = 0;
  for (const RuntimeVerdict& verdict : verdicts) {
    name_width = std::max(name_width, verdict.node.size());
    op_width = std::max(op_width, verdict.op.size());
  }
  const auto padded = [](const std::string& text, size_t width) {
    return text + std::string(width - text.size() + 2, ' ');
  };
  std::string out;
  for (const RuntimeVerdict& verdict : verdicts)
    out +=
        concat(padded(verdict.node, name_width), padded(verdict.op, op_width),
               verdict.in_integers ? concat("integers  ", verdict.kernel) : concat("float     ", verdict.reason), "\n");
  const ProductCount count = count_products(verdicts);
  return concat(out, count.in_integers, " of ", count.total, " convolutions and matrix products in integers by ",
                profile.runtime, "\n");
}

// What is printed without an option.
std::string overview(const Program& program, const std::string& model, uint64_t file_bytes) {
  const std::string exporter = program.torch_version.empty() ? ""
                                                             : concat(", exported by PyTorch ", program.torch_version,
                                                                      ", dialect ", program.dialect);
  std::string out = concat(model, ": ", human_bytes(file_bytes), exporter, ", ", program.graph->size(), " nodes\n");
  out += "inputs\n";
  for (const Node* node : program.graph->placeholders()) out += "  " + describe(*node) + "\n";
  out += "outputs\n";
  const Argument::List& outputs = program.graph->output_node()->arg(0).list();
  const bool has_names = program.output_names.size() == outputs.size();  // those of an ONNX file
  for (size_t i = 0; i < outputs.size(); ++i)
    out += concat("  ", outputs[i].is_node() ? describe(*outputs[i].node()) : to_text(outputs[i]),
                  has_names ? concat(", called ", program.output_names[i]) : "", "\n");
  out += "tensors\n" + attributes(program);
  out += "operators\n" + operators(*program.graph);
  if (const std::string table = qparams_table(program); !table.empty()) out += "quantized values\n" + table;
  return out;
}

}  // namespace

void inspect(const InspectOptions& options, Host& host) {
  if (options.capabilities) {
    const QuantizationCapabilities capabilities = open_quantizer(options.quantizer, host)->quantization_capabilities();
    host.print(options.json ? format::print_json(capabilities_report(capabilities), 1) + "\n"
                            : capabilities_table(capabilities));
    return;
  }
  auto [program, file_bytes] = load_model(options.model, host.files, false);
  if (options.explain) {
    const std::unique_ptr<Quantizer> quantizer = open_quantizer(options.quantizer, host);
    const Prepared prepared = options.quantizer.qat ? prepare_qat_pt2e(std::move(program), *quantizer)
                                                    : prepare_pt2e(std::move(program), *quantizer);
    for (const std::string& warning : prepared.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
    host.print(options.json ? format::print_json(explanation_report(prepared), 1) + "\n" : explanation_table(prepared));
    return;
  }
  if (!options.quantizer.runtime.empty()) {
    const RuntimeProfile& profile = runtime_profile(options.quantizer.runtime);
    const std::vector<RuntimeVerdict> verdicts = runtime_verdicts(program, profile);
    host.print(options.json ? format::print_json(verdicts_report(verdicts, profile), 1) + "\n"
                            : verdicts_table(verdicts, profile));
    return;
  }
  if (!options.chart.empty()) {
    check_outputs({{"--chart", options.chart, {".svg"}}}, {options.model}, host);
    const std::string chart = weights_chart(program, options.model);
    host.files.write(options.chart, std::as_bytes(std::span(chart)));
    return;
  }
  if (!options.lowered.empty()) {
    check_outputs({{"--lowered", options.lowered, {".json"}}}, {options.model}, host);
    if (!options.lowered.ends_with(".json"))
      throw CLI::ValidationError("--lowered " + options.lowered,
                                 "the tensors go next to this file, into .npz; wanted a name that ends in .json");
    save_lowered_graph(lowered_graph(lower(program)), options.lowered, host.files);
    return;
  }
  if (options.json) {
    host.print(format::print_json(program_report(program), 1) + "\n");
    return;
  }
  if (options.graph) {
    host.print(to_text(*program.graph) + "\n");
    return;
  }
  host.print(overview(program, options.model, file_bytes));
}

void add_inspect(CommandLine& line) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* verb = line.verb(
      "inspect", "show a model's inputs, outputs, tensors and operators", "qdq inspect model.onnx --explain",
      [options](Host& host) { inspect(*options, host); },
      [&line, options] {
        const bool needs_quantizer = options->explain || options->capabilities;
        if (options->model.empty() && !options->capabilities) throw CLI::RequiredError("MODEL");
        if (!options->model.empty() && options->capabilities) throw CLI::ExcludesError("--capabilities", "MODEL");
        const CLI::App& words = *line.app.get_subcommand("inspect");
        for (const char* option :
             {"--recipe", "--quantizer", "--fx", "--equalize", "--dynamic", "--weights-only", "--reduce-range",
              "--weight-bits", "--activation-bits", "--group-size", "--observer", "--exclude", "--qat"})
          require(words, option, needs_quantizer, "--explain or --capabilities");
        // Patterns are the same for all of these settings.
        for (const char* option : {"--reduce-range", "--weight-bits", "--observer", "--exclude", "--qat", "--equalize"})
          require(words, option, options->explain, "--explain");
        require(words, "--dynamic", options->explain || !options->quantizer.runtime.empty(), "--explain or --for");
      });
  verb->add_option("MODEL", options->model, "the model (.pt2 or .onnx); not needed with --capabilities");
  // Each is a view of its own.
  CLI::Option* const views[] = {
      verb->add_flag("--graph", options->graph, "print the graph as PyTorch does"),
      verb->add_flag("--explain", options->explain, "print for every operator whether the quantizer takes it, and why"),
      verb->add_flag("--capabilities", options->capabilities, "list the patterns that the quantizer knows"),
      verb->add_option("--lowered", options->lowered,
                       "write the fused calls that run the model to FILE.json, and their tensors to an .npz next to it")
          ->type_name("FILE.json"),
      verb->add_option("--chart", options->chart, "draw the histograms of the model's weights")->type_name("FILE.svg")};
  for (CLI::Option* const* view = std::begin(views); view != std::end(views); ++view)
    for (CLI::Option* const* other = std::begin(views); other != view; ++other) (*view)->excludes(*other);
  auto* json = verb->add_flag("--json", options->json, "print everything as JSON");
  CLI::Option* runtime = add_quantizer_options(*verb, options->quantizer);
  runtime->excludes(add_qat_option(*verb, options->quantizer));
  const auto &graph = views[0], &lowered = views[3], &chart = views[4];
  for (CLI::Option* silent : {graph, lowered, chart}) silent->excludes(json)->excludes(runtime);
}

}  // namespace qdq
