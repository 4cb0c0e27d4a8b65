#include "train/optimizer.h"

#include <gtest/gtest.h>

#include "message_of.h"
#include "train/training_options.h"
#include "unit/train/optim_golden.h"

namespace qdq::optimizer_test {
namespace {

TEST(Optimizer, StepsArePyTorchs) {
  for (const nlohmann::ordered_json& entry : optim_golden("optimizers")) {
    const OptimizerOptions options = parse_training_options(entry.at("options")).optimizer;
    Tensor parameter = floats_of(entry.at("start"), {12});
    OptimizerState state;
    for (size_t step = 0; step < entry.at("grads").size(); ++step) {
      if (!entry["grads"][step].is_null())
        parameter = optimizer_step(options, options.lr, parameter, floats_of(entry["grads"][step], {12}), state);
      const Tensor expected = floats_of(entry.at("values").at(step), {12});
      for (int64_t i = 0; i < 12; ++i)
        EXPECT_NEAR(parameter.data<float>()[i], expected.data<float>()[i],
                    3e-7 + 3e-7 * std::abs(expected.data<float>()[i]))
            << entry["options"].dump() << " after step " << step;
    }
    EXPECT_EQ(state.steps, 5);  // the step without a gradient is none of the parameter's
  }
}

TEST(Optimizer, LeavesTheOldBytesAlone) {
  const Tensor parameter = Tensor::of<float>({2}, {1.0f, 2.0f});
  OptimizerState state;
  const Tensor now = optimizer_step({Optimizer::kAdamW}, 0.1, parameter, Tensor::of<float>({2}, {1.0f, -1.0f}), state);
  EXPECT_NE(now.raw(), parameter.raw());
  EXPECT_EQ(parameter.data<float>()[1], 2.0f);
}

std::string refusal_of(const OptimizerOptions& options) {
  return message_of([&] { check_optimizer(options); });
}

TEST(Optimizer, SaysWhichOptionMakesNoSense) {
  EXPECT_EQ(refusal_of({Optimizer::kSgd, 0.1, 0.9, 0, true}), "");
  EXPECT_EQ(refusal_of({Optimizer::kSgd, -1}), "the learning rate is -1; it must be a number that is not negative");
  EXPECT_NE(refusal_of({Optimizer::kSgd, 0.1, 0, 0, true}).find("nesterov is for sgd"), std::string::npos);
  OptimizerOptions beta{Optimizer::kAdamW};
  beta.beta2 = 1;
  EXPECT_NE(refusal_of(beta).find("a beta of Adam is 1"), std::string::npos);
  EXPECT_THROW(optimizer_from_name("lamb"), Error);
}

TEST(Optimizer, SaysWhichOptionDoesNothing) {
  EXPECT_NE(refusal_of({Optimizer::kAdam, 0.1, 0.9}).find("the momentum 0.9 does nothing"), std::string::npos);
  OptimizerOptions sgd{Optimizer::kSgd};
  sgd.beta2 = 0.9;
  EXPECT_NE(refusal_of(sgd).find("betas and eps do nothing with sgd"), std::string::npos);
}

}  // namespace
}  // namespace qdq::optimizer_test
