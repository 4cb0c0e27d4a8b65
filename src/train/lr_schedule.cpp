#include "train/lr_schedule.h"

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "op/math.h"

namespace qdq {

LrSchedule lr_schedule_from_name(std::string_view name) {
  if (name == "constant") return LrSchedule::kConstant;
  if (name == "step") return LrSchedule::kStep;
  QDQ_CHECK(name == "cosine", kInvalidArgument, "there is no schedule ", name, "; wanted constant, step or cosine");
  return LrSchedule::kCosine;
}

void check_lr_schedule(const LrScheduleOptions& options) {
  if (options.schedule == LrSchedule::kStep) {
    QDQ_CHECK(options.step_size >= 1, kInvalidArgument, "the schedule step has a step size of ", options.step_size,
              "; wanted after how many steps the learning rate changes, at least 1");
    QDQ_CHECK(options.gamma >= 0 && std::isfinite(options.gamma), kInvalidArgument, "the schedule's gamma is ",
              options.gamma, "; wanted the factor of the learning rate, which is not negative");
  }
  if (options.schedule == LrSchedule::kCosine) {
    QDQ_CHECK(options.total_steps >= 1, kInvalidArgument, "the schedule cosine has ", options.total_steps,
              " steps in total; wanted over how many steps the learning rate falls, at least 1");
    QDQ_CHECK(options.eta_min >= 0 && std::isfinite(options.eta_min), kInvalidArgument, "the schedule's eta_min is ",
              options.eta_min, "; wanted a learning rate that is not negative");
  }
  const LrScheduleOptions none;
  QDQ_CHECK(options.schedule == LrSchedule::kStep || (options.step_size == 0 && options.gamma == none.gamma),
            kInvalidArgument,
            "a step size and gamma are for the schedule step only; leave them out, or use that schedule");
  QDQ_CHECK(options.schedule == LrSchedule::kCosine || (options.total_steps == 0 && options.eta_min == 0),
            kInvalidArgument,
            "a total of steps and eta_min are for the schedule cosine only; leave them out, or use that schedule");
  QDQ_CHECK(options.warmup_steps > 0 || options.warmup_start_factor == none.warmup_start_factor, kInvalidArgument,
            "the factor that a warm-up starts with does nothing without warm-up steps; leave it out, or give them");
  QDQ_CHECK(options.warmup_steps >= 0, kInvalidArgument, "the warm-up has ", options.warmup_steps,
            " steps; wanted 0 or more");
  QDQ_CHECK(options.warmup_steps == 0 || (options.warmup_start_factor > 0 && options.warmup_start_factor <= 1),
            kInvalidArgument, "the warm-up begins with the factor ", options.warmup_start_factor,
            "; wanted one above 0 and up to 1");
}

double lr_at(const LrScheduleOptions& options, double lr, int64_t step) {
  if (step < options.warmup_steps) {
    const double done = static_cast<double>(step) / static_cast<double>(options.warmup_steps);
    return lr * (options.warmup_start_factor + (1 - options.warmup_start_factor) * done);
  }
  step -= options.warmup_steps;
  switch (options.schedule) {
    case LrSchedule::kConstant: return lr;
    case LrSchedule::kStep: return lr * math::pow(options.gamma, static_cast<double>(step / options.step_size));
    case LrSchedule::kCosine: {
      const int64_t place = step % (2 * options.total_steps);  // small angles keep the bits of the cosine
      const double angle = std::numbers::pi * static_cast<double>(place) / static_cast<double>(options.total_steps);
      return options.eta_min + (lr - options.eta_min) * (1 + math::cos(angle)) / 2;
    }
  }
  return lr;
}

}  // namespace qdq
