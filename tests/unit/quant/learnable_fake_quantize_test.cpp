// Learnt scales and zero points against PyTorch's (tests/golden/train/lsq.json, made by make_lsq.py).
#include "quant/observers/learnable_fake_quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "source_dir.h"

namespace qdq::learnable_fake_quantize_test {
namespace {

using Json = nlohmann::json;

Tensor learnt_tensor(const Json& list, const Shape& sizes) {
  return Tensor::of<float>(sizes, list.get<std::vector<float>>());
}

void expect_near(const Tensor& found, const Json& expected, double tolerance, const std::string& what) {
  const auto values = expected.get<std::vector<float>>();
  ASSERT_EQ(found.numel(), static_cast<int64_t>(values.size())) << what;
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(found.data<float>()[i], values[i], tolerance * (1 + std::abs(values[i]))) << what << " " << i;
}

Tensor stepped(const Tensor& value, const Tensor& grad, float lr) {
  const Tensor out = value.clone();
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] -= lr * grad.data<float>()[i];
  return out;
}

TEST(LearnableFakeQuantize, LearnsAsPyTorchs) {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/train/lsq.json");
  const Json cases = Json::parse(file).at("cases");
  EXPECT_EQ(cases.size(), 7U);
  int64_t clipped = 0, fractions = 0;
  for (const Json& entry : cases) {
    const Json& settings = entry.at("settings");
    ObserverArgs args;
    set_dtype(args, settings.at("dtype").get<std::string>());
    args.qscheme = qscheme_from_name(settings.at("qscheme").get<std::string>());
    args.quant_min = settings.at("quant_min").get<int64_t>();
    args.quant_max = settings.at("quant_max").get<int64_t>();
    args.ch_axis = settings.at("ch_axis").get<int64_t>();
    args.use_grad_scaling = settings.at("use_grad_scaling").get<bool>();
    args.inner_class = entry.at("inner").get<std::string>();
    LearnableFakeQuantize fake(args);
    const Shape sizes = entry.at("shape").get<Shape>();
    fake.forward(learnt_tensor(entry.at("seen"), sizes));
    fake.enable_observer(false);
    fake.enable_param_learning(true);
    for (size_t i = 0; i < entry.at("steps").size(); ++i) {
      const Json& step = entry["steps"][i];
      const std::string what = settings.dump() + " step " + std::to_string(i) + " ";
      const Tensor x = learnt_tensor(step.at("x"), sizes), grad = learnt_tensor(step.at("grad"), sizes);
      expect_near(fake.forward(x), step.at("output"), 2e-6, what + "output");
      const LearnableFakeQuantize::Grads grads = fake.backward(x, grad);
      expect_near(grads.x, step.at("x_grad"), 0, what + "x_grad");
      expect_near(grads.scale, step.at("scale_grad"), 2e-5, what + "scale_grad");
      for (int64_t n = 0; n < grads.x.numel(); ++n) clipped += grads.x.data<float>()[n] == 0;
      fake.set_scale(stepped(fake.scale(), grads.scale, entry.at("lr").get<float>()));
      expect_near(fake.scale(), step.at("scale"), 2e-6, what + "scale");
      if (is_symmetric(args.qscheme)) continue;  // PyTorch's moves, and is set to 0 before each use
      expect_near(grads.zero_point, step.at("zero_point_grad"), 1e-6, what + "zero_point_grad");
      fake.set_zero_point(stepped(fake.zero_point(), grads.zero_point, entry.at("zero_point_lr").get<float>()));
      expect_near(fake.zero_point(), step.at("zero_point"), 2e-6, what + "zero_point");
      const Tensor zero_point = fake.zero_point();
      for (const float z : zero_point.span<float>()) fractions += z != std::nearbyint(z);
    }
    const QParams found = fake.calculate_qparams();
    const auto expected = entry.at("qparams").at("scale").get<std::vector<float>>();
    for (size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(found.scale[c], expected[c], 2e-6);
    if (!is_symmetric(args.qscheme)) {
      EXPECT_EQ(found.zero_point, entry["qparams"].at("zero_point").get<std::vector<int64_t>>());
    }
  }
  EXPECT_GT(clipped, 50);
  EXPECT_GT(fractions, 5);
}

// PyTorch 2.6 goes back from another zero point where one of a whole tensor is negative.
TEST(LearnableFakeQuantize, GoesBackFromTheZeroPointThatItWentForwardWith) {
  ObserverArgs args;
  args.dtype = DType::kS8;
  LearnableFakeQuantize fake(args);
  fake.enable_observer(false);
  fake.set_scale(Tensor::of<float>({1}, {0.5f}));
  fake.set_zero_point(Tensor::of<float>({1}, {-3.0f}));
  const Tensor x = Tensor::of<float>({3}, {1.1f, 100.0f, -100.0f}), grad = Tensor::of<float>({3}, {1.0f, 2.0f, 4.0f});
  EXPECT_FLOAT_EQ(fake.forward(x).data<float>()[1], 65.0f);
  const LearnableFakeQuantize::Grads grads = fake.backward(x, grad);
  EXPECT_NEAR(grads.scale.data<float>()[0], (1.0f - 1.1f) / 0.5f + 2 * (127 + 3) + 4 * (-128 + 3), 1e-4);
  EXPECT_FLOAT_EQ(grads.zero_point.data<float>()[0], -0.5f * 6);
}

TEST(LearnableFakeQuantize, RefusesWhatCannotBeLearnt) {
  ObserverArgs args;
  args.dtype = DType::kS8;
  LearnableFakeQuantize fake(args);
  EXPECT_THROW(fake.calculate_qparams(), Error);
  EXPECT_THROW(fake.set_scale(Tensor::of<float>({1}, {NAN})), Error);
  EXPECT_THROW(fake.set_scale(Tensor::of<float>({}, {1.0f})), Error);
  args.is_dynamic = true;
  EXPECT_THROW(LearnableFakeQuantize{args}, Error);
}

}  // namespace
}  // namespace qdq::learnable_fake_quantize_test
