// Input-weight equalization: where the channels of a layer's input differ much in size, the layer reads x * s and has
// the weight w / s, channel by channel, so that one scale for all of x loses less. s is the square root of the range of
// the weight's column by that of the input's channel, each as wide as the other then.
// Semantics: torch/ao/quantization/fx/_equalize.py of PyTorch 2.6.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quant/pt2e.h"

namespace qdq {

// A convolution or linear layer whose input is equalized with its weight.
struct EqualizedLayer {
  std::string node;
  std::string observed_as;          // the observer in front of its input
  std::shared_ptr<Observer> input;  // what the channels of its input were from least to largest: f32 [channels]
  Compat compat = Compat::kNone;
};

// The layers of a prepared program that can be equalized, by their names, each with an observer that saw nothing yet.
// `warnings` gets a sentence for each that cannot. With Compat::kTorch26 only those are left out whose input has no
// observer, and the channels are those along axis 1.
std::vector<EqualizedLayer> equalized_layers(const Prepared::Impl& prepared, const LayersToEqualize& layers,
                                             std::vector<std::string>& warnings);

// Rewrites a copy of a prepared program, and its observers, as PyTorch does before it converts: weights are divided by
// s; an input is multiplied by s, or the layer that gives it, if it is equalized too and nothing but a relu stands
// between, has its rows and its bias multiplied; observers of inputs get the range of what is then there. With
// Compat::kTorch26 the observer between two such layers keeps its range, and any layer or relu in front counts as one
// that was multiplied, as in PyTorch 2.6. Throws Error{kNotCalibrated} naming the layers whose inputs have not been
// seen, Error{kInvalidArgument} where the channels of input and weight are not as many.
void equalize_inputs(Program& program, const Prepared::Impl& prepared, std::vector<ObserverGroup>& groups);

}  // namespace qdq
