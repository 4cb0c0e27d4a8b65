// Observers of weights whose rows are cut into groups, each with a scale of its own.
#pragma once

#include <vector>

#include "quant/observers/observer.h"

namespace qdq {

// PerGroupMinMaxObserver and PerGroupMSEObserver: a matrix [rows, columns], and a range for each group_size neighbours
// in a row (PerGroup of torchao; PyTorch 2.6 has the operators quantize_per_channel_group and
// dequantize_per_channel_group, no observer for them). The ranges are those of the newest tensor [rows * groups], in
// the order of the elements. The first class takes what it sees; the second takes the part of it, a fortieth after the
// other from a half to 43/40, whose integers are nearest to the values: the least sum of squares, in double and in the
// order of the elements; of equals the larger range. Of integers of more than 16 bits it takes the whole range, too.
class PerGroupObserver final : public Observer {
 public:
  // Throws Error{kInvalidArgument} for a qscheme that is not per channel, float zero points, a dynamic observer, and
  // groups of less than 2 elements.
  PerGroupObserver(const ObserverArgs& args, bool by_error);

  std::string_view class_name() const override { return by_error_ ? "PerGroupMSEObserver" : "PerGroupMinMaxObserver"; }
  // Throws Error{kInvalidArgument} for what is no matrix whose rows are whole groups.
  Tensor forward(const Tensor& x) override;
  bool is_idempotent() const override { return true; }
  QParams calculate_qparams() const override;
  QParams qparams_after(const Tensor& x) const override;
  bool calibrated() const override { return !min_.empty(); }
  Tensor min_val() const override;
  Tensor max_val() const override;
  void set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) override;

 private:
  bool by_error_;
  std::vector<float> min_, max_;
};

}  // namespace qdq
