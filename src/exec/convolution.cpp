#include "exec/convolution.h"

#include <algorithm>

namespace qdq {

std::optional<FloatConvolution> float_convolution(const Call<Tensor>& call, bool general) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const Tensor* bias = call.optional_tensor(2);
  const auto is_f32 = [](const Tensor& tensor) { return tensor.dtype() == DType::kF32; };
  if (!is_f32(x) || !is_f32(weight) || (bias && !is_f32(*bias)) || weight.dim() < 3 || weight.dim() > 5 ||
      x.dim() != weight.dim() || x.numel() == 0 || weight.numel() == 0 || (general && call.boolean(6)))
    return std::nullopt;

  FloatConvolution conv;
  conv.axes = static_cast<size_t>(weight.dim() - 2);
  const size_t first = 3 - conv.axes;  // of the triples that the operator knows
  const auto triple = [&](const std::vector<int64_t>& values, int64_t before) {
    FloatConvolution::Triple out{before, before, before};
    std::copy_n(values.end() - static_cast<int64_t>(conv.axes), conv.axes, out.begin() + first);
    return out;
  };
  conv.in = triple(x.sizes(), 1);
  conv.kernel = triple(weight.sizes(), 1);
  conv.stride = triple(call.integers(3, conv.axes), 1);
  conv.padding = triple(call.integers(4, conv.axes), 0);
  conv.dilation = triple(call.integers(5, conv.axes), 1);
  conv.groups = call.integer(general ? 8 : 6);
  if (conv.groups < 1 || weight.size(0) % conv.groups != 0 || x.size(1) % conv.groups != 0 ||
      x.size(1) / conv.groups != weight.size(1) || (bias && bias->sizes() != Shape{weight.size(0)}))
    return std::nullopt;
  for (size_t axis = 0; axis < 3; ++axis) {
    constexpr int64_t kMost = int64_t{1} << 31;  // as the reference allows
    const int64_t stride = conv.stride[axis], padding = conv.padding[axis], dilation = conv.dilation[axis];
    if (std::min(stride, dilation) < 1 || padding < 0 || std::max({stride, padding, dilation}) > kMost)
      return std::nullopt;
    const int64_t room = conv.in[axis] + 2 * padding - dilation * (conv.kernel[axis] - 1) - 1;
    if (room < 0) return std::nullopt;
    conv.out[axis] = room / stride + 1;
  }
  conv.sizes = {x.size(0), weight.size(0)};
  conv.sizes.insert(conv.sizes.end(), conv.out.begin() + first, conv.out.end());
  return conv;
}

}  // namespace qdq
