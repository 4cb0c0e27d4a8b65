// The verbs of the command line, each with its options.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/host.h"
#include "data/data.h"
#include "format/json_fwd.h"
#include "io/model.h"
#include "io/onnx.h"
#include "lower/decoder.h"
#include "lower/lower.h"
#include "profile/runtime_profile.h"
#include "quant/quantizer.h"

namespace qdq {

// What to quantize and how: a recipe in a file, or the short words for the common ones. The words that shape a recipe
// do not go with one in a file; `exclude` goes with all.
struct QuantizerOptions {
  std::string quantizer;             // "xnnpack" (or none), "x86-inductor", or a quantizer's class name
  std::string fx;                    // used instead: FX graph mode with the default mapping of this backend
  std::string recipe;                // used instead: a JSON file
  std::string runtime;               // used instead: the profile of this name
  bool dynamic = false;              // ranges of activations are found while the model runs
  bool weights_only = false;         // weights become integers, activations stay float
  bool equalize = false;             // with fx: input-weight equalization of all layers that can have it
  bool reduce_range = false;         // so that u8 * s8 does not saturate on processors without VNNI
  int64_t weight_bits = 8;           // of the integers of weights, 2 to 8; stored as int8
  int64_t activation_bits = 8;       // of the integers of activations, with `runtime`: 8 or 16
  std::string observer;              // of activations: "min-max", "percentile", "entropy" or "mse"; empty: histogram
  int64_t group_size = 0;            // neighbours in a row of a linear layer's weight that share a scale; 0: rows
  bool qat = false;                  // settings with is_qat where they do not say: fake quantizers
  std::vector<std::string> exclude;  // modules, or types such as torch.nn.Linear, that stay float
};
// The recipe that the options mean. Throws Error{kInvalidArgument} for an unknown quantizer, for words that contradict
// each other, and for a recipe that has no place for what is excluded.
format::Json read_recipe(const QuantizerOptions& options, Host& host);
// Sets a module, or a type if the name begins as types do, to float. `what` is whose recipe it is. Throws
// Error{kInvalidArgument} if it has no place for that.
void exclude(format::Json& recipe, const std::string& name, const std::string& what);
// The recipe with observers whose statistics can be merged; as it is if a file of the user's names a HistogramObserver,
// or says what "mergeable" is to be.
format::Json mergeable_recipe(format::Json recipe, const QuantizerOptions& options);
// Its quantizer. Throws Error{kInvalidArgument} also for a recipe that makes no sense.
std::unique_ptr<Quantizer> open_quantizer(const QuantizerOptions& options, Host& host);
// The same of a recipe that read_recipe gave.
std::unique_ptr<Quantizer> open_recipe(const format::Json& recipe, const QuantizerOptions& options);

// The profile that `options` names; null if none. Sets how ONNX files are written for it, and checks the ending of the
// file that is written. Throws Error{kInvalidArgument}.
const RuntimeProfile* apply_profile(const QuantizerOptions& options, const std::string& output, OnnxOptions& onnx);

struct QuantizeOptions {
  // `data`: samples, or the statistics (.json) that an earlier run wrote to `observers`, or calibrate or merge; may be
  // empty
  std::string model, data, output;
  DataOptions data_options;
  QuantizerOptions quantizer;
  bool use_reference_representation = false;
  bool no_fold_quantize = false;
  std::string backend;    // "onednn" calibrates faster, but not with the same bits as other builds
  std::string observers;  // where to write the observers as JSON; empty: nowhere
  std::string report;     // where to write what became of each layer as HTML; empty: nowhere
  std::string test;       // samples that the report shows both models on; empty: those of the calibration
  // their classes as read_labels takes them, and the names of the classes; empty: not known
  std::string labels, classes;
  OnnxOptions onnx;
  OnnxFixed fixed;
  bool allow_training_mode = false;  // takes a model exported in training mode in its inference form
  bool recover = false;              // brings accuracy back after the calibration
  bool awq = false;                  // scales the channels that weights in groups read, by the samples
  bool gptq = false;                 // rounds weights in groups by what the layers make of the samples
  bool time_layers = false;          // tells which layers int8 makes no faster on this machine
  bool json = false;
  std::string command;  // the words themselves, which the report shows; may be empty
  // Leaves operators in float until so many percent of the samples get the float model's answer, or until the top-1 on
  // the calibration samples' `labels` is at most so many points below the float model's.
  std::optional<double> target_agreement, target_drop, target_metric;
  std::string metric;  // of cli/metric.h; empty: none
  // The largest file, and the longest run of the first batch in seconds.
  std::optional<uint64_t> max_size;
  std::optional<double> max_latency;
  std::vector<std::string> precisions;    // that operators may get; none: float, with those two all
  std::string search;                     // where the search for these is kept, and gone on from; empty: nowhere
  std::vector<std::string> dtypes;        // of the files of transformers.js
  std::string model_file_name = "model";  // and what their names begin with
};
// Whether a folder is asked for, with files of transformers.js. Throws Error{kInvalidArgument} for words that do not
// go with that, or go with that alone.
bool wants_folder(const QuantizeOptions& options);
// Makes the files of transformers.js in `output`/onnx, of `dtypes` (all, if there are none), and prints what each is.
void quantize_folder(const QuantizeOptions& options, Host& host);
// Quantizes a model and prints what became of its layers.
void quantize(const QuantizeOptions& options, Host& host);

struct CalibrateOptions {
  std::string model, data, output;
  std::string shard = "1/1";  // which part of the batches: the K-th of N, counted from 1, as K/N
  DataOptions data_options;
  QuantizerOptions quantizer;
  OnnxFixed fixed;
  bool recover = false;  // layers are observed, too
  bool allow_training_mode = false;
  bool json = false;
};
// Calibrates on a shard of the data and writes what the observers saw.
void calibrate(const CalibrateOptions& options, Host& host);

struct MergeOptions {
  std::vector<std::string> parts;  // files, and folders whose files *.json are meant
  std::string output;
  bool partial = false;  // shards may be missing
  bool json = false;
};
// Merges what calibrations of shards saw into one file, the same bytes as if one process had seen all of it.
void merge(const MergeOptions& options, Host& host);

struct TrainOptions {
  std::string model, data, labels, classes, output;
  DataOptions data_options;
  QuantizerOptions quantizer;
  int64_t epochs = 3;
  int64_t bn_epochs = 1;               // the first in which batch norms take in the statistics of batches
  std::string loss = "cross_entropy";  // or "mse", with `distillation` 1
  std::string optimizer = "adam";      // "adamw" or "sgd"
  std::optional<double> lr;            // at the start; none: default_lr()
  std::string schedule = "cosine";     // of the learning rate: down to 0 as half a cosine; "step", "constant"
  int64_t step_epochs = 1;             // of "step": after how many epochs the rate is multiplied by gamma
  double gamma = 0.1;
  int64_t warmup_steps = 0;  // the first steps, in which the rate grows
  double momentum = 0.9;     // of SGD
  double weight_decay = 0;
  double distillation = 0;       // the share of the loss that is the distance to the float model's output
  double temperature = 1;        // of it
  bool lsq = false;              // scales and zero points are learnt with the weights
  double lsq_lr = 0.01;          // by which factor of the learning rate
  std::string augment;           // a JSON file that says how images are changed at random; empty: not at all
  std::string checkpoint;        // where the training is kept, and gone on from if the file is there; empty: nowhere
  int64_t checkpoint_steps = 0;  // after how many batches it is written too; 0: after each epoch alone
  int64_t seed = 0;              // of the order of the samples, and of how images are changed
  OnnxOptions onnx;
  bool json = false;
};
// Trains a float model with fake quantizers in it on samples with labels, or without them if `distillation` is 1, and
// writes the int8 model that it has become.
void train(const TrainOptions& options, Host& host);

// How run, evaluate and benchmark lower their models.
struct SessionOptions {
  std::string backend;        // empty: the best that the build has
  bool node_by_node = false;  // no fused steps
  bool bf16 = false;          // floats in bfloat16
};
LowerOptions lower_options(const SessionOptions& options);
// lower(), with its warnings on the standard error output.
Session open_session(const Program& program, const SessionOptions& options, Host& host);

struct RunOptions {
  std::string model, inputs, output;
  DataOptions data_options;
  SessionOptions session;
  bool json = false;
  int64_t generate = 0;  // tokens to make; 0: the model runs on `inputs`
  std::string prompt;    // ids ("1,2,3") or a file with them; what follows is for generating alone
  Sampling sampling;
  std::vector<int64_t> stop;  // tokens behind which nothing follows
};
// Runs a model and writes output_0, output_1, ...; batches are joined along the first axis.
void run(const RunOptions& options, Host& host);
// Prints the ids of the tokens that follow the prompt, as they are made.
void generate(const RunOptions& options, Host& host);

struct EvaluateOptions {
  std::vector<std::string> models;
  std::string data, labels;  // labels may be empty
  std::string classes;       // a file with the names of the classes, which folders are called by; empty: none
  std::string metric;        // of cli/metric.h, which then is the one to read the labels; empty: none
  DataOptions data_options;
  SessionOptions session;
  bool json = false;
};
// Prints top-1 and top-5 of each model where there are labels, what a metric of the user's says of it, how often it
// agrees with the first, and how far its outputs are from the first one's.
void evaluate(const EvaluateOptions& options, Host& host);

struct CompareOptions {
  std::string reference;
  std::vector<std::string> candidates;
  std::string data;
  DataOptions data_options;
  std::string report;  // an HTML file with the errors in the graph; empty: none
  std::string chart;   // an SVG file with the errors as bars; empty: none
  int64_t most = 20;   // rows of a table; 0: all
  bool json = false;
  std::string command;  // the words themselves, which the report shows; may be empty
};
// Prints how far the values of each operator are from those of the reference, and what it adds itself.
void compare(const CompareOptions& options, Host& host);

struct SensitivityOptions {
  std::string model, data;
  DataOptions data_options;
  QuantizerOptions quantizer;
  int64_t most = 20;  // rows of the table; 0: all
  bool json = false;
};
// Prints what each operator costs that would compute with integers, the most expensive first.
void sensitivity(const SensitivityOptions& options, Host& host);

struct BenchmarkOptions {
  std::vector<std::string> models;
  std::string inputs;  // what they run on, as RunOptions has it; the first batch is taken. Empty: random numbers
  SessionOptions session;
  int64_t batch = 1;
  int64_t runs = 50;
  bool profile = false, explain = false, json = false;
};
// Runs models in turns and prints latencies; with `profile` the time of every step and the share of the plain loops,
// with `explain` who runs each node.
void benchmark(const BenchmarkOptions& options, Host& host);

struct InspectOptions {
  std::string model;
  bool json = false;
  bool graph = false;
  bool explain = false;       // what the quantizer would do with every operator, and why
  bool capabilities = false;  // what the quantizer can do; needs no model
  std::string lowered;        // the file that gets the fused calls that run it
  std::string chart;          // the SVG file that gets the histograms of its weights
  QuantizerOptions quantizer;
};
// Prints what a model is made of, or what a quantizer would make of it.
void inspect(const InspectOptions& options, Host& host);

struct RecipeOptions {
  std::string model;  // whose modules the comments name; may be empty
  QuantizerOptions quantizer;
  bool schema = false;  // prints the schema instead
};
// Prints the recipe that the options mean with every field and what it says, or the schema of recipes.
void recipe(const RecipeOptions& options, Host& host);

struct ConvertFileOptions {
  std::string input, output;
  OnnxOptions onnx;
  OnnxFixed fixed;
  bool json = false;
};
// Writes a model as another kind of file.
void convert(const ConvertFileOptions& options, Host& host);

struct FuseOptions {
  std::string input, output;
  std::string backend = "native";  // a name of get_backend_config
  OnnxOptions onnx;
  OnnxFixed fixed;
  bool json = false;
};
// Folds a float model's batch norms, as fuse_fx does, and writes it.
void fuse(const FuseOptions& options, Host& host);

// A line of such a text for what a user may have to know, "" for nothing.
std::string note_line(const std::string& note);
// Prints what a verb did: the text, or with `json` the fields. Nothing of the text where the host is quiet.
void print_summary(const std::string& text, const format::Json& fields, bool json, Host& host);

// When, by what and on what a report was made. `command` may be empty.
format::Json made_by(const std::string& command, Host& host);
// The path without its folders, which are nobody's business.
std::string file_name(const std::string& path);

// A file that a verb is to write: the option that names it, where (empty: nowhere), and the endings that its name may
// have, one at least of a model and of .npz; none: any.
struct OutputFile {
  const char* option;
  std::string path;
  std::vector<std::string> endings;
};
inline const std::vector<std::string> kModelEndings = {".onnx", ".pt2"};
// For outputs of long work before it begins. Throws Error{kIo} if a file cannot be written there, as far as that is
// known before it is tried, CLI::ValidationError for a name that says another kind of file, and Error{kInvalidArgument}
// for a file that the verb reads (`inputs`, of which empty ones are none) and for one that two outputs have.
void check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs, Host& host);
// Refuses settings of .onnx files (--onnx-opset, ...) where the output is another kind of file.
void check_onnx_options(const OnnxOptions& options, const std::string& output);
// Warns of --onnx-signed-activations where the program has no int8 activations, and of --onnx-dedicated-pairs where no
// pair is shared.
void warn_of_onnx_options(const OnnxOptions& options, const Program& written, Host& host);
// For long work before it begins, with the form of what it writes to an .onnx file: refuses what could not be written,
// and warns of options that change nothing there. `given`: the user's; `onnx`: these with a profile's.
void check_onnx_form(const Program& form, const std::string& output, const OnnxOptions& given, const OnnxOptions& onnx,
                     Host& host);
