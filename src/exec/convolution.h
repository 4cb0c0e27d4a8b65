// A float convolution as the fast backends take it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "op/op.h"

namespace qdq {

// [N, C, D, H, W] * [O, C / groups, kernel] -> [N, O, out], with the same padding on both ends. An image is a volume
// one deep, one of a single axis one high as well.
struct FloatConvolution {
  using Triple = std::array<int64_t, 3>;  // depth, height, width
  Triple in{}, kernel{}, stride{}, padding{}, dilation{}, out{};
  int64_t groups = 1;
  Shape sizes;  // of the output as the operator gives it, [N, O, W] for a single axis
  size_t axes = 2;
};

// Reads aten.conv1d to 3d or, `general`, aten.convolution; padding given as numbers. Nothing for what the reference has
// to compute (transposed convolutions, inputs without a batch, other dtypes) or to refuse (numbers that do not fit the
// tensors). Throws Error{kInvalidArgument} for lists of other lengths than the weight has axes.
std::optional<FloatConvolution> float_convolution(const Call<Tensor>& call, bool general);
// The same of aten.conv_transpose1d to 3d or, `general`, a transposed aten.convolution, whose weight is [C, O / groups,
// kernel]. Of the output so much is cut off behind as the sizes leave.
std::optional<FloatConvolution> float_transposed_convolution(const Call<Tensor>& call, bool general);

}  // namespace qdq
