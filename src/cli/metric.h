// A measure of the user's own: a command that reads a model's outputs and prints what they are worth.
#pragma once

#include <string>
#include <vector>

#include "cli/host.h"
#include "tensor/tensor.h"

namespace qdq {

// Has the shell run `command`, in which {outputs} stands for an .npz with the outputs of all samples (output_0,
// output_1, ... as `qdq run` writes them) and {labels} for the path in `labels`. The number in the last line that it
// prints is the result; more is better. Throws Error{kInvalidArgument} if the command has no {outputs}, has {labels}
// where there are none, ends with another status than 0, or prints no finite number in the end.
double measure(const std::string& command, const std::string& labels, const std::vector<std::vector<Tensor>>& batches,
               Host& host);

// Throws what measure() throws of the words of a command; before the work begins.
void check_metric(const std::string& command, const std::string& labels);

}  // namespace qdq
