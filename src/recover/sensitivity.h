// What each quantized operator costs.
#pragma once

#include <string>
#include <vector>

#include "recover/recovery.h"

namespace qdq {

// Ratios of signal to noise in dB, 200 where nothing differs.
struct Sensitivity {
  std::string node, module, op;  // "conv2d_3", "layer1.0.conv1", "aten.conv2d.default"
  double own = 0;      // of the operator's result, for rounded inputs and weights that are float values otherwise
  double alone = 0;    // of the program's outputs (OutputError), if this operator alone reads rounded values
  double without = 0;  // if all others do, and this one reads what stands before the rounding
};

// Every operator of the calibrated program that reads rounded values, in the order of the graph: what it reads is
// rounded by the program's observers, what it gives is not. `all` receives OutputError of the program with all
// rounding, which `without` is to be held against. Takes of the recovery's samples so many that the work is about 20
// runs of each, with what two operators have in common computed once, and 4 samples at least; of programs with fewer
// than 20 operators all samples.
std::vector<Sensitivity> sensitivities(Recovery& recovery, double* all = nullptr);

}  // namespace qdq
