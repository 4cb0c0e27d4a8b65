// The fake quantizers' forward passes.
#include "quant/observers/fake_quantize.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "exec/simd.h"
#include "kernel/quantize.h"
#include "quant/observers/observer_statistics.h"
#include "quant/observers/qparams.h"

namespace qdq {
namespace {

std::string inner_class_of(const ObserverArgs& args) {
  return args.inner_class.empty() ? "MovingAverageMinMaxObserver" : args.inner_class;
}

void check_limits(const ObserverArgs& args) {
  if (args.quant_min && args.quant_max) {
    QDQ_CHECK(*args.quant_min <= *args.quant_max, kInvalidArgument, "quant_min ", *args.quant_min,
              " is greater than quant_max ", *args.quant_max);
    QDQ_CHECK(is_integral(args.dtype) && min_of(args.dtype) <= *args.quant_min && *args.quant_max <= max_of(args.dtype),
              kInvalidArgument, "the quantization range [", *args.quant_min, ", ", *args.quant_max, "] does not fit ",
              dtype_name(args));
  }
}

std::shared_ptr<Observer> make_inner(const ObserverArgs& args) {
  check_limits(args);
  return make_observer(inner_class_of(args), args);
}

std::shared_ptr<MinMaxObserver> make_average(const ObserverArgs& args) {
  check_limits(args);
  const std::string inner = inner_class_of(args);
  const bool per_channel = inner == "MovingAveragePerChannelMinMaxObserver";
  QDQ_CHECK(per_channel || inner == "MovingAverageMinMaxObserver", kInvalidArgument,
            "FusedMovingAvgObsFakeQuantize needs a moving average inside (MovingAverageMinMaxObserver or "
            "MovingAveragePerChannelMinMaxObserver), found ",
            inner);
  return std::make_shared<MinMaxObserver>(args, /*moving_average=*/true, per_channel);
}

// x as [outer, channels, inner] around the axis.
kernel::ChannelAffine around_axis(const Tensor& x, int64_t axis) {
  const auto at = static_cast<int64_t>(wrap_axis(axis, x.dim()));
  kernel::ChannelAffine out;
  out.outer = std::accumulate(x.sizes().begin(), x.sizes().begin() + at, int64_t{1}, std::multiplies<>());
  out.channels = x.size(at);
  out.inner = std::accumulate(x.sizes().begin() + at + 1, x.sizes().end(), int64_t{1}, std::multiplies<>());
  return out;
}

// With float zero points q = round(x / scale + zero_point), which ATen's vectorised build fuses (std::fma is exact
// everywhere), and the way back is computed in double.
void round_to_float_zero_points(const float* x, const kernel::ChannelAffine& affine, const float* zero_points,
                                float* out, uint8_t* mask) {
  const auto low = static_cast<float>(affine.qmin);
  const auto high = static_cast<float>(affine.qmax);
  for (int64_t row = 0; row < affine.outer * affine.channels; ++row) {
    const float scale = affine.scales[row % affine.channels];
    const float zero_point = zero_points[row % affine.channels];
    const float inverse = 1.0f / scale;
    for (int64_t i = row * affine.inner; i < (row + 1) * affine.inner; ++i) {
      // The sum turns -0 into the 0 that an integer has.
      const float q = std::nearbyint(std::fma(x[i], inverse, zero_point)) + 0.0f;
      if (mask != nullptr) mask[i] = low <= q && q <= high;
      const double bounded = std::fmin(std::fmax(q, low), high);
      out[i] = static_cast<float>((bounded - zero_point) * scale);
    }
  }
}

}  // namespace

Tensor fake_quantized(const Tensor& x, const QParams& qparams, const ObserverArgs& settings, IntegerRange limits,
                      Tensor* mask) {
  QDQ_CHECK(is_quantizable(x.dtype()), kInvalidArgument,
            "fake quantization rounds float32, float16 and bfloat16 tensors, and was given ", to_string(x.dtype()));
  if (x.dtype() != DType::kF32) return fake_quantized(x.to(DType::kF32), qparams, settings, limits, mask).to(x.dtype());
  const Tensor input = x.contiguous();
  Tensor out = uninitialized(x.sizes(), DType::kF32);
  if (mask != nullptr) *mask = uninitialized(x.sizes(), DType::kU8);
  uint8_t* const inside = mask != nullptr ? mask->data<uint8_t>() : nullptr;
  if (!is_per_channel(settings.qscheme)) {
    const kernel::Affine affine{qparams.scale[0], qparams.zero_point[0], limits.min, limits.max,
                                kernel::Scaling::kMultiply};
    kernel::fake_quantize_f32(input.data<float>(), input.numel(), affine, out.data<float>(), inside);
    return out;
  }
  kernel::ChannelAffine affine = around_axis(input, settings.ch_axis);
  QDQ_CHECK(static_cast<int64_t>(qparams.scale.size()) == affine.channels, kInvalidArgument, "there are scales for ",
            qparams.scale.size(), " channels, and fake quantization was given a tensor of shape ", to_string(x.sizes()),
            " with channels along axis ", settings.ch_axis);
  affine.scales = qparams.scale.data();
  affine.qmin = limits.min;
  affine.qmax = limits.max;
  if (!qparams.float_zero_point.empty()) {
    round_to_float_zero_points(input.data<float>(), affine, qparams.float_zero_point.data(), out.data<float>(), inside);
    return out;
  }
  for (const int64_t zero_point : qparams.zero_point)
    QDQ_CHECK(limits.min <= zero_point && zero_point <= limits.max, kInvalidArgument, "the zero point ", zero_point,
              " lies outside of the quantization range [", limits.min, ", ", limits.max, "]");
  affine.zero_points = qparams.zero_point.data();
  kernel::fake_quantize_channels_f32(input.data<float>(), affine, out.data<float>(), inside);
  return out;
}

FakeQuantize::FakeQuantize(const ObserverArgs& args) : FakeQuantize(args, make_inner(args)) {}

FakeQuantize::FakeQuantize(const ObserverArgs& args, std::shared_ptr<Observer> inner)
    : Observer(args), inner_(std::move(inner)) {
  quant_min_ = inner_->quant_min();
  quant_max_ = inner_->quant_max();
  in_force_ = {{1.0f}, {0}, {}};
  in_force_.zero_point_dtype = DType::kS32;
  if (args.qscheme == QScheme::kPerChannelAffineFloatQParams) in_force_ = {{1.0f}, {}, {0.0f}, DType::kF32};
}

void FakeQuantize::set_qparams_in_force(const QParams& qparams) {
  const bool is_float = in_force_.zero_point_dtype == DType::kF32;
  const size_t zero_points = is_float ? qparams.float_zero_point.size() : qparams.zero_point.size();
  QDQ_CHECK(!qparams.scale.empty() && zero_points == qparams.scale.size(), kInvalidArgument, class_name(), " has ",
            qparams.scale.size(), " scales and ", zero_points, " zero points; wanted one for each");
  for (const float scale : qparams.scale)
    QDQ_CHECK(scale > 0 && std::isfinite(scale), kInvalidArgument, class_name(), " has the scale ", scale,
              "; wanted a number above 0");
  for (const int64_t zero_point : qparams.zero_point)
    QDQ_CHECK(is_float || (quant_min_ <= zero_point && zero_point <= quant_max_), kInvalidArgument, class_name(),
              " has the zero point ", zero_point, " outside of the quantization range [", quant_min_, ", ", quant_max_,
              "]");
  const DType zero_point_dtype = in_force_.zero_point_dtype;
  in_force_ = qparams;
  in_force_.zero_point_dtype = zero_point_dtype;
}

int64_t FakeQuantize::ch_axis() const {
  return inner_->class_name().find("PerChannel") != std::string_view::npos ? args_.ch_axis : -1;
}

Tensor FakeQuantize::forward_with_mask(const Tensor& x, Tensor* mask) {
  if (observer_enabled_) {
    inner_->forward(x);
    const DType zero_point_dtype = in_force_.zero_point_dtype;
    in_force_ = inner_->calculate_qparams_or_default();
    in_force_.zero_point_dtype = zero_point_dtype;
    if (zero_point_dtype == DType::kF32) in_force_.float_zero_point.resize(in_force_.scale.size(), 0.0f);
  }
  return fake_quant_enabled_ ? rounded(x, mask) : x;
}

FixedQParamsFakeQuantize::FixedQParamsFakeQuantize(const ObserverArgs& args)
    : FakeQuantize(args, make_observer(args.inner_class.empty() ? "FixedQParamsObserver" : args.inner_class, args)) {
  QDQ_CHECK(inner_->class_name() == "FixedQParamsObserver", kInvalidArgument,
            "FixedQParamsFakeQuantize needs a FixedQParamsObserver inside, found ", inner_->class_name());
  QDQ_CHECK(!is_per_channel(args.qscheme), kInvalidArgument,
            "FixedQParamsFakeQuantize takes per-tensor schemes only, found ", to_string(args.qscheme));
  in_force_ = inner_->calculate_qparams();
}

FusedMovingAvgObsFakeQuantize::FusedMovingAvgObsFakeQuantize(const ObserverArgs& args)
    : FusedMovingAvgObsFakeQuantize(args, make_average(args)) {}

FusedMovingAvgObsFakeQuantize::FusedMovingAvgObsFakeQuantize(const ObserverArgs& args,
                                                             std::shared_ptr<MinMaxObserver> average)
    : FakeQuantize(args, average), average_(std::move(average)) {}

void FusedMovingAvgObsFakeQuantize::observe(const Tensor& x, MinMaxObserver& average) const {
  ChannelRanges seen;
  if (average.is_per_channel()) {
    QDQ_CHECK(args_.ch_axis == 0, kInvalidArgument,
              "FusedMovingAvgObsFakeQuantize takes channels along axis 0 only, found axis ", args_.ch_axis);
    seen = channel_ranges_of(x, 0);
  } else {
    const FloatRange range = range_of(x);
    seen = {{range.min}, {range.max}};
  }
  std::vector<float>& min = average.min();
  std::vector<float>& max = average.max();
  if (min.empty()) {
    min = seen.min;
    max = seen.max;
    return;
  }
  QDQ_CHECK(min.size() == seen.min.size(), kInvalidArgument, "FusedMovingAvgObsFakeQuantize has seen ", min.size(),
            " channels and was given a tensor of shape ", to_string(x.sizes()));
  const auto c = static_cast<float>(args_.averaging_constant);
  for (size_t i = 0; i < min.size(); ++i) {
    min[i] = std::isinf(min[i]) ? seen.min[i] : min[i] + c * (seen.min[i] - min[i]);
    max[i] = std::isinf(max[i]) ? seen.max[i] : max[i] + c * (seen.max[i] - max[i]);
  }
}

QParams FusedMovingAvgObsFakeQuantize::qparams_after(const Tensor& x) const {
  MinMaxObserver average = *average_;
  if (observer_enabled_ && x.numel() > 0) observe(x, average);
  return average.calculate_qparams();
}

Tensor FusedMovingAvgObsFakeQuantize::forward_with_mask(const Tensor& x, Tensor* mask) {
  if (x.numel() == 0) return x;
  QDQ_CHECK(x.dtype() == DType::kF32, kInvalidArgument,
            "FusedMovingAvgObsFakeQuantize takes float32 tensors, and was given ", to_string(x.dtype()));
  if (observer_enabled_) observe(x, *average_);
  if (!fake_quant_enabled_) return x;
  const IntegerRange range{quant_min_, quant_max_};
  const std::vector<float>& min = average_->min();
  const std::vector<float>& max = average_->max();
  QDQ_CHECK(average_->calibrated(), kNotCalibrated,
            "FusedMovingAvgObsFakeQuantize has seen no data: its observer is switched off");
  in_force_.scale.resize(min.size());
  in_force_.zero_point.resize(min.size());
  for (size_t i = 0; i < min.size(); ++i) {
    const FusedQParams found = fused_qparams(min[i], max[i], range, is_symmetric(args_.qscheme));
    in_force_.scale[i] = found.scale;
    in_force_.zero_point[i] = found.zero_point;
  }
  return rounded(x, mask);
}

}  // namespace qdq
