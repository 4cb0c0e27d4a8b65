// A prepared program as training sees it: parameters that change, and fake quantizers on the way. For room train alone.
#pragma once

#include <cstdint>
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
  // The observer or fake quantizer of a call_module node of program(), or of the same node of a copy.
  Observer& observer(const Node& node) const;
  // The program's next runs use the new value. Whoever holds the old tensor keeps it unchanged.
  void set_parameter(const std::string& name, const Tensor& value);

 private:
  Prepared* prepared_;
};

}  // namespace qdq
