#include "train/training_options.h"

#include <cmath>
#include <string>

#include "format/json.h"

namespace qdq {
namespace {

LrScheduleOptions parse_schedule(const format::Json& json) {
  const format::Fields fields(json, "the schedule");
  LrScheduleOptions out;
  out.schedule = lr_schedule_from_name(fields.optional<std::string>("schedule", "constant"));
  out.step_size = fields.optional<int64_t>("step_size", out.step_size);
  out.gamma = fields.optional<double>("gamma", out.gamma);
  out.total_steps = fields.optional<int64_t>("total_steps", out.total_steps);
  out.eta_min = fields.optional<double>("eta_min", out.eta_min);
  out.warmup_steps = fields.optional<int64_t>("warmup_steps", out.warmup_steps);
  out.warmup_start_factor = fields.optional<double>("warmup_start_factor", out.warmup_start_factor);
  fields.reject_unknown();
  return out;
}

}  // namespace

void check_training_options(const TrainingOptions& options) {
  check_optimizer(options.optimizer);
  check_lr_schedule(options.schedule);
  QDQ_CHECK(options.distillation > 0 || options.temperature == 1, kInvalidArgument, "the temperature ",
            options.temperature, " does nothing without distillation; leave it out, or give distillation a share");
  QDQ_CHECK(options.loss != Loss::kMse || options.temperature == 1, kInvalidArgument, "the temperature ",
            options.temperature,
            " does nothing with the loss mse, which compares the outputs as they are; leave it "
            "out, or take cross_entropy");
  QDQ_CHECK(options.distillation >= 0 && options.distillation <= 1, kInvalidArgument, "the share of distillation is ",
            options.distillation, "; wanted one from 0 to 1");
  QDQ_CHECK(options.temperature > 0 && std::isfinite(options.temperature), kInvalidArgument, "the temperature is ",
            options.temperature, "; wanted a number above 0");
}

TrainingOptions parse_training_options(const format::Json& json) {
  const format::Fields fields(json, "the options of the trainer");
  TrainingOptions out;
  OptimizerOptions& optimizer = out.optimizer;
  out.loss = loss_from_name(fields.optional<std::string>("loss", "cross_entropy"));
  optimizer.optimizer = optimizer_from_name(fields.optional<std::string>("optimizer", "sgd"));
  optimizer.lr = fields.optional<double>("lr", optimizer.lr);
  optimizer.momentum = fields.optional<double>("momentum", optimizer.momentum);
  optimizer.weight_decay = fields.optional<double>("weight_decay", optimizer.weight_decay);
  optimizer.nesterov = fields.optional<bool>("nesterov", optimizer.nesterov);
  const auto betas = fields.optional<std::vector<double>>("betas", {optimizer.beta1, optimizer.beta2});
  QDQ_CHECK(betas.size() == 2, kInvalidArgument, "betas has ", betas.size(), " numbers; wanted the two of Adam");
  optimizer.beta1 = betas[0];
  optimizer.beta2 = betas[1];
  optimizer.qparams_lr = fields.optional<double>("qparams_lr", optimizer.qparams_lr);
  optimizer.eps = fields.optional<double>("eps", optimizer.eps);
  if (const format::Json* schedule = fields.find("schedule")) out.schedule = parse_schedule(*schedule);
  out.distillation = fields.optional<double>("distillation", out.distillation);
  out.temperature = fields.optional<double>("temperature", out.temperature);
  fields.reject_unknown();
  check_training_options(out);
  return out;
}

}  // namespace qdq
