// `qdq train`: quantization-aware training of a classifier, and its int8 form.
#include "train/trainer.h"

#include <algorithm>
#include <cstdio>

#include "base/version.h"
#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/training_checkpoint.h"
#include "cli/training_samples.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"
#include "data/augment.h"
#include "exec/interpreter.h"
#include "format/json.h"
#include "format/sha256.h"
#include "io/model.h"
#include "quant/explain.h"
#include "recipe/recipe.h"
#include "report/evaluation.h"

namespace qdq {

namespace {

using format::Json;

// What the observers see first: the float model on all samples. Their averages are slow, and training is short.
void calibrate(Prepared& prepared, const TrainingSamples& samples, Host& host) {
  move_exported_model_to_eval(prepared);
  enable_fake_quant(prepared, false);
  Progress progress(host, "calibrating", samples.num_batches(), "batches");
  for (int64_t i = 0; i < samples.num_batches(); ++i) {
    prepared.run(samples.batch(i).inputs);
    progress.advance();
  }
  enable_fake_quant(prepared);
}

// The more steps there are, the larger each may be: docs/accuracy.md has what was measured. SGD takes three times that.
double default_lr(Optimizer optimizer, int64_t steps) {
  const double adam = 1e-5 * std::clamp(static_cast<double>(steps) / 18, 1.0, 30.0);
  return optimizer == Optimizer::kSgd ? 3 * adam : adam;
}

TrainingOptions training_options(const TrainOptions& options, int64_t batches) {
  const int64_t steps = options.epochs * batches;
  TrainingOptions training;
  training.loss = loss_from_name(options.loss);
  training.optimizer.optimizer = optimizer_from_name(options.optimizer);
  training.optimizer.lr = options.lr.value_or(default_lr(training.optimizer.optimizer, steps));
  if (training.optimizer.optimizer == Optimizer::kSgd) training.optimizer.momentum = options.momentum;
  training.optimizer.weight_decay = options.weight_decay;
  training.schedule.schedule = lr_schedule_from_name(options.schedule);
  training.schedule.warmup_steps = options.warmup_steps;
  if (training.schedule.schedule == LrSchedule::kCosine)
    training.schedule.total_steps = std::max<int64_t>(1, steps - options.warmup_steps);
  if (training.schedule.schedule == LrSchedule::kStep) {
    training.schedule.step_size = options.step_epochs * batches;
    training.schedule.gamma = options.gamma;
  }
  training.distillation = options.distillation;
  if (options.lsq) training.optimizer.qparams_lr = options.lsq_lr;
  training.temperature = options.temperature;
  check_training_options(training);
  return training;
}

// The float model, whose outputs the training stays near to.
class Teacher {
 public:
  explicit Teacher(Program program) : program_(std::move(program)) {
    move_exported_model_to_eval(program_);
    backend_ = make_simd_ops();
    interpreter_ = std::make_unique<Interpreter>(program_, std::vector<OpBackend*>{backend_.get()});
  }
  Tensor output(const std::vector<Tensor>& inputs) { return interpreter_->run(inputs).at(0); }

