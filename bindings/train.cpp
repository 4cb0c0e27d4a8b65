// Quantization-aware training across the border, in the module `qdq`.
#include <emscripten/bind.h>

#include "border.h"
#include "data/augment.h"
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
    const TrainingOptions options =
        parse_training_options(format::parse_json(options_text, "the options of the trainer"));
    return keep(TrainerOf{prepared, Trainer(held<Prepared>(prepared, "a prepared program"), options)});
  });
}

Trainer& trainer_of(int handle) {
  TrainerOf& kept = held<TrainerOf>(handle, "a trainer");
  held<Prepared>(kept.prepared, "the prepared program of this trainer");
  return kept.trainer;
}

// A tensor, or an undefined one for null.
Tensor tensor_or_none(const val& raw) { return raw.isNull() ? Tensor() : tensor_from(raw); }

val train_step(int trainer, const val& inputs, const val& target, const val& teacher) {
  return guard(
      [&] { return trainer_of(trainer).step(tensors_from(inputs), tensor_or_none(target), tensor_or_none(teacher)); });
}

val train_forward(int trainer, const val& inputs) {
  return guard([&] { return tensors_to(trainer_of(trainer).forward(tensors_from(inputs))); });
}

val train_backward(int trainer, const val& grads) {
  return guard([&] {
    std::vector<Tensor> of_outputs;
    for (int i = 0; i < grads["length"].as<int>(); ++i) of_outputs.push_back(tensor_or_none(grads[i]));
    trainer_of(trainer).backward(of_outputs);
    return val::null();
  });
}

val train_update(int trainer) {
  return guard([&] {
    trainer_of(trainer).update();
    return val::null();
  });
}

// {name: tensor}
val train_gradients(int trainer) {
  return guard([&] {
    val out = val::object();
    for (const auto& [name, grad] : trainer_of(trainer).gradients()) out.set(name, tensor_to(grad));
    return out;
  });
}

val train_state(int trainer) {
  return guard([&] {
    val out = val::object();
    for (const format::NamedTensor& entry : trainer_of(trainer).state_dict())
      out.set(entry.name, tensor_to(entry.tensor));
    return out;
  });
}

val load_train_state(int trainer, const val& state) {
  return guard([&] {
    std::vector<format::NamedTensor> entries;
    for (const val& name : emscripten::vecFromJSArray<val>(val::global("Object").call<val>("keys", state)))
      entries.push_back({name.as<std::string>(), tensor_from(state[name])});
    trainer_of(trainer).load_state_dict(entries);
    return val::null();
  });
}

val augment_images(const val& images, const std::string& how, const std::string& preprocess_text, double seed,
                   double epoch, const val& sample_numbers) {
  return guard([&] {
    std::vector<int64_t> samples;
    for (const double number : emscripten::convertJSArrayToNumberVector<double>(sample_numbers))
      samples.push_back(static_cast<int64_t>(number));
    return tensor_to(augment(tensor_from(images), parse_augmentation(format::parse_json(how, "the augmentation")),
                             format::parse_preprocess(format::parse_json(preprocess_text, "the preprocessing")),
                             static_cast<uint64_t>(seed), static_cast<uint64_t>(epoch), samples));
  });
}

val learn_qparams_of(int prepared, bool use_grad_scaling) {
  return guard([&] {
    learn_qparams(held<Prepared>(prepared, "a prepared program"), use_grad_scaling);
    return val::null();
  });
}

val learning_rate(int trainer) {
  return guard([&] { return trainer_of(trainer).lr(); });
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

// `what`: "observer", "fake_quant", "param_learning" or "training".
val switch_prepared(int prepared, const std::string& what, bool enabled) {
  return guard([&] {
    Prepared& changed = held<Prepared>(prepared, "a prepared program");
    if (what == "observer") enable_observer(changed, enabled);
    else if (what == "fake_quant") enable_fake_quant(changed, enabled);
    else if (what == "param_learning") enable_param_learning(changed, enabled);
    else if (enabled) move_exported_model_to_train(changed);
    else move_exported_model_to_eval(changed);
    return val::null();
  });
}

// Another program, in inference form.
val move_to_eval(int program) {
  return guard([&] {
    Program moved = held<const Program>(program, "a program").clone();
    move_exported_model_to_eval(moved);
    return keep(std::move(moved));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(qdq_train) {
  emscripten::function("moveToEval", &move_to_eval);
  emscripten::function("makeTrainer", &make_trainer);
  emscripten::function("trainStep", &train_step);
  emscripten::function("trainForward", &train_forward);
  emscripten::function("trainBackward", &train_backward);
  emscripten::function("trainUpdate", &train_update);
  emscripten::function("trainGradients", &train_gradients);
  emscripten::function("trainState", &train_state);
  emscripten::function("loadTrainState", &load_train_state);
  emscripten::function("augmentImages", &augment_images);
  emscripten::function("learnQparams", &learn_qparams_of);
  emscripten::function("learningRate", &learning_rate);
  emscripten::function("setLearningRate", &set_learning_rate);
  emscripten::function("trainedParameters", &trained_parameters);
  emscripten::function("switchPrepared", &switch_prepared);
}

}  // namespace qdq
