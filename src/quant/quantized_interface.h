// Programs that take and give integers.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace qdq {

// Which inputs and outputs of a converted program are integers, by their index.
struct QuantizedInterface {
  std::vector<int64_t> inputs, outputs;
  bool all_outputs = false;  // all that are dequantized, whatever the indexes
};

// Takes the quantize operators off those inputs, and the dequantize operators off those outputs, of a converted
// program.
//   x -> quantize -> dequantize -> ... -> quantize -> dequantize      becomes      x -> dequantize -> ... -> quantize
// Their scales and zero points stay in the operators at the other end. Throws Error{kInvalidArgument} for an index that
// the program does not have, and a value that is not quantized per tensor with numbers that are known.
void take_quantized_interface(Program& program, const QuantizedInterface& interface);

}  // namespace qdq
