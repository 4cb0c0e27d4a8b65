#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "train/backward.h"
#include "train/trainer_impl.h"

namespace qdq {
namespace {

std::vector<TrainedParameter> parameters_of(const Program& program) {
  std::vector<TrainedParameter> out;
  std::map<std::pair<const Storage*, int64_t>, size_t> seen;
  for (const Attribute& attribute : program.attributes) {
    if (attribute.kind != Attribute::Kind::kParameter || !attribute.requires_grad ||
        attribute.tensor.dtype() != DType::kF32)
      continue;
    const auto [at, is_new] =
        seen.emplace(std::pair(attribute.tensor.storage().get(), attribute.tensor.storage_offset()), out.size());
    if (is_new) out.emplace_back();
    out[at->second].names.push_back(attribute.name);
  }
  QDQ_CHECK(!out.empty(), kInvalidArgument,
            "the program has no float32 parameter that requires a gradient, so there is nothing to train: export the "
            "model with requires_grad on what is to learn; of a model that came from ONNX give the .onnx file, all of "
            "whose layers learn");
  return out;
}

std::unordered_set<std::string> names_of(const std::vector<TrainedParameter>& parameters) {
  std::unordered_set<std::string> names;
  for (const TrainedParameter& parameter : parameters) names.insert(parameter.names.begin(), parameter.names.end());
  return names;
}

// share a + (1 - share) b
LossAndGrad mixed(double share, const LossAndGrad& a, const LossAndGrad& b) {
  LossAndGrad out{share * a.loss + (1 - share) * b.loss, Tensor::empty(a.grad.sizes(), DType::kF32)};
  const auto first = static_cast<float>(share), second = static_cast<float>(1 - share);
  for (int64_t i = 0; i < out.grad.numel(); ++i)
    out.grad.data<float>()[i] = first * a.grad.data<float>()[i] + second * b.grad.data<float>()[i];
  return out;
}

LossAndGrad loss_of(const TrainingOptions& options, const Tensor& output, const Tensor& target, const Tensor& teacher) {
  if (options.distillation == 0) return loss_and_grad(options.loss, output, target);
  LossAndGrad distance = distillation_loss_and_grad(options.loss, output, teacher, options.temperature);
  if (options.distillation == 1) return distance;
  return mixed(options.distillation, distance, loss_and_grad(options.loss, output, target));
}

}  // namespace

Trainer::Impl::Impl(Prepared& of, const TrainingOptions& with)
    : prepared(of), options(with), parameters(parameters_of(of.program())), tape(of, names_of(parameters)) {
  for (const ObserverGroup& group : of.observers()) {
    if (!group.observer->is_learnable() || group.inserted_as.empty()) continue;
    auto* learnable = static_cast<LearnableFakeQuantize*>(group.observer.get());
    parameters.push_back({{group.inserted_as[0] + ".scale"}, learnable, false, {}});
    if (!is_symmetric(learnable->args().qscheme))
      parameters.push_back({{group.inserted_as[0] + ".zero_point"}, learnable, true, {}});
  }
  const bool learns_scales = std::any_of(parameters.begin(), parameters.end(),
                                         [](const TrainedParameter& each) { return each.learnable != nullptr; });
  QDQ_CHECK(learns_scales || options.optimizer.qparams_lr == 1, kInvalidArgument, "the factor of the learning rate of ",
            "learnt scales, ", options.optimizer.qparams_lr, ", does nothing: no scale is learnt (learn_qparams)");
}

Tensor Trainer::Impl::value_of(const TrainedParameter& parameter) const {
  if (parameter.learnable != nullptr)
    return parameter.is_zero_point ? parameter.learnable->zero_point() : parameter.learnable->scale();
  return prepared.program().find_attribute(parameter.names[0])->tensor.contiguous();
}

void Trainer::Impl::set_value(const TrainedParameter& parameter, const Tensor& value) {
  if (parameter.learnable != nullptr) {
    if (parameter.is_zero_point) parameter.learnable->set_zero_point(value);
    else parameter.learnable->set_scale(value);
    return;
  }
  for (const std::string& name : parameter.names) {
    const Tensor& like = prepared.program().find_attribute(name)->tensor;
    const Tensor shaped = like.sizes() == value.sizes() ? value : value.reshape(like.sizes());
    prepared.set_parameter(name, shaped);
    tape.set_parameter(name, shaped);
  }
}

void Trainer::Impl::backward(const std::vector<Tensor>& grads) {
  const std::map<std::string, Tensor> by_name = tape.backward(grads);
  gradients.clear();
  for (const TrainedParameter& parameter : parameters)
    for (const std::string& name : parameter.names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) continue;
      Tensor& sum = gradients[parameter.names[0]];
      sum = sum.defined() ? add_tensors(sum, found->second.reshape(sum.sizes())) : found->second;
    }
  has_gradients = true;
}

