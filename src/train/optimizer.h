// The optimizers of training: what a gradient makes of a parameter.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace qdq {

enum class Optimizer {
  kSgd,    // torch.optim.SGD: g += weight_decay p; v = momentum v + g (the first time v = g); p -= lr v
  kAdam,   // torch.optim.Adam: g += weight_decay p; p -= lr m' / (sqrt(v') + eps) of the corrected moments
  kAdamW,  // torch.optim.AdamW: p -= lr weight_decay p in its place, then as Adam
};
// "sgd", "adam", "adamw". Throws Error{kInvalidArgument} for another word.
Optimizer optimizer_from_name(std::string_view name);

struct OptimizerOptions {
  Optimizer optimizer = Optimizer::kSgd;
  double lr = 0.01;
  double momentum = 0;  // of kSgd
  double weight_decay = 0;
  bool nesterov = false;                          // of kSgd with momentum: p -= lr (g + momentum v)
  double qparams_lr = 1;                          // the factor of the rate that learnt scales and zero points have
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // of kAdam and kAdamW
};
// Throws Error{kInvalidArgument} if an option is out of range.
void check_optimizer(const OptimizerOptions& options);

// What an optimizer keeps of a parameter; undefined tensors before its first step.
struct OptimizerState {
  int64_t steps = 0;
  Tensor momentum;  // of kSgd momentum_buffer, else exp_avg
  Tensor square;    // exp_avg_sq
};

// The parameter after a step with the rate `lr` (options.lr, or what a schedule makes of it), in bytes of its own; all
// float32 of one shape, in C order. Elements are computed in float, the factors that all share in double.
Tensor optimizer_step(const OptimizerOptions& options, double lr, const Tensor& parameter, const Tensor& grad,
                      OptimizerState& state);

}  // namespace qdq
