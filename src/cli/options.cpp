#include "cli/options.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/nearest_word.h"
#include "profile/runtime_profile.h"
#include "report/metrics.h"

namespace qdq {

namespace {

std::vector<std::string> runtime_names() {
  std::vector<std::string> out;
  for (const RuntimeProfile& profile : runtime_profiles()) out.emplace_back(profile.name);
  return out;
}

// "sr=16000" is 16000 of sr, "x=1,3,224,224" the shape of x; true and false are 1 and 0.
void add_fixed(const std::string& word, OnnxFixed& fixed) {
  const auto wrong = [&] {
    return CLI::ValidationError("--fix", concat("found ", one_line(word),
                                                ", wanted NAME=NUMBER such as batch=1, or "
                                                "NAME=SIZE,SIZE,..., the shape of an input, such as x=1,3,224,224"));
  };
  const size_t sign = word.rfind('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == word.size()) throw wrong();
  const std::string name = word.substr(0, sign), value = word.substr(sign + 1);
  if (fixed.values.count(name) || fixed.shapes.count(name))
    throw CLI::ValidationError("--fix", concat(one_line(name), " is given twice; wanted one value"));
  const char* at = value.c_str();
  char* end = nullptr;
  if (value == "true" || value == "false") fixed.values[name] = value == "true";
  else if (value.find(',') == std::string::npos) {
    fixed.values[name] = std::strtod(at, &end);
    if (*end != 0) throw wrong();
  } else {
    std::vector<int64_t>& sizes = fixed.shapes[name];
    for (; *at != 0; at = *end == ',' ? end + 1 : end) {
      sizes.push_back(std::strtoll(at, &end, 10));
      if (end == at || (*end != ',' && *end != 0)) throw wrong();
    }
  }
}

}  // namespace

std::optional<uint64_t> bytes_in(const std::string& text) {
  char* unit = nullptr;
  const double number = std::strtod(text.c_str(), &unit);
  if (!(number >= 1)) return std::nullopt;
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"b", 1},        {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},
      {"tb", 1e12}, {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}};
  for (const auto& [name, bytes] : kUnits)
    if (CLI::detail::to_lower(unit) == name && number * bytes < 0x1p63) return static_cast<uint64_t>(number * bytes);
  return std::nullopt;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::function<std::string(const std::string&)> whole_number(int64_t lowest, int64_t highest) {
  return [=](const std::string& text) -> std::string {
    int64_t number = 0;
    if (CLI::detail::lexical_cast(text, number) && number >= lowest && number <= highest) return "";
    const std::string end =
        highest == INT64_MAX ? concat("of at least ", lowest) : concat("from ", lowest, " to ", highest);
    return concat("found ", text, ", wanted a whole number ", end);
  };
}

std::function<std::string(const std::string&)> one_of(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& text) -> std::string {
    // What an unset variable of the shell gives is refused for all options alike.
    if (text.empty() || std::ranges::find(words, text) != words.end()) return "";
    std::string wanted = words[0];
    for (size_t i = 1; i < words.size(); ++i) wanted += (i + 1 == words.size() ? " or " : ", ") + words[i];
    const std::string meant = nearest_word(text, words);
    return concat("found ", one_line(text), meant.empty() ? "" : " (did you mean " + meant + "?)", ", wanted ", wanted);
  };
}

OptionsUnder::OptionsUnder(CLI::App& verb, const std::string& heading)
    : defaults_(*verb.option_defaults()), before_(defaults_.get_group()) {
  defaults_.group(heading);
}

OptionsUnder::~OptionsUnder() { defaults_.group(before_); }

void require(const CLI::App& verb, const char* option, bool is_there, const char* wanted) {
  if (!is_there && verb.count(option) > 0) throw CLI::RequiresError(option, wanted);
}

void add_data_options(CLI::App& verb, DataOptions& options) {
  const OptionsUnder heading(verb, "Samples");
  verb.add_option("--preprocess", options.preprocess,
                  "how images become inputs: a JSON file with resize, crop, scale, mean, std, ...")
      ->type_name("FILE.json");
  verb.add_option_function<int64_t>(
          "--batch-size",
          [&options](int64_t size) {
            options.batch_size = size;
            options.is_batch_size_wanted = true;
          },
          "samples per batch, if the model leaves the batch size open (16)")
      ->type_name("N")
      ->check(whole_number(1));
  verb.add_option("--limit", options.limit,
                  "use only N samples: the first N; of images in folders, the same number from each folder")
      ->type_name("N")
      ->check(whole_number(1));
}

