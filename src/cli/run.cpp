// `qdq run` and `qdq evaluate`: models at work.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "cli/command_line.h"
#include "cli/metric.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"
#include "format/npz.h"
#include "format/json.h"
#include "io/model.h"
#include "kernel/difference.h"
#include "lower/lower.h"
#include "quant/sample_rows.h"
#include "recover/judged_outputs.h"
#include "report/evaluation.h"

namespace qdq {

namespace {

struct Score {
  std::string model;
  uint64_t bytes = 0;
  double top1 = 0, top5 = 0;  // percent
  double seconds = 0;         // in the model
  Answers answers;
  Outputs outputs, inputs;  // of all batches, for a metric that reads them
  std::optional<double> metric;
  double signal = 0, noise = 0;  // of the first output, beside the first model's
  bool classifies = true;
};

// A model at work, with the data as it wants them.
struct Evaluated {
  Evaluated(const std::string& model, const EvaluateOptions& options, Host& host)
      : file(load_model(model, host.files)), session(open_session(file.program, options.session, host)),
        data(open_named(options.data, file.program, options.data_options, host)) {
    score.model = model;
    score.bytes = file.file_bytes;
    const std::vector<bool> compare = outputs_that_compare(file.program);
    if (compare.empty() || compare[0]) return;
    score.classifies = false;
    score.signal = NAN;
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs, Host& host) {
    const double began = host.now_seconds();
    std::vector<Tensor> outputs = session.run(inputs);
    score.seconds += host.now_seconds() - began;
    return outputs;
  }

  Model file;
  Session session;
  std::unique_ptr<Data> data;
  Score score;
};

// Adds the error of a batch's first output; models whose first outputs are of other shapes have none.
void add_error(const Tensor& reference, const Tensor& output, Score& score) {
  const bool comparable = is_floating(reference.dtype()) && is_floating(output.dtype());
  if (!comparable || reference.sizes() != output.sizes()) {
    score.signal = NAN;
    return;
  }
  const Tensor x = reference.to(DType::kF32).contiguous(), y = output.to(DType::kF32).contiguous();
  const kernel::Difference difference =
      kernel::difference_f32(x.span<float>().data(), y.span<float>().data(), x.numel());
  score.signal += difference.signal;
  score.noise += difference.noise;
}

// Finds the first of the samples with a number that is none, as batches come in turn.
class MissingNumbers {
 public:
  void add(const std::vector<Tensor>& inputs) {
    std::optional<int64_t> first;
    for (const Tensor& input : inputs)
      if (const auto row = row_with(input, [](float value) { return std::isnan(value); }))
        first = std::min(*row, first.value_or(*row));
    if (first && !missing_) missing_ = samples_ + *first;
    samples_ += samples_of(inputs);
  }
  // `so_that`: what comes of it.
  void warn(const char* so_that, Host& host) const {
    if (!missing_) return;
    host.print_error(concat("qdq: warning: sample ", *missing_, " (counted from 0) holds NaN, so that ", so_that,
                            "; remove it from the data\n"));
  }

