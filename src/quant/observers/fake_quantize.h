// Fake quantizers: observers that also round what passes through them, so that a network can learn to live with it
// (torch/ao/quantization/fake_quantize.py).
#pragma once

#include <memory>

#include "quant/observers/observer.h"
#include "quant/observers/observer_min_max.h"
#include "quant/observers/qparams.h"

namespace qdq {

// What quantizing x by these qparams and going back to floats makes of it, as FakeQuantize below has it: per channel
// along settings.ch_axis if settings.qscheme is so. `mask`, if given, becomes a uint8 tensor of x's shape with 1 where
// x was rounded and 0 where it was clipped. Throws Error{kInvalidArgument} for tensors that are no floats of 16 or 32
// bits, and for channels that the qparams do not have.
Tensor fake_quantized(const Tensor& x, const QParams& qparams, const ObserverArgs& settings, IntegerRange limits,
                      Tensor* mask = nullptr);

// An observer inside, and switches for the two things it does. min_val, max_val, histogram and calculate_qparams are
// those of the observer inside; the scale and zero point in force are those of the last batch that was observed.
//
//   out = (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale
//
// with x * (1 / scale) for the quotient, in f32, half to even; with float zero points the zero point is added before
// rounding. Products beyond the integers saturate, and NaN becomes 0, where PyTorch 2.6 gives quant_min for both.
class FakeQuantize : public Observer {
 public:
  // Throws Error{kInvalidArgument} if the quantization range does not fit the dtype or the class inside refuses the
  // settings.
  explicit FakeQuantize(const ObserverArgs& args);

  std::string_view class_name() const override { return "FakeQuantize"; }
  // Observes (if enabled), takes over the new qparams, and returns the rounded tensor (if enabled), else x itself.
  // float16 and bfloat16 are
  // rounded in f32. Throws Error{kInvalidArgument} for other dtypes.
  Tensor forward(const Tensor& x) final { return forward_with_mask(x, nullptr); }
  Tensor forward_with_mask(const Tensor& x, Tensor* mask) override;
  QParams calculate_qparams() const override { return inner_->calculate_qparams(); }
  QParams qparams_after(const Tensor& x) const override {
    return observer_enabled_ ? inner_->qparams_after(x) : calculate_qparams();
  }
  bool calibrated() const override { return inner_->calibrated(); }
  Tensor min_val() const override { return inner_->min_val(); }
  Tensor max_val() const override { return inner_->max_val(); }
  Tensor histogram() const override { return inner_->histogram(); }
  // The qparams in force stay what they are until the next batch is observed.
  void set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) override {
    inner_->set_state(min_val, max_val, histogram);
  }
  void set_attribute(std::string_view name, const AttributeValue& value) override {
    inner_->set_attribute(name, value);
    Observer::set_attribute(name, value);
  }

  bool is_fake_quantize() const override { return true; }
  void enable_observer(bool enabled) override { observer_enabled_ = enabled; }
  void enable_fake_quant(bool enabled) override { fake_quant_enabled_ = enabled; }
  bool observer_enabled() const { return observer_enabled_; }
  bool fake_quant_enabled() const { return fake_quant_enabled_; }

  const Observer& inner() const { return *inner_; }
  // The channel axis, or -1 for classes without one.
  int64_t ch_axis() const;
  // What forward rounds with at present: scale 1 and zero point 0 before the first batch.
  const QParams& qparams_in_force() const { return in_force_; }
  // Takes over what another instance of the same settings rounded with. Throws Error{kInvalidArgument} if there is not
  // one zero point for each scale, a scale is not a finite number above 0, or a zero point is no integer of the range.
  void set_qparams_in_force(const QParams& qparams);

 protected:
  FakeQuantize(const ObserverArgs& args, std::shared_ptr<Observer> inner);
  Tensor rounded(const Tensor& x, Tensor* mask) const {
    return fake_quantized(x, in_force_, args_, {quant_min_, quant_max_}, mask);
  }

  std::shared_ptr<Observer> inner_;
  QParams in_force_;
  bool observer_enabled_ = true;
  bool fake_quant_enabled_ = true;
};

// Rounds with a scale and zero point that never change; the class inside is FixedQParamsObserver.
class FixedQParamsFakeQuantize final : public FakeQuantize {
 public:
  explicit FixedQParamsFakeQuantize(const ObserverArgs& args);
  std::string_view class_name() const override { return "FixedQParamsFakeQuantize"; }
};

// A moving average and fake quantization in one operator (ATen/native/quantized/cpu/fused_obs_fake_quant.cpp). It
// rounds with fused_qparams, not with those that calculate_qparams gives to convert, and while fake quantization is off
// it keeps the old ones. Per channel it takes the first axis only.
class FusedMovingAvgObsFakeQuantize final : public FakeQuantize {
 public:
  // Throws Error{kInvalidArgument} if the class inside is not a moving average.
  explicit FusedMovingAvgObsFakeQuantize(const ObserverArgs& args);
  std::string_view class_name() const override { return "FusedMovingAvgObsFakeQuantize"; }
  Tensor forward_with_mask(const Tensor& x, Tensor* mask) override;
  QParams qparams_after(const Tensor& x) const override;

 private:
  FusedMovingAvgObsFakeQuantize(const ObserverArgs& args, std::shared_ptr<MinMaxObserver> average);
  void observe(const Tensor& x, MinMaxObserver& average) const;

  std::shared_ptr<MinMaxObserver> average_;  // the observer inside
};

}  // namespace qdq
