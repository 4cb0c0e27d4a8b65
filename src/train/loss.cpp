#include "train/loss.h"

#include <cmath>

#include "kernel/math.h"

namespace qdq {
namespace {

LossAndGrad mse(const Tensor& output, const Tensor& target) {
  QDQ_CHECK(target.dtype() == DType::kF32 && target.sizes() == output.sizes(), kInvalidArgument, "the target is ",
            to_string(target.dtype()), " ", to_string(target.sizes()), "; the mean squared error needs float32 ",
            to_string(output.sizes()), ", as the model's output is");
  const Tensor y = output.contiguous(), t = target.contiguous();
  LossAndGrad out{0, Tensor::empty(y.sizes(), DType::kF32)};
  const auto count = static_cast<double>(y.numel());
  for (int64_t i = 0; i < y.numel(); ++i) {
    const float difference = y.data<float>()[i] - t.data<float>()[i];
    out.loss += static_cast<double>(difference) * difference;
    out.grad.data<float>()[i] = static_cast<float>(2 / count * difference);
  }
  out.loss /= count;
  return out;
}

void check_classes(const Tensor& output) {
  QDQ_CHECK(output.dim() >= 2, kInvalidArgument,
            "cross entropy needs an output of shape [N, C] or [N, C, ...], the model's is ", to_string(output.sizes()));
}

// [N, C, ...] as [N, ..., C]: each sample's classes are a row.
Tensor rows_of_classes(const Tensor& output) {
  const int64_t batch = output.size(0), classes = output.size(1);
  return output.reshape({batch, classes, output.numel() / (batch * classes)}).transpose(1, 2).contiguous();
}

LossAndGrad cross_entropy(const Tensor& output, const Tensor& target) {
  check_classes(output);
  Shape wanted = output.sizes();
  const int64_t classes = wanted[1];
  wanted.erase(wanted.begin() + 1);
  QDQ_CHECK(target.dtype() == DType::kS64 && target.sizes() == wanted, kInvalidArgument, "the target is ",
            to_string(target.dtype()), " ", to_string(target.sizes()), "; cross entropy needs the classes as int64 ",
            to_string(wanted));
  const Tensor rows = rows_of_classes(output), labels = target.contiguous();
  const int64_t samples = labels.numel();
  const Tensor logs = Tensor::empty(rows.sizes(), DType::kF32), shares = Tensor::empty(rows.sizes(), DType::kF32);
  kernel::log_softmax_f32(rows.data<float>(), samples, classes, logs.data<float>());
  kernel::exp_f32(logs.data<float>(), logs.numel(), shares.data<float>());
  LossAndGrad out;
  const auto share = 1 / static_cast<float>(samples);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t label = labels.data<int64_t>()[i];
    QDQ_CHECK(0 <= label && label < classes, kInvalidArgument, "the target holds the class ", label,
              ", but the model's output has ", classes, " classes, counted from 0");
    out.loss -= logs.data<float>()[i * classes + label];
    for (int64_t c = 0; c < classes; ++c) {
      float& value = shares.data<float>()[i * classes + c];
      value = (value - (c == label ? 1.0f : 0.0f)) * share;
    }
  }
  out.loss /= static_cast<double>(samples);
  out.grad = shares.transpose(1, 2).contiguous().reshape(output.sizes());
  return out;
}

// The logarithms of the shares that softmax gives the rows divided by the temperature.
Tensor log_shares(const Tensor& rows, int64_t classes, float temperature) {
  const Tensor scaled = Tensor::empty(rows.sizes(), DType::kF32), logs = Tensor::empty(rows.sizes(), DType::kF32);
  for (int64_t i = 0; i < rows.numel(); ++i) scaled.data<float>()[i] = rows.data<float>()[i] / temperature;
  kernel::log_softmax_f32(scaled.data<float>(), rows.numel() / classes, classes, logs.data<float>());
  return logs;
}

Tensor exp_of(const Tensor& x) {
  Tensor out = Tensor::empty(x.sizes(), DType::kF32);
  kernel::exp_f32(x.data<float>(), x.numel(), out.data<float>());
  return out;
}

void check_output(const Tensor& output) {
  QDQ_CHECK(output.dtype() == DType::kF32 && output.numel() > 0, kInvalidArgument,
            "training needs a float32 output that is not empty; the output is ", to_string(output.dtype()), " ",
            to_string(output.sizes()));
}

}  // namespace

Loss loss_from_name(std::string_view name) {
  if (name == "mse") return Loss::kMse;
  QDQ_CHECK(name == "cross_entropy", kInvalidArgument, "there is no loss ", name, "; wanted cross_entropy or mse");
  return Loss::kCrossEntropy;
}

LossAndGrad distillation_loss_and_grad(Loss loss, const Tensor& output, const Tensor& teacher, double temperature) {
  check_output(output);
  QDQ_CHECK(temperature > 0 && std::isfinite(temperature), kInvalidArgument, "the temperature is ", temperature,
            "; wanted a number above 0");
  QDQ_CHECK(teacher.defined() && teacher.dtype() == DType::kF32 && teacher.sizes() == output.sizes(), kInvalidArgument,
            "the float model's output must be float32 ", to_string(output.sizes()),
            ", as that of the model that is trained");
  if (loss == Loss::kMse) return mse(output, teacher);
  check_classes(output);
  const int64_t classes = output.size(1);
  const auto degree = static_cast<float>(temperature);
  const Tensor logs = log_shares(rows_of_classes(output), classes, degree),
               wanted = log_shares(rows_of_classes(teacher), classes, degree), shares = exp_of(logs),
               wanted_shares = exp_of(wanted);
  const int64_t samples = output.numel() / classes;
  const double weight = temperature * temperature / static_cast<double>(samples);
  const auto slope = static_cast<float>(temperature / static_cast<double>(samples));
  LossAndGrad out;
  for (int64_t i = 0; i < output.numel(); ++i) {
    const float share = wanted_shares.data<float>()[i];
    out.loss += static_cast<double>(share) * (wanted.data<float>()[i] - logs.data<float>()[i]);
    shares.data<float>()[i] = (shares.data<float>()[i] - share) * slope;
  }
  out.loss *= weight;
  out.grad = shares.transpose(1, 2).contiguous().reshape(output.sizes());
  return out;
}

LossAndGrad loss_and_grad(Loss loss, const Tensor& output, const Tensor& target) {
  check_output(output);
  QDQ_CHECK(target.defined(), kInvalidArgument, "training needs a target");
  return loss == Loss::kMse ? mse(output, target) : cross_entropy(output, target);
}

}  // namespace qdq
