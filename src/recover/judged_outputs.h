// By which values a quantized program is held against the float one.
#pragma once

#include <vector>

#include "graph/program.h"
#include "tensor/tensor.h"

namespace qdq {

// A program that selects, as NonMaxSuppression does, has outputs that do not compare: their number of boxes differs
// from run to run, or they are integers. Adds the floats of known sizes that these are made of behind the outputs.
// Integers of known sizes count as outputs that do not compare where no other output does. Programs that differ in
// their observers alone get the same values in the same order.
void add_judged_outputs(Program& program);

// Of all that a program gave to which values were added so: those that compare, the others as empty tensors.
// `program` is the one without the added values.
std::vector<Tensor> judged_outputs(const Program& program, std::vector<Tensor> outputs);

}  // namespace qdq
