// The command line: words in, an exit status out.
#include "cli/cli.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "base/nearest_word.h"
#include "base/version.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/readable.h"
#include "cli/describe.h"
#include "cli/machine.h"
#include "cli/verbs.h"
#include "format/json.h"

namespace qdq {

namespace {

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2;

// A host that shows texts from files, names of operators and tensors among them, so that they can do no harm.
class ReadableHost final : public Host {
 public:
  explicit ReadableHost(Host& host) : Host(host.files), host_(host) {}

  void print(const std::string& text) override { host_.print(readable(text)); }
  void print_error(const std::string& text) override {
    // A progress bar is qdq's own words and begins with a carriage return.
    host_.print_error(text.starts_with('\r') ? text : colored(message(text)));
  }
  bool error_has_colors() override { return host_.error_has_colors(); }
  bool is_quiet() override { return quiet; }
  std::string date() override { return host_.date(); }
  bool error_is_terminal() override { return host_.error_is_terminal(); }
  double now_seconds() override { return host_.now_seconds(); }
  std::optional<uint64_t> machine_memory() override { return host_.machine_memory(); }

  bool quiet = false;

 private:
  // Warnings begin in yellow, errors in red.
  std::string colored(const std::string& text) {
    if (!host_.error_has_colors()) return text;
    for (const auto& [word, color] : {std::pair("qdq: warning:", "33"), std::pair("qdq:", "31")})
      if (text.starts_with(word))
        return concat("\033[", color, "m", word, "\033[0m", text.substr(std::string_view(word).size()));
    return text;
  }

  static std::string message(std::string text) {
    const bool ends = text.ends_with('\n');
    if (ends) text.pop_back();
    return readable(text, kLongestMessage) + (ends ? "\n" : "");
  }

