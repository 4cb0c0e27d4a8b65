// The cost of each quantized operator.
#pragma once

#include <string>
#include <vector>

#include "recover/recovery.h"

namespace qdq {

// Signal-to-noise ratios in dB; 200 without any difference.
struct Sensitivity {
  std::string node, module, op;  // "conv2d_3", "layer1.0.conv1", "aten.conv2d.default"
  double own = 0;      // of the operator's result, for rounded inputs and weights that are float values otherwise
  double alone = 0;    // of the program's outputs (OutputError), if this operator alone reads rounded values
  double without = 0;  // if all others do, and this one reads what stands before the rounding
};

// Every operator of the calibrated program that reads rounded values, in the order of the graph: the program's
// observers round its inputs, and its result is not rounded. `all` receives the OutputError of the program with all
// rounding, the reference for `without`. Uses so many of the recovery's samples that the work is about 20 runs of each,
// with the common parts of two operators computed once, and at least 4 samples; for programs with fewer than 20
// operators, all samples.
std::vector<Sensitivity> sensitivities(Recovery& recovery, double* all = nullptr);

}  // namespace qdq
