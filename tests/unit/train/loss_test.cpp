#include "train/loss.h"

#include <gtest/gtest.h>

#include "unit/train/optim_golden.h"

namespace qdq::loss_test {
namespace {

TEST(Loss, DistillationIsPyTorchsDivergence) {
  for (const nlohmann::ordered_json& entry : optim_golden("distillation")) {
    const Shape sizes = entry.at("shape").get<Shape>();
    const Tensor output = floats_of(entry.at("output"), sizes), teacher = floats_of(entry.at("teacher"), sizes),
                 expected = floats_of(entry.at("grad"), sizes);
    const LossAndGrad found =
        distillation_loss_and_grad(Loss::kCrossEntropy, output, teacher, entry.at("temperature").get<double>());
    const double loss = entry.at("loss");
    EXPECT_NEAR(found.loss, loss, 2e-6 * loss);
    for (int64_t i = 0; i < output.numel(); ++i)
      EXPECT_NEAR(found.grad.data<float>()[i], expected.data<float>()[i], 2e-7);
  }
}

TEST(Loss, DistillationOfNumbersIsTheirSquaredError) {
  const Tensor output = Tensor::of<float>({3}, {1.0f, 2.0f, 3.0f}),
               teacher = Tensor::of<float>({3}, {1.0f, 1.0f, 5.0f});
  const LossAndGrad found = distillation_loss_and_grad(Loss::kMse, output, teacher, 3);
  EXPECT_DOUBLE_EQ(found.loss, 5.0 / 3);
  EXPECT_FLOAT_EQ(found.grad.data<float>()[2], -4.0f / 3);
}

TEST(Loss, DistillationSaysWhatDoesNotFit) {
  const Tensor output = Tensor::full({2, 3}, DType::kF32, 1);
  EXPECT_THROW(distillation_loss_and_grad(Loss::kCrossEntropy, output, {}, 1), Error);
  EXPECT_THROW(distillation_loss_and_grad(Loss::kCrossEntropy, output, Tensor::full({3, 2}, DType::kF32, 1), 1), Error);
  EXPECT_THROW(distillation_loss_and_grad(Loss::kCrossEntropy, output, output, 0), Error);
  const Tensor line = Tensor::full({3}, DType::kF32, 1);
  EXPECT_THROW(distillation_loss_and_grad(Loss::kCrossEntropy, line, line, 1), Error);
}

}  // namespace
}  // namespace qdq::loss_test
