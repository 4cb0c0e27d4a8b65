#include "quant/observers/learnable_fake_quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace qdq {
namespace {

Tensor checked_qparam(const Tensor& value, const char* what) {
  QDQ_CHECK(value.defined() && value.dtype() == DType::kF32 && value.dim() == 1 && value.numel() > 0, kInvalidArgument,
            "a learnt ", what, " is a list of float32, one for each channel or one");
  Tensor out = value.contiguous();
  for (const float number : out.span<float>())
    QDQ_CHECK(std::isfinite(number), kInvalidArgument, "a learnt ", what, " is ", number,
              "; a smaller learning rate may help");
  return out;
}

}  // namespace

LearnableFakeQuantize::LearnableFakeQuantize(const ObserverArgs& args)
    : FakeQuantize(args), scale_(Tensor::full({1}, DType::kF32, 1)), zero_point_(Tensor::full({1}, DType::kF32, 0)) {
  QDQ_CHECK(args.qscheme != QScheme::kPerChannelAffineFloatQParams && !args.is_dynamic, kInvalidArgument,
            "_LearnableFakeQuantize learns scales of integers that stay; found ", to_string(args.qscheme),
            args.is_dynamic ? ", dynamic" : "");
}

void LearnableFakeQuantize::set_scale(const Tensor& scale) {
  scale_ = checked_qparam(scale, "scale");
  if (zero_point_.numel() != scale_.numel()) zero_point_ = Tensor::empty(scale_.sizes(), DType::kF32);
  has_qparams_ = true;
  use_learnt();
}

void LearnableFakeQuantize::set_zero_point(const Tensor& zero_point) {
  QDQ_CHECK(zero_point.defined() && zero_point.numel() == scale_.numel(), kInvalidArgument,
            "there are not as many learnt zero points as scales, of which there are ", scale_.numel());
  zero_point_ = checked_qparam(zero_point, "zero point");
  use_learnt();
}

void LearnableFakeQuantize::use_learnt() {
  in_force_.scale.clear();
  in_force_.zero_point.clear();
  for (const float scale : scale_.span<float>())
    in_force_.scale.push_back(std::max(scale, std::numeric_limits<float>::epsilon()));
  const auto low = static_cast<float>(quant_min_), high = static_cast<float>(quant_max_);
  for (const float zero_point : zero_point_.span<float>())
    in_force_.zero_point.push_back(
        is_symmetric(args_.qscheme) ? 0 : static_cast<int64_t>(std::clamp(std::nearbyint(zero_point), low, high)));
}

void LearnableFakeQuantize::estimate() {
  const QParams found = inner_->calculate_qparams();
  scale_ = Tensor::of<float>({static_cast<int64_t>(found.scale.size())}, std::span<const float>(found.scale));
  zero_point_ = Tensor::empty(scale_.sizes(), DType::kF32);
  for (size_t i = 0; i < found.zero_point.size(); ++i)
    zero_point_.data<float>()[i] = static_cast<float>(found.zero_point[i]);
  has_qparams_ = true;
  use_learnt();
}

void LearnableFakeQuantize::take_over(const FakeQuantize& seen) {
  inner_->set_state(seen.min_val(), seen.max_val(), seen.histogram());
  estimate();
}

Tensor LearnableFakeQuantize::forward_with_mask(const Tensor& x, Tensor* mask) {
  if (observer_enabled_) {
    inner_->forward(x);
    estimate();
  } else {
    // into bytes of its own: whoever holds the old ones keeps them
    const Tensor held = scale_.clone();
    for (float& scale : held.span<float>()) scale = std::max(scale, std::numeric_limits<float>::epsilon());
    scale_ = held;
    use_learnt();
  }
  return fake_quant_enabled_ ? rounded(x, mask) : x;
}

QParams LearnableFakeQuantize::calculate_qparams() const {
  QDQ_CHECK(has_qparams_, kNotCalibrated, "_LearnableFakeQuantize has seen no data");
  QParams out = in_force_;
  out.zero_point_dtype = DType::kS64;
  return out;
}

QParams LearnableFakeQuantize::qparams_after(const Tensor& x) const {
  return observer_enabled_ ? inner_->qparams_after(x) : calculate_qparams();
}

LearnableFakeQuantize::Grads LearnableFakeQuantize::backward(const Tensor& of, const Tensor& of_result) const {
  const Tensor x = of.contiguous(), grad = of_result.contiguous();
  Grads out{Tensor::empty(x.sizes(), DType::kF32), Tensor::empty(scale_.sizes(), DType::kF32),
            Tensor::empty(zero_point_.sizes(), DType::kF32)};
  const auto channels = static_cast<int64_t>(in_force_.scale.size());
  int64_t inner = 1;  // elements in a row that share a channel
  if (channels > 1)
    for (size_t axis = wrap_axis(args_.ch_axis, x.dim()) + 1; axis < x.sizes().size(); ++axis) inner *= x.sizes()[axis];
  std::vector<double> of_scale(static_cast<size_t>(channels)), of_zero_point(static_cast<size_t>(channels));
  const auto low = static_cast<float>(quant_min_), high = static_cast<float>(quant_max_);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto c = static_cast<size_t>(i / inner % channels);
    const float scale = in_force_.scale[c], inverse = 1.0f / scale, value = x.data<float>()[i],
                g = grad.data<float>()[i];
    const auto zero_point = static_cast<float>(in_force_.zero_point[c]);
    const float q = std::nearbyint(value * inverse) + zero_point;
    const bool inside = low <= q && q <= high;
    out.x.data<float>()[i] = inside ? g : 0.0f;
    if (inside) {
      of_scale[c] += g * (((q - zero_point) * scale - value) * inverse);
    } else {
      of_scale[c] += g * ((q < low ? low : high) - zero_point);
      of_zero_point[c] -= g * scale;
    }
  }
  const double factor =
      args_.use_grad_scaling ? 1 / std::sqrt(static_cast<double>(x.numel()) * static_cast<double>(quant_max_)) : 1.0;
  for (size_t c = 0; c < of_scale.size(); ++c) {
    out.scale.data<float>()[c] = static_cast<float>(of_scale[c] * factor);
    out.zero_point.data<float>()[c] = static_cast<float>(of_zero_point[c] * factor);
  }
  return out;
}

}  // namespace qdq
