#include "recover/output_error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "op/math.h"

namespace qdq {

namespace {

struct ChannelExtents {
  int64_t outer = 1, channels = 1, inner = 1;
};

ChannelExtents channels_of_output(const Shape& sizes) {
  const auto product = [&](size_t from, size_t to) {
    return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from),
                           sizes.begin() + static_cast<std::ptrdiff_t>(to), int64_t{1}, std::multiplies<>());
  };
  const size_t rank = sizes.size();
  if (rank < 3) return {1, 1, product(0, rank)};
  const size_t axis = rank == 3 ? 2 : 1;
  return {product(0, axis), sizes[axis], product(axis + 1, rank)};
}

}  // namespace

void OutputError::add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found) {
  QDQ_CHECK(reference.size() == found.size(), kInvalidArgument, "there are ", reference.size(), " outputs and ",
            found.size(), " to compare with");
  outputs_.resize(reference.size());
  for (size_t i = 0; i < reference.size(); ++i) {
    if (!is_floating(reference[i].dtype()) || reference[i].numel() == 0) continue;
    QDQ_CHECK(reference[i].sizes() == found[i].sizes(), kInvalidArgument, "output ", i, " has the sizes ",
              to_string(reference[i].sizes()), " and ", to_string(found[i].sizes()));
    const Tensor x = reference[i].to(DType::kF32).contiguous(), y = found[i].to(DType::kF32).contiguous();
    const ChannelExtents extents = channels_of_output(x.sizes());
    std::vector<Sums>& sums = outputs_[i];
    if (static_cast<int64_t>(sums.size()) < extents.channels) sums.resize(static_cast<size_t>(extents.channels));
    const std::span<const float> a = x.span<float>(), b = y.span<float>();
    size_t at = 0;
    for (int64_t outer = 0; outer < extents.outer; ++outer)
      for (int64_t channel = 0; channel < extents.channels; ++channel) {
        Sums& sum = sums[static_cast<size_t>(channel)];
        for (int64_t inner = 0; inner < extents.inner; ++inner, ++at) {
          if (!std::isfinite(a[at])) continue;
          const double value = a[at], difference = value - b[at];
          sum.count += 1;
          sum.sum += value;
          sum.squares += value * value;
          sum.noise += std::isfinite(difference) ? difference * difference : value * value + 1;
        }
      }
  }
}

double OutputError::decibels() const {
  double share = 0;
  int64_t outputs = 0;
  for (const std::vector<Sums>& sums : outputs_) {
    double of_output = 0;
    int64_t channels = 0;
    for (const Sums& sum : sums) {
      if (sum.count == 0) continue;
      const double signal = sum.squares - sum.sum * sum.sum / sum.count;
      // A channel that never changes says nothing, unless the quantized one changes it.
      if (!(signal > 1e-12 * sum.squares)) {
        if (sum.noise <= 1e-6 * sum.squares) continue;
        of_output += std::min(1.0, sum.noise / std::max(sum.squares, 1e-30));
      } else {
        of_output += std::min(1.0, sum.noise / signal);
      }
      ++channels;
    }
    if (channels == 0) continue;
    share += of_output / static_cast<double>(channels);
    ++outputs;
  }
  constexpr double kNothingDiffers = 200, kLn10 = 2.302585092994046;
  if (outputs == 0 || share == 0) return kNothingDiffers;
  return std::min(kNothingDiffers, -10 / kLn10 * math::log(share / static_cast<double>(outputs)));
}

}  // namespace qdq
