// Ranges and histograms of tensors of any floating dtype and layout.
#include "quant/observers/observer_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/stable_sort.h"
#include "kernel/observe.h"

namespace qdq {
namespace {

// Whether the elements fill a block of memory without gaps or overlaps, in any order of the axes.
bool is_dense(const Tensor& x) {
  std::vector<size_t> axes(x.sizes().size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  sort_stably(axes, [&](size_t a, size_t b) { return x.strides()[a] < x.strides()[b]; });
  int64_t expected = 1;
  for (const size_t axis : axes) {
    if (x.sizes()[axis] == 1) continue;
    if (x.strides()[axis] != expected) return false;
    expected *= x.sizes()[axis];
  }
  return true;
}

// The same elements as f32 in one block, in C order or, for statistics that do not care, in the order of memory.
Tensor flat_f32(const Tensor& x, bool any_order) {
  if (x.dtype() != DType::kF32) return x.to(DType::kF32);
  return any_order && is_dense(x) ? x : x.contiguous();
}

// The rare ranges that the kernel does not take: PyTorch's bin number overflows or is 0 / 0, and such elements land in
// bin 0.
std::vector<float> odd_histogram_of(const float* x, int64_t n, FloatRange range, int64_t bins) {
  std::vector<float> counts(static_cast<size_t>(bins), 0.0f);
  const float width = range.max - range.min;
  // The first edge, min + 0 * step, is NaN then, and every element is outside.
  if (std::isinf(width)) return counts;
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= range.min && x[i] <= range.max)) continue;
    const float position = (x[i] - range.min) * static_cast<float>(bins) / width;
    const int64_t bin = std::isfinite(position) ? std::min(static_cast<int64_t>(position), bins - 1) : 0;
    counts[static_cast<size_t>(bin)] += 1.0f;
  }
  return counts;
}

}  // namespace

FloatRange range_of(const Tensor& x) {
  const Tensor flat = flat_f32(x, true);
  const kernel::MinMax range = kernel::min_max_f32(flat.data<float>(), flat.numel());
  return {range.min, range.max};
}

FloatRange finite_range_of(const Tensor& x) {
  const Tensor flat = flat_f32(x, true);
  const float* values = flat.data<float>();
  FloatRange range{kInf, -kInf};
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (std::isnan(values[i])) return {values[i], values[i]};
    if (std::isinf(values[i])) continue;
    range.min = std::min(range.min, values[i]);
    range.max = std::max(range.max, values[i]);
  }
  return range;
}

ChannelRanges channel_ranges_of(const Tensor& x, int64_t axis) {
  QDQ_CHECK(x.dim() >= 2, kInvalidArgument, "a per-channel observer was given a tensor of shape ", to_string(x.sizes()),
            "; it needs at least two axes, the channels and what is in them");
  const auto at = static_cast<size_t>(wrap_axis(axis, x.dim()));
  const Shape& sizes = x.sizes();
  const int64_t outer =
      std::accumulate(sizes.begin(), sizes.begin() + static_cast<int64_t>(at), int64_t{1}, std::multiplies<>());
  const int64_t channels = sizes[at];
  const Tensor flat = flat_f32(x, false);
  ChannelRanges out{std::vector<float>(static_cast<size_t>(channels)),
                    std::vector<float>(static_cast<size_t>(channels))};
  const int64_t inner = channels == 0 || outer == 0 ? 0 : x.numel() / (outer * channels);
  kernel::min_max_channels_f32(flat.data<float>(), outer, channels, inner, out.min.data(), out.max.data());
  return out;
}

std::vector<float> histogram_of(const Tensor& x, FloatRange range, int64_t bins, bool all_inside) {
  QDQ_CHECK(std::isfinite(range.min) && std::isfinite(range.max), kInvalidArgument, "a histogram cannot span [",
            range.min, ", ", range.max, "]: the data holds NaN");
  const Tensor flat = flat_f32(x, true);
  if (range.min == range.max) {
    const double middle = range.min;
    range = {static_cast<float>(middle - 1), static_cast<float>(middle + 1)};
    QDQ_CHECK(middle - 1 < middle + 1, kInvalidArgument, "a histogram cannot hold the single value ", middle,
              ": it is too large to put bins around it");
  }
  // Products up to (max - min) * bins must stay finite for the kernel.
  if (!(range.min < range.max) || !std::isfinite((range.max - range.min) * static_cast<float>(bins)))
    return odd_histogram_of(flat.data<float>(), flat.numel(), range, bins);
  std::vector<uint64_t> counts(static_cast<size_t>(bins), 0);
  kernel::histogram_f32(flat.data<float>(), flat.numel(), range.min, range.max, bins, all_inside, counts.data());
  std::vector<float> out(counts.size());
  constexpr uint64_t kLastCount = uint64_t{1} << 24;
  for (size_t i = 0; i < counts.size(); ++i) out[i] = static_cast<float>(std::min(counts[i], kLastCount));
  return out;
}

}  // namespace qdq