CLI::Option* add_metric_option(CLI::App& verb, std::string& metric) {
  return verb
      .add_option("--metric", metric,
                  "how outputs are judged: box-f1 or box-map (against the float model's boxes), token-f1, perplexity, "
                  "or a command that prints a number, more is better; {outputs} in it becomes the path of an .npz, "
                  "{labels} the file of --labels")
      ->check([](const std::string& text) -> std::string {
        if (text.empty() || find_metric(text) || text.find("{outputs}") != std::string::npos) return "";
        return concat("found ", one_line(text), ", wanted ", metric_names(),
                      ", or a command that says where the file with the outputs comes: write {outputs} there");
      })
      ->type_name("METRIC");
}

CLI::Option* add_label_options(CLI::App& verb, std::string& labels, std::string& classes) {
  const OptionsUnder heading(verb, "Samples");
  verb.add_option("--classes", classes,
                  "the names of the classes, one per line; with --labels folders, the names of the folders")
      ->type_name("FILE.txt");
  return verb
      .add_option("--labels", labels,
                  "the samples' classes: .npy, .npz, .csv (file,label), or a word: folders (the folder of each image) "
                  "or cls (KEY.cls beside KEY.jpg)")
      ->type_name("LABELS");
}

CLI::Option* add_fx_option(CLI::App& verb, std::string& fx) {
  return verb
      .add_option("--fx", fx,
                  "FX graph mode with PyTorch's default mapping for x86, fbgemm, qnnpack, onednn or executorch")
      ->type_name("BACKEND")
      ->check(one_of({"x86", "fbgemm", "qnnpack", "onednn", "executorch"}));
}

CLI::Option* add_observer_option(CLI::App& verb, std::string& observer) {
  return verb
      .add_option("--observer", observer,
                  "how to find the ranges of activations: min-max, percentile (99.99 % of the values), entropy "
                  "(least divergence) or mse (least squared error); default: PyTorch's histogram")
      ->type_name("NAME")
      ->check(one_of({"min-max", "percentile", "entropy", "mse"}));
}

CLI::Option* add_group_size_option(CLI::App& verb, int64_t& group_size) {
  return verb
      .add_option("--group-size", group_size,
                  "give each N neighbours in a row of a linear layer's weight a scale of their own; "
                  "with --dynamic, activations get one per token")
      ->check(whole_number(2, 1 << 16))
      ->type_name("N");
}

