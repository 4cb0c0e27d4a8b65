// Which operators stay in float so that the program reaches what is wanted of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recover/recovery.h"

namespace qdq {

// What the outputs of all batches, in order, are worth; more is better.
using OutputScore = std::function<double(const std::vector<std::vector<Tensor>>& outputs)>;

// A program that was tried: how many operators are in float, and its score.
struct PrecisionTrial {
  int64_t operators_in_float = 0;
  double score = 0;
};

struct PrecisionResult {
  bool reached = false;
  double before = 0, after = 0;             // scores
  std::vector<std::string> nodes, modules;  // left in float, the most harmful first; the module of each, or ""
  std::vector<PrecisionTrial> trials;       // in the order of the number of operators
};

// Leaves operators of the calibrated program in float, as few as reach the score, those whose rounding alone harms the
// outputs most first (Sensitivity::alone). An operator in float reads its inputs before they are rounded, and its
// weight and bias as they were before the remedies "rounding" and "bias correction"; what it gives is rounded for the
// operators that stay in integers. The number is found by doubling and halving, so that about 2 log2 of the number of
// operators programs are run on all samples. If all operators that can be left in float do not reach the score, nothing
// changes and `reached` is false.
PrecisionResult reach_score(Recovery& recovery, const OutputScore& score, double wanted);

}  // namespace qdq
