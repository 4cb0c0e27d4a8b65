// What `qdq quantize` chooses precisions by: --target-agreement, --target-drop, --target-metric, --max-size and
// --max-latency.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "cli/verbs.h"
#include "data/data.h"
#include "format/json.h"
#include "recover/precision.h"

namespace qdq {

std::vector<Batch> all_batches(Data& data, Host& host);

// The word that asks for it: "--recover", "--target-drop", "--max-size", ...
std::string recovery_word(const QuantizeOptions& options);
bool wishes_precision(const QuantizeOptions& options);
// Throws Error{kInvalidArgument} for words that do not fit each other. True if the options ask for recovery, or wish
// something that precisions are chosen by. `has_state`: there is the state of a calibration in place of samples.
bool wants_recovery(const QuantizeOptions& options, bool has_samples, bool has_state);

// Before the samples are run: throws for goals that the model's outputs, the metric or the labels do not fit.
void check_goal(const QuantizeOptions& options, const Program& program, Data& data, Host& host);

// What --target-agreement, --target-drop and --target-metric ask for, or the error of the outputs.
struct Target {
  OutputScore score;
  std::optional<double> wanted;
  std::string of;  // what the score is
  std::string unit = " %";
  double sign = 1;                                // -1: of a score whose negative is told
  std::optional<double> of_float = std::nullopt;  // the score of the float model, if that tells what is wanted
};

// A wish, and the search for what it asks.
class PrecisionTask {
 public:
  // For a goal that check_goal() took.
  PrecisionTask(const QuantizeOptions& options, Recovery& recovery, Data& data, Host& host);

  // Chooses, prints what was tried (if `tells`), and returns it as precision_report() does, with {score, seconds,
  // resumed}. A wish out of reach is one warning. `bar`, which the recovery shows, is wiped behind the choice.
  format::Json run(bool tells, StageBar& bar, Host& host);

 private:
  std::string score_words(double score) const;
  std::string goal_line() const;
  std::string words_of(const PrecisionTrial& trial) const;
  std::string wish_words() const;
  PrecisionMeasures measures();
  void print(const PrecisionResult& result, Host& host) const;

  const QuantizeOptions& options_;
  Recovery& recovery_;
  Data& data_;
  Target target_;
  PrecisionWish wish_;
};

}  // namespace qdq
