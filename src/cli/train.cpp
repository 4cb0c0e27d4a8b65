// `qdq train`: quantization-aware training of a classifier, and its int8 form.
#include "train/trainer.h"

#include <algorithm>
#include <cstdio>

#include "cli/progress.h"
#include "cli/training_samples.h"
#include "cli/verbs.h"
#include "exec/interpreter.h"
#include "format/json.h"
#include "io/model.h"
#include "quant/explain.h"
#include "recipe/recipe.h"
#include "report/evaluation.h"
#include "report/quantization_report.h"

namespace qdq {

namespace {

using format::Json;

// The recipe with is_qat in all settings that do not say: nobody trains with observers that do not round.
Json for_training(Json recipe) {
  const auto set = [](Json& config) {
    if (config.is_object() && !config.contains("config") && !config.contains("is_qat")) config["is_qat"] = true;
  };
  if (recipe.value("quantizer", "") == "QConfigMapping") set(recipe);
  if (recipe.contains("global")) set(recipe["global"]);
  for (const char* section : {"module_type", "operator_type", "module_name", "function_type", "object_type"})
    if (recipe.contains(section) && recipe[section].is_array())
      for (Json& entry : recipe[section])
        if (entry.is_array() && entry.size() == 2) set(entry[1]);
  if (recipe.contains("quantizers") && recipe["quantizers"].is_array())
    for (Json& part : recipe["quantizers"]) part = for_training(std::move(part));
  return recipe;
}

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
  training.optimizer.momentum = options.momentum;
  training.optimizer.weight_decay = options.weight_decay;
  training.schedule.schedule = lr_schedule_from_name(options.schedule);
  training.schedule.warmup_steps = options.warmup_steps;
  training.schedule.total_steps = std::max<int64_t>(1, steps - options.warmup_steps);
  training.schedule.step_size = options.step_epochs * batches;
  training.schedule.gamma = options.gamma;
  training.distillation = options.distillation;
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
  QDQ_CHECK(needs_labels || options.labels.empty(), kInvalidArgument,
            "--labels do nothing beside --distill 1, whose loss looks at the float model's output alone; leave them "
            "out, or give a smaller share");
  if (!needs_labels) return {};
  QDQ_CHECK(
      !options.labels.empty(), kInvalidArgument,
      "training wants --labels, the samples' classes, or --distill 1 to learn from the float model's output alone");
  QDQ_CHECK(options.loss != "mse", kInvalidArgument,
            "--loss mse compares numbers, and labels are classes; add "
            "--distill 1 in their place");
  Classes classes = read_classes(options.classes, count_classes(program), host.files);
  return read_labels(options.labels, data, classes, host.files);
}

}  // namespace

void train(const TrainOptions& options, Host& host) {
  const double began = host.now_seconds();
  check_model_output(options.output, options.model, host);
  check_preprocess(options.data_options, {options.data});
  training_options(options, 1);  // refuses words that make no sense before there is anything to wait for
  Model model = load_model(options.model, host.files);
  const std::unique_ptr<Quantizer> quantizer =
      parse_recipe(for_training(read_recipe(options.quantizer, host)),
                   options.quantizer.recipe.empty() ? "the quantizer" : options.quantizer.recipe);
  const std::unique_ptr<Data> data = open_data(options.data, model.program, options.data_options, host.files);
  const std::vector<int64_t> labels = labels_of(options, model.program, *data, host);
  std::optional<Teacher> teacher;
  if (options.distillation > 0) teacher.emplace(model.program.clone());

  Prepared prepared = prepare_qat_pt2e(std::move(model.program), *quantizer);
  for (const std::string& warning : prepared.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
  TrainingSamples samples(*data, labels, host);
  const TrainingOptions training = training_options(options, samples.num_batches());
  Trainer trainer(prepared, training);
  uint64_t order = static_cast<uint64_t>(options.seed);
  samples.shuffle(order);
  calibrate(prepared, samples, host);
  move_exported_model_to_train(prepared);

  std::string out;
  // In the last third ranges and statistics stay, so that the weights settle for those that the int8 model will have.
  const int64_t frozen_from = options.epochs - options.epochs / 3;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    if (epoch == frozen_from) enable_observer(prepared, false);
    if (epoch == std::min(frozen_from, options.bn_epochs)) move_exported_model_to_eval(prepared);
    samples.shuffle(order);
    Progress progress(host, concat("epoch ", epoch + 1, " of ", options.epochs), samples.num_batches(), "batches");
    double loss = 0;
    for (int64_t i = 0; i < samples.num_batches(); ++i) {
      const TrainingSamples::Batch batch = samples.batch(i);
      loss += trainer.step(batch.inputs, batch.target, teacher ? teacher->output(batch.inputs) : Tensor());
      progress.advance();
    }
    char text[64];
    std::snprintf(text, sizeof text, "%.4f", loss / static_cast<double>(samples.num_batches()));
    out += concat("  epoch ", epoch + 1, "  loss ", text, "\n");
  }
  move_exported_model_to_eval(prepared);
  const Program converted = convert_pt2e(prepared);
  const ModelFiles written = save_program(converted, options.output, options.onnx);
  written.write(host.files);
  if (!written.warning.empty()) host.print_error(concat("qdq: warning: ", written.warning, "\n"));
  const std::vector<LeftInFloat> left = left_in_float(prepared, converted);
  const int64_t layers = count_layers(converted);
  char rate[32];
  std::snprintf(rate, sizeof rate, "%.2g", training.optimizer.lr);
  host.print(concat("wrote ", options.output, "\n  trained on ", data->num_samples(), " samples\n", out,
                    "  learning rate     ", rate, "\n  layers quantized  ", layers - static_cast<int64_t>(left.size()),
                    " of ", layers, "\n  size              ", human_bytes(model.file_bytes), " -> ",
                    human_bytes(written.size()), "\n  time              ", human_seconds(host.now_seconds() - began),
                    "\n"));
}

}  // namespace qdq
