#include "train/loss.h"

#include <algorithm>

#include "kernel/math.h"

namespace qdq {
namespace {

LossAndGrad mse(const Tensor& output, const Tensor& target) {
  QDQ_CHECK(target.dtype() == DType::kF32 && target.sizes() == output.sizes(), kInvalidArgument, "the target is ",
            to_string(target.dtype()), " ", to_string(target.sizes()), "; the mean squared error wants float32 ",
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

LossAndGrad cross_entropy(const Tensor& output, const Tensor& target) {
  Shape wanted = output.sizes();
  QDQ_CHECK(wanted.size() >= 2, kInvalidArgument,
            "cross entropy wants an output of shape [N, C] or [N, C, ...], the model's is ", to_string(wanted));
  const int64_t batch = wanted[0], classes = wanted[1];
  wanted.erase(wanted.begin() + 1);
  QDQ_CHECK(target.dtype() == DType::kS64 && target.sizes() == wanted, kInvalidArgument, "the target is ",
            to_string(target.dtype()), " ", to_string(target.sizes()), "; cross entropy wants the classes as int64 ",
            to_string(wanted));
  // Classes last, so that each sample's are a row.
  const Tensor rows = output.reshape({batch, classes, target.numel() / std::max<int64_t>(1, batch)})
                          .transpose(1, 2)
                          .contiguous(),
               labels = target.contiguous();
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

}  // namespace

LossAndGrad loss_and_grad(Loss loss, const Tensor& output, const Tensor& target) {
  QDQ_CHECK(output.dtype() == DType::kF32 && output.numel() > 0 && target.defined(), kInvalidArgument,
            "training wants a float32 output that is not empty, and a target; the output is ",
            to_string(output.dtype()), " ", to_string(output.sizes()));
  return loss == Loss::kMse ? mse(output, target) : cross_entropy(output, target);
}

}  // namespace qdq