CLI::Option* add_quantizer_options(CLI::App& verb, QuantizerOptions& options) {
  const OptionsUnder heading(verb, "What to quantize");
  auto* quantizer =
      verb.add_option("--quantizer", options.quantizer, "xnnpack (default; weights per channel) or x86-inductor")
          ->type_name("NAME")
          ->check(one_of({"xnnpack", "x86-inductor", "XNNPACKQuantizer", "X86InductorQuantizer"}));
  auto* recipe = verb.add_option("--recipe", options.recipe, "a recipe that says what to quantize and how")
                     ->type_name("FILE.json");
  auto* fx = add_fx_option(verb, options.fx);
  auto* runtime = verb.add_option("--for", options.runtime,
                                  "the runtime to quantize for: ort, ort-web, transformers.js, webnn, openvino, qnn, "
                                  "executorch or x86 (without VNNI)")
                      ->type_name("RUNTIME")
                      ->check(one_of(runtime_names()));
  auto* dynamic = verb.add_flag("--dynamic", options.dynamic,
                                "find the ranges of activations while the model runs; needs no samples");
  auto* weights_only = verb.add_flag("--weights-only", options.weights_only,
                                     "store weights as int8 and compute in float; needs no samples");
  auto* reduce_range =
      verb.add_flag("--reduce-range", options.reduce_range,
                    "use one bit less for weights, so that int8 products do not saturate on processors without VNNI");
  verb.add_flag(
          "--equalize", options.equalize,
          "with --fx: scale the channels of inputs and weights against each other, so that small channels lose less")
      ->needs(fx);
  verb.add_option("--exclude", options.exclude,
                  "leave a module or all modules of a type in float: features.0, torch.nn.Linear; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  auto* weight_bits =
      verb.add_option("--weight-bits", options.weight_bits,
                      "bits of the weights' integers, 2 to 8 (8); with --for, 7 or 8; below 8, add --recover")
          ->check(whole_number(2, 8))
          ->type_name("N");
  auto* observer = add_observer_option(verb, options.observer);
  auto* group_size = add_group_size_option(verb, options.group_size);
  verb.add_option("--activation-bits", options.activation_bits,
                  "with --for qnn: bits of the activations' integers, 8 (default) or 16")
      ->check(one_of({"8", "16"}))
      ->needs(runtime)
      ->type_name("N");
  weight_bits->excludes(reduce_range);
  for (CLI::Option* other : {quantizer, fx, dynamic, weights_only, reduce_range, weight_bits, group_size, observer})
    recipe->excludes(other);
  for (CLI::Option* other : {dynamic, weights_only, group_size}) observer->excludes(other);
  for (CLI::Option* other : {quantizer, fx, recipe, weights_only, reduce_range, group_size}) runtime->excludes(other);
  group_size->excludes(fx);
  quantizer->excludes(fx);
  dynamic->excludes(weights_only);
  return runtime;
}

CLI::Option* add_qat_option(CLI::App& verb, QuantizerOptions& options) {
  const OptionsUnder heading(verb, "What to quantize");
  return verb.add_flag(
      "--qat", options.qat,
      "prepare the model as qdq train does: with fake quantizers, and batch norms rounded with their convolutions");
}

std::vector<CLI::Option*> add_onnx_options(CLI::App& verb, OnnxOptions& options) {
  const OptionsUnder heading(verb, "ONNX files");
  auto* opset = verb.add_option("--onnx-opset", options.opset,
                                "the opset of the .onnx file, 17 to 21 (default: the first that has all operators)")
                    ->check(whole_number(17, 21))
                    ->type_name("N");
  verb.add_flag("--onnx-data", options.external_data,
                "write the tensors of the .onnx file to a file next to it, OUT.data");
  auto* are_signed =
      verb.add_flag("--onnx-signed-activations", options.signed_activations,
                    "write int8 activations as int8 (default: as uint8 with the same values, for ONNX Runtime on x86)");
  verb.add_flag("--onnx-dedicated-pairs", options.dedicated_pairs,
                "give each operator that reads a quantized value its own QuantizeLinear and DequantizeLinear");
  verb.add_option(
          "--onnx-accuracy-level", options.accuracy_level,
          "how ONNX Runtime multiplies 4-bit weights in groups: 4 in int8, which is faster, 1 in float (default: "
          "as it likes)")
      ->check(whole_number(0, 4))
      ->type_name("N");
  verb.add_option_function<std::string>(
          "--onnx-format", [&options](const std::string& word) { options.format = onnx_format_of(word); },
          "write quantized operators as qdq, float operators between DequantizeLinear and QuantizeLinear (default), or "
          "as qoperator: QLinearConv, QLinearMatMul, ...")
      ->check(one_of({"qdq", "qoperator"}))
      ->type_name("FORMAT");
  verb.add_option_function<std::string>(
          "--onnx-groups", [&options](const std::string& word) { options.groups = onnx_groups_of(word); },
          "write weights in groups as matmul-nbits (4 or 8 bits) or as blocks of DequantizeLinear (opset 21) (default: "
          "4 bits as matmul-nbits)")
      ->check(one_of({"matmul-nbits", "blocks"}))
      ->type_name("FORM");
  return {opset, are_signed};
}

void add_fix_option(CLI::App& verb, OnnxFixed& fixed) {
  const OptionsUnder heading(verb, "ONNX files");
  verb.add_option_function<std::vector<std::string>>(
          "--fix",
          [&fixed](const std::vector<std::string>& words) {
            for (const std::string& word : words) add_fixed(word, fixed);
          },
          "make an input, an open size or an input's shape of an ONNX model constant: --fix sr=16000 --fix batch=1 "
          "--fix x=1,3,224,224")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_session_options(CLI::App& verb, SessionOptions& options) {
  const OptionsUnder heading(verb, "How it runs");
  verb.add_option("--backend", options.backend, "reference, simd or onednn (native builds)")
      ->type_name("NAME")
      ->check(one_of({"reference", "simd", "onednn"}));
  verb.add_flag("--node-by-node", options.node_by_node, "run the graph as it is, without fused steps");
  verb.add_flag("--bf16", options.bf16,
                "compute in bfloat16 what is not quantized, as autocast does (no gain on processors without bfloat16)");
}

void add_json_flag(CLI::App& verb, bool& json) { verb.add_flag("--json", json, "print what was done as JSON"); }

}  // namespace qdq
