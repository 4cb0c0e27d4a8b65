// What resizing and padding read of an input, for backends that do the same faster.
#pragma once

#include "op/op.h"

namespace qdq {

// An output element along an axis is the sum of weight * element over these input elements.
struct ResizeTap {
  int64_t index;
  double weight;
};
using ResizeTaps = std::vector<std::vector<ResizeTap>>;  // for each output index

// Of the spatial axes of an upsampling operator's call, one behind the other; each has its own taps.
std::vector<ResizeTaps> resize_taps(const Call<Tensor>& call);

// How an element outside of the input comes about.
enum class Border : uint8_t { kConstant, kReflect, kReplicate, kCircular };
// Of a padding operator's call, and with what a constant border is filled.
Border border_of(const Call<Tensor>& call);
double filling_of(const Call<Tensor>& call);
// The input index for output index i, counted from the first element of the input; -1: the constant.
int64_t padding_source(int64_t i, int64_t extent, Border border);

}  // namespace qdq
