#include "quant/trainee.h"

#include "quant/prepared_impl.h"
#include "quant/qat.h"

namespace qdq {

const std::vector<OpBackend*>& Trainee::backends() const { return Prepared::Impl::of(*prepared_).backends; }

int64_t Trainee::revision() const { return Prepared::Impl::of(*prepared_).revision; }

std::optional<bool> Trainee::training() const { return Prepared::Impl::of(*prepared_).training; }

const std::string& Trainee::observer_name(const Node& node) const {
  const Prepared::Impl& impl = Prepared::Impl::of(*prepared_);
  return impl.groups[impl.group_of_module(node).value()].inserted_as.at(0);
}

void Trainee::set_training(bool training) {
  if (training) move_exported_model_to_train(*prepared_);
  else move_exported_model_to_eval(*prepared_);
}

Observer& Trainee::observer(const Node& node) const {
  const Prepared::Impl& impl = Prepared::Impl::of(*prepared_);
  return *impl.groups[impl.group_of_module(node).value()].observer;
}

void Trainee::set_parameter(const std::string& name, const Tensor& value) {
  Prepared::Impl& impl = Prepared::Impl::of(*prepared_);
  impl.check_idle();
  impl.program.find_attribute(name)->tensor = value;
  impl.interpreter.reset();  // it runs a copy that has the old value
}

}  // namespace qdq
