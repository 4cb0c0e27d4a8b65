// The loss functions of training, and their gradients.
#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace qdq {

enum class Loss {
  kMse,  // torch.nn.functional.mse_loss: the mean of (output - target)^2; target float32 of the output's shape
  // torch.nn.functional.cross_entropy: output [N, C] or [N, C, d...], target int64 [N] or [N, d...] with classes below
  // C
  kCrossEntropy,
};

struct LossAndGrad {
  double loss = 0;
  Tensor grad;  // of the output, in C order
};

// "cross_entropy", "mse". Throws Error{kInvalidArgument} for another word.
Loss loss_from_name(std::string_view name);

// The loss, summed in double in C order, and its gradient. Throws Error{kInvalidArgument} if output and target do not
// fit.
LossAndGrad loss_and_grad(Loss loss, const Tensor& output, const Tensor& target);

// How far the output is from that of the float model (knowledge distillation, Hinton and others, 2015): of
// kCrossEntropy temperature^2 times torch.nn.functional.kl_div(log_softmax(output / temperature), log_softmax(teacher /
// temperature), log_target=True), summed over the classes and averaged over the samples; of kMse the mean squared
// error, without a temperature. Both float32 of one shape. Throws Error{kInvalidArgument} if they do not fit.
LossAndGrad distillation_loss_and_grad(Loss loss, const Tensor& output, const Tensor& teacher, double temperature);

}  // namespace qdq
