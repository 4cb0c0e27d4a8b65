#include "exec/convolution.h"

#include <algorithm>

namespace qdq {

namespace {

// The largest of these numbers: no product or sum of them overflows.
constexpr int64_t kMost = int64_t{1} << 30;

// What a convolution has in common with a transposed one; nothing if these do not take its operands. `place` tells
// where the arguments stand.
struct Places {
  size_t stride = 3, padding = 4, dilation = 5, groups = 6;
};
std::optional<FloatConvolution> without_output(const Call<Tensor>& call, const Places& place) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const Tensor* bias = call.optional_tensor(2);
  const auto is_f32 = [](const Tensor& tensor) { return tensor.dtype() == DType::kF32; };
  if (!is_f32(x) || !is_f32(weight) || (bias && !is_f32(*bias)) || weight.dim() < 3 || weight.dim() > 5 ||
      x.dim() != weight.dim() || x.numel() == 0 || weight.numel() == 0)
    return std::nullopt;
  FloatConvolution conv;
  conv.axes = static_cast<size_t>(weight.dim() - 2);
  const auto triple = [&](const std::vector<int64_t>& values, int64_t before) {
    FloatConvolution::Triple out{before, before, before};
    std::copy_backward(values.end() - static_cast<int64_t>(conv.axes), values.end(), out.end());
    return out;
  };
  conv.in = triple(x.sizes(), 1);
  conv.kernel = triple(weight.sizes(), 1);
  conv.stride = triple(call.integers(place.stride, conv.axes), 1);
  conv.padding = triple(call.integers(place.padding, conv.axes), 0);
  conv.dilation = triple(call.integers(place.dilation, conv.axes), 1);
  conv.groups = call.integer(place.groups);
  if (conv.groups < 1 || weight.size(0) % conv.groups != 0 || x.size(1) % conv.groups != 0) return std::nullopt;
  for (size_t axis = 0; axis < 3; ++axis)
    if (std::min(conv.stride[axis], conv.dilation[axis]) < 1 || conv.padding[axis] < 0 ||
        std::max({conv.stride[axis], conv.padding[axis], conv.dilation[axis], conv.kernel[axis], conv.in[axis]}) >
            kMost)
      return std::nullopt;
  return conv;
}

Shape output_sizes(const FloatConvolution& conv, int64_t batch, int64_t channels) {
  Shape sizes{batch, channels};
  sizes.insert(sizes.end(), conv.out.end() - static_cast<int64_t>(conv.axes), conv.out.end());
  return sizes;
}

bool has_bias_for(const Call<Tensor>& call, int64_t channels) {
  const Tensor* bias = call.optional_tensor(2);
  return bias == nullptr || bias->sizes() == Shape{channels};
}

}  // namespace

std::optional<FloatConvolution> float_convolution(const Call<Tensor>& call, bool general) {
  if (general && call.boolean(6)) return std::nullopt;
  std::optional<FloatConvolution> conv = without_output(call, general ? Places{.groups = 8} : Places{});
  if (!conv) return std::nullopt;
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  if (x.size(1) / conv->groups != weight.size(1) || !has_bias_for(call, weight.size(0))) return std::nullopt;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t room = conv->in[axis] + 2 * conv->padding[axis] - conv->dilation[axis] * (conv->kernel[axis] - 1) - 1;
    if (room < 0) return std::nullopt;
    conv->out[axis] = room / conv->stride[axis] + 1;
  }
  conv->sizes = output_sizes(*conv, x.size(0), weight.size(0));
  return conv;
}

std::optional<FloatConvolution> float_transposed_convolution(const Call<Tensor>& call, bool general) {
  if (general && !call.boolean(6)) return std::nullopt;
  std::optional<FloatConvolution> conv =
      without_output(call, general ? Places{.groups = 8} : Places{.dilation = 7, .groups = 6});
  if (!conv) return std::nullopt;
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const int64_t channels = weight.size(1) * conv->groups;
  if (x.size(1) != weight.size(0) || !has_bias_for(call, channels)) return std::nullopt;
  const std::vector<int64_t> added = call.integers(general ? 7 : 5, conv->axes);
  for (size_t axis = 0; axis < 3; ++axis) {
    const size_t first = 3 - conv->axes;
    const int64_t more = axis < first ? 0 : added[axis - first];
    if (more < 0 || more > kMost) return std::nullopt;
    conv->out[axis] = (conv->in[axis] - 1) * conv->stride[axis] - 2 * conv->padding[axis] +
                      conv->dilation[axis] * (conv->kernel[axis] - 1) + more + 1;
    if (conv->out[axis] < 1) return std::nullopt;
  }
  conv->sizes = output_sizes(*conv, x.size(0), channels);
  return conv;
}

}  // namespace qdq
