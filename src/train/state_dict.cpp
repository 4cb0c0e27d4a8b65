// The state of a training as named tensors, and back.
#include <cstring>
#include <optional>

#include "quant/observers/fake_quantize.h"
#include "train/trainer_impl.h"

namespace qdq {
namespace {

using State = std::vector<format::NamedTensor>;

Tensor number(int64_t value) { return Tensor::scalar<int64_t>(value); }

void add(State& state, std::string name, const Tensor& value) {
  if (value.defined()) state.push_back({std::move(name), value.contiguous()});
}

bool is_buffer(const Attribute& attribute) {
  return attribute.kind == Attribute::Kind::kBuffer && attribute.tensor.defined();
}

// The fake quantizer of a group; null for an observer.
FakeQuantize* fake_quantizer_of(const ObserverGroup& group) {
  return group.observer->is_fake_quantize() ? static_cast<FakeQuantize*>(group.observer.get()) : nullptr;
}

void add_observer(State& state, const std::string& name, const ObserverGroup& group) {
  const Observer& observer = *group.observer;
  add(state, name + "min_val", observer.min_val());
  add(state, name + "max_val", observer.max_val());
  add(state, name + "histogram", observer.histogram());
  const FakeQuantize* fake = fake_quantizer_of(group);
  if (fake == nullptr) return;
  const QParams& in_force = fake->qparams_in_force();
  const auto count = static_cast<int64_t>(in_force.scale.size());
  add(state, name + "scale", Tensor::of<float>({count}, std::span<const float>(in_force.scale)));
  if (in_force.zero_point_dtype == DType::kF32)
    add(state, name + "zero_point", Tensor::of<float>({count}, std::span<const float>(in_force.float_zero_point)));
  else add(state, name + "zero_point", Tensor::of<int64_t>({count}, std::span<const int64_t>(in_force.zero_point)));
  add(state, name + "observer_enabled", number(fake->observer_enabled()));
  add(state, name + "fake_quant_enabled", number(fake->fake_quant_enabled()));
  if (observer.is_learnable())
    add(state, name + "learning_enabled",
        number(static_cast<const LearnableFakeQuantize&>(observer).learning_enabled()));
}

// The entries by name, each of which somebody must ask for.
class Entries {
 public:
  explicit Entries(std::span<const format::NamedTensor> state) {
    for (const format::NamedTensor& entry : state)
      QDQ_CHECK(entries_.emplace(entry.name, entry.tensor).second, kInvalidArgument, "the state has ", entry.name,
                " twice");
  }
  // Undefined if there is none.
  Tensor find(const std::string& name) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return {};
    Tensor out = found->second;
    entries_.erase(found);
    return out;
  }
  Tensor of(const std::string& name, DType dtype, const Shape& sizes) {
    Tensor out = find(name);
    QDQ_CHECK(out.defined(), kInvalidArgument, "the state has no ", name,
              "; it must come from a trainer of the same program, quantizer and options");
    QDQ_CHECK(out.dtype() == dtype && out.sizes() == sizes, kInvalidArgument, "the state's ", name, " is ",
              to_string(out.dtype()), " ", to_string(out.sizes()), "; wanted ", to_string(dtype), " ", to_string(sizes),
              " as here");
    return out.contiguous();
  }
  int64_t number_of(const std::string& name, int64_t least, int64_t most) {
    const int64_t value = of(name, DType::kS64, {}).data<int64_t>()[0];
    QDQ_CHECK(least <= value && value <= most, kInvalidArgument, "the state's ", name, " is ", value,
              "; wanted a number from ", least, " to ", most);
    return value;
  }
  void reject_unknown() const {
    if (entries_.empty()) return;
    fail(ErrorCode::kInvalidArgument, "the state has ", entries_.begin()->first,
         ", which this trainer has not; it must come from one of the same program, quantizer and options");
  }