 private:
  Program program_;
  std::unique_ptr<OpBackend> backend_;
  std::unique_ptr<Interpreter> interpreter_;
};

// The class of each sample; nothing where nobody asks for it.
std::vector<int64_t> labels_of(const TrainOptions& options, const Program& program, const Data& data, Host& host) {
  const bool needs_labels = options.distillation < 1;
  QDQ_CHECK_USAGE(needs_labels || options.labels.empty(),
                  "--labels do nothing with --distill 1, whose loss reads only the float model's output; leave them "
                  "out, or give a smaller share");
  if (!needs_labels) return {};
  QDQ_CHECK_USAGE(
      !options.labels.empty(),
      "training needs --labels, the samples' classes, or --distill 1 to learn only from the float model's output");
  QDQ_CHECK_USAGE(options.loss != "mse",
                  "--loss mse compares numbers, but labels are classes; leave them out, and add --distill 1");
  Classes classes = read_classes(options.classes, count_classes(program), host.files);
  warn_of_classes(options.classes, options.labels, host);
  return labels_from(options.labels, data, classes, host);
}

// Images changed at random, where the options say so.
class Augmenter {
 public:
  Augmenter(const TrainOptions& options, const Program& program, Host& host)
      : seed_(static_cast<uint64_t>(options.seed)) {
    if (options.augment.empty()) return;
    const std::vector<Node*> inputs = program.graph->placeholders();
    QDQ_CHECK_USAGE(std::any_of(inputs.begin(), inputs.end(),
                                [](const Node* input) {
                                  const TensorMeta* meta = input->meta.val.tensor();
                                  return meta && meta->dtype == DType::kF32 && meta->sizes.size() == 4;
                                }),
                    "--augment changes images, and the model has no float32 input of four axes; leave it out");
    how_ = parse_augmentation(read_json(options.augment, host), options.augment);
    QDQ_CHECK(how_->changes(), kInvalidArgument, options.augment,
              " changes nothing; give crop, flip, brightness, contrast or saturation");
    if (!options.data_options.preprocess.empty())
      preprocess_ =
          format::parse_preprocess(read_json(options.data_options.preprocess, host), options.data_options.preprocess);
  }
  // The inputs of the batch; those that are images, float32 with four axes, are changed.
  std::vector<Tensor> operator()(const TrainingSamples::Batch& batch, int64_t epoch) const {
    std::vector<Tensor> out = batch.inputs;
    if (!how_) return out;
    for (Tensor& input : out)
      if (input.dtype() == DType::kF32 && input.dim() == 4)
        input = augment(input, *how_, preprocess_, seed_, static_cast<uint64_t>(epoch), batch.samples);
    return out;
  }

