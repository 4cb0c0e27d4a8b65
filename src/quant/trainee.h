// A prepared program as training sees it: parameters that change, and fake quantizers on the way. For room train alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quant/pt2e.h"

namespace qdq {

class Trainee {
 public:
  // The program must outlive this.
  explicit Trainee(Prepared& prepared) : prepared_(&prepared) {}

  const Program& program() const { return prepared_->program(); }
  const std::vector<OpBackend*>& backends() const;
  // Another number after each change of the graph between training and inference form.
  int64_t revision() const;
  // The form that it was last moved to, training or inference; none: as it was prepared.
  std::optional<bool> training() const;
  const std::vector<ObserverGroup>& observers() const { return prepared_->observers(); }
  // The observer or fake quantizer of a call_module node of program(), or of the same node of a copy.
  Observer& observer(const Node& node) const;
  // The first call_module node of what shares its instance, by which it is known.
  const std::string& observer_name(const Node& node) const;
  // Moves it to training or inference form.
  void set_training(bool training);
  // The program's next runs use the new value. Whoever holds the old tensor keeps it unchanged.
  void set_parameter(const std::string& name, const Tensor& value);

 private:
  Prepared* prepared_;
};

}  // namespace qdq
