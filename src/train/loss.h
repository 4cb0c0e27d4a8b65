// The loss functions of training, and their gradients.
#pragma once

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

// The loss, summed in double in C order, and its gradient. Throws Error{kInvalidArgument} if output and target do not
// fit.
LossAndGrad loss_and_grad(Loss loss, const Tensor& output, const Tensor& target);

}  // namespace qdq
