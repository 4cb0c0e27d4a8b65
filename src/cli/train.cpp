// `qdq train`: quantization-aware training of a classifier, and its int8 form.
#include "train/trainer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numbers>
#include <numeric>

#include "cli/progress.h"
#include "cli/verbs.h"
#include "format/json.h"
#include "io/model.h"
#include "kernel/math.h"
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

// All samples in memory, to be taken in any order.
class Samples {
 public:
  Samples(Data& data, const std::vector<int64_t>& labels, Host& host)
      : labels_(Tensor::of<int64_t>({data.num_samples()}, labels)) {
    std::vector<std::vector<Tensor>> parts;
    Progress progress(host, "reading", data.num_batches(), "batches");
    for (int64_t i = 0; i < data.num_batches(); ++i) {
      const std::vector<Tensor> batch = data.batch(i);
      parts.resize(batch.size());
      for (size_t input = 0; input < batch.size(); ++input) parts[input].push_back(batch[input]);
      if (i == 0) batch_size_ = batch[0].size(0);
      progress.advance();
    }
    for (const std::vector<Tensor>& part : parts) inputs_.push_back(join_batches(part).contiguous());
    order_.resize(labels.size());
    std::iota(order_.begin(), order_.end(), 0);
  }

  // Batches of an epoch; samples that do not fill one wait for another epoch's order.
  int64_t num_batches() const { return std::max<int64_t>(1, static_cast<int64_t>(order_.size()) / batch_size_); }
  std::pair<std::vector<Tensor>, Tensor> batch(int64_t i) const {
    const auto begin = order_.begin() + i * batch_size_;
    const std::vector<int64_t> places(begin, begin + std::min<int64_t>(batch_size_, order_.end() - begin));
    std::vector<Tensor> inputs;
    for (const Tensor& input : inputs_) inputs.push_back(gathered(input, places));
    return {inputs, gathered(labels_, places)};
  }
  // A new order (Fisher and Yates), which the state of a 64-bit congruential generator gives.
  void shuffle(uint64_t& state) {
    for (size_t i = order_.size(); i-- > 1;) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(order_[i], order_[static_cast<size_t>((state >> 33) % (i + 1))]);
    }
  }

 private:
  static Tensor gathered(const Tensor& from, const std::vector<int64_t>& places) {
    Shape sizes = from.sizes();
    sizes[0] = static_cast<int64_t>(places.size());
    const Tensor out = Tensor::empty(sizes, from.dtype());
    const size_t bytes = places.empty() ? 0 : out.nbytes() / places.size();
    for (size_t i = 0; i < places.size(); ++i)
      std::memcpy(out.raw() + i * bytes, from.raw() + static_cast<size_t>(places[i]) * bytes, bytes);
    return out;
  }

  std::vector<Tensor> inputs_;
  Tensor labels_;
  std::vector<int64_t> order_;
  int64_t batch_size_ = 1;
};

// What the observers see first: the float model on all samples. Their averages are slow, and training is short.
void calibrate(Prepared& prepared, const Samples& samples, Host& host) {
  move_exported_model_to_eval(prepared);
  enable_fake_quant(prepared, false);
  Progress progress(host, "calibrating", samples.num_batches(), "batches");
  for (int64_t i = 0; i < samples.num_batches(); ++i) {
    prepared.run(samples.batch(i).first);
    progress.advance();
  }
  enable_fake_quant(prepared);
}

TrainingOptions training_options(const TrainOptions& options) {
  TrainingOptions training;
  const bool adam = options.optimizer == "adam";
  QDQ_CHECK(adam || options.optimizer == "sgd", kInvalidArgument, "there is no optimizer ", options.optimizer,
            "; wanted adam or sgd");
  training.optimizer = adam ? Optimizer::kAdam : Optimizer::kSgd;
  training.lr = options.lr.value_or(adam ? 1e-5 : 3e-5);
  training.momentum = options.momentum;
  training.weight_decay = options.weight_decay;
  return training;
}

}  // namespace

void train(const TrainOptions& options, Host& host) {
  const double began = host.now_seconds();
  check_model_output(options.output, options.model, host);
  check_preprocess(options.data_options, {options.data});
  Model model = load_model(options.model, host.files);
  const std::unique_ptr<Quantizer> quantizer =
      parse_recipe(for_training(read_recipe(options.quantizer, host)),
                   options.quantizer.recipe.empty() ? "the quantizer" : options.quantizer.recipe);
  const std::unique_ptr<Data> data = open_data(options.data, model.program, options.data_options, host.files);
  Classes classes = read_classes(options.classes, count_classes(model.program), host.files);
  const std::vector<int64_t> labels = read_labels(options.labels, *data, classes, host.files);

  Prepared prepared = prepare_qat_pt2e(std::move(model.program), *quantizer);
  for (const std::string& warning : prepared.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
  const TrainingOptions training = training_options(options);
  Trainer trainer(prepared, training);
  Samples samples(*data, labels, host);
  uint64_t order = static_cast<uint64_t>(options.seed);
  samples.shuffle(order);
  calibrate(prepared, samples, host);
  move_exported_model_to_train(prepared);

  std::string out;
  const int64_t steps = options.epochs * samples.num_batches();
  // In the last third ranges and statistics stay, so that the weights settle for those that the int8 model will have.
  const int64_t frozen_from = options.epochs - options.epochs / 3;
  for (int64_t epoch = 0, step = 0; epoch < options.epochs; ++epoch) {
    if (epoch == frozen_from) enable_observer(prepared, false);
    if (epoch == std::min(frozen_from, options.bn_epochs)) move_exported_model_to_eval(prepared);
    samples.shuffle(order);
    Progress progress(host, concat("epoch ", epoch + 1, " of ", options.epochs), samples.num_batches(), "batches");
    double loss = 0;
    for (int64_t i = 0; i < samples.num_batches(); ++i, ++step) {
      // The C library's cosine is not the same in every build.
      const auto angle = std::numbers::pi_v<float> * static_cast<float>(step) / static_cast<float>(steps);
      float cosine = 0;
      kernel::cos_f32(&angle, 1, &cosine);
      trainer.set_lr(training.lr * 0.5 * (1.0 + cosine));
      const auto [inputs, target] = samples.batch(i);
      loss += trainer.step(inputs, target);
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
  host.print(concat("wrote ", options.output, "\n  trained on ", data->num_samples(), " samples\n", out,
                    "  layers quantized  ", layers - static_cast<int64_t>(left.size()), " of ", layers,
                    "\n  size              ", human_bytes(model.file_bytes), " -> ", human_bytes(written.size()),
                    "\n  time              ", human_seconds(host.now_seconds() - began), "\n"));
}

}  // namespace qdq
