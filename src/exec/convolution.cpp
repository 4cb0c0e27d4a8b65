#include "exec/convolution.h"

#include <algorithm>

namespace qdq {

std::optional<FloatConvolution> float_convolution(const Call<Tensor>& call, bool general) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const Tensor* bias = call.optional_tensor(2);
  const auto is_f32 = [](const Tensor& tensor) { return tensor.dtype() == DType::kF32; };
  if (!is_f32(x) || !is_f32(weight) || (bias && !is_f32(*bias)) || (weight.dim() != 3 && weight.dim() != 4) ||
      x.dim() != weight.dim() || x.numel() == 0 || weight.numel() == 0 || (general && call.boolean(6)))
    return std::nullopt;

  FloatConvolution conv;
  conv.is_1d = weight.dim() == 3;
  const auto pair = [&](size_t i, int64_t of_height) -> FloatConvolution::Pair {
    const std::vector<int64_t> values = call.integers(i, conv.is_1d ? 1 : 2);
    return {conv.is_1d ? of_height : values[0], values.back()};
  };
  conv.in = {conv.is_1d ? 1 : x.size(2), x.size(-1)};
  conv.kernel = {conv.is_1d ? 1 : weight.size(2), weight.size(-1)};
  conv.stride = pair(3, 1);
  conv.padding = pair(4, 0);
  conv.dilation = pair(5, 1);
  conv.groups = call.integer(general ? 8 : 6);
  if (conv.groups < 1 || weight.size(0) % conv.groups != 0 || x.size(1) % conv.groups != 0 ||
      x.size(1) / conv.groups != weight.size(1) || (bias && bias->sizes() != Shape{weight.size(0)}))
    return std::nullopt;
  for (size_t axis = 0; axis < 2; ++axis) {
    constexpr int64_t kMost = int64_t{1} << 31;  // as the reference allows
    const int64_t stride = conv.stride[axis], padding = conv.padding[axis], dilation = conv.dilation[axis];
    if (std::min(stride, dilation) < 1 || padding < 0 || std::max({stride, padding, dilation}) > kMost)
      return std::nullopt;
    const int64_t room = conv.in[axis] + 2 * padding - dilation * (conv.kernel[axis] - 1) - 1;
    if (room < 0) return std::nullopt;
    conv.out[axis] = room / stride + 1;
  }
  conv.sizes = {x.size(0), weight.size(0), conv.out[0], conv.out[1]};
  if (conv.is_1d) conv.sizes.erase(conv.sizes.begin() + 2);
  return conv;
}

}  // namespace qdq