  Host& host_;
};

// "500MB" is 500,000,000 bytes, "2GiB" 2 * 2^30; without a unit a number is one of bytes.
std::optional<uint64_t> bytes_in(const std::string& text) {
  char* unit = nullptr;
  const double number = std::strtod(text.c_str(), &unit);
  if (!(number >= 1)) return std::nullopt;
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"B", 1},        {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, bytes] : kUnits)
    if (std::string_view(unit) == name && number * bytes < 0x1p63) return static_cast<uint64_t>(number * bytes);
  return std::nullopt;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

// Accepts whole numbers from `lowest` to `highest`, and says in one sentence what else it found.
std::function<std::string(const std::string&)> whole_number(int64_t lowest, int64_t highest = INT64_MAX) {
  return [=](const std::string& text) -> std::string {
    int64_t number = 0;
    if (CLI::detail::lexical_cast(text, number) && number >= lowest && number <= highest) return "";
    const std::string end =
        highest == INT64_MAX ? concat("of at least ", lowest) : concat("from ", lowest, " to ", highest);
    return concat("found ", text, ", wanted a whole number ", end);
  };
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
    throw CLI::ValidationError("--fix", concat(one_line(name), " is given twice"));
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

void add_data_options(CLI::App& verb, DataOptions& options) {
  verb.add_option("--preprocess", options.preprocess,
                  "how images become inputs: a JSON file with resize, crop, scale, mean, std, ...")
      ->type_name("FILE.json");
  verb.add_option_function<int64_t>(
          "--batch-size",
          [&options](int64_t size) {
            options.batch_size = size;
            options.is_batch_size_wanted = true;
          },
          "samples a batch, where the model leaves it open (16)")
      ->type_name("N")
      ->check(whole_number(1));
  verb.add_option("--limit", options.limit,
                  "use only N samples: the first, of images in folders as many of each folder as can be")
      ->type_name("N")
      ->check(whole_number(1));
}

CLI::Option* add_label_options(CLI::App& verb, std::string& labels, std::string& classes) {
  verb.add_option("--classes", classes,
                  "the names of the classes, one on a line; folders of --labels folders are called so")
      ->type_name("FILE.txt");
  return verb
      .add_option("--labels", labels,
                  "the samples' classes: .npy, .npz, .csv (file,label), or a word: folders, each image lies in one, or "
                  "cls, KEY.cls beside KEY.jpg")
      ->type_name("LABELS");
}

// The option that names a runtime, which does not go with all that others add.
CLI::Option* add_quantizer_options(CLI::App& verb, QuantizerOptions& options) {
  auto* quantizer =
      verb.add_option("--quantizer", options.quantizer, "xnnpack (default; weights per channel) or x86-inductor")
          ->type_name("NAME");
  auto* recipe = verb.add_option("--recipe", options.recipe, "a recipe that says what to quantize and how")
                     ->type_name("FILE.json");
  auto* fx =
      verb.add_option("--fx", options.fx,
                      "FX graph mode with PyTorch's default mapping for x86, fbgemm, qnnpack, onednn or executorch")
          ->type_name("BACKEND")
          ->check([](const std::string& name) {
            for (const char* known : {"x86", "fbgemm", "qnnpack", "onednn", "executorch"})
              if (name == known) return std::string();
            return concat("found ", name, ", wanted x86, fbgemm, qnnpack, onednn or executorch");
          });
  auto* runtime = verb.add_option("--for", options.runtime,
                                  "by the profile of the runtime that is to run it: ort, ort-web, transformers.js, "
                                  "webnn, openvino, qnn, executorch or x86 (without VNNI)")
                      ->type_name("RUNTIME");
  auto* dynamic = verb.add_flag("--dynamic", options.dynamic,
                                "find the ranges of activations while the model runs; needs no samples");
  auto* weights_only = verb.add_flag("--weights-only", options.weights_only,
                                     "store weights as int8 and compute in float; needs no samples");
  auto* reduce_range =
      verb.add_flag("--reduce-range", options.reduce_range,
                    "spend a bit less, for runtimes whose int8 products saturate on processors without VNNI");
  verb.add_option("--exclude", options.exclude,
                  "leave this module in float, or all of a type: features.0, torch.nn.Linear; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  auto* weight_bits = verb.add_option("--weight-bits", options.weight_bits,
                                      "bits of the weights' integers (8): 2 to 8; give few --recover")
                          ->check(CLI::Range(2, 8))
                          ->type_name("N");
  weight_bits->excludes(reduce_range);
  for (CLI::Option* other : {quantizer, fx, dynamic, weights_only, reduce_range, weight_bits}) recipe->excludes(other);
  for (CLI::Option* other : {quantizer, fx, recipe, weights_only, reduce_range, weight_bits}) runtime->excludes(other);
  quantizer->excludes(fx);
  dynamic->excludes(weights_only);
  return runtime;
}

CLI::Option* add_qat_option(CLI::App& verb, QuantizerOptions& options) {
  return verb.add_flag("--qat", options.qat,
                       "as qdq train prepares the model: fake quantizers, batch norms rounded with their convolutions");
}

// The verbs write their options into this and, when the words are read, say what is to be done.
struct CommandLine {
  explicit CommandLine(ReadableHost& host) : host(host) {
    app.require_subcommand(1);
    app.get_formatter()->label("SUBCOMMAND", "VERB");
    app.set_version_flag("--version", [] { return concat("qdq ", QDQ_VERSION, " (", machine_text(), ")"); });
    add_quantize();
    add_calibrate();
    add_merge();
    add_train();
    add_run();
    add_evaluate();
    add_compare();
    add_sensitivity();
    add_benchmark();
    add_inspect();
    add_convert();
    add_descriptions();
    // of this alone: verbs inherit what is there when they are added
    app.footer("qdq VERB --help lists what a verb takes.");
  }

  // `check`, if given, throws a CLI::ParseError for words that do not go together.
  CLI::App* verb(const char* name, const char* description, std::function<int()> body,
                 std::function<void()> check = {}) {
    CLI::App* verb = app.add_subcommand(name, description)->group("Verbs");
    verb->add_option("--threads", threads, "threads to use (1); results do not depend on it")
        ->type_name("N")
        ->check(whole_number(1, 1024));
    verb->add_flag("-q,--quiet", host.quiet, "print only results that were asked for, warnings and errors");
    verb->add_option("--max-memory", max_memory,
                     "refuse work that needs more memory: 500MB, 2GiB (what the machine has; of WebAssembly 4GiB)")
        ->type_name("SIZE")
        ->check([](const std::string& text) {
          return bytes_in(text) ? "" : "found " + text + ", wanted a size such as 500MB, 1.5GB or 2GiB";
        });
    verb->callback([this, body = std::move(body), check = std::move(check)] {
      if (check) check();
      work = body;
    });
    return verb;
  }

  void add_quantize() {
    CLI::App* verb = this->verb(
        "quantize", "make a calibrated int8 model from a float one",
        [this] {
          qdq::quantize(quantize, host);
          return kDone;
        },
        [this] {
          if (!quantize.report.empty()) return;
          for (const auto& [option, value] :
               {std::pair("--test", &quantize.test), std::pair("--labels", &quantize.labels),
                std::pair("--classes", &quantize.classes)})
            if (!value->empty() && !(quantize.target_drop && option != std::string_view("--test")))
              throw CLI::RequiresError(option, "--report");
        });
    verb->add_option("MODEL", quantize.model, "the float model (.pt2 or .onnx)")->required();
    verb->add_option(
            "--calibrate", quantize.data,
            "samples to calibrate on: .npz, .npy, or images in a folder or a .tar; or the .json of calibrate, merge or "
            "--observers; a recipe that quantizes dynamically needs none")
        ->type_name("DATA");
    verb->add_option("-o,--output", quantize.output, "the model to write (.pt2 or .onnx)")
        ->required()
        ->type_name("OUT");
    CLI::Option* runtime = add_quantizer_options(*verb, quantize.quantizer);
    runtime->excludes(add_qat_option(*verb, quantize.quantizer));
    add_data_options(*verb, quantize.data_options);
    verb->add_flag("--reference-representation", quantize.use_reference_representation,
                   "spell out the integer arithmetic in the graph");
    verb->add_flag("--no-fold-quantize", quantize.no_fold_quantize,
                   "keep float weights with a quantize operator behind them");
    verb->add_flag("--recover", quantize.recover,
                   "bring accuracy back on the samples: ranges, outputs and biases, without labels or training");
    auto* agreement = verb->add_option("--target-agreement", quantize.target_agreement,
                                       "leave operators in float until so many % of the samples of --calibrate get the "
                                       "float model's answer")
                          ->type_name("PERCENT");
    verb->add_option("--target-drop", quantize.target_drop,
                     "the same until top-1 on the --labels of these samples is at most so many points below float's")
        ->excludes(agreement)
        ->type_name("POINTS");
    verb->add_option("--backend", quantize.backend,
                     "calibrate on simd (default; all builds write the same file) or onednn")
        ->type_name("NAME");
    verb->add_option("--observers", quantize.observers, "write every observer: class, settings, state, what it covers")
        ->type_name("FILE.json");
    verb->add_option("--report", quantize.report,
                     "write what became of each layer, its error and what was observed, as a page")
        ->type_name("FILE.html");
    verb->add_option("--test", quantize.test, "samples that the report shows both models on (those of --calibrate)")
        ->type_name("DATA");
    add_label_options(*verb, quantize.labels, quantize.classes);
    for (CLI::Option* fixed : add_onnx_options(*verb, quantize.onnx)) runtime->excludes(fixed);
    add_fix_option(*verb, quantize.fixed);
    verb->add_flag("--allow-training-mode", quantize.allow_training_mode,
                   "take a model that was exported in training mode in its inference form");
    add_json_flag(*verb, quantize.json);
  }

  static void add_json_flag(CLI::App& verb, bool& json) {
    verb.add_flag("--json", json, "print what was done as JSON");
  }

  void add_calibrate() {
    CLI::App* verb =
        this->verb("calibrate", "write what observers see of a shard of the samples, to be merged", [this] {
          qdq::calibrate(calibrate, host);
          return kDone;
        });
    verb->add_option("MODEL", calibrate.model, "the float model (.pt2 or .onnx)")->required();
    verb->add_option("--data", calibrate.data, "samples to calibrate on: .npz, .npy, or images in a folder or a .tar")
        ->required()
        ->type_name("DATA");
    verb->add_option("--shard", calibrate.shard,
                     "calibrate on the K-th of N parts of the batches, counted from 1 (1/1: all)")
        ->type_name("K/N");
    verb->add_option("-o,--output", calibrate.output, "where to write what was seen")
        ->required()
        ->type_name("PART.json");
    add_quantizer_options(*verb, calibrate.quantizer);
    add_data_options(*verb, calibrate.data_options);
    add_fix_option(*verb, calibrate.fixed);
    verb->add_flag("--allow-training-mode", calibrate.allow_training_mode,
                   "take a model that was exported in training mode in its inference form");
  }

  void add_merge() {
    CLI::App* verb = this->verb("merge", "merge what calibrate wrote of all shards, for quantize --calibrate", [this] {
      qdq::merge(merge, host);
      return kDone;
    });
    verb->add_option("PART", merge.parts, "the parts, in any order; of a folder all files *.json in it")->required();
    verb->add_option("-o,--output", merge.output, "the merged statistics; the same bytes as those of one process")
        ->required()
        ->type_name("OUT.json");
    verb->add_flag("--partial", merge.partial, "merge although shards are missing; what is written is a part again");
  }

  // Gives those that a profile fixes.
  std::vector<CLI::Option*> add_onnx_options(CLI::App& verb, OnnxOptions& options) {
    auto* opset =
        verb.add_option("--onnx-opset", options.opset, "the opset of an .onnx file that is written, 17 (default) to 21")
            ->type_name("N");
    verb.add_flag("--onnx-data", options.external_data, "keep its tensors in a file beside it, OUT.data");
    auto* are_signed =
        verb.add_flag("--onnx-signed-activations", options.signed_activations,
                      "write int8 activations as int8; else as uint8, the same numbers, for ONNX Runtime on x86");
    return {opset, are_signed};
  }

  void add_fix_option(CLI::App& verb, OnnxFixed& fixed) {
    verb.add_option_function<std::vector<std::string>>(
            "--fix",
            [&fixed](const std::vector<std::string>& words) {
              for (const std::string& word : words) add_fixed(word, fixed);
            },
            "make an input or an open size of an ONNX model constant, or an input's shape: --fix sr=16000 --fix "
            "batch=1 "
            "--fix x=1,3,224,224")
        ->type_name("NAME=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  void add_train() {
    CLI::App* verb =
        this->verb("train", "make an int8 model by quantization-aware training on samples with labels", [this] {
          train.quantizer.qat = true;
          qdq::train(train, host);
          return kDone;
        });
    verb->add_option("MODEL", train.model, "the float model (.pt2 or .onnx), trained already")->required();
    verb->add_option("--data", train.data, "samples to train on: .npz, .npy, or images in a folder or a .tar")
        ->required()
        ->type_name("DATA");
    add_label_options(*verb, train.labels, train.classes);
    verb->add_option("-o,--output", train.output, "the model to write (.pt2 or .onnx)")->required()->type_name("OUT");
    verb->remove_option(add_quantizer_options(*verb, train.quantizer));  // profiles have no rows for batch norms
    add_data_options(*verb, train.data_options);
    verb->add_option("--epochs", train.epochs, "how often each sample is seen (3)")
        ->type_name("N")
        ->check(whole_number(1));
    verb->add_option(
            "--bn-epochs", train.bn_epochs,
            "the first epochs, in which batch norms learn the statistics of batches (1); 0: they keep the model's")
        ->type_name("N")
        ->check(whole_number(0));
    verb->add_option("--loss", train.loss, "cross_entropy (default), or mse, which wants --distill 1")
        ->type_name("NAME");
    verb->add_option("--optimizer", train.optimizer, "adam (default), adamw or sgd")->type_name("NAME");
    verb->add_option("--lr", train.lr,
                     "the learning rate at the start (by the number of batches: 1e-5 to 3e-4, of sgd three times that)")
        ->type_name("R");
    verb->add_option("--schedule", train.schedule,
                     "how the learning rate changes: cosine (default; down to 0), step or constant")
        ->type_name("NAME");
    verb->add_option("--step-epochs", train.step_epochs, "of step: after how many epochs the rate changes (1)")
        ->type_name("N")
        ->check(whole_number(1));
    verb->add_option("--gamma", train.gamma, "of step: what the rate is multiplied by (0.1)")->type_name("R");
    verb->add_option("--warmup-steps", train.warmup_steps, "the first batches, in which the rate grows evenly (0)")
        ->type_name("N");
    verb->add_option("--momentum", train.momentum, "of sgd (0.9)")->type_name("R");
    verb->add_option("--weight-decay", train.weight_decay,
                     "what of each parameter is added to its gradient, or of adamw taken from it (0)")
        ->type_name("R");
    verb->add_option("--distill", train.distillation,
                     "the share of the loss that is the distance to the float model's output (0); 1: needs no labels")
        ->type_name("SHARE");
    verb->add_option("--temperature", train.temperature, "what both outputs are divided by for --distill (1)")
        ->type_name("R");
    verb->add_flag("--lsq", train.lsq, "learn scales and zero points with the weights (LSQ)");
    verb->add_option("--lsq-lr", train.lsq_lr, "of --lsq: by which factor of the learning rate (0.01)")->type_name("R");
    verb->add_option(
            "--augment", train.augment,
            "changes images at random in each epoch, as {\"crop\": 4, \"flip\": 0.5, \"brightness\": 0.2} says")
        ->type_name("FILE.json");
    verb->add_option("--checkpoint", train.checkpoint,
                     "a file that is written after each epoch; a training that finds it goes on from there, and ends "
                     "with the same bytes as if it had never stopped")
        ->type_name("FILE");
    verb->add_option("--checkpoint-steps", train.checkpoint_steps, "write it after every N batches too")
        ->type_name("N")
        ->check(whole_number(1));
    verb->add_option("--seed", train.seed,
                     "of the order of the samples and of --augment (0); the same seed gives the same bytes")
        ->type_name("N");
    add_onnx_options(*verb, train.onnx);
    add_json_flag(*verb, train.json);
  }

  static void add_session_options(CLI::App& verb, SessionOptions& options) {
    verb.add_option("--backend", options.backend, "reference, simd or onednn (native builds)")->type_name("NAME");
    verb.add_flag("--node-by-node", options.node_by_node, "run the graph as it stands, without fused steps");
    verb.add_flag("--bf16", options.bf16, "what is not quantized in bfloat16 (native builds, processors that have it)");
  }

  void add_run() {
    CLI::App* verb = this->verb("run", "run a model", [this] {
      qdq::run(run, host);
      return kDone;
    });
    verb->add_option("MODEL", run.model, "the model (.pt2 or .onnx)")->required();
    verb->add_option("--inputs", run.inputs, "its inputs: .npz, .npy, or images in a folder or a .tar")
        ->required()
        ->type_name("IN");
    verb->add_option("-o,--output", run.output, "where to write output_0, output_1, ... (.npz)")
        ->required()
        ->type_name("OUT.npz");
    add_json_flag(*verb, run.json);
    add_session_options(*verb, run.session);
    add_data_options(*verb, run.data_options);
  }

  void add_evaluate() {
    CLI::App* verb = this->verb("evaluate", "how often models are right, and agree with the first", [this] {
      qdq::evaluate(evaluate, host);
      return kDone;
    });
    verb->add_option("MODEL", evaluate.models, "the models (.pt2 or .onnx)")->required();
    verb->add_option("--data", evaluate.data, "samples: .npz, .npy, or images in a folder or a .tar")
        ->required()
        ->type_name("DATA");
    add_label_options(*verb, evaluate.labels, evaluate.classes);
    add_session_options(*verb, evaluate.session);
    verb->add_flag("--json", evaluate.json, "print JSON");
    add_data_options(*verb, evaluate.data_options);
  }

  void add_compare() {
    CLI::App* verb = this->verb("compare", "which operators move values, beside a float model", [this] {
      qdq::compare(compare, host);
      return kDone;
    });
    verb->add_option("REFERENCE", compare.reference, "the model to compare with (.pt2 or .onnx)")->required();
    verb->add_option("MODEL", compare.candidates, "models made of it, from any tool (.pt2 or .onnx)")->required();
    verb->add_option("--data", compare.data, "samples: .npz, .npy, or images in a folder or a .tar")
        ->required()
        ->type_name("DATA");
    verb->add_option("--most", compare.most, "rows to show of each model (20); 0: all")
        ->type_name("N")
        ->check(whole_number(0));
    verb->add_option("--report", compare.report, "write an HTML file with the errors in the model's graph")
        ->type_name("FILE.html");
    verb->add_flag("--json", compare.json, "print JSON");
    add_data_options(*verb, compare.data_options);
  }

  void add_sensitivity() {
    CLI::App* verb = this->verb("sensitivity", "which operators of a float model would cost most as integers", [this] {
      qdq::sensitivity(sensitivity, host);
      return kDone;
    });
    verb->add_option("MODEL", sensitivity.model, "the float model (.pt2 or .onnx)")->required();
    verb->add_option("--calibrate", sensitivity.data,
                     "samples to calibrate on and to judge by: .npz, .npy, or images in a folder or a .tar")
        ->required()
        ->type_name("DATA");
    add_quantizer_options(*verb, sensitivity.quantizer);
    add_data_options(*verb, sensitivity.data_options);
    verb->add_option("--most", sensitivity.most, "rows to show (20); 0: all")->type_name("N")->check(whole_number(0));
    verb->add_flag("--json", sensitivity.json, "print JSON");
  }

  void add_benchmark() {
    CLI::App* verb = this->verb("benchmark", "how fast models run, and where the time goes", [this] {
      qdq::benchmark(benchmark, host);
      return kDone;
    });
    verb->add_option("MODEL", benchmark.models, "the models (.pt2 or .onnx); they take turns")->required();
    verb->add_option("--batch", benchmark.batch, "samples a run (1)")->type_name("N");
    verb->add_option("--runs", benchmark.runs, "runs of each model (50)")->type_name("N");
    add_session_options(*verb, benchmark.session);
    verb->add_flag("--profile", benchmark.profile,
                   "the time of every step; of convolutions, linear layers and attention also the share that their "
                   "kernel takes alone, repeated "
                   "on data in the cache (limit), and operations a second");
    verb->add_flag("--explain", benchmark.explain, "who runs each node, who refused it and why");
    verb->add_flag("--json", benchmark.json, "print JSON");
  }

  void add_inspect() {
    CLI::App* verb = this->verb(
        "inspect", "show what a model is made of",
        [this] {
          qdq::inspect(inspect, host);
          return kDone;
        },
        [this] {
          const bool needs_quantizer = inspect.explain || inspect.capabilities;
          if (inspect.model.empty() && !inspect.capabilities) throw CLI::RequiredError("MODEL");
          if (!inspect.model.empty() && inspect.capabilities) throw CLI::ExcludesError("--capabilities", "MODEL");
          if (!inspect.quantizer.recipe.empty() && !needs_quantizer)
            throw CLI::RequiresError("--recipe", "--explain or --capabilities");
        });
    verb->add_option("MODEL", inspect.model, "the model (.pt2 or .onnx); not needed with --capabilities");
    auto* graph = verb->add_flag("--graph", inspect.graph, "print the graph as PyTorch does");
    verb->add_flag("--json", inspect.json, "print everything as JSON")->excludes(graph);
    auto* explain =
        verb->add_flag("--explain", inspect.explain, "tell for every operator whether the quantizer takes it, and why")
            ->excludes(graph);
    verb->add_flag("--capabilities", inspect.capabilities, "list the patterns that the quantizer knows")
        ->excludes(graph)
        ->excludes(explain);
    verb->add_option("--lowered", inspect.lowered,
                     "write the fused calls that run the model to FILE.json, their tensors beside it as .npz")
        ->type_name("FILE.json")
        ->excludes(graph)
        ->excludes(explain);
    CLI::Option* runtime = add_quantizer_options(*verb, inspect.quantizer);
    runtime->excludes(add_qat_option(*verb, inspect.quantizer));
    runtime->excludes(graph);
  }

  void add_convert() {
    CLI::App* verb = this->verb("convert", "write a model as .pt2 or .onnx", [this] {
      qdq::convert(convert, host);
      return kDone;
    });
    verb->add_option("IN", convert.input, "the model (.pt2 or .onnx)")->required();
    verb->add_option("OUT", convert.output, "the file to write; its ending says the kind: .pt2 or .onnx")->required();
    add_onnx_options(*verb, convert.onnx);
    add_fix_option(*verb, convert.fixed);
    add_json_flag(*verb, convert.json);
  }

  // The command line's own words, for a shell and for `man`.
  void add_descriptions() {
    CLI::App* completion = app.add_subcommand("completion", "print what completes qdq's words in a shell");
    completion->add_option("SHELL", shell, "bash, zsh or fish")->required()->check([](const std::string& name) {
      return name == "bash" || name == "zsh" || name == "fish" ? "" : "found " + name + ", wanted bash, zsh or fish";
    });
    completion->callback([this] {
      work = [this] {
        host.print(completions(app, shell));
        return kDone;
      };
    });
    app.add_subcommand("man", "print the manual page: qdq man | man -l -")->callback([this] {
      work = [this] {
        host.print(man_page(app));
        return kDone;
      };
    });
    for (const char* name : {"completion", "man"}) app.get_subcommand(name)->group("Descriptions");
  }

  ReadableHost& host;
  CLI::App app{"Int8 quantization of PyTorch and ONNX models (.pt2, .onnx)", "qdq"};
  std::string shell;
  std::function<int()> work;
  int threads = 1;
  std::string max_memory;

  std::optional<MemoryLimit> memory_limit() {
    if (!max_memory.empty())
      return MemoryLimit(*bytes_in(max_memory), "that --max-memory allows; use smaller batches, or allow more");
    const std::optional<uint64_t> machine = host.machine_memory();
    if (!machine) return std::nullopt;
    return MemoryLimit(*machine, "that this machine has; use smaller batches, or allow more by --max-memory");
  }

  QuantizeOptions quantize;
  CalibrateOptions calibrate;
  MergeOptions merge;
  TrainOptions train;
  RunOptions run;
  CompareOptions compare;
  SensitivityOptions sensitivity;
  EvaluateOptions evaluate;
  BenchmarkOptions benchmark;
  InspectOptions inspect;
  ConvertFileOptions convert;
};

// The first word that looks like an option and is none of the verb's, and the nearest that is; empty if all are known.
std::string unknown_option(const CLI::App& verb, std::span<const std::string> args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : args) {
    const std::string name = word.substr(0, word.find('='));
    if (word == "--") break;
    if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string meant = nearest_word(name, known);
    return concat("qdq ", verb.get_name(), " has no option ", one_line(name),
                  meant.empty() ? "" : ", did you mean " + meant + "?", "; see qdq ", verb.get_name(), " --help");
  }
  return {};
}

// What is wrong with the words, and where to read on.
std::string wrong_usage(const CLI::App& app, std::span<const std::string> args, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  if (!chosen.empty())
    if (const std::string unknown = unknown_option(*chosen[0], args); !unknown.empty()) return unknown;
  if (!chosen.empty()) return concat(one_line(error.what()), "; see qdq ", chosen[0]->get_name(), " --help");
  if (args.empty() || args[0].starts_with("-")) return concat(one_line(error.what()), "; see qdq --help");
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  const std::string meant = nearest_word(args[0], verbs);
  return concat("there is no verb ", one_line(args[0]), meant.empty() ? "" : ", did you mean " + meant + "?",
                "; see qdq --help");
}

// `qdq help` is `qdq --help`, `qdq help quantize` is `qdq quantize --help`.
std::vector<std::string> with_help(std::span<const std::string> args) {
  std::vector<std::string> words(args.begin(), args.end());
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

// The words as a report shows them: without the folders that files lie in.
std::string command_of(std::span<const std::string> args) {
  std::string out = "qdq";
  for (std::string word : args) {
    while (word.size() > 1 && word.ends_with('/')) word.pop_back();
    out += " " + word.substr(word.find_last_of("/\\") + 1);
  }
  return out;
}

}  // namespace

int run_cli(std::span<const std::string> given_args, Host& given_host) {
  ReadableHost host(given_host);
  try {
    const std::vector<std::string> args = with_help(given_args);
    CommandLine line(host);
    line.quantize.command = command_of(args);
    try {
      // CLI11 takes the words from the back.
      line.app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    } catch (const CLI::CallForHelp&) {
      host.print(line.app.help());
      return kDone;
    } catch (const CLI::CallForVersion&) {
      host.print(line.app.version() + "\n");
      return kDone;
    } catch (const CLI::ParseError& error) {
      host.print_error(concat("qdq: ", wrong_usage(line.app, args, error), "\n"));
      return kWrongUsage;
    }
    set_num_threads(line.threads);
    set_memory_limit(line.memory_limit());
    return line.work();
  } catch (const Error& error) {
    std::string message = error.message;
    // An error inside the graph names its node, unless its sentence does.
    if (!error.node.empty() && message.find(error.node) == std::string::npos)
      message += concat(" (node ", error.node, ")");
    host.print_error(concat("qdq: ", one_line(message), "\n"));
  } catch (const std::bad_alloc&) {
    host.print_error(concat("qdq: this does not fit into ", memory_in_words(), "\n"));
  } catch (const std::exception& error) {
    host.print_error(concat("qdq: internal error: ", one_line(error.what()), "; please report it\n"));
  }
  return kFailed;
}

}  // namespace qdq
