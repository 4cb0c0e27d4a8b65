// A float convolution as the fast backends take it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "op/op.h"

namespace qdq {

// [N, C, H, W] * [O, C / groups, kernel] -> [N, O, out], with the same padding on both ends. One of a single axis is an
// image one high.
struct FloatConvolution {
  using Pair = std::array<int64_t, 2>;  // height, width
  Pair in, kernel, stride, padding, dilation, out;
  int64_t groups = 1;
  Shape sizes;  // of the output as the operator gives it, [N, O, W] for a single axis
  bool is_1d = false;
};

// Reads aten.conv1d, aten.conv2d or, `general`, aten.convolution; padding given as numbers. Nothing for what the
// reference has to compute (transposed convolutions, three axes, inputs without a batch, other dtypes) or to refuse
// (numbers that do not fit the tensors). Throws Error{kInvalidArgument} for lists of other lengths than the weight has
// axes.
std::optional<FloatConvolution> float_convolution(const Call<Tensor>& call, bool general);

}  // namespace qdq
