// What a trainer can be told, and its JSON.
#pragma once

#include "format/json_fwd.h"
#include "train/loss.h"
#include "train/lr_schedule.h"
#include "train/optimizer.h"

namespace qdq {

struct TrainingOptions {
  Loss loss = Loss::kCrossEntropy;
  OptimizerOptions optimizer = {};
  LrScheduleOptions schedule = {};  // of optimizer.lr
  // Distillation: the share of the loss that is the distance to the float model's output, 0 to 1; the rest is the loss
  // on the target.
  double distillation = 0;
  double temperature = 1;  // of distillation_loss_and_grad
};

// Throws Error{kInvalidArgument} if an option is out of range.
void check_training_options(const TrainingOptions& options);

// The options of an object with any of loss, optimizer, lr, momentum, weight_decay, nesterov, betas (two numbers), eps,
// qparams_lr, distillation, temperature, and schedule: an object with any of schedule, step_size, gamma, total_steps,
// eta_min, warmup_steps, warmup_start_factor. Throws Error{kInvalidArgument} for other fields and words.
TrainingOptions parse_training_options(const format::Json& json);

}  // namespace qdq
