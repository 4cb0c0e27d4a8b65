// Samples as the rows of a batch's tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

// How many samples a batch has: the first axis of its first input; 1 where there is none.
int64_t samples_of(const std::vector<Tensor>& inputs);
// The first row of floats with such a number; nothing without one, and of other dtypes.
std::optional<int64_t> row_with(const Tensor& values, bool (*is_odd)(float));

}  // namespace qdq
