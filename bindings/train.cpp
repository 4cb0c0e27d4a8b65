// Quantization-aware training across the border, in the module `qdq`.
#include <emscripten/bind.h>

#include "border.h"
#include "format/json.h"
#include "train/trainer.h"

namespace qdq {

using emscripten::val;

namespace {

// A trainer, and the prepared program that it trains, which JavaScript may dispose of before it.
struct TrainerOf {
  int prepared;
  Trainer trainer;
};

val make_trainer(int prepared, const std::string& options_text) {
  return guard([&] {
    const format::Json json = format::parse_json(options_text, "the options of the trainer");
    const format::Fields fields(json, "the options of the trainer");
    TrainingOptions options;
    const auto loss = fields.optional<std::string>("loss", "cross_entropy"),
               optimizer = fields.optional<std::string>("optimizer", "sgd");
    QDQ_CHECK(loss == "cross_entropy" || loss == "mse", kInvalidArgument, "there is no loss ", loss,
              "; wanted cross_entropy or mse");
    QDQ_CHECK(optimizer == "sgd" || optimizer == "adam", kInvalidArgument, "there is no optimizer ", optimizer,
              "; wanted sgd or adam");
    options.loss = loss == "mse" ? Loss::kMse : Loss::kCrossEntropy;
    options.optimizer = optimizer == "adam" ? Optimizer::kAdam : Optimizer::kSgd;
    options.lr = fields.optional<double>("lr", options.lr);
    options.momentum = fields.optional<double>("momentum", options.momentum);
    options.weight_decay = fields.optional<double>("weightDecay", options.weight_decay);
    fields.reject_unknown();
    return keep(TrainerOf{prepared, Trainer(held<Prepared>(prepared, "a prepared program"), options)});
  });
}

Trainer& trainer_of(int handle) {
  TrainerOf& kept = held<TrainerOf>(handle, "a trainer");
  held<Prepared>(kept.prepared, "the prepared program of this trainer");
  return kept.trainer;
}

val train_step(int trainer, const val& inputs, const val& target) {
  return guard([&] { return trainer_of(trainer).step(tensors_from(inputs), tensor_from(target)); });
}

val set_learning_rate(int trainer, double lr) {
  return guard([&] {
    trainer_of(trainer).set_lr(lr);
    return val::null();
  });
}

val trained_parameters(int trainer) {
  return guard([&] { return format::print_json(format::Json(trainer_of(trainer).parameters())); });
}

// `what`: "observer", "fake_quant" or "training".
val switch_prepared(int prepared, const std::string& what, bool enabled) {
  return guard([&] {
    Prepared& changed = held<Prepared>(prepared, "a prepared program");
    if (what == "observer") enable_observer(changed, enabled);
    else if (what == "fake_quant") enable_fake_quant(changed, enabled);
    else if (enabled) move_exported_model_to_train(changed);
    else move_exported_model_to_eval(changed);
    return val::null();
  });
}

// Another program, in inference form.
val move_to_eval(int program) {
  return guard([&] {
    Program moved = held<Program>(program, "a program").clone();
    move_exported_model_to_eval(moved);
    return keep(std::move(moved));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(qdq_train) {
  emscripten::function("moveToEval", &move_to_eval);
  emscripten::function("makeTrainer", &make_trainer);
  emscripten::function("trainStep", &train_step);
  emscripten::function("setLearningRate", &set_learning_rate);
  emscripten::function("trainedParameters", &trained_parameters);
  emscripten::function("switchPrepared", &switch_prepared);
}

}  // namespace qdq
