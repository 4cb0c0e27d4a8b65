// A fake quantizer whose scale and zero point are learnt with the weights (LSQ: Esser and others, 2020; LSQ+ with zero
// points), after torch/ao/quantization/_learnable_fake_quantize.py.
#pragma once

#include <string_view>

#include "quant/observers/fake_quantize.h"

namespace qdq {

// While its observer is on, scale and zero point are those of what the observer inside saw. Then they stay what they
// are, or what training makes of them: the scale at least float32's epsilon, the zero point rounded half to even and
// held in the quantization range, 0 in symmetric schemes. The range must be of integers.
class LearnableFakeQuantize final : public FakeQuantize {
 public:
  explicit LearnableFakeQuantize(const ObserverArgs& args);
  std::string_view class_name() const override { return "_LearnableFakeQuantize"; }
  Tensor forward_with_mask(const Tensor& x, Tensor* mask) override;
  QParams calculate_qparams() const override;
  QParams qparams_after(const Tensor& x) const override;
  bool calibrated() const override { return has_qparams_; }

  bool is_learnable() const override { return true; }
  void enable_param_learning(bool enabled) override { learning_enabled_ = enabled; }
  // Whether scale and zero point take part in training.
  bool learning_enabled() const { return learning_enabled_; }

  // Goes on from what another fake quantizer saw.
  void take_over(const FakeQuantize& seen);

  // What is learnt, float32, one for each channel or one: the zero point before it is rounded.
  Tensor scale() const { return scale_; }
  Tensor zero_point() const { return zero_point_; }
  // With another number of scales the zero points become 0. Throws Error{kInvalidArgument} for other tensors than
  // float32 of one axis, for numbers that are not finite, and for zero points that are not as many as the scales.
  void set_scale(const Tensor& scale);
  void set_zero_point(const Tensor& zero_point);

  // The gradients of the last forward pass of `x`, where that of its result is `grad`, both float32: q = round(x /
  // scale) + zero_point,
  //   of x            grad where quant_min <= q <= quant_max, else 0
  //   of scale        the sum of grad ((q - zero_point) scale - x) / scale within the range, else of
  //                   grad (bound - zero_point)
  //   of zero_point   the sum of -grad scale beyond the range
  // the sums by channel, in double in C order. With use_grad_scaling the last two are divided by
  // sqrt(numel quant_max). PyTorch 2.6 counts from another zero point on the way back where one of a whole tensor is
  // negative: that plus 1/2, without its fraction.
  struct Grads {
    Tensor x, scale, zero_point;
  };
  Grads backward(const Tensor& x, const Tensor& grad) const;

 private:
  void estimate();
  void use_learnt();

  Tensor scale_, zero_point_;
  bool has_qparams_ = false;
  bool learning_enabled_ = false;
};

}  // namespace qdq
