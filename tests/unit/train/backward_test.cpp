// Every entry of the table of gradients against PyTorch's autograd (tests/golden/train, made by
// tests/golden/make_train.py).
#include "train/backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/parallel.h"
#include "train/loss.h"
#include "source_dir.h"

namespace qdq::backward_test {
namespace {

using Json = nlohmann::json;

Tensor sample(const Shape& sizes, uint32_t seed, float factor = 1, float offset = 0) {
  Tensor out = Tensor::empty(sizes, DType::kF32);
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : out.span<float>()) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * factor + offset;
  }
  return out;
}

Value value_of(const Json& spec) {
  if (spec.is_null()) return {};
  if (spec.is_boolean()) return spec.get<bool>();
  if (spec.is_number_integer()) return spec.get<int64_t>();
  if (spec.is_number()) return spec.get<double>();
  if (spec.is_string()) return spec.get<std::string>();
  if (spec.is_array()) {
    Value::List out;
    for (const Json& element : spec) out.push_back(value_of(element));
    return out;
  }
  if (spec.contains("dtype")) return DType::kF32;
  if (spec.contains("float")) return std::numeric_limits<double>::infinity();
  if (spec.contains("b")) {
    const auto values = spec["b"].get<std::vector<uint8_t>>();
    return Tensor::of<uint8_t>({static_cast<int64_t>(values.size())}, values).to(DType::kBool);
  }
  if (spec.contains("i")) return Tensor::of<int64_t>(spec["shape"].get<Shape>(), spec["i"].get<std::vector<int64_t>>());
  Tensor out = sample(spec["t"].get<Shape>(), spec["seed"].get<uint32_t>(), spec["factor"].get<float>(),
                      spec["offset"].get<float>());
  if (spec.contains("step"))
    for (float& value : out.span<float>())
      value = std::nearbyint(value / spec["step"].get<float>()) * spec["step"].get<float>();
  return out;
}

// A tensor's shape with values that nothing may come from.
Value without_values(const Value& value) {
  if (const Tensor* tensor = value.get_if<Tensor>())
    return Tensor::full({}, tensor->dtype(), 77).expand(tensor->sizes());
  const Value::List* list = value.get_if<Value::List>();
  if (list == nullptr) return value;
  Value::List out;
  for (const Value& element : *list) out.push_back(without_values(element));
  return out;
}

void expect_near(const Value& found, const Json& expected, const std::string& what) {
  if (expected.is_null()) return;
  if (!expected.empty() && expected[0].is_array()) {
    const Value::List* list = found.get_if<Value::List>();
    ASSERT_TRUE(list != nullptr && list->size() == expected.size()) << what;
    for (size_t i = 0; i < list->size(); ++i) expect_near((*list)[i], expected[i], what);
    return;
  }
  const Tensor* tensor = found.get_if<Tensor>();
  ASSERT_TRUE(tensor != nullptr) << what << " has no gradient";
  const Tensor flat = tensor->contiguous();
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(expected.size())) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double wanted = expected[i].get<double>(), is = flat.data<float>()[i];
    ASSERT_NEAR(is, wanted, 2e-6 + 1e-5 * std::fabs(wanted)) << what << ", element " << i;
  }
}

Json golden() {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/train/gradients.json");
  return Json::parse(file)["cases"];
}

std::vector<Value> gradients_of(const Json& entry) {
  const OpDef* op = find_op(entry["op"].get<std::string>());
  const BackwardDef* def = find_backward(entry["op"].get<std::string>());
  std::vector<Value> args, saved;
  std::vector<std::pair<std::string, Value>> kwargs;
  for (const Json& arg : entry["args"]) args.push_back(value_of(arg));
  for (const auto& [name, arg] : entry["kwargs"].items()) kwargs.emplace_back(name, value_of(arg));
  const Value result = op->eval(Call<Tensor>(*op, args, kwargs));
  Value grad;
  if (const Tensor* tensor = result.get_if<Tensor>()) {
    grad = sample(tensor->sizes(), 1000);
  } else {
    Value::List grads;
    for (const Value& element : *result.get_if<Value::List>())
      grads.emplace_back(sample(element.get_if<Tensor>()->sizes(), 1000 + static_cast<uint32_t>(grads.size())));
    grad = std::move(grads);
  }
  for (const Value& arg : args) saved.push_back(def->saves_inputs ? arg : without_values(arg));
  std::vector<bool> wanted(op->schema->arguments.size());
  for (size_t i = 0; i < entry["grads"].size(); ++i) wanted[i] = !entry["grads"][i].is_null();
  const Call<Tensor> call(*op, saved, kwargs);
  return def->backward({call, def->saves_result ? result : without_values(result), grad, wanted});
}

