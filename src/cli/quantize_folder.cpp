// `qdq quantize --for transformers.js -o FOLDER`: the files that transformers.js finds by its dtype.
#include <algorithm>

#include "cli/progress.h"
#include "cli/quantize_recovery.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"
#include "format/json.h"
#include "io/model.h"
#include "lower/lower.h"
#include "profile/transformers_js.h"
#include "quant/explain.h"
#include "quant/pt2e.h"
#include "recipe/recipe.h"

namespace qdq {

namespace {

struct WrittenFile {
  std::string dtype, path;
  uint64_t bytes = 0;
  int64_t layers = 0, quantized = 0, rounded = 0;
  bool is_there = false;   // it is the model that was read
  bool has_data = false;   // beside it
  bool saturates = false;  // on x86 processors without VNNI
};

WrittenFile write_one(const QuantizeOptions& options, const Program& floats, const std::string& dtype, Data* data,
                      Host& host) {
  TransformersJsFile file = transformers_js_file(floats, dtype);
  WrittenFile out{dtype, concat(options.output, "/", transformers_js_path(file, options.model_file_name))};
  if (host.files.is_same(out.path, options.model)) {
    out.bytes = host.files.size_of(out.path);
    out.is_there = true;
    return out;
  }
  Program program = floats.clone();
  if (!file.recipe.is_null()) {
    for (const std::string& name : options.quantizer.exclude) exclude(file.recipe, name, "the quantizer");
    const auto quantizer = parse_recipe(file.recipe, "the recipe of " + dtype);
    Prepared prepared = prepare_pt2e(std::move(program), *quantizer);
    if (!options.quantizer.exclude.empty())
      for (const std::string& warning : prepared.warnings())
        host.print_error(concat("qdq: warning: the file of dtype ", dtype, ": ", warning, "\n"));
    if (data) out.rounded = round_groups(prepared, *data, host);
    program = convert_pt2e(prepared);
    out.layers = count_layers(prepared, program);
    out.quantized = out.layers - static_cast<int64_t>(left_in_float(prepared, program).size());
  }
  const ModelFiles written = save_program(program, out.path, file.onnx);
  written.write(host.files);
  out.bytes = written.size();
  out.has_data = !written.data.empty();
  out.saturates = !written.note.empty() && !file.onnx.unsigned_weights;
  return out;
}

}  // namespace

bool wants_folder(const QuantizeOptions& options) {
  const bool is_folder = options.quantizer.runtime == "transformers.js" && !options.output.ends_with(".onnx");
  QDQ_CHECK_USAGE(is_folder || (options.dtypes.empty() && options.model_file_name == "model"),
                  options.dtypes.empty() ? "--model-file-name" : "--dtypes",
                  " goes with --for transformers.js and a folder as the output");
  if (!is_folder) return false;
  QDQ_CHECK_USAGE(!options.output.ends_with(".pt2"), "transformers.js reads .onnx files, but the output is ",
                  options.output, "; give it that ending, or name a folder");
  for (const auto& [given, word] : {std::pair(options.data.ends_with(".json"), "the statistics of --calibrate"),
                                    std::pair(options.awq, "--awq"),
                                    std::pair(options.gptq, "--gptq"),
                                    std::pair(!options.observers.empty(), "--observers"),
                                    std::pair(!options.report.empty(), "--report"),
                                    std::pair(!options.quantizer.observer.empty(), "--observer"),
                                    std::pair(!options.backend.empty(), "--backend"),
                                    std::pair(options.quantizer.dynamic, "--dynamic"),
                                    std::pair(options.onnx.external_data, "--onnx-data"),
                                    std::pair(options.recover, "--recover"),
                                    std::pair(options.target_agreement.has_value(), "--target-agreement"),
                                    std::pair(options.target_drop.has_value(), "--target-drop"),
                                    std::pair(options.target_metric.has_value(), "--target-metric"),
                                    std::pair(options.max_size.has_value(), "--max-size"),
                                    std::pair(options.max_latency.has_value(), "--max-latency"),
                                    std::pair(!options.precisions.empty(), "--precisions"),
                                    std::pair(!options.search.empty(), "--search"),
                                    std::pair(options.use_reference_representation, "--reference-representation"),
                                    std::pair(options.no_fold_quantize, "--no-fold-quantize"),
                                    std::pair(options.time_layers, "--time-layers"),
                                    std::pair(options.quantizer.activation_bits != 8, "--activation-bits"),
                                    std::pair(options.quantizer.weight_bits != 8, "--weight-bits"),
                                    std::pair(options.onnx.dedicated_pairs, "--onnx-dedicated-pairs"),
                                    std::pair(options.onnx.accuracy_level.has_value(), "--onnx-accuracy-level"),
                                    std::pair(options.onnx.groups != OnnxGroups::kDefault, "--onnx-groups"),
                                    std::pair(options.onnx.format != OnnxFormat::kQdq, "--onnx-format"),
                                    std::pair(options.allow_training_mode, "--allow-training-mode")})
    QDQ_CHECK_USAGE(
        !given, word,
        " is for one file, but --for transformers.js writes several into a folder; name an output that ends in .onnx");
  const auto is_rounded = [](const std::string& dtype) { return dtype == "q4" || dtype == "q4f16"; };
  QDQ_CHECK_USAGE(options.data.empty() || options.dtypes.empty() ||
                      std::any_of(options.dtypes.begin(), options.dtypes.end(), is_rounded),
                  "--calibrate rounds the weights of q4 and q4f16 alone, and --dtypes names neither; leave it out");
  for (auto dtype = options.dtypes.begin(); dtype != options.dtypes.end(); ++dtype)
    QDQ_CHECK_USAGE(std::count(dtype, options.dtypes.end(), *dtype) == 1, "--dtypes names ", *dtype,
                    " twice; name each once");
  check_preprocess(options.data_options, {options.data});
  return true;
}

void quantize_folder(const QuantizeOptions& options, Host& host) {
  const double began = host.now_seconds();
  const std::vector<std::string> known = transformers_js_dtypes();
  const std::vector<std::string>& dtypes = options.dtypes.empty() ? known : options.dtypes;
  const Model model = open_to_write(options.model, options.fixed, host);
  for (const std::string& dtype : dtypes)
    transformers_js_path(transformers_js_file(model.program, dtype), options.model_file_name);
  const std::unique_ptr<Data> data =
      options.data.empty() ? nullptr : open_samples(options.data, model.program, options.data_options, host);
  host.files.make_folder(options.output + "/onnx");
  std::vector<WrittenFile> files;
  for (const std::string& dtype : dtypes) {
    try {
      files.push_back(write_one(options, model.program, dtype, data.get(), host));
    } catch (Error& error) {
      error.message = concat("the file of dtype ", dtype, ": ", error.message);
      throw;
    }
  }
  size_t width = 0;
  for (const WrittenFile& file : files) width = std::max(width, file.path.size());
  std::string out, with_data, saturating;
  format::Json fields = {{"output", options.output}, {"files", format::Json::array()}};
  for (const WrittenFile& file : files) {
    out += concat(file.is_there ? "found " : "wrote ", file.path, std::string(width - file.path.size() + 2, ' '),
                  file.dtype, std::string(8 - file.dtype.size(), ' '), human_bytes(file.bytes));
    if (file.layers != 0) out += concat(", ", file.quantized, " of ", file.layers, " layers quantized");
    if (file.rounded != 0) out += concat(", ", file.rounded, " by the samples");
    out += "\n";
    if (file.saturates) saturating += concat(saturating.empty() ? "" : ", ", file.path);
    if (file.has_data) with_data += concat(with_data.empty() ? "" : ", ", file.path);
    fields["files"].push_back({{"dtype", file.dtype},
                               {"path", file.path},
                               {"bytes", file.bytes},
                               {"layers", {{"total", file.layers}, {"quantized", file.quantized}}},
                               {"rounded_by_samples", file.rounded},
                               {"saturates", file.saturates}});
  }
  if (!saturating.empty())
    out += concat("  note  on x86 processors without VNNI, ONNX Runtime's 8-bit sums saturate in ", saturating,
                  ", whose weights are signed; the file of dtype uint8 is exact there\n");
  if (!with_data.empty())
    out += concat("  note  ", with_data, " keep tensors in a separate file; config.json must say so: ",
                  R"("transformers.js_config": {"use_external_data_format": true})", "\n");
  const double seconds = host.now_seconds() - began;
  fields["seconds"] = seconds;
  out += concat("  time  ", human_seconds(seconds), "\n");
  print_summary(out, fields, options.json, host);
}

}  // namespace qdq
