// Learning rates that change from step to step, as torch.optim.lr_scheduler computes them.
#pragma once

#include <cstdint>
#include <string_view>

namespace qdq {

enum class LrSchedule {
  kConstant,  // the rate stays
  kStep,      // StepLR: times gamma after every step_size steps
  // CosineAnnealingLR: from the rate down to eta_min in total_steps (its T_max) as half a cosine, and up again behind
  kCosine,
};
// "constant", "step", "cosine". Throws Error{kInvalidArgument} for another word.
LrSchedule lr_schedule_from_name(std::string_view name);

struct LrScheduleOptions {
  LrSchedule schedule = LrSchedule::kConstant;
  int64_t step_size = 0;    // of kStep, at least 1 there
  double gamma = 0.1;       // of kStep
  int64_t total_steps = 0;  // of kCosine, at least 1 there; behind the warm-up
  double eta_min = 0;       // of kCosine
  // LinearLR in front of it (SequentialLR joins the two): the first steps have the rate times a factor that grows
  // evenly from warmup_start_factor to 1. 0: none.
  int64_t warmup_steps = 0;
  double warmup_start_factor = 1.0 / 3;
};

// Throws Error{kInvalidArgument} if an option that counts is out of range.
void check_lr_schedule(const LrScheduleOptions& options);
// The rate of a step, counted from 0, of a schedule that begins with `lr`: the closed form of what PyTorch multiplies
// up step by step, so the two differ by roundings of double. The same bits in every build.
double lr_at(const LrScheduleOptions& options, double lr, int64_t step);

}  // namespace qdq
