// Follows operators through quantization by number, and measures how far their values moved.
// Semantics: torch/ao/quantization/pt2e/_numeric_debugger.py of PyTorch 2.6.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/interpreter.h"

namespace qdq {

// Numbers the operators that have no debug handle yet, upwards from the largest one there. prepare_pt2e hands an
// operator's number on to the observer of its output, convert_pt2e to the dequantize.
void generate_numeric_debug_handles(Program& program);

// One operator in two programs. A value for each input set.
struct NodeAccuracy {
  int64_t handle = 0;
  std::string ref_node, actual_node;
  std::vector<double> mse;      // mean of (ref - actual)^2
  std::vector<double> sqnr_db;  // 20 log10(|actual| / |ref - actual|), infinite for equal values
};

// Runs both programs on the same inputs and compares, handle by handle, the last float tensor that carries the handle.
// Handles that only one program has are left out. Throws Error{kInvalidArgument} if the two shapes differ.
std::vector<NodeAccuracy> compare_by_debug_handle(const Program& ref, const Program& actual,
                                                  std::span<const std::vector<Tensor>> inputs,
                                                  const std::vector<OpBackend*>& backends);

}  // namespace qdq