 private:
  int64_t samples_ = 0;
  std::optional<int64_t> missing_;
};

// All models on the same batches in turn.
void evaluate_batches(std::vector<Evaluated>& models, bool has_labels, const Measure* measure, Host& host) {
  const int64_t batches = models[0].data->num_batches();
  for (const Evaluated& model : models)
    QDQ_CHECK(model.data->num_batches() == batches && model.data->num_samples() == models[0].data->num_samples(),
              kInvalidArgument, model.score.model, " takes ", model.data->num_samples(), " samples in ",
              model.data->num_batches(), " batches, ", models[0].score.model, " ", models[0].data->num_samples(),
              " in ", batches, "; give --batch-size, or export both with an open batch size");
  Progress progress(host, "evaluating", batches, "batches");
  MissingNumbers missing;
  for (int64_t i = 0; i < batches; ++i) {
    Tensor reference;
    for (Evaluated& model : models) {
      const std::vector<Tensor> inputs = model.data->batch(i);
      if (!reference.defined()) missing.add(inputs);
      const std::vector<Tensor> outputs = model.run(inputs, host);
      Score& score = model.score;
      score.classifies = score.classifies && !outputs.empty() && is_classification(outputs[0]);
      if (has_labels || score.classifies) score.answers.add(outputs, score.model);
      if (!reference.defined()) reference = outputs.at(0);
      if (!std::isnan(score.signal)) add_error(reference, outputs.at(0), score);
      if (measure) score.outputs.push_back(outputs);
      if (measure && measure->reads_inputs()) score.inputs.push_back(inputs);
    }
    progress.advance();
  }
  missing.warn("its answers say nothing", host);
}

// All batches of an output as one array, or each as one where their sizes differ behind the first axis, or where it is
// a number.
void add_output(const std::string& name, const std::vector<Tensor>& batches, std::vector<format::NamedTensor>& arrays) {
  const auto behind = [](const Tensor& tensor) {
    Shape out = tensor.sizes();
    if (!out.empty()) out.erase(out.begin());
    return out;
  };
  const bool are_numbers = batches.size() > 1 && batches[0].dim() == 0;
  const bool join = !are_numbers && std::all_of(batches.begin(), batches.end(), [&](const Tensor& batch) {
    return batch.dim() == batches[0].dim() && behind(batch) == behind(batches[0]);
  });
  if (join) arrays.push_back({name, join_batches(batches)});
  else
    for (size_t b = 0; b < batches.size(); ++b) arrays.push_back({concat("b", b, "_", name), batches[b]});
}

// dB beside the first model; nothing where nothing differs, or nothing can be compared.
std::optional<double> sqnr(const Score& score) {
  if (std::isnan(score.signal) || score.noise == 0) return std::nullopt;
  return 10 * std::log10(score.signal / score.noise);
}

// The columns that there are: of classifiers agreement and ties, with labels top-1 and top-5.
std::string table(const std::vector<Evaluated>& models, bool has_labels) {
  size_t width = 5;
  for (const Evaluated& model : models) width = std::max(width, model.score.model.size());
  bool classifies = true;
  for (const Evaluated& model : models) classifies = classifies && model.score.classifies;
  std::string out = concat("model", std::string(width - 5, ' '), has_labels ? "     top-1     top-5" : "",
                           classifies ? "    agree     ties" : "", models[0].score.metric ? "      metric" : "",
                           "       SQNR       size      time\n");
  for (const Evaluated& model : models) {
    const Score& score = model.score;
    char part[64];
    out += score.model + std::string(width - score.model.size(), ' ');
    if (has_labels) {
      std::snprintf(part, sizeof part, "  %6.2f %%  %6.2f %%", score.top1, score.top5);
      out += part;
    }
    if (classifies) {
      std::snprintf(part, sizeof part, "  %5.1f %%  %5.1f %%", score.answers.agreement(models[0].score.answers),
                    score.answers.ties());
      out += part;
    }
    if (score.metric) {
      std::snprintf(part, sizeof part, "  %10.6g", *score.metric);
      out += part;
    }
    const auto decibels = sqnr(score);
    if (decibels) std::snprintf(part, sizeof part, "  %6.1f dB", *decibels);
    else std::snprintf(part, sizeof part, "  %9s", std::isnan(score.signal) ? "-" : "equal");
    out += part;
    std::snprintf(part, sizeof part, "  %9s  %8s\n", human_bytes(score.bytes).c_str(),
                  human_seconds(score.seconds).c_str());
    out += part;
  }
  return out;
}

// The table as JSON.
format::Json rows_of(const std::vector<Evaluated>& models, bool has_labels) {
  format::Json out = format::Json::array();
  for (const Evaluated& model : models) {
    const Score& score = model.score;
    format::Json row = {{"model", score.model}};
    if (score.metric) row["metric"] = *score.metric;
    if (has_labels) row.update({{"top1", score.top1}, {"top5", score.top5}});
    if (score.classifies)
      row.update({{"agreement", score.answers.agreement(models[0].score.answers)}, {"ties", score.answers.ties()}});
    const auto decibels = sqnr(score);
    row.update({{"sqnr", decibels ? format::json_of_number(*decibels) : format::Json()},
                {"samples", model.data->num_samples()},
                {"bytes", score.bytes},
                {"seconds", score.seconds}});
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

void print_warnings(const Data& data, Host& host) {
  for (const std::string& warning : data.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
}

void refuse_name(const std::string& problem, const std::string& path, Host& host) {
  if (!problem.empty() && host.files.is_file(path)) throw CLI::ValidationError(problem);
}

std::vector<int64_t> labels_from(const std::string& path, const Data& data, Classes& classes, Host& host) {
  refuse_name(name_problem_of_labels(path), path, host);
  return read_labels(path, data, classes, host.files);
}

void warn_of_classes(const std::string& classes, const std::string& labels, Host& host) {
  if (classes.empty() || !(labels.ends_with(".npy") || labels.ends_with(".npz") || labels == "cls")) return;
  host.print_error(
      concat("qdq: warning: --classes does nothing: ", labels == "cls" ? "the labels are" : labels + " holds",
             " numbers, and no report shows the names\n"));
}

std::unique_ptr<Data> open_named(const std::string& path, const Program& program, const DataOptions& options,
                                 Host& host) {
  refuse_name(name_problem_of_data(path), path, host);
  return open_data(path, program, options, host.files);
}

std::unique_ptr<Data> open_samples(const std::string& path, const Program& program, const DataOptions& options,
                                   Host& host) {
  auto data = open_named(path, program, options, host);
  print_warnings(*data, host);
  return data;
}

void check_preprocess(const DataOptions& options, std::initializer_list<std::string> samples) {
  if (options.preprocess.empty()) return;
  std::string names;
  for (const std::string& path : samples) {
    if (path.empty()) continue;
    if (!path.ends_with(".json")) return;  // those of arrays are checked with the arrays
    names += (names.empty() ? "" : " and ") + path;
  }
  fail_usage("--preprocess describes how images become inputs, but ",
             names.empty() ? "no samples are given" : names + " holds statistics", "; leave it out");
}

LowerOptions lower_options(const SessionOptions& options) {
  LowerOptions lowering;
  if (!options.backend.empty()) lowering.backends = {options.backend};
  lowering.fuse = !options.node_by_node;
  lowering.bf16 = options.bf16;
  return lowering;
}

Session open_session(const Program& program, const SessionOptions& options, Host& host) {
  Session session = lower(program, lower_options(options));
  for (const std::string& warning : session.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
  return session;
}

void run(const RunOptions& options, Host& host) {
  if (options.generate > 0) return generate(options, host);
  const CLI::ValidationError nothing(concat("there is nothing to run ", options.model,
                                            " on; give --inputs, or --generate and --prompt for a decoder"));
  if (options.inputs.empty() && options.output.empty()) throw nothing;
  if (options.output.empty()) throw CLI::ValidationError("give -o, the file for the outputs (.npz)");
  check_outputs({{"-o", options.output, {".npz"}}}, {options.model, options.inputs, options.data_options.preprocess},
                host);
  check_preprocess(options.data_options, {options.inputs});
  const Program program = load_model(options.model, host.files).program;
  const bool takes_nothing = options.inputs.empty() && program.graph->placeholders().empty();
  if (options.inputs.empty() && !takes_nothing) throw nothing;
  Session session = open_session(program, options.session, host);
  std::vector<std::vector<Tensor>> parts;
  if (takes_nothing) {
    for (const Tensor& output : session.run({})) parts.push_back({output});
  } else {
    const auto data = open_samples(options.inputs, program, options.data_options, host);
    Progress progress(host, "running", data->num_batches(), "batches");
    data->expect(0, data->num_batches());
    MissingNumbers missing;
    for (int64_t i = 0; i < data->num_batches(); ++i) {
      const std::vector<Tensor> inputs = data->batch(i);
      missing.add(inputs);
      const std::vector<Tensor> outputs = session.run(inputs);
      parts.resize(outputs.size());
      for (size_t o = 0; o < outputs.size(); ++o) parts[o].push_back(outputs[o]);
      progress.advance();
    }
    missing.warn("its outputs say nothing, and a clamp may hide that", host);
  }
  std::vector<format::NamedTensor> arrays;
  for (size_t o = 0; o < parts.size(); ++o) add_output(concat("output_", o), parts[o], arrays);
  std::string shapes;
  format::Json outputs = format::Json::array();
  for (const format::NamedTensor& array : arrays) {
    shapes += concat("  ", array.name, ": ", to_string(array.tensor.dtype()), to_string(array.tensor.sizes()), "\n");
    outputs.push_back(
        {{"name", array.name}, {"dtype", to_string(array.tensor.dtype())}, {"shape", array.tensor.sizes()}});
  }
  host.files.write(options.output, format::write_npz(arrays));
  print_summary(concat("wrote ", options.output, "\n", shapes), {{"output", options.output}, {"outputs", outputs}},
                options.json, host);
}

void evaluate(const EvaluateOptions& options, Host& host) {
  const bool measures = !options.metric.empty();
  const std::optional<Measure> measure =
      measures ? std::optional<Measure>(std::in_place, options.metric, options.labels, host) : std::nullopt;
  const bool has_labels = !options.labels.empty() && !measures;
  const bool has_reference = options.models.size() > 1;
  if (!has_labels && !measures && !has_reference)
    throw CLI::ValidationError(concat("there is nothing to judge ", options.models[0],
                                      " by; give --labels, the samples' classes, a --metric, or the float model in "
                                      "front of it"));
  if (measure && measure->reads_reference() && !has_reference)
    throw CLI::ValidationError(
        concat(options.metric, " compares with the float model; give it in front of ", options.models[0]));
  std::vector<Evaluated> models;
  for (const std::string& model : options.models) models.emplace_back(model, options, host);
  if (measure)
    for (const Evaluated& model : models) measure->check(model.file.program);
  print_warnings(*models[0].data, host);
  if (!measure && std::isnan(models[0].score.signal))
    host.print_error(concat("qdq: warning: the number of rows in the first output of ", options.models[0],
                            " differs from run to run, so that they are not compared; give --metric box-f1 if they are "
                            "boxes, or a command of your own\n"));
  std::vector<std::vector<int64_t>> labels;
  for (const Evaluated& model : models) {
    if (!has_labels) break;
    Classes classes = read_classes(options.classes, count_classes(model.file.program), host.files);
    labels.push_back(labels_from(options.labels, *model.data, classes, host));
  }
  warn_of_classes(options.classes, options.labels, host);
  evaluate_batches(models, has_labels, measure ? &*measure : nullptr, host);
  for (Evaluated& model : models)
    if (measure)
      model.score.metric = (*measure)(model.score.outputs, {&models[0].score.outputs, &model.score.inputs, {}}, host);
  for (size_t i = 0; i < models.size(); ++i) {
    Score& score = models[i].score;
    if (!has_labels) continue;
    const size_t samples = score.answers.all().size();
    QDQ_CHECK(samples == labels[i].size(), kInvalidArgument, score.model, " gave ", samples, " predictions for ",
              labels[i].size(), " samples");
    score.top1 = score.answers.top(1, labels[i]);
    score.top5 = score.answers.top(5, labels[i]);
  }
  if (models[0].score.classifies)
    for (const std::string& doubt :
         doubts_about(models[0].score.answers, has_labels ? labels[0] : std::vector<int64_t>(),
                      count_classes(models[0].file.program)))
      host.print_error(concat("qdq: warning: ", models[0].score.model, " ", doubt, "\n"));
  if (!options.json) {
    host.print(table(models, has_labels));
    return;
  }
  host.print(format::print_json(rows_of(models, has_labels), 1) + "\n");
}

std::string note_line(const std::string& note) {
  return note.empty() ? "" : concat("  note              ", note, "\n");
}

void print_summary(const std::string& text, const format::Json& fields, bool json, Host& host) {
  if (json) host.print(format::print_json(fields, 1) + "\n");
  else if (!host.is_quiet()) host.print(text);
}

void add_run(CommandLine& line) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* verb = line.verb("run", "run a model", "qdq run model.onnx --inputs samples.npz -o outputs.npz",
                             [options](Host& host) { run(*options, host); });
  verb->add_option("MODEL", options->model, "the model (.pt2 or .onnx)")->required();
  CLI::Option* inputs =
      verb->add_option("--inputs", options->inputs, "its inputs: .npz, .npy, or images in a folder or a .tar")
          ->type_name("IN");
  CLI::Option* output =
      verb->add_option("-o,--output", options->output,
                       "where to write output_0, output_1, ... (.npz); b0_output_0, ... if batches differ in shape")
          ->type_name("OUT.npz");
  add_generate_options(*verb, *options, {inputs, output});
  add_json_flag(*verb, options->json);
  add_session_options(*verb, options->session);
  add_data_options(*verb, options->data_options);
  for (const char* option : {"--preprocess", "--batch-size", "--limit"})
    verb->get_option("--generate")->excludes(verb->get_option(option)->needs(inputs));
}

void add_evaluate(CommandLine& line) {
  const auto options = std::make_shared<EvaluateOptions>();
  CLI::App* verb = line.verb(
      "evaluate", "measure how often models are right, and how often they agree with the first",
      "qdq evaluate model.onnx model.int8.onnx --data samples.npz --labels labels.csv",
      [options](Host& host) { evaluate(*options, host); },
      [&line, options] {
        require(*line.app.get_subcommand("evaluate"), "--classes", !options->labels.empty(), "--labels");
      });
  verb->add_option("MODEL", options->models, "the models (.pt2 or .onnx)")->required();
  verb->add_option("--data", options->data, "samples: .npz, .npy, or images in a folder or a .tar")
      ->required()
      ->type_name("DATA");
  add_label_options(*verb, options->labels, options->classes);
  add_metric_option(*verb, options->metric);
  add_session_options(*verb, options->session);
  verb->add_flag("--json", options->json, "print JSON");
  add_data_options(*verb, options->data_options);
}

}  // namespace qdq
