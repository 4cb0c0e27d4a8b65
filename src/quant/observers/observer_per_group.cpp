// The range of each group of a weight.
#include "quant/observers/observer_per_group.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "quant/observers/observer_statistics.h"
#include "quant/observers/qparams.h"

namespace qdq {
namespace {

// The parts of a range that are tried, in units of its fortieth: the first are the largest.
constexpr int kUnits = 40, kLargest = 43, kSmallest = 20;

double error_of_group(const float* values, int64_t count, float scale, int64_t zero_point, IntegerRange range) {
  double sum = 0;
  const float zero = static_cast<float>(zero_point), inverse = 1 / scale;
  for (int64_t i = 0; i < count; ++i) {
    const float integer = std::clamp(std::nearbyint(values[i] * inverse + zero), static_cast<float>(range.min),
                                     static_cast<float>(range.max));
    const double error = static_cast<double>((integer - zero) * scale) - static_cast<double>(values[i]);
    sum += error * error;
  }
  return sum;
}

}  // namespace

PerGroupObserver::PerGroupObserver(const ObserverArgs& args, bool by_error) : Observer(args), by_error_(by_error) {
  QDQ_CHECK(is_per_channel(args.qscheme) && args.qscheme != QScheme::kPerChannelAffineFloatQParams && !args.is_dynamic,
            kInvalidArgument, class_name(), " takes static per_channel_symmetric and per_channel_affine only, found ",
            args.is_dynamic ? "dynamic " : "", to_string(args.qscheme));
  QDQ_CHECK(args.group_size > 1, kInvalidArgument, class_name(), " has a group_size of ", args.group_size,
            ", wanted 2 or more");
  const IntegerRange range = integer_range(args);
  quant_min_ = range.min;
  quant_max_ = range.max;
}

Tensor PerGroupObserver::forward(const Tensor& x) {
  if (x.numel() == 0) return x;
  const int64_t group = args_.group_size;
  QDQ_CHECK(x.dim() == 2 && x.size(1) % group == 0, kInvalidArgument, class_name(), " cannot cut a tensor of shape ",
            to_string(x.sizes()), " into groups of ", group, ", wanted a matrix whose rows are whole groups");
  const Tensor values = x.to(DType::kF32).contiguous().reshape({x.numel() / group, group});
  ChannelRanges seen = channel_ranges_of(values, 0);
  min_ = std::move(seen.min);
  max_ = std::move(seen.max);
  if (!by_error_) return x;
  const IntegerRange range{quant_min_, quant_max_};
  constexpr int64_t kGroupsAtOnce = 256;
  parallel_for(static_cast<int64_t>(min_.size()), kGroupsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      const float low = min_[at], high = max_[at];
      if (!(low <= high) || std::isinf(low) || std::isinf(high)) continue;  // calculate_qparams refuses NaN
      double least = std::numeric_limits<double>::infinity();
      for (int part = kLargest; part >= kSmallest; --part) {
        const float by = static_cast<float>(part) / kUnits, min = low * by, max = high * by;
        const QParams qparams = qparams_of_range({&min, 1}, {&max, 1}, args_, range);
        const double error =
            error_of_group(values.data<float>() + i * group, group, qparams.scale[0], qparams.zero_point[0], range);
        if (!(error < least)) continue;
        least = error;
        min_[at] = min;
        max_[at] = max;
      }
    }
  });
  return x;
}

QParams PerGroupObserver::calculate_qparams() const {
  QDQ_CHECK(calibrated(), kNotCalibrated, class_name(), " has seen no weight");
  return qparams_of_range(min_, max_, args_, {quant_min_, quant_max_});
}

QParams PerGroupObserver::qparams_after(const Tensor& x) const {
  PerGroupObserver copy = *this;
  copy.forward(x);
  return copy.calculate_qparams();
}

Tensor PerGroupObserver::min_val() const { return Tensor::of<float>({std::ssize(min_)}, std::span<const float>(min_)); }
Tensor PerGroupObserver::max_val() const { return Tensor::of<float>({std::ssize(max_)}, std::span<const float>(max_)); }

void PerGroupObserver::set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) {
  QDQ_CHECK(min_val.defined() && max_val.defined() && min_val.dim() == 1 && min_val.sizes() == max_val.sizes() &&
                !histogram.defined(),
            kInvalidArgument, class_name(), " keeps a least and a largest value for each group and nothing else");
  const Tensor min = min_val.to(DType::kF32).contiguous(), max = max_val.to(DType::kF32).contiguous();
  min_.assign(min.span<float>().begin(), min.span<float>().end());
  max_.assign(max.span<float>().begin(), max.span<float>().end());
}

}  // namespace qdq