// save_program() of a program whose precisions were chosen after check_onnx_form() took its form: where no operator of
// it is in that form any more, as in float, the form is left out. `left_out`, if given, gets the options that were.
ModelFiles save_chosen(const Program& program, const std::string& output, const OnnxOptions& onnx,
                       std::vector<std::string>* left_out = nullptr);
// load_model() with --fix, which is wrong usage with a .pt2 file. The model need not run.
Model open_to_write(const std::string& path, const OnnxFixed& fixed, Host& host);
// What the data holds and the program does not read.
void print_warnings(const Data& data, Host& host);
// Throws CLI::ValidationError if a file that is there has a name with a problem.
void refuse_name(const std::string& problem, const std::string& path, Host& host);
// read_labels(), for which the name of another kind of file is wrong usage.
std::vector<int64_t> labels_from(const std::string& path, const Data& data, Classes& classes, Host& host);
// Warns of names of classes that labels in numbers do not need, where nothing shows them.
void warn_of_classes(const std::string& classes, const std::string& labels, Host& host);
// open_data() with the same rule.
std::unique_ptr<Data> open_named(const std::string& path, const Program& program, const DataOptions& options,
                                 Host& host);
// The same, with its warnings on the standard error output.
std::unique_ptr<Data> open_samples(const std::string& path, const Program& program, const DataOptions& options,
                                   Host& host);
// Samples of a folder of images are what a preprocess file is for: refuses one that no place of them needs.
void check_preprocess(const DataOptions& options, std::initializer_list<std::string> samples);

}  // namespace qdq
