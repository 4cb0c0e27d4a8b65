// Observers that keep a range: of all data or its moving average, per tensor or per channel.
#pragma once

#include <vector>

#include "quant/observers/observer.h"
#include "quant/observers/observer_statistics.h"

namespace qdq {

// MinMaxObserver, MovingAverageMinMaxObserver, PerChannelMinMaxObserver and MovingAveragePerChannelMinMaxObserver.
// The range is f32; a NaN in the data stays in it and calculate_qparams refuses it. Empty tensors are not seen.
// A moving average takes the first batch as it is, then m += averaging_constant * (batch - m).
class MinMaxObserver final : public Observer {
 public:
  // Throws Error{kInvalidArgument} where PyTorch's constructor refuses: a qscheme of the other kind, dynamic
  // quantization (only a moving average with constant 1 may), reduce_range with symmetric quint8.
  MinMaxObserver(const ObserverArgs& args, bool moving_average, bool per_channel);

  std::string_view class_name() const override;
  std::string_view mergeable_class() const override {
    return per_channel_ ? "PerChannelMinMaxObserver" : "MinMaxObserver";
  }
  Tensor forward(const Tensor& x) override;
  bool wants_range() const override { return !per_channel_; }
  Tensor forward_with_range(const Tensor& x, const FloatRange& range) override;
  bool is_idempotent() const override { return !moving_average_; }
  QParams calculate_qparams() const override;
  QParams qparams_after(const Tensor& x) const override;
  bool calibrated() const override;
  Tensor min_val() const override;
  Tensor max_val() const override;
  void set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) override;

  bool is_moving_average() const { return moving_average_; }
  bool is_per_channel() const { return per_channel_; }
  // The range itself, one element per tensor or one per channel (none before data).
  std::vector<float>& min() { return min_; }
  std::vector<float>& max() { return max_; }

 private:
  void take(ChannelRanges seen);
  Tensor as_state(const std::vector<float>& values) const;

  bool moving_average_;
  bool per_channel_;
  std::vector<float> min_;
  std::vector<float> max_;
};

}  // namespace qdq
