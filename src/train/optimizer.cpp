#include "train/optimizer.h"

#include <cmath>

#include "op/math.h"

namespace qdq {
namespace {

void sgd_step(const OptimizerOptions& options, float lr, const Tensor& parameter, const Tensor& grad,
              OptimizerState& state, float* to) {
  const auto momentum = static_cast<float>(options.momentum), decay = static_cast<float>(options.weight_decay);
  const bool first = state.steps == 0;
  const float *p = parameter.data<float>(), *gradient = grad.data<float>();
  float* v = nullptr;
  if (momentum != 0) {
    if (first) state.momentum = Tensor::empty(parameter.sizes(), DType::kF32);
    v = state.momentum.data<float>();
  }
  for (int64_t i = 0; i < parameter.numel(); ++i) {
    float g = decay != 0 ? gradient[i] + decay * p[i] : gradient[i];
    if (v != nullptr) {
      v[i] = first ? g : momentum * v[i] + g;
      g = options.nesterov ? g + momentum * v[i] : v[i];
    }
    to[i] = p[i] - lr * g;
  }
}

void adam_step(const OptimizerOptions& options, double lr, const Tensor& parameter, const Tensor& grad,
               OptimizerState& state, float* to) {
  if (state.steps == 0) {
    state.momentum = Tensor::empty(parameter.sizes(), DType::kF32);
    state.square = Tensor::empty(parameter.sizes(), DType::kF32);
  }
  const auto steps = static_cast<double>(state.steps + 1);
  const auto rate = static_cast<float>(lr / (1 - math::pow(options.beta1, steps)));
  const auto norm = static_cast<float>(std::sqrt(1 - math::pow(options.beta2, steps)));
  const auto rest1 = static_cast<float>(1 - options.beta1), rest2 = static_cast<float>(1 - options.beta2);
  const auto beta2 = static_cast<float>(options.beta2), eps = static_cast<float>(options.eps);
  const bool decoupled = options.optimizer == Optimizer::kAdamW;
  const float decay = decoupled ? 0.0f : static_cast<float>(options.weight_decay);
  const float keep = decoupled ? static_cast<float>(1 - lr * options.weight_decay) : 1.0f;
  const float *p = parameter.data<float>(), *gradient = grad.data<float>();
  float *m = state.momentum.data<float>(), *v = state.square.data<float>();
  for (int64_t i = 0; i < parameter.numel(); ++i) {
    const float g = decay != 0 ? gradient[i] + decay * p[i] : gradient[i];
    m[i] = m[i] + rest1 * (g - m[i]);
    v[i] = v[i] * beta2 + rest2 * g * g;
    to[i] = p[i] * keep - rate * (m[i] / (std::sqrt(v[i]) / norm + eps));
  }
}

}  // namespace

Optimizer optimizer_from_name(std::string_view name) {
  if (name == "sgd") return Optimizer::kSgd;
  if (name == "adam") return Optimizer::kAdam;
  QDQ_CHECK(name == "adamw", kInvalidArgument, "there is no optimizer ", name, "; wanted sgd, adam or adamw");
  return Optimizer::kAdamW;
}

void check_optimizer(const OptimizerOptions& options) {
  QDQ_CHECK(options.lr >= 0 && std::isfinite(options.lr), kInvalidArgument, "the learning rate is ", options.lr,
            "; it must be a number that is not negative");
  QDQ_CHECK(options.momentum >= 0 && std::isfinite(options.momentum) && options.weight_decay >= 0 &&
                std::isfinite(options.weight_decay),
            kInvalidArgument, "momentum is ", options.momentum, " and weight decay ", options.weight_decay,
            "; neither may be negative");
  QDQ_CHECK(!options.nesterov || (options.optimizer == Optimizer::kSgd && options.momentum > 0), kInvalidArgument,
            "nesterov is for sgd with a momentum above 0");
  QDQ_CHECK(options.qparams_lr >= 0 && std::isfinite(options.qparams_lr), kInvalidArgument,
            "the factor of the learning rate of learnt scales is ", options.qparams_lr, "; it must not be negative");
  const bool is_sgd = options.optimizer == Optimizer::kSgd;
  const OptimizerOptions none;
  QDQ_CHECK(is_sgd || options.momentum == 0, kInvalidArgument, "the momentum ", options.momentum,
            " does nothing, since it is of sgd; leave it out, or give betas");
  QDQ_CHECK(!is_sgd || (options.beta1 == none.beta1 && options.beta2 == none.beta2 && options.eps == none.eps),
            kInvalidArgument, "betas and eps do nothing with sgd; leave them out, or take adam or adamw");
  for (const double beta : {options.beta1, options.beta2})
    QDQ_CHECK(beta >= 0 && beta < 1, kInvalidArgument, "a beta of Adam is ", beta, "; wanted one from 0 to below 1");
  QDQ_CHECK(options.eps >= 0 && std::isfinite(options.eps), kInvalidArgument, "the eps of Adam is ", options.eps,
            "; it must not be negative");
}

Tensor optimizer_step(const OptimizerOptions& options, double lr, const Tensor& parameter, const Tensor& grad,
                      OptimizerState& state) {
  Tensor now = Tensor::empty(parameter.sizes(), DType::kF32);
  if (options.optimizer == Optimizer::kSgd)
    sgd_step(options, static_cast<float>(lr), parameter, grad, state, now.data<float>());
  else adam_step(options, lr, parameter, grad, state, now.data<float>());
  ++state.steps;
  return now;
}

}  // namespace qdq
