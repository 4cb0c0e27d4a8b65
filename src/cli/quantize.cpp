// `qdq quantize`: calibrates a float model and writes its int8 form.
#include <algorithm>
#include <optional>
#include <span>

#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/quantize_precision.h"
#include "cli/quantize_recovery.h"
#include "cli/quantize_summary.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"
#include "exec/op_backend.h"
#include "format/bytes.h"
#include "format/image.h"
#include "format/json.h"
#include "io/model.h"
#include "lower/lower.h"
#include "profile/runtime_verdicts.h"
#include "profile/transformers_js.h"
#include "quant/explain.h"
#include "quant/pt2e.h"
#include "quant/qat.h"
#include "recover/awq.h"
#include "recover/gptq.h"
#include "recover/recovery.h"
#include "recover/statistics.h"
#include "report/evaluation.h"
#include "report/graph_report.h"
#include "report/layer_gains.h"
#include "report/layer_comparison.h"
#include "report/observers_report.h"
#include "report/quantization_report.h"
#include "state/state_file.h"

namespace qdq {

namespace {

// The backend that is asked first during calibration; null if there is only the portable one, whose bits are the same
// in every build.
std::unique_ptr<OpBackend> backend_of(const std::string& name) {
  if (name.empty() || name == "simd") return nullptr;
  auto backend = make_onednn_ops();
  QDQ_CHECK_USAGE(backend != nullptr, "this build has no oneDNN; wanted --backend simd");
  return backend;
}

// What the file of --report is made of besides the quantized program.
struct Shown {
  Program program;            // the float one, as it was before preparing changed it
  std::unique_ptr<Data> own;  // null: the calibration data
  Data* data;                 // the samples; null: there are none
  std::string folder;         // of the samples that both models are shown
  std::vector<int64_t> labels;
  Classes classes;
};

// Opens what the report is to show, so that labels that do not fit are refused before the work begins.
Shown open_shown(const QuantizeOptions& options, const Program& program, Data* calibration, Host& host) {
  Shown shown{program.clone(), nullptr, calibration, options.test.empty() ? options.data : options.test, {}, {}};
  if (!options.test.empty()) {
    DataOptions test_options = options.data_options;
    test_options.limit = 0;
    shown.own = open_samples(options.test, program, test_options, host);
    shown.data = shown.own.get();
  }
  shown.classes = read_classes(options.classes, count_classes(program), host.files);
  QDQ_CHECK_USAGE(shown.data || options.labels.empty(), "--labels needs samples; give them with --test");
  if (!options.labels.empty()) shown.labels = labels_from(options.labels, *shown.data, shown.classes, host);
  return shown;
}

// Runs both models on all samples: what Evaluation::report gives, with the samples' files and small pictures of them.
format::Json evaluation_of(const Shown& shown, const Program& converted, Host& host) {
  Data& data = *shown.data;
  constexpr int64_t kSide = 96;
  Evaluation evaluation(shown.program, converted, shown.labels);
  {
    Progress progress(host, "running both models", data.num_batches(), "batches");
    data.expect(0, data.num_batches());
    for (int64_t i = 0; i < data.num_batches(); ++i) {
      evaluation.add(data.batch(i));
      progress.advance();
    }
  }
  format::Json out = evaluation.report();
  for (const format::Json& warning : out.value("warnings", format::Json::array()))
    host.print_error(concat("qdq: warning: ", warning.get<std::string>(), "\n"));
  if (out.contains("predictions")) {
    for (format::Json& sample : out["predictions"]) {
      const auto i = sample["sample"].get<int64_t>();
      const std::string file = data.file_of(i);
      sample["file"] = file.empty() ? concat("sample ", i) : file;
      if (file.empty()) continue;
      const Tensor image = format::decode_image(data.read(file), shown.folder + "/" + file);
      const format::Bytes picture = format::thumbnail(image, kSide);
      sample["image"] = "data:image/jpeg;base64," + format::base64(picture);
    }
  }
  if (!shown.classes.names.empty()) out["classes"] = shown.classes.names;
  return out;
}

// The file that --report writes. Errors of the layers are measured on the first samples, for they cost two runs without
// fused kernels: those of the calibration, if there are any, else those shown.
std::string report_of(const QuantizeOptions& options, const Shown& shown, const Prepared& prepared,
                      const Program& converted, Data* calibration, const format::Json& recovery,
                      std::pair<uint64_t, uint64_t> bytes, Host& host) {
  constexpr int64_t kSamples = 16;
  format::Json report = quantization_report(prepared, converted);
  report["made"] = made_by(options.command, host);
  report["model"] = file_name(options.model);
  report.update(graph_report(*shown.program.graph));
  report["recipe"] = read_recipe(options.quantizer, host);
  report["bytes"] = {bytes.first, bytes.second};
  for (const char* part : {"remedies", "precision"})
    if (recovery.contains(part)) report[part] = recovery[part];
  if (calibration) report["samples"] = calibration->num_samples();
  if (!shown.data) return report_html(report);
  report.update(evaluation_of(shown, converted, host));
  Data& data = calibration ? *calibration : *shown.data;
  const FloatProgram floats(prepared);
  if (!has_layers_to_compare(floats.program())) return report_html(report);
  LayerComparison errors(floats.program(), {&converted});
  const int64_t batches =
      std::min(data.num_batches(), std::max<int64_t>(1, kSamples * data.num_batches() / data.num_samples()));
  Progress progress(host, "comparing layers", batches, "batches");
  data.expect(0, batches);
  for (int64_t i = 0; i < batches; ++i) {
    errors.add(data.batch(i));
    progress.advance();
  }
  report["errors"] = errors.json();
  return report_html(report);
}

void calibrate(Prepared& prepared, Data& data, Host& host) {
  Progress progress(host, "calibrating", data.num_batches(), "batches");
  data.expect(0, data.num_batches());
  for (int64_t i = 0; i < data.num_batches(); ++i) {
    prepared.run(data.batch(i));
    progress.advance();
  }
}

void warn(const std::string& message, Host& host) { host.print_error(concat("qdq: warning: ", message, "\n")); }

Model open_float(const QuantizeOptions& options, Host& host) {
  Model model = open_to_write(options.model, options.fixed, host);
  try {
    check_ops(*model.program.graph);
  } catch (const Error& error) {
    if (!options.report.empty()) throw;  // a report runs both models
    warn(concat(error.message, "; they and everything behind them stay as they are"), host);
  }
  if (options.allow_training_mode && !move_exported_model_to_eval(model.program))
    warn("the model was not exported in training mode; --allow-training-mode does nothing", host);
  return model;
}

// Before the samples are run: refuses what could not be written behind them, and warns of what changes nothing in the
// graph or the file.
void check_form(const QuantizeOptions& options, const OnnxOptions& onnx, const Prepared& prepared, Host& host) {
  const ConvertOptions given{options.use_reference_representation, !options.no_fold_quantize};
  const bool is_onnx = options.output.ends_with(".onnx");
  if (!is_onnx && !given.use_reference_representation && given.fold_quantize) return;
  const Program form = form_of_converted(prepared, given);
  const auto warn_if_same = [&](const char* option, const ConvertOptions& without) {
    if (to_text(*form_of_converted(prepared, without).graph) == to_text(*form.graph))
      warn(concat(option, " does nothing: this model's graph is the same without it"), host);
  };
  if (given.use_reference_representation) warn_if_same("--reference-representation", {false, given.fold_quantize});
  if (!given.fold_quantize) warn_if_same("--no-fold-quantize", {given.use_reference_representation, true});
  if (is_onnx) check_onnx_form(form, options.output, options.onnx, onnx, host);
}

Calibration open_statistics(const QuantizeOptions& options, Host& host) {
  Calibration out;
  if (!options.data.ends_with(".json")) return out;
  out.text = format::text_of(host.files.read(options.data));
  out.statistics = format::parse_json(out.text, options.data);
  out.is_state = is_state(out.statistics);
  return out;
}

// A few of the batches, spread over all: enough to see whether an output dies.
std::vector<Batch> batches_to_judge(Data& data) {
  constexpr int64_t kMost = 4;
  const int64_t count = data.num_batches(), wanted = std::min(kMost, count);
  std::vector<Batch> out;
  for (int64_t i = 0; i < wanted; ++i) out.push_back(data.batch(wanted == 1 ? 0 : i * (count - 1) / (wanted - 1)));
  return out;
}

// Shows the prepared program the samples, or what others saw of samples, and lets it recover by them.
void observe(const QuantizeOptions& options, Prepared& prepared, Calibration& calibration, Host& host) {
  if (calibration.is_state) load_state(prepared, parse_state(calibration.text, options.data), options.data);
  else if (!calibration.statistics.is_null()) load_observers(prepared, calibration.statistics, options.data);
  const bool needs_data = calibration.needs_data = prepared.needs_data();
  const auto& data = calibration.data;
  QDQ_CHECK_USAGE(
      data || !needs_data,
      "this recipe takes the ranges of activations from samples; give some with --calibrate (.npz, .npy or a folder of "
      "images), or quantize dynamically");
  const bool by_norms = !needs_data && !calibration.is_state && !wishes_precision(options) && options.recover &&
                        recovers_without_data(prepared);
  const bool wanted = !by_norms && wants_recovery(options, data != nullptr, calibration.is_state);
  QDQ_CHECK_USAGE(!options.awq || !calibration.is_state, "--awq needs samples, and ", options.data,
                  " has statistics of them; give the samples");
  QDQ_CHECK_USAGE(
      !options.gptq || data || calibration.is_state,
      "--gptq rounds weights by samples; give some with --calibrate, or the statistics of qdq calibrate --recover");
  QDQ_CHECK_USAGE(!options.awq || data, "--awq scales channels by samples; give some with --calibrate");
  if (options.gptq && !gptq_has_layers(prepared))
    warn("--gptq does nothing: no linear layer has a weight in groups; see --group-size", host);
  const bool has_places = options.awq && awq_has_places(prepared);
  if (options.awq && !has_places)
    warn("--awq does nothing: no weight in groups (see --group-size) reads channels whose size can change", host);
  if (calibration.is_state && (wanted || options.gptq)) {
    calibration.recovery = recover_by_state(options, prepared, host);
    return;
  }
  if (wanted) check_recoverable(prepared);
  if (wanted && wishes_precision(options)) check_goal(options, prepared.program(), *data, host);
  if (wanted && !needs_data && options.recover)
    warn(concat("--recover does nothing: this recipe takes no ranges from samples in this model"), host);
  if (calibration.uses_data()) {
    const size_t told = prepared.warnings().size();
    calibrate(prepared, *data, host);
    if (!wanted)
      for (const std::string& warning : std::span(prepared.warnings()).subspan(told)) warn(warning, host);
  }
  if (calibration.uses_data() || !calibration.statistics.is_null())
    for (const std::string& doubt : doubts_about_calibration(prepared)) warn(doubt, host);
  if (options.awq) calibration.scaled = scale_for_groups(prepared, *data, host);
  if (options.awq && calibration.scaled == 0 && has_places)
    warn("--awq changed nothing: on these samples the channels lose least as they are", host);
  const auto recover = [&] {
    calibration.recovery = recover_accuracy(options, options.recover && needs_data, prepared, *data, host);
  };
  const bool chooses = wanted && wishes_precision(options);
  if (chooses) recover();  // layers are rounded beside those that get more bits
  if (options.gptq) calibration.rounded = round_groups(prepared, *data, host);
  if (by_norms) calibration.recovery = recover_by_norms(options, prepared, host);
  if (wanted && needs_data && !chooses) recover();
  if (calibration.uses_data())
    for (const std::string& warning : lost_outputs(prepared, batches_to_judge(*data), wanted)) warn(warning, host);
}

// What the written graph looks like.
void add_graph_options(CLI::App& verb, QuantizeOptions& options) {
  const OptionsUnder heading(verb, "What to quantize");
  verb.add_flag("--reference-representation", options.use_reference_representation,
                "write the integer arithmetic as operators of the graph");
  verb.add_flag("--no-fold-quantize", options.no_fold_quantize,
                "keep float weights, each followed by a quantize operator");
}

void add_report_options(CLI::App& verb, QuantizeOptions& options) {
  const OptionsUnder heading(verb, "Reports");
  verb.add_option("--observers", options.observers, "write the class, settings, state and tensors of every observer")
      ->type_name("FILE.json");
  verb.add_option("--report", options.report,
                  "write a page that shows each layer's result and error, and the observed ranges")
      ->type_name("FILE.html");
  verb.add_option("--test", options.test,
                  "samples for the report's comparison of both models (default: those of --calibrate)")
      ->type_name("DATA");
  verb.add_flag("--time-layers", options.time_layers,
                "run both models on the first batch, and list the layers that int8 makes no faster on this machine");
}

void add_recovery_options(CLI::App& verb, const std::shared_ptr<QuantizeOptions>& options) {
  const OptionsUnder heading(verb, "Accuracy, size and speed");
  verb.add_flag("--recover", options->recover,
                "recover accuracy on the samples by better ranges, outputs and biases, without labels or training; "
                "without samples, correct biases from batch norms");
  auto* agreement = verb.add_option("--target-agreement", options->target_agreement,
                                    "leave operators in float until this percentage of the samples of --calibrate gets "
                                    "the float model's answer")
                        ->type_name("PERCENT");
  verb.add_option("--target-drop", options->target_drop,
                  "the same, until top-1 on these samples (by --labels) is at most this many points below float's")
      ->excludes(agreement)
      ->type_name("POINTS");
  CLI::Option* metric = add_metric_option(verb, options->metric);
  CLI::Option* target = verb.add_option("--target-metric", options->target_metric,
                                        "the same, until --metric gives this number or a better one for these samples")
                            ->excludes(agreement)
                            ->excludes("--target-drop")
                            ->needs(metric)
                            ->type_name("NUMBER");
  metric->needs(target);
  verb.add_option("--max-size", options->max_size,
                  "write the most accurate file of at most this size (2500000, 2.5MB, 900kB); with a --target- option, "
                  "the smallest that reaches it")
      ->transform(CLI::Validator(
          [](std::string& text) {
            const std::optional<uint64_t> bytes = bytes_in(text);
            if (!bytes) return concat("found ", text, ", wanted a size such as 2500000, 2.5MB or 900kB");
            text = std::to_string(*bytes);
            return std::string();
          },
          ""))
      ->type_name("BYTES");
  verb.add_option("--max-latency", options->max_latency,
                  "the same, for the time of the first batch on this machine in milliseconds")
      ->type_name("MS");
  verb.add_option(
          "--precisions", options->precisions,
          "the precisions that operators may get for these goals: int8-weights (in place of 2 to 5 bits), int16 "
          "(activations), bf16, float (float and int8-weights; with --max- options: all)")
      ->delimiter(',')
      ->check(one_of({"int8-weights", "int16", "bf16", "float"}))
      ->type_name("NAMES");
  verb.add_option("--search", options->search,
                  "the file that keeps the search for these goals; a later run resumes from it")
      ->type_name("FILE.json");
  verb.add_flag("--awq", options->awq,
                "scale the channels that weights in groups (--group-size) read, so that large activations lose least");
  verb.add_flag("--gptq", options->gptq,
                "round weights in groups (--group-size) so that layers keep their outputs on the samples");
}

void check_files(const QuantizeOptions& options, Host& host) {
  check_outputs({{"-o", options.output, kModelEndings},
                 {"--observers", options.observers, {".json"}},
                 {"--search", options.search, {".json"}},
                 {"--report", options.report, {".html", ".htm"}}},
                {options.model, options.data, options.test, options.labels, options.classes, options.quantizer.recipe,
                 options.data_options.preprocess},
                host);
  check_onnx_options(options.onnx, options.output);
  check_preprocess(options.data_options, {options.data, options.test});
}

// What belongs to samples or to a report that is not there.
void check_quantize_words(const CLI::App& verb, const QuantizeOptions& options) {
  const bool has_samples = !options.data.empty() && !options.data.ends_with(".json");
  const char* samples = options.data.empty() ? "--calibrate" : "--calibrate with samples";
  require(verb, "--limit", has_samples, samples);
  require(verb, "--batch-size", has_samples || !options.test.empty(), samples);
  require(verb, "--backend", has_samples, samples);
  if (!options.report.empty()) return;
  for (const auto& [option, value] : {std::pair("--test", &options.test), std::pair("--labels", &options.labels),
                                      std::pair("--classes", &options.classes)})
    if (!value->empty() && !((options.target_drop || options.target_metric) && option != std::string_view("--test")))
      throw CLI::RequiresError(option, "--report");
}

void write_observers(const QuantizeOptions& options, const Prepared& prepared, Host& host) {
  if (options.observers.empty()) return;
  host.files.write(options.observers, format::bytes_of(format::print_json(observers_report(prepared), 1) + "\n"));
}

}  // namespace

void quantize(const QuantizeOptions& options, Host& host) {
  if (wants_folder(options)) return quantize_folder(options, host);
  const double began = host.now_seconds();
  OnnxOptions onnx = options.onnx;
  const RuntimeProfile* profile = apply_profile(options.quantizer, options.output, onnx);
  check_files(options, host);
  Model model = open_float(options, host);
  Calibration calibration = open_statistics(options, host);
  const format::Json recipe = read_recipe(options.quantizer, host);
  const std::unique_ptr<Quantizer> quantizer =
      open_recipe(calibration.is_state ? mergeable_recipe(recipe, options.quantizer) : recipe, options.quantizer);
  if (!options.data.empty() && calibration.statistics.is_null())
    calibration.data = open_samples(options.data, model.program, options.data_options, host);

  QDQ_CHECK_USAGE(!options.time_layers || calibration.data,
                  "--time-layers runs both models on the first batch of the samples; give some with --calibrate");
  const bool has_advice = can_advise(options);
  std::optional<Program> floats;  // as they were before preparing changed them
  if (options.time_layers || has_advice) floats = model.program.clone();

  const std::unique_ptr<OpBackend> backend = backend_of(options.backend);
  const std::unique_ptr<OpBackend> portable = make_simd_ops();
  std::optional<Shown> shown;
  if (!options.report.empty()) shown = open_shown(options, model.program, calibration.data.get(), host);
  std::vector<OpBackend*> backends;
  if (backend) backends.push_back(backend.get());
  backends.push_back(portable.get());
  Prepared prepared = options.quantizer.qat ? prepare_qat_pt2e(std::move(model.program), *quantizer, backends)
                                            : prepare_pt2e(std::move(model.program), *quantizer, backends);
  if (options.quantizer.qat) move_exported_model_to_eval(prepared);
  for (const std::string& warning : prepared.warnings()) warn(warning, host);
  check_form(options, onnx, prepared, host);
  calibration.began = host.now_seconds();
  observe(options, prepared, calibration, host);
  calibration.ended = host.now_seconds();
  const Program converted = convert_pt2e(prepared, {options.use_reference_representation, !options.no_fold_quantize});
  std::vector<std::string> left_out;
  const ModelFiles written = wishes_precision(options) ? save_chosen(converted, options.output, onnx, &left_out)
                                                       : save_program(converted, options.output, onnx);
  for (const std::string& option : left_out)
    warn(concat(option, " does nothing: in the chosen precision no operator of the model has that form"), host);
  write_observers(options, prepared, host);
  const std::pair<uint64_t, uint64_t> bytes(model.file_bytes, written.size());
  if (shown) {
    Data* samples = calibration.needs_data ? calibration.data.get() : nullptr;
    const std::string report =
        report_of(options, *shown, prepared, converted, samples, calibration.recovery, bytes, host);
    host.files.write(options.report, format::bytes_of(report));
  }
  written.write(host.files);
  if (!written.warning.empty()) warn(written.warning, host);
  if (options.time_layers)
    calibration.times =
        layer_times(*floats, options.use_reference_representation ? convert_pt2e(prepared) : converted.clone(),
                    calibration.data->batch(0));
  const std::string note = profile == nullptr || profile->saturates ? written.note : "";
  print_quantized(
      options, {prepared, converted, calibration, has_advice ? &*floats : nullptr, profile, note, bytes, began}, host);
}

void add_quantize(CommandLine& line) {
  const auto options = std::make_shared<QuantizeOptions>();
  CLI::App* verb = line.verb(
      "quantize", "make a calibrated int8 model from a float one",
      "qdq quantize model.onnx --calibrate images/ --preprocess preprocess.json \\\n    -o model.int8.onnx",
      [&line, options](Host& host) {
        options->command = line.command;
        quantize(*options, host);
      },
      [&line, options] { check_quantize_words(*line.app.get_subcommand("quantize"), *options); });
  verb->add_option("MODEL", options->model, "the float model (.pt2 or .onnx)")->required();
  verb->add_option(
          "--calibrate", options->data,
          "samples to calibrate on: .npz, .npy, or images in a folder or a .tar; or the .json of calibrate, merge or "
          "--observers; a recipe that quantizes dynamically needs none")
      ->type_name("DATA");
  verb->add_option("-o,--output", options->output,
                   "the model to write (.pt2 or .onnx), or with --for transformers.js the folder of its files")
      ->required()
      ->type_name("OUT");
  CLI::Option* runtime = add_quantizer_options(*verb, options->quantizer);
  verb->add_option("--dtypes", options->dtypes,
                   "the files for transformers.js to write: fp32,fp16,q8,int8,uint8,q4,q4f16,bnb4 (all)")
      ->delimiter(',')
      ->check(one_of(transformers_js_dtypes()))
      ->type_name("NAMES");
  verb->add_option("--model-file-name", options->model_file_name, "how the names of those files begin (model)")
      ->type_name("NAME");
  runtime->excludes(add_qat_option(*verb, options->quantizer));
  add_data_options(*verb, options->data_options);
  add_graph_options(*verb, *options);
  add_recovery_options(*verb, options);
  verb->add_option("--backend", options->backend,
                   "calibrate on simd (default; all builds write the same file) or onednn")
      ->type_name("NAME")
      ->check(one_of({"simd", "onednn"}));
  add_report_options(*verb, *options);
  add_label_options(*verb, options->labels, options->classes);
  for (CLI::Option* fixed : add_onnx_options(*verb, options->onnx)) runtime->excludes(fixed);
  add_fix_option(*verb, options->fixed);
  verb->add_flag("--allow-training-mode", options->allow_training_mode,
                 "accept a model that was exported in training mode, in its inference form");
  add_json_flag(*verb, options->json);
}

}  // namespace qdq
