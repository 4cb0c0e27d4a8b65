// Which layers int8 makes faster on this machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"

namespace qdq {

struct LayerTimes {
  std::string node;                                 // "conv2d_3", a convolution, linear layer or matrix product
  double float_seconds = 0, quantized_seconds = 0;  // the latter with the rounding of its input, where that is a step
};

// The layers of a converted program that read quantized values, with the time of the step that each is part of, in it
// and in the float program that it was made of: medians of steps repeated on their own, in a lowered session of each.
// Layers that only one of them has, by name, are left out. Runs both programs some times.
std::vector<LayerTimes> layer_times(const Program& original, const Program& converted, std::span<const Tensor> inputs);

// Seconds of a run of the lowered program: the sum of the medians of its steps, each repeated on its own.
double seconds_of_steps(const Program& program, std::span<const Tensor> inputs);

}  // namespace qdq
