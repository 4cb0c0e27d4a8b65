// Models side by side on the same samples: how often they are right, how often they agree, how fast they are, and their
// answers, the worst first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/json_fwd.h"
#include "lower/lower.h"

namespace qdq {

// The number of classes of a program: the width of its first output if that is floats [N, classes] with a fixed width.
std::optional<int64_t> count_classes(const Program& program);

// A classifier's answer to one sample: at most five classes, best first; among equal scores the lower class comes
// first.
struct Answer {
  struct Choice {
    int64_t label;
    // of all classes' exp(score); the score itself where the scores of a sample are shares already (at least 0, sum 1)
    double share;
  };
  std::vector<Choice> top;
};

// Whether a model's output is that of a classifier: floats [N, classes].
bool is_classification(const Tensor& output);

// The answers of one model, sample by sample.
class Answers {
 public:
  // Takes the first output of a batch, floats [N, classes]. Throws Error{kInvalidArgument} naming `model` for outputs
  // of another kind.
  void add(const std::vector<Tensor>& outputs, const std::string& model);

  const std::vector<Answer>& all() const { return answers_; }
  // The percentage of samples whose label is among the first `k` choices. Throws Error{kInvalidArgument} if there are
  // fewer labels than samples.
  double top(size_t k, std::span<const int64_t> labels) const;
  // The percentage of samples whose two best scores are equal, so that the order of the classes decides. A quantized
  // model has few different scores, so its top-1 may differ by that much between two ways of running it.
  double ties() const;
  // The percentage of samples whose first choice is that of the other model.
  double agreement(const Answers& other) const;

 private:
  std::vector<Answer> answers_;
};

// What speaks against a float classifier's answers having to do with the samples, one sentence each without its
// subject. Of 16 samples or more: it gives all of them one class; it is right about as often as by chance; or, where
// `labels` is empty, it gives more than two thirds of them the same of 100 classes or more. Of 8 to 15: it is right
// about none. Mostly the preprocessing is not the model's.
std::vector<std::string> doubts_about(const Answers& answers, std::span<const int64_t> labels,
                                      std::optional<int64_t> classes);

// A float program beside its quantized form, each on the best backends of the build.
class Evaluation {
 public:
  // `labels`: the class of each sample in order; none if they are not known. Throws what lower() throws.
  Evaluation(const Program& float_program, const Program& quantized, std::vector<int64_t> labels = {});

  // Runs both on the inputs of one batch, whose first axis counts samples. Throws what Session::run throws, and
  // Error{kInvalidArgument} for a label that is no class of the model. The first output whose sizes do not depend on
  // what a run finds, as a number of boxes does, is compared.
  void add(const std::vector<Tensor>& inputs);

  // {"sqnr"?: dB of the outputs that are compared or null (no error), "speed": {"float", "int8", "batch"}:
  // milliseconds for a sample and the largest batch that was timed, and of classifiers "accuracy": {"agreement",
  // "samples", "top1"?: [float, int8], "top5"?: [float, int8]} in percent and "predictions": [{"sample", "label"?,
  // "float": [{"class", "share"}], "int8": [...], "moved"}]}, the `kept` worst samples: first those to which int8 and
  // float give different answers, then those whose scores moved most (sum (x - y)^2 / sum x^2). Only batches of a
  // size that came before are timed, since a session is compiled for each new size. If there are none, the first
  // batch is run once more. "warnings" are those of doubts_about() the float program, whole sentences. Throws
  // Error{kInvalidArgument} if there are labels, but not one for each sample.
  format::Json report(size_t kept = 24);

 private:
  struct Contender {
    Session session;
    Answers answers;
    double seconds = 0;
  };
  void check_labels(size_t begin, size_t end, int64_t classes) const;
  std::vector<Tensor> run(Contender& model, const std::vector<Tensor>& inputs, bool timed);

  Contender float_, int8_;
  std::vector<int64_t> labels_;
  std::optional<int64_t> classes_;
  std::optional<size_t> compared_;  // which output, not counting those of text; none: none compares
  std::vector<double> moved_;
  std::vector<Tensor> first_;  // the inputs of the first batch
  std::vector<Shape> met_;     // sizes of the first input that sessions are compiled for
  bool classifies_;
  int64_t samples_ = 0, timed_samples_ = 0, largest_timed_ = 0;
  double signal_ = 0, noise_ = 0;
};

}  // namespace qdq
