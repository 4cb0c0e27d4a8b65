// Which operators get which precision so that the program is what is wished.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "recover/operator_precisions.h"
#include "recover/recovery.h"

namespace qdq {

// What the outputs of all batches, in order, are worth; more is better. It gets what Simulation::run gives, of which
// Recovery::own_outputs are the program's.
using OutputScore = std::function<double(const std::vector<std::vector<Tensor>>& outputs)>;
// The score of a search without a target: OutputError::decibels of the outputs.
OutputScore decibels_score(const Recovery& recovery);

// What is measured of each program that is tried.
struct PrecisionMeasures {
  OutputScore score;
  std::function<uint64_t(const Program& converted)> bytes;  // of its file; none: not measured
  std::function<double(const Program& converted)> seconds;  // of a run; none: not measured
};

// What a program must be. Bytes and seconds only with their measure.
struct PrecisionWish {
  double score = -std::numeric_limits<double>::infinity();  // at least; minus infinity: the best within the rest
  std::optional<uint64_t> bytes;                            // at most
  std::optional<double> seconds;                            // at most
  std::vector<Precision> precisions = {Precision::kFloat};  // that operators may get beside the recipe's
};

// A program that was tried: the first so many operators have that precision, the others as far as it changes them
// `others`: int8 for what the recipe has.
struct PrecisionTrial {
  Precision precision = Precision::kInt8;  // where there are no operators
  int64_t operators = 0;
  Precision others = Precision::kInt8;
  double score = 0;
  std::optional<uint64_t> bytes;
  std::optional<double> seconds;
  bool is_on_front = false;  // no other trial is as good in all that is measured and better in something
};

// What a search found out. One that is given what an earlier one found, about the same program, samples and measures,
// goes on where that ended and finds the same.
struct PrecisionSearch {
  std::vector<Sensitivity> sensitivities;  // none: not known yet
  std::vector<PrecisionTrial> trials;      // in the order in which they were made
};

struct PrecisionResult {
  bool reached = false;
  PrecisionTrial before, after;             // `after` is `before` if the wish is out of reach
  PrecisionTrial best;                      // the trial that comes nearest to the wish: `after`, if that is reached
  std::vector<std::string> nodes, modules;  // that have after.precision, the most harmful first; the module of each
  std::vector<PrecisionTrial> trials;       // by precision and number of operators
};

// Gives operators of the calibrated program another precision, those whose rounding alone harms the outputs most first
// (Sensitivity::alone), all of them the same one. An operator in float or bf16 reads its inputs before they are
// rounded, and its weight and bias as they were before the remedies "rounding" and "bias correction"; what it gives is
// rounded for the operators that stay as they are.
//   - With a score: as few operators as reach it, found by doubling and halving for each of the precisions; of those
//     within the limits the program of the fewest bytes, if they are measured, else of the fewest operators. Where
//     weights of 8 bits in all operators do not reach the score but come nearer to it, the other precisions start from
//     there.
//   - Without: the best score within the limits, of the numbers 1, 2, 4, ... and the largest that fits.
// About 2 log2 of the number of operators programs are run on all samples for each precision. If nothing that was tried
// is what is wished, the program stays as it was and `reached` is false. `search`, if given, is what is known, and
// receives what is found; `on_trial` is called behind each new trial and may save it.
PrecisionResult choose_precision(Recovery& recovery, const PrecisionMeasures& measures, const PrecisionWish& wish,
                                 PrecisionSearch* search = nullptr, const std::function<void()>& on_trial = {});

// The same of a score alone, with operators in float.
PrecisionResult reach_score(Recovery& recovery, const OutputScore& score, double wanted);

}  // namespace qdq
