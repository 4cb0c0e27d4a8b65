// What outputs are worth, by a metric of qdq's own or by a command of the user's.
#pragma once

#include <string>

#include "cli/host.h"
#include "report/metrics.h"

namespace qdq {

// One metric is called by its name (report/metrics.h); everything else is a command of the shell, in which {outputs}
// stands for an .npz with the outputs of all samples (output_0, output_1, ... as `qdq run` writes them) and {labels}
// for the path of the labels. The number in the last line that it prints is the result; more is better.
class Measure {
 public:
  // `labels`: a path, or empty; of a metric of qdq's own the labels are read here, an .npy or .npz of integers. Throws
  // Error{kInvalidArgument} if there is no such metric, if it wants labels or cannot read them, or if a command has no
  // {outputs}.
  Measure(std::string metric, std::string labels, Host& host);

  // Throws Error{kInvalidArgument} if the shapes of the program's outputs tell that the metric cannot judge them.
  void check(const Program& program) const;

  bool is_more_better() const { return !known_ || known_->is_more_better; }
  // What samples() must hold.
  bool reads_reference() const { return known_ && known_->reads_reference && !(known_->reads_labels && has_labels()); }
  bool reads_inputs() const { return known_ && known_->reads_inputs && !has_labels(); }

  // `samples` without labels. Throws Error{kInvalidArgument} where the metric does, or if a command ends with another
  // status than 0 or prints no finite number in the end.
  double operator()(const Outputs& outputs, MetricSamples samples, Host& host) const;

 private:
  bool has_labels() const { return !labels_.empty(); }
  double by_command(const Outputs& outputs, Host& host) const;

  std::string metric_, labels_;
  const Metric* known_;
  Tensor read_labels_;  // of a metric of qdq's own; undefined: none
};

}  // namespace qdq
