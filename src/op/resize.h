// Tells which elements of an input resizing and padding read, for backends that compute the same faster, and which
// places an affine grid starts from.
#pragma once

#include "op/op.h"

namespace qdq {

// An output element along an axis is the sum of weight * element over these input elements.
struct ResizeTap {
  int64_t index;
  double weight;
};
using ResizeTaps = std::vector<std::vector<ResizeTap>>;  // for each output index

// The taps of each spatial axis, in order, of a call of an upsampling operator.
std::vector<ResizeTaps> resize_taps(const Call<Tensor>& call);

// Where the elements outside the input come from.
enum class Border : uint8_t { kConstant, kReflect, kReplicate, kCircular };
// The border of a call of a padding operator, and the value that fills a constant border.
Border border_of(const Call<Tensor>& call);
double filling_of(const Call<Tensor>& call);
// The input index for output index i, counted from the first element of the input; -1: the constant.
int64_t padding_source(int64_t i, int64_t extent, Border border);

// What affine_grid_generator multiplies by its matrices: of each place of an image of these sizes, [H, W] or [D, H, W],
// its position from -1 to 1, last axis first, and 1. float32 [places, axes + 1].
Tensor affine_grid_base(const Shape& sizes, bool align_corners);

}  // namespace qdq
