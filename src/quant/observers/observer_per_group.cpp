// The range of each group of a weight.
#include "quant/observers/observer_per_group.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/parallel.h"
#include "quant/observers/observer_statistics.h"
#include "quant/observers/qparams.h"

namespace qdq {
namespace {

// The parts of a range that are tried, in units of its fortieth: the first are the largest.
constexpr int kUnits = 40, kLargest = 43, kSmallest = 20;

constexpr size_t kParts = kLargest - kSmallest + 1;

// The parts of a group's range side by side, the largest first, and the squares of what they round off.
struct Parts {
  std::array<float, kParts> min, max, scale, inverse, zero;
  std::array<double, kParts> errors{};

  Parts(float low, float high, const ObserverArgs& args, IntegerRange range) {
    for (size_t k = 0; k < kParts; ++k) {
      const float by = static_cast<float>(kLargest - static_cast<int>(k)) / kUnits;
      min[k] = low * by;
      max[k] = high * by;
    }
    const QParams qparams = qparams_of_range(min, max, args, range);
    for (size_t k = 0; k < kParts; ++k) {
      scale[k] = qparams.scale[k];
      inverse[k] = 1 / scale[k];
      zero[k] = static_cast<float>(qparams.zero_point[k]);
    }
  }

  // Adds the errors of values in their order. Adding and taking away 1.5 * 2^23 rounds half to even, as integers of at
  // most 16 bits are far smaller; rounding within integer bounds is the same as bounding what is rounded.
  void add(const float* values, int64_t count, IntegerRange range) {
    constexpr float kWhole = 12582912.0f;
    const auto lowest = static_cast<float>(range.min), highest = static_cast<float>(range.max);
    for (int64_t i = 0; i < count; ++i) {
      const float value = values[i];
      for (size_t k = 0; k < kParts; ++k) {
        const float within = std::min(std::max(value * inverse[k] + zero[k], lowest), highest);
        const float integer = (within + kWhole) - kWhole;
        const double error = static_cast<double>((integer - zero[k]) * scale[k]) - static_cast<double>(value);
        errors[k] += error * error;
      }
    }
  }

  // The largest of the parts with the least error.
  size_t best() const { return static_cast<size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin()); }
};

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
  constexpr int64_t kMostIntegers = 1 << 16;  // more are too fine for another range to serve better
  if (!by_error_ || quant_max_ - quant_min_ >= kMostIntegers) return x;
  const IntegerRange range{quant_min_, quant_max_};
  constexpr int64_t kGroupsAtOnce = 256;
  parallel_for(static_cast<int64_t>(min_.size()), kGroupsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      const float low = min_[at], high = max_[at];
      if (!(low <= high) || std::isinf(low) || std::isinf(high)) continue;  // calculate_qparams refuses NaN
      Parts parts(low, high, args_, range);
      parts.add(values.data<float>() + i * group, group, range);
      min_[at] = parts.min[parts.best()];
      max_[at] = parts.max[parts.best()];
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
