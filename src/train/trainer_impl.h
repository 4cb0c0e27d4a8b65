// What a trainer holds, for those who train, save and go on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/observers/learnable_fake_quantize.h"
#include "quant/trainee.h"
#include "train/optimizer.h"
#include "train/tape.h"
#include "train/trainer.h"

namespace qdq {

// Parameters that share their bytes are one; so is a learnt scale or zero point, which is called "OBSERVER.scale".
struct TrainedParameter {
  std::vector<std::string> names;
  LearnableFakeQuantize* learnable = nullptr;  // of a learnt one
  bool is_zero_point = false;                  // of it
  OptimizerState state;
};

struct Trainer::Impl {
  Trainee prepared;
  TrainingOptions options;
  std::vector<TrainedParameter> parameters;
  Tape tape;
  std::map<std::string, Tensor> gradients;
  bool has_gradients = false;  // that no update has used
  int64_t updates = 0;

  Impl(Prepared& of, const TrainingOptions& with);
  void backward(const std::vector<Tensor>& grads);
  void update();
  Tensor value_of(const TrainedParameter& parameter) const;
  void set_value(const TrainedParameter& parameter, const Tensor& value);
};

}  // namespace qdq
