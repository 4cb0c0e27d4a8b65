// The running ranges of torch/ao/quantization/observer.py.
#include "quant/observers/observer_min_max.h"

#include <cmath>

#include "quant/observers/observer_statistics.h"
#include "quant/observers/qparams.h"

namespace qdq {
namespace {

float smaller(float a, float b) { return std::isnan(a) || a < b ? a : b; }
float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

MinMaxObserver::MinMaxObserver(const ObserverArgs& args, bool moving_average, bool per_channel)
    : Observer(args), moving_average_(moving_average), per_channel_(per_channel) {
  QDQ_CHECK(qdq::is_per_channel(args.qscheme) == per_channel, kInvalidArgument, class_name(), " takes per-",
            per_channel ? "channel" : "tensor", " schemes only, found ", to_string(args.qscheme));
  // MinMaxObserver itself lets is_dynamic pass, as in PyTorch.
  if (args.is_dynamic && per_channel)
    fail(ErrorCode::kInvalidArgument, class_name(), " does not support dynamic quantization");
  if (args.is_dynamic && moving_average && args.averaging_constant != 1)
    fail(ErrorCode::kInvalidArgument, class_name(),
         " supports dynamic quantization only with an averaging constant of 1, found ", args.averaging_constant);
  const IntegerRange range = integer_range(args);
  QDQ_CHECK(!(is_symmetric(args.qscheme) && args.reduce_range && args.dtype == DType::kU8 &&
              args.qdtype == QDType::kQuantized),
            kInvalidArgument, class_name(), " cannot reduce the range of symmetric quint8");
  quant_min_ = range.min;
  quant_max_ = range.max;
  if (!per_channel) {
    min_ = {kInf};
    max_ = {-kInf};
  }
}

std::string_view MinMaxObserver::class_name() const {
  if (per_channel_) return moving_average_ ? "MovingAveragePerChannelMinMaxObserver" : "PerChannelMinMaxObserver";
  return moving_average_ ? "MovingAverageMinMaxObserver" : "MinMaxObserver";
}

bool MinMaxObserver::calibrated() const { return !min_.empty() && !(min_[0] == kInf && max_[0] == -kInf); }

Tensor MinMaxObserver::forward(const Tensor& x) {
  if (x.numel() == 0) return x;
  if (!per_channel_) return forward_with_range(x, range_of(x));
  take(channel_ranges_of(x, args_.ch_axis));
  return x;
}

Tensor MinMaxObserver::forward_with_range(const Tensor& x, const FloatRange& range) {
  if (per_channel_ || x.numel() == 0) return forward(x);
  take({{range.min}, {range.max}});
  return x;
}

void MinMaxObserver::take(ChannelRanges seen) {
  if (!calibrated()) {
    min_ = std::move(seen.min);
    max_ = std::move(seen.max);
    return;
  }
  QDQ_CHECK(seen.min.size() == min_.size(), kInvalidArgument, class_name(), " has seen ", min_.size(),
            " channels and was given a tensor with ", seen.min.size(), " along axis ", args_.ch_axis);
  const auto c = static_cast<float>(args_.averaging_constant);
  for (size_t i = 0; i < min_.size(); ++i) {
    min_[i] = moving_average_ ? min_[i] + c * (seen.min[i] - min_[i]) : smaller(seen.min[i], min_[i]);
    max_[i] = moving_average_ ? max_[i] + c * (seen.max[i] - max_[i]) : larger(seen.max[i], max_[i]);
  }
}

QParams MinMaxObserver::calculate_qparams() const {
  QDQ_CHECK(calibrated(), kNotCalibrated, class_name(),
            " has seen no data; run calibration batches before qparams are asked for");
  return qparams_of_range(min_, max_, args_, {quant_min_, quant_max_});
}

QParams MinMaxObserver::qparams_after(const Tensor& x) const {
  MinMaxObserver copy = *this;
  copy.forward(x);
  return copy.calculate_qparams();
}

void MinMaxObserver::set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) {
  const int64_t rank = per_channel_ ? 1 : 0;
  QDQ_CHECK(min_val.defined() && max_val.defined() && min_val.dim() == rank && min_val.sizes() == max_val.sizes() &&
                !histogram.defined(),
            kInvalidArgument, class_name(), " keeps a least and a largest value",
            per_channel_ ? " for each channel" : "", " and nothing else");
  const auto values = [](const Tensor& tensor) {
    const Tensor flat = tensor.to(DType::kF32).contiguous();
    return std::vector<float>(flat.span<float>().begin(), flat.span<float>().end());
  };
  min_ = values(min_val);
  max_ = values(max_val);
}

Tensor MinMaxObserver::as_state(const std::vector<float>& values) const {
  const Shape shape = per_channel_ ? Shape{static_cast<int64_t>(values.size())} : Shape{};
  return Tensor::of<float>(shape, std::span<const float>(values));
}

Tensor MinMaxObserver::min_val() const { return as_state(min_); }
Tensor MinMaxObserver::max_val() const { return as_state(max_); }

}  // namespace qdq