TEST(Backward, EveryEntryGivesTheGradientsOfAutograd) {
  std::set<std::string> seen;
  for (const Json& entry : golden()) {
    const std::string what = entry["op"].get<std::string>() + " of " + entry["args"].dump();
    ASSERT_NE(find_backward(entry["op"].get<std::string>()), nullptr) << what;
    seen.insert(entry["op"].get<std::string>());
    const std::vector<Value> found = gradients_of(entry);
    for (size_t i = 0; i < entry["grads"].size(); ++i) {
      if (entry["grads"][i].is_null()) continue;
      ASSERT_LT(i, found.size()) << what;
      expect_near(found[i], entry["grads"][i], what + ", argument " + std::to_string(i));
    }
  }
  for (const BackwardDef& def : all_backwards()) {
    const std::string target = "torch.ops.aten." + std::string(def.op);
    EXPECT_NE(find_op(target), nullptr) << target;
    EXPECT_TRUE(def.backward == nullptr || seen.count(target)) << target << " has no golden case";
  }
}

TEST(Backward, TheNumberOfThreadsChangesNoBit) {
  for (const Json& entry : golden()) {
    const std::vector<Value> one = gradients_of(entry);
    set_num_threads(3);
    const std::vector<Value> three = gradients_of(entry);
    set_num_threads(1);
    for (size_t i = 0; i < one.size(); ++i) {
      const Tensor* tensor = one[i].get_if<Tensor>();
      if (tensor != nullptr) {
        EXPECT_TRUE(bitwise_equal(tensor->contiguous(), three[i].get_if<Tensor>()->contiguous())) << entry["op"];
      }
    }
  }
}

TEST(Backward, RefusesOtherDtypes) {
  const OpDef* op = find_op("torch.ops.aten.relu.default");
  const Tensor x = Tensor::empty({2}, DType::kF64);
  const Call<Tensor> call(*op, {x});
  EXPECT_THROW(find_backward(op->target)->backward({call, x, x, {true}}), Error);
}

// The gradient of the loss is what the loss changes by, from its two sides.
void expect_slope(Loss loss, Tensor output, const Tensor& target) {
  const LossAndGrad at = loss_and_grad(loss, output, target);
  for (int64_t i = 0; i < output.numel(); ++i) {
    constexpr float kStep = 1.0f / 256;
    float& value = output.data<float>()[i];
    const float before = value;
    value = before + kStep;
    const double above = loss_and_grad(loss, output, target).loss;
    value = before - kStep;
    const double below = loss_and_grad(loss, output, target).loss;
    value = before;
    EXPECT_NEAR(at.grad.data<float>()[i], (above - below) / (2.0 * kStep), 2e-4) << i;
  }
}

TEST(Loss, ItsGradientIsItsSlope) {
  expect_slope(Loss::kMse, sample({3, 4}, 1), sample({3, 4}, 2));
  expect_slope(Loss::kCrossEntropy, sample({3, 4}, 1, 3), Tensor::of<int64_t>({3}, {0, 3, 1}));
  expect_slope(Loss::kCrossEntropy, sample({2, 3, 2}, 1, 3), Tensor::of<int64_t>({2, 2}, {0, 2, 1, 1}));
}

TEST(Loss, KnownValues) {
  const Tensor output = Tensor::of<float>({2, 2}, {0, 0, 1, 3});
  EXPECT_DOUBLE_EQ(loss_and_grad(Loss::kMse, output, Tensor::of<float>({2, 2}, {1, 0, 1, 1})).loss, 5.0 / 4);
  // log(2) and log(1 + e^-2)
  EXPECT_NEAR(loss_and_grad(Loss::kCrossEntropy, output, Tensor::of<int64_t>({2}, {0, 1})).loss,
              (std::log(2) + std::log1p(std::exp(-2))) / 2, 1e-7);
}

TEST(Loss, RefusesTargetsThatDoNotFit) {
  const Tensor output = sample({2, 3}, 1);
  EXPECT_THROW(loss_and_grad(Loss::kMse, output, sample({3, 2}, 1)), Error);
  EXPECT_THROW(loss_and_grad(Loss::kCrossEntropy, output, sample({2}, 1)), Error);
  EXPECT_THROW(loss_and_grad(Loss::kCrossEntropy, output, Tensor::of<int64_t>({2}, {0, 3})), Error);
  EXPECT_THROW(loss_and_grad(Loss::kCrossEntropy, output, Tensor::of<int64_t>({2}, {0, -1})), Error);
}

}  // namespace
}  // namespace qdq::backward_test
