// By which values a quantized program is held against the float one.
#pragma once

#include <vector>

#include "graph/program.h"
#include "tensor/tensor.h"

namespace qdq {

// A program that selects, as NonMaxSuppression does, has outputs that do not compare: their number of boxes differs
// from run to run, or they are integers. Adds the floats that these are made of behind the outputs: the nearest whose
// sizes follow from those of the inputs (u0 of an image that is resized within the model, too), in front of what picks
// elements by indices that floats gave (the boxes of the highest scores), where there are such. Integers of known sizes
// count as outputs that do not compare where no other output does. Programs that differ in their observers alone get
// the same values in the same order.
void add_judged_outputs(Program& program);

// The value that observers hand on.
Node* observed(Node* node);

// Whether each output of a program, without the added ones, has sizes that follow from those of the inputs.
std::vector<bool> outputs_that_compare(const Program& program);
// Of all that a program gave to which values were added: those that compare, the others as empty tensors.
std::vector<Tensor> judged_outputs(const std::vector<bool>& compare, std::vector<Tensor> outputs);

}  // namespace qdq
