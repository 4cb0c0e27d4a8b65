#include "train/lr_schedule.h"

#include <gtest/gtest.h>

#include "train/training_options.h"
#include "unit/train/optim_golden.h"

namespace qdq::lr_schedule_test {
namespace {

TEST(LrSchedule, RatesArePyTorchs) {
  for (const nlohmann::ordered_json& entry : optim_golden("schedules")) {
    const LrScheduleOptions options = parse_training_options({{"schedule", entry.at("options")}}).schedule;
    for (size_t step = 0; step < entry.at("rates").size(); ++step) {
      const double expected = entry["rates"][step];
      EXPECT_NEAR(lr_at(options, entry.at("lr"), static_cast<int64_t>(step)), expected, 1e-15 + 1e-12 * expected)
          << entry["options"].dump() << " at step " << step;
    }
  }
}

TEST(LrSchedule, SaysWhichOptionMakesNoSense) {
  const auto refusal_of = [](const nlohmann::ordered_json& schedule) -> std::string {
    try {
      parse_training_options({{"schedule", schedule}});
    } catch (const Error& error) {
      return error.message;
    }
    return "";
  };
  EXPECT_EQ(refusal_of({{"schedule", "cosine"}, {"total_steps", 3}}), "");
  EXPECT_NE(refusal_of({{"schedule", "cosine"}}).find("has 0 steps in total"), std::string::npos);
  EXPECT_NE(refusal_of({{"schedule", "step"}}).find("step size of 0"), std::string::npos);
  EXPECT_NE(refusal_of({{"schedule", "plateau"}}).find("wanted constant, step or cosine"), std::string::npos);
  EXPECT_NE(refusal_of({{"warmup_steps", -1}}).find("-1 steps"), std::string::npos);
  EXPECT_NE(refusal_of({{"warmup_steps", 1}, {"warmup_start_factor", 0}}).find("the factor 0"), std::string::npos);
  EXPECT_NE(refusal_of({{"patience", 1}}).find("patience"), std::string::npos);
  // What belongs to another schedule.
  const char* of_step = "are for the schedule step only";
  EXPECT_NE(refusal_of({{"step_size", 3}}).find(of_step), std::string::npos);
  EXPECT_NE(refusal_of({{"schedule", "cosine"}, {"total_steps", 3}, {"gamma", 0.5}}).find(of_step), std::string::npos);
  EXPECT_NE(refusal_of({{"total_steps", 3}}).find("are for the schedule cosine only"), std::string::npos);
  EXPECT_NE(refusal_of({{"warmup_start_factor", 0.5}}).find("does nothing without warm-up steps"), std::string::npos);
}

}  // namespace
}  // namespace qdq::lr_schedule_test