void Trainer::Impl::update() {
  QDQ_CHECK(has_gradients, kInvalidArgument, "there are no new gradients: call backward() before each update()");
  has_gradients = false;
  const double lr = lr_at(options.schedule, options.optimizer.lr, updates);
  ++updates;
  for (TrainedParameter& parameter : parameters) {
    const auto found = gradients.find(parameter.names[0]);
    if (found == gradients.end()) continue;
    const Tensor old = value_of(parameter);
    // New bytes each time: whoever holds the old ones, a cache of packed weights or the caller's own program, keeps
    // them.
    set_value(parameter,
              optimizer_step(options.optimizer, parameter.learnable != nullptr ? lr * options.optimizer.qparams_lr : lr,
                             old, found->second.reshape(old.sizes()), parameter.state));
  }
}

Trainer::Trainer(Prepared& prepared, const TrainingOptions& options) {
  check_training_options(options);
  impl_ = std::make_unique<Impl>(prepared, options);
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

double Trainer::step(const std::vector<Tensor>& inputs, const Tensor& target, const Tensor& teacher) {
  QDQ_CHECK(!teacher.defined() || impl_->options.distillation > 0, kInvalidArgument,
            "the teacher's output does nothing without distillation; leave it out, or give distillation a share");
  const std::vector<Tensor> outputs = impl_->tape.forward(inputs);
  const LossAndGrad loss = loss_of(impl_->options, outputs[0], target, teacher);
  QDQ_CHECK(std::isfinite(loss.loss), kInvalidArgument, "the loss is ", loss.loss, " after ", impl_->updates,
            " steps; a smaller learning rate, or data without infinite or huge numbers, may help");
  impl_->backward({loss.grad});
  impl_->update();
  return loss.loss;
}

std::vector<Tensor> Trainer::forward(const std::vector<Tensor>& inputs) { return impl_->tape.forward(inputs); }

void Trainer::backward(const std::vector<Tensor>& grads) {
  for (size_t output = 0; output < grads.size(); ++output) {
    if (!grads[output].defined() || grads[output].dtype() != DType::kF32) continue;
    const Tensor grad = grads[output].contiguous();
    const float* values = grad.data<float>();
    QDQ_CHECK(std::all_of(values, values + grad.numel(), [](float g) { return std::isfinite(g); }), kInvalidArgument,
              "the gradient of output ", output, " holds numbers that are not finite after ", impl_->updates,
              " steps; a smaller learning rate, or data without infinite or huge numbers, may help");
  }
  impl_->backward(grads);
}

void Trainer::update() { impl_->update(); }

void Trainer::set_lr(double lr) {
  OptimizerOptions changed = impl_->options.optimizer;
  changed.lr = lr;
  check_optimizer(changed);
  impl_->options.optimizer = changed;
}

double Trainer::lr() const { return lr_at(impl_->options.schedule, impl_->options.optimizer.lr, impl_->updates); }
int64_t Trainer::num_updates() const { return impl_->updates; }

const std::map<std::string, Tensor>& Trainer::gradients() const { return impl_->gradients; }

std::vector<std::string> Trainer::parameters() const {
  std::vector<std::string> out;
  for (const TrainedParameter& parameter : impl_->parameters) out.push_back(parameter.names[0]);
  return out;
}

}  // namespace qdq
