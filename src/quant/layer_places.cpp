#include "quant/layer_places.h"

#include <algorithm>
#include <string>

#include "quant/layers.h"

namespace qdq {

namespace {

std::vector<int64_t> integers_of(const Argument& argument, size_t count) {
  std::vector<int64_t> out;
  if (argument.is_list())
    for (const Argument& element : argument.list()) out.push_back(element.integer().value_or(-1));
  else out.push_back(argument.integer().value_or(-1));
  if (out.size() == 1) out.resize(count, out[0]);
  return out;
}

// The axes of a convolution; none if they are no numbers that are known and sound.
std::vector<KernelAxis> axes_of(const Node& node, const Tensor& weight) {
  const auto count = static_cast<size_t>(weight.dim() - 2);
  const std::vector<int64_t> stride = integers_of(argument_called(node, "stride"), count);
  const std::vector<int64_t> dilation = integers_of(argument_called(node, "dilation"), count);
  const Argument& given = argument_called(node, "padding");
  const bool is_word = given.is<std::string>(), is_same = given == Argument("same");
  const std::vector<int64_t> padding = is_word ? std::vector<int64_t>(count, 0) : integers_of(given, count);
  if (stride.size() != count || dilation.size() != count || padding.size() != count) return {};
  std::vector<KernelAxis> out;
  for (size_t i = 0; i < count; ++i) {
    KernelAxis axis{weight.size(static_cast<int64_t>(i) + 2), stride[i], padding[i], dilation[i], padding[i]};
    if (std::min({axis.size, axis.stride, axis.dilation}) < 1 || axis.padding < 0) return {};
    if (is_same) {
      const int64_t all = axis.dilation * (axis.size - 1);
      axis.padding = all / 2;
      axis.after = all - axis.padding;
    }
    out.push_back(axis);
  }
  return out;
}

}  // namespace

std::optional<LayerProduct> product_of(const Node& node, const Tensor& weight) {
  const bool convolves = is_plain_convolution(node);
  if (!(convolves || is_linear(node)) || weight.dim() < 2 || weight.numel() == 0) return std::nullopt;
  LayerProduct out;
  if (convolves) {
    out.axes = axes_of(node, weight);
    out.groups = argument_called(node, "groups").integer().value_or(0);
    if (out.axes.empty() || out.groups < 1 || weight.size(0) % out.groups != 0) return std::nullopt;
  }
  out.rows = weight.size(0) / out.groups;
  out.depth = weight.numel() / weight.size(0);
  return out;
}

Places::Places(const LayerProduct& layer, const Tensor& x, int64_t wanted) : layer_(layer), channels_(x.size(1)) {
  in_.assign(x.sizes().begin() + 2, x.sizes().end());
  all_ = x.size(0);
  for (size_t i = 0; i < in_.size(); ++i) {
    const KernelAxis& axis = layer.axes[i];
    const int64_t room = in_[i] + axis.padding + axis.after - axis.dilation * (axis.size - 1) - 1;
    out_.push_back(room < 0 ? 0 : room / axis.stride + 1);
    all_ *= out_.back();
  }
  step_ = std::max<int64_t>(1, all_ / std::max<int64_t>(1, wanted));
  count_ = all_ / step_;
}

std::vector<float> Places::seen_in(const Tensor& x) const {
  const Tensor values = x.contiguous();
  int64_t taps = 1, inner = 1;
  for (const KernelAxis& axis : layer_.axes) taps *= axis.size;
  for (const int64_t size : in_) inner *= size;
  std::vector<float> out(static_cast<size_t>(count_ * channels_ * taps));
  std::vector<int64_t> offsets(static_cast<size_t>(taps));
  for (int64_t i = 0; i < count_; ++i) {
    constexpr int64_t kPrime = 7919;
    int64_t place = i * step_ + i * kPrime % step_;
    const int64_t image = place / (all_ / x.size(0));
    offsets.assign(offsets.size(), 0);
    for (size_t a = in_.size(), before = 1, length = 1; a-- > 0;) {
      const KernelAxis& axis = layer_.axes[a];
      const int64_t first = place % out_[a] * axis.stride - axis.padding;
      place /= out_[a];
      for (size_t tap = 0; tap < offsets.size(); ++tap) {
        const int64_t at = first + static_cast<int64_t>(tap / before) % axis.size * axis.dilation;
        if (offsets[tap] >= 0)
          offsets[tap] = at < 0 || at >= in_[a] ? -1 : offsets[tap] + at * static_cast<int64_t>(length);
      }
      before *= static_cast<size_t>(axis.size);
      length *= static_cast<size_t>(in_[a]);
    }
    float* to = out.data() + i * channels_ * taps;
    const float* from = values.data<float>() + image * channels_ * inner;
    for (int64_t c = 0; c < channels_; ++c, from += inner)
      for (const int64_t offset : offsets) *to++ = offset < 0 ? 0 : from[offset];
  }
  return out;
}

Tensor as_images(const Tensor& x, const LayerProduct& layer) {
  return layer.axes.empty() ? x.contiguous().reshape({x.numel() / layer.depth, layer.depth}) : x;
}

}  // namespace qdq