 private:
  std::map<std::string, Tensor> entries_;
};

void load_observer(Entries& entries, const std::string& name, const ObserverGroup& group) {
  Observer& observer = *group.observer;
  const Tensor min = entries.find(name + "min_val"), max = entries.find(name + "max_val"),
               histogram = entries.find(name + "histogram");
  if (min.defined() || max.defined() || histogram.defined()) observer.set_state(min, max, histogram);
  FakeQuantize* fake = fake_quantizer_of(group);
  if (fake == nullptr) return;
  const Tensor scale = entries.find(name + "scale"), zero_point = entries.find(name + "zero_point");
  const bool is_float = fake->qparams_in_force().zero_point_dtype == DType::kF32;
  QDQ_CHECK(scale.defined() && zero_point.defined() && scale.dtype() == DType::kF32 && scale.dim() == 1 &&
                zero_point.dtype() == (is_float ? DType::kF32 : DType::kS64) && zero_point.sizes() == scale.sizes(),
            kInvalidArgument, "the state has no scales and zero points ", name,
            "*; it must come from a trainer of the same program, quantizer and options");
  const Tensor scales = scale.contiguous(), zero_points = zero_point.contiguous();
  QParams qparams;
  qparams.scale.assign(scales.span<float>().begin(), scales.span<float>().end());
  if (is_float) qparams.float_zero_point.assign(zero_points.span<float>().begin(), zero_points.span<float>().end());
  else qparams.zero_point.assign(zero_points.span<int64_t>().begin(), zero_points.span<int64_t>().end());
  fake->set_qparams_in_force(qparams);
  fake->enable_observer(entries.number_of(name + "observer_enabled", 0, 1) != 0);
  fake->enable_fake_quant(entries.number_of(name + "fake_quant_enabled", 0, 1) != 0);
  if (fake->is_learnable()) fake->enable_param_learning(entries.number_of(name + "learning_enabled", 0, 1) != 0);
}

}  // namespace

std::vector<format::NamedTensor> Trainer::state_dict() const {
  const Impl& impl = *impl_;
  State out;
  add(out, "updates", number(impl.updates));
  const std::optional<bool> training = impl.prepared.training();
  add(out, "training", number(training ? *training : -1));
  for (const TrainedParameter& parameter : impl.parameters) {
    const std::string& name = parameter.names[0];
    add(out, "parameter." + name, impl.value_of(parameter));
    add(out, "steps." + name, number(parameter.state.steps));
    if (parameter.state.momentum.defined()) add(out, "momentum." + name, parameter.state.momentum.clone());
    if (parameter.state.square.defined()) add(out, "square." + name, parameter.state.square.clone());
  }
  for (const Attribute& attribute : impl.prepared.program().attributes)
    if (is_buffer(attribute)) add(out, "buffer." + attribute.name, attribute.tensor.clone());
  for (size_t i = 0; i < impl.prepared.observers().size(); ++i)
    add_observer(out, concat("observer.", i, "."), impl.prepared.observers()[i]);
  return out;
}

void Trainer::load_state_dict(std::span<const format::NamedTensor> state) {
  Impl& impl = *impl_;
  Entries entries(state);
  impl.updates = entries.number_of("updates", 0, int64_t{1} << 53);
  const int64_t training = entries.number_of("training", -1, 1);
  if (training >= 0) impl.prepared.set_training(training != 0);
  const OptimizerOptions& optimizer = impl.options.optimizer;
  const bool is_sgd = optimizer.optimizer == Optimizer::kSgd;
  const auto load_parameter = [&](TrainedParameter& parameter) {
    const std::string& name = parameter.names[0];
    // A learnt scale has as many channels as the observer has seen, which another one may not have yet.
    const Shape sizes = parameter.learnable != nullptr
                            ? Shape{static_cast<int64_t>(parameter.learnable->qparams_in_force().scale.size())}
                            : impl.value_of(parameter).sizes();
    impl.set_value(parameter, entries.of("parameter." + name, DType::kF32, sizes).clone());
    parameter.state = {};
    parameter.state.steps = entries.number_of("steps." + name, 0, int64_t{1} << 53);
    if (parameter.state.steps == 0) return;
    if (!is_sgd || optimizer.momentum != 0)
      parameter.state.momentum = entries.of("momentum." + name, DType::kF32, sizes).clone();
    if (!is_sgd) parameter.state.square = entries.of("square." + name, DType::kF32, sizes).clone();
  };
  for (TrainedParameter& parameter : impl.parameters)
    if (parameter.learnable == nullptr) load_parameter(parameter);
  for (const Attribute& attribute : impl.prepared.program().attributes) {
    if (!is_buffer(attribute)) continue;
    const Tensor value = entries.of("buffer." + attribute.name, attribute.tensor.dtype(), attribute.tensor.sizes());
    // into the bytes, which the trainer's functional program shares
    std::memcpy(attribute.tensor.raw(), value.raw(), value.nbytes());
  }
  for (size_t i = 0; i < impl.prepared.observers().size(); ++i)
    load_observer(entries, concat("observer.", i, "."), impl.prepared.observers()[i]);
  for (TrainedParameter& parameter : impl.parameters)
    if (parameter.learnable != nullptr) load_parameter(parameter);
  entries.reject_unknown();
  impl.gradients.clear();
  impl.has_gradients = false;
}

}  // namespace qdq