 private:
  static Json read_json(const std::string& path, Host& host) {
    const std::vector<std::byte> bytes = host.files.read(path);
    return format::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  }
  std::optional<Augmentation> how_;
  format::Preprocess preprocess_;
  uint64_t seed_;
};

// A hash of all that decides what a training ends with.
std::string identity_of(const TrainOptions& options, const TrainingOptions& training, const Json& recipe,
                        const TrainingSamples& samples, Host& host) {
  std::string text = concat(QDQ_VERSION, "|", format::sha256(host.files.read(options.model)), "|",
                            format::print_json(recipe), "|", samples.fingerprint(), "|");
  for (const std::string& file : {options.augment, options.data_options.preprocess})
    text += file.empty() ? "-" : format::sha256(host.files.read(file));
  const OptimizerOptions& optimizer = training.optimizer;
  for (const double number :
       {static_cast<double>(options.epochs), static_cast<double>(options.bn_epochs), static_cast<double>(options.seed),
        static_cast<double>(training.loss), static_cast<double>(optimizer.optimizer), optimizer.lr, optimizer.momentum,
        optimizer.weight_decay, static_cast<double>(training.schedule.schedule), training.schedule.gamma,
        static_cast<double>(training.schedule.step_size), static_cast<double>(training.schedule.warmup_steps),
        training.distillation, training.temperature, static_cast<double>(options.lsq), options.lsq_lr})
    text += concat("|", format::print_json(number));
  return format::sha256({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

std::string loss_text(double loss) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", loss);
  return text;
}

// Where a training begins: anew behind a calibration, or where the checkpoint `identity` left it.
TrainingPlace begin(const TrainOptions& options, const std::string& identity, Prepared& prepared, Trainer& trainer,
                    TrainingSamples& samples, Host& host) {
  if (!options.checkpoint.empty())
    if (std::optional<TrainingPlace> left_at = load_checkpoint(options.checkpoint, identity, trainer, host.files)) {
      samples.set_order(left_at->order);
      if (!host.is_quiet())
        host.print_error(concat("going on from ", options.checkpoint, ": epoch ", left_at->epoch + 1, ", batch ",
                                left_at->batch + 1, "\n"));
      return *std::move(left_at);
    }
  TrainingPlace place;
  place.shuffle = static_cast<uint64_t>(options.seed);
  samples.shuffle(place.shuffle);
  calibrate(prepared, samples, host);
  if (options.lsq) enable_param_learning(prepared);
  move_exported_model_to_train(prepared);
  return place;
}

// Trains from `place` to the last epoch, with a checkpoint where the options want one.
void train_on(const TrainOptions& options, const std::string& identity, Prepared& prepared, Trainer& trainer,
              TrainingSamples& samples, const Augmenter& augmenter, std::optional<Teacher>& teacher,
              TrainingPlace& place, Host& host) {
  const auto keep_place = [&] {
    if (options.checkpoint.empty()) return;
    place.order = samples.order();
    save_checkpoint(options.checkpoint, identity, trainer, place, host.files);
  };
  // In the last third ranges and statistics stay, so that the weights settle for those that the int8 model will have.
  const int64_t frozen_from = options.epochs - options.epochs / 3, batches = samples.num_batches();
  while (place.epoch < options.epochs) {
    if (place.batch == 0) {
      if (place.epoch == frozen_from) enable_observer(prepared, false);
      if (place.epoch == std::min(frozen_from, options.bn_epochs)) move_exported_model_to_eval(prepared);
      samples.shuffle(place.shuffle);
    }
    Progress progress(host, concat("epoch ", place.epoch + 1, " of ", options.epochs), batches - place.batch,
                      "batches");
    while (place.batch < batches) {
      const TrainingSamples::Batch batch = samples.batch(place.batch);
      const std::vector<Tensor> inputs = augmenter(batch, place.epoch);
      place.loss += trainer.step(inputs, batch.target, teacher ? teacher->output(inputs) : Tensor());
      ++place.batch;
      if (options.checkpoint_steps > 0 && place.batch < batches &&
          trainer.num_updates() % options.checkpoint_steps == 0)
        keep_place();
      progress.advance();
    }
    place.epoch_losses.push_back(place.loss / static_cast<double>(batches));
    place.batch = 0;
    place.loss = 0;
    ++place.epoch;
    keep_place();
  }
}

void print_trained(const TrainOptions& options, const std::vector<double>& epoch_losses, double lr, int64_t samples,
                   int64_t layers, int64_t quantized, std::pair<uint64_t, uint64_t> bytes, const std::string& note,
                   double seconds, Host& host) {
  std::string out;
  for (size_t epoch = 0; epoch < epoch_losses.size(); ++epoch)
    out += concat("  epoch ", epoch + 1, "  loss ", loss_text(epoch_losses[epoch]), "\n");
  char rate[32];
  std::snprintf(rate, sizeof rate, "%.2g", lr);
  const std::string text = concat("wrote ", options.output, "\n  trained on ", samples, " samples\n", out,
                                  "  learning rate     ", rate, "\n  layers quantized  ", quantized, " of ", layers,
                                  "\n", note_line(note), "  size              ", human_bytes(bytes.first), " -> ",
                                  human_bytes(bytes.second), "\n  time              ", human_seconds(seconds), "\n");
  Json losses = Json::array();
  for (const double loss : epoch_losses) losses.push_back(format::json_of_number(loss));
  print_summary(text,
                {{"output", options.output},
                 {"bytes", {{"before", bytes.first}, {"after", bytes.second}}},
                 {"layers", {{"total", layers}, {"quantized", quantized}}},
                 {"samples", samples},
                 {"losses", losses},
                 {"lr", lr},
                 {"note", note},
                 {"seconds", seconds}},
                options.json, host);
}

// What training_options makes TrainingOptions of.
void add_optimizer_options(CLI::App& verb, const std::shared_ptr<TrainOptions>& options) {
  const OptionsUnder heading(verb, "Training");
  verb.add_option("--loss", options->loss, "cross_entropy (default), or mse, which needs --distill 1")
      ->type_name("NAME")
      ->check(one_of({"cross_entropy", "mse"}));
  verb.add_option("--optimizer", options->optimizer, "adam (default), adamw or sgd")
      ->type_name("NAME")
      ->check(one_of({"adam", "adamw", "sgd"}));
  verb.add_option(
          "--lr", options->lr,
          "the learning rate at the start (default: 1e-5 to 3e-4 by the number of batches, three times that for sgd)")
      ->type_name("R");
  verb.add_option("--schedule", options->schedule,
                  "how the learning rate changes: cosine (default; down to 0), step or constant")
      ->type_name("NAME")
      ->check(one_of({"cosine", "step", "constant"}));
  verb.add_option("--step-epochs", options->step_epochs,
                  "with step: the number of epochs after which the rate changes (1)")
      ->type_name("N")
      ->check(whole_number(1));
  verb.add_option("--gamma", options->gamma, "with step: the factor by which the rate changes (0.1)")->type_name("R");
  verb.add_option("--warmup-steps", options->warmup_steps,
                  "the number of batches in which the rate first grows, evenly (0)")
      ->type_name("N");
  verb.add_option("--momentum", options->momentum, "the momentum of sgd (0.9)")->type_name("R");
  verb.add_option(
          "--weight-decay", options->weight_decay,
          "the share of each parameter that is added to its gradient, or with adamw subtracted from the parameter (0)")
      ->type_name("R");
  verb.add_option("--distill", options->distillation,
                  "the share of the distance to the float model's output in the loss (0); 1 needs no labels")
      ->type_name("SHARE");
  verb.add_option("--temperature", options->temperature, "the number that divides both outputs for --distill (1)")
      ->type_name("R");
  verb.add_flag("--lsq", options->lsq, "learn scales and zero points with the weights (LSQ)");
  verb.add_option("--lsq-lr", options->lsq_lr, "with --lsq: the factor of the learning rate (0.01)")->type_name("R");
}

// What belongs to a setting that was not chosen.
void check_words(const CLI::App& verb, const TrainOptions& options) {
  require(verb, "--momentum", options.optimizer == "sgd", "--optimizer sgd");
  require(verb, "--temperature", options.distillation != 0, "--distill");
  require(verb, "--temperature", options.loss != "mse", "--loss cross_entropy");
  require(verb, "--lsq-lr", options.lsq, "--lsq");
  require(verb, "--classes", !options.labels.empty(), "--labels");
  for (const char* option : {"--step-epochs", "--gamma"})
    require(verb, option, options.schedule == "step", "--schedule step");
}

// What would last longer than the training.
void check_lengths(const TrainOptions& options, int64_t batches) {
  const int64_t steps = options.epochs * batches;
  QDQ_CHECK_USAGE(options.schedule != "step" || options.step_epochs < options.epochs, "--step-epochs ",
                  options.step_epochs, " is not less than --epochs ", options.epochs,
                  ", so that the rate never changes; give fewer, or more --epochs");
  QDQ_CHECK_USAGE(options.warmup_steps < std::max<int64_t>(1, steps), "--warmup-steps ", options.warmup_steps,
                  " would last longer than the training, which has ", steps, " batches; give fewer, or more --epochs");
  QDQ_CHECK_USAGE(options.checkpoint_steps < std::max<int64_t>(1, steps), "--checkpoint-steps ",
                  options.checkpoint_steps, " never comes: the training has ", steps,
                  " batches; give fewer, or leave it out: --checkpoint alone writes after each epoch");
  QDQ_CHECK_USAGE(options.bn_epochs <= options.epochs, "--bn-epochs ", options.bn_epochs,
                  " is more than the training has, --epochs ", options.epochs, "; give fewer, or more --epochs");
}

void warn_of_norms(const TrainOptions& options, const Prepared& prepared, Host& host) {
  const std::vector<Node*> nodes = prepared.program().graph->nodes();
  const bool has_norms = std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
    return node->target().find("batch_norm") != std::string::npos;
  });
  if (options.bn_epochs != TrainOptions().bn_epochs && !has_norms)
    host.print_error("qdq: warning: --bn-epochs does nothing: the model has no batch norms\n");
}

}  // namespace

void train(const TrainOptions& options, Host& host) {
  const double began = host.now_seconds();
  check_outputs({{"-o", options.output, kModelEndings}, {"--checkpoint", options.checkpoint, {}}},
                {options.model, options.data, options.labels, options.classes, options.quantizer.recipe,
                 options.augment, options.data_options.preprocess},
                host);
  QDQ_CHECK_USAGE(options.checkpoint_steps == 0 || !options.checkpoint.empty(),
                  "--checkpoint-steps needs --checkpoint, the file to write");
  check_preprocess(options.data_options, {options.data});
  check_onnx_options(options.onnx, options.output);
  training_options(options, 1);  // refuses words that make no sense before there is anything to wait for
  Model model = load_model(options.model, host.files);
  const Augmenter augmenter(options, model.program, host);
  const Json recipe = read_recipe(options.quantizer, host);
  const std::unique_ptr<Quantizer> quantizer =
      parse_recipe(recipe, options.quantizer.recipe.empty() ? "the quantizer" : options.quantizer.recipe);
  const std::unique_ptr<Data> data = open_samples(options.data, model.program, options.data_options, host);
  const std::vector<int64_t> labels = labels_of(options, model.program, *data, host);
  std::optional<Teacher> teacher;
  if (options.distillation > 0) teacher.emplace(model.program.clone());

  Prepared prepared = prepare_qat_pt2e(std::move(model.program), *quantizer);
  for (const std::string& warning : prepared.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
  if (options.lsq) learn_qparams(prepared);
  warn_of_norms(options, prepared, host);
  if (options.output.ends_with(".onnx"))
    check_onnx_form(form_of_converted(prepared), options.output, options.onnx, options.onnx, host);
  TrainingSamples samples(*data, labels, host);
  check_lengths(options, samples.num_batches());
  const TrainingOptions training = training_options(options, samples.num_batches());
  Trainer trainer(prepared, training);
  const std::string identity = options.checkpoint.empty() ? "" : identity_of(options, training, recipe, samples, host);
  TrainingPlace place = begin(options, identity, prepared, trainer, samples, host);
  train_on(options, identity, prepared, trainer, samples, augmenter, teacher, place, host);

  move_exported_model_to_eval(prepared);
  const Program converted = convert_pt2e(prepared);
  const ModelFiles written = save_program(converted, options.output, options.onnx);
  written.write(host.files);
  if (!written.warning.empty()) host.print_error(concat("qdq: warning: ", written.warning, "\n"));
  const int64_t layers = count_layers(prepared, converted);
  const int64_t quantized = layers - static_cast<int64_t>(left_in_float(prepared, converted).size());
  print_trained(options, place.epoch_losses, training.optimizer.lr, data->num_samples(), layers, quantized,
                {model.file_bytes, written.size()}, written.note, host.now_seconds() - began, host);
}

void add_train(CommandLine& line) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* verb = line.verb(
      "train", "make an int8 model by quantization-aware training",
      "qdq train model.onnx --data images/ --labels folders \\\n    --preprocess preprocess.json -o model.int8.onnx",
      [options](Host& host) {
        options->quantizer.qat = true;
        train(*options, host);
      },
      [&line, options] { check_words(*line.app.get_subcommand("train"), *options); });
  verb->add_option("MODEL", options->model, "the trained float model (.pt2 or .onnx)")->required();
  verb->add_option("--data", options->data, "samples to train on: .npz, .npy, or images in a folder or a .tar")
      ->required()
      ->type_name("DATA");
  add_label_options(*verb, options->labels, options->classes);
  verb->add_option("-o,--output", options->output, "the model to write (.pt2 or .onnx)")->required()->type_name("OUT");
  // Profiles have no rows for batch norms.
  verb->remove_option(add_quantizer_options(*verb, options->quantizer));
  verb->remove_option(verb->get_option("--activation-bits"));
  // Weights are rounded by observers there, which training cannot learn from.
  verb->remove_option(verb->get_option("--weights-only"));
  verb->remove_option(verb->get_option("--group-size"));
  add_data_options(*verb, options->data_options);
  verb->add_option("--epochs", options->epochs, "the number of passes over the samples (3)")
      ->type_name("N")
      ->check(whole_number(1));
  verb->add_option("--bn-epochs", options->bn_epochs,
                   "the number of first epochs in which batch norms learn the statistics of batches (1); 0: they keep "
                   "the model's")
      ->type_name("N")
      ->check(whole_number(0));
  add_optimizer_options(*verb, options);
  verb->add_option("--augment", options->augment,
                   "change images at random in each epoch: {\"crop\": 4, \"flip\": 0.5, \"brightness\": 0.2}")
      ->type_name("FILE.json");
  verb->add_option(
          "--checkpoint", options->checkpoint,
          "a file to write after each epoch; training resumes from it if it exists, and ends with the same bytes")
      ->type_name("FILE");
  verb->add_option("--checkpoint-steps", options->checkpoint_steps, "also write it after every N batches")
      ->type_name("N")
      ->check(whole_number(1));
  verb->add_option("--seed", options->seed,
                   "the seed of the samples' order and of --augment (0); the same seed gives the same bytes")
      ->type_name("N");
  add_onnx_options(*verb, options->onnx);
  add_json_flag(*verb, options->json);
}

}  // namespace qdq
