// Which layers that a program holds in integers are multiplied in integers, too.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"

namespace qdq {

struct IntegerLayers {
  size_t total = 0;  // layers that read a dequantized value or weight, and have no float weight
  struct Float {
    std::string node, target, reason;
  };
  std::vector<Float> in_float;  // in execution order: those of them that a lowered session computes in float32
};

// Of convolutions, linear layers, matrix products, recurrent layers and embeddings, by the fused steps that the program
// gives, which are the same on every processor. Runs and compiles nothing; sizes that are open have those of the
// example inputs if there are any, else the values of Program::symbol_hints. Nothing is found in a graph whose shapes
// cannot be told, and in one of more than 256 MB.
IntegerLayers integer_layers(const Program& program, std::span<const Tensor> example = {});

// For people: "  in float here     2 of 7 quantized layers\n", then a line for each reason; empty if there are none.
std::string float_layers_text(const IntegerLayers& layers);

}  // namespace qdq
