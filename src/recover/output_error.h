// How far the outputs of a quantized program are from the float ones, as one number.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

// An output as [outer, channels, inner]. Channels are what lies along the last axis of an output of three axes
// [N, A, C], along axis 1 of one with more, and all elements together of others.
struct ChannelExtents {
  int64_t outer = 1, channels = 1, inner = 1;
};
ChannelExtents channels_of_output(const Shape& sizes);

// Adds up batch by batch. Every float output counts the same, and within an output every channel: boxes do not hide
// what happens to the scores beside them.
class OutputError {
 public:
  // Throws Error{kInvalidArgument} if the outputs do not have the same number and sizes.
  void add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found);
  // What the other one added up, as if it had been added here: the order of batches is that of the sums.
  void add(const OutputError& other);
  // 10 log10 of signal over noise, where the quotient of noise and signal is the mean of those of all outputs, and of
  // an output that of its channels (1 + log of it where it is above 1). The signal is the sum of squares around the
  // channel's mean and 1 % of the mean signal of the output's channels, so that what hardly ever speaks (a class that
  // no sample has) counts less. 200 where nothing differs.
  double decibels() const;
  double decibels(size_t output) const;  // of one output
  // Rows of the first output, if it is [N, C] with C > 1, and those of them whose largest element is another one.
  int64_t answers() const { return answers_; }
  int64_t other_answers() const { return other_answers_; }

 private:
  struct Sums {
    double count = 0, sum = 0, squares = 0, noise = 0;
  };
  static std::optional<double> share_of(const std::vector<Sums>& sums);
  std::vector<std::vector<Sums>> outputs_;  // by output and channel
  int64_t answers_ = 0, other_answers_ = 0;
};

}  // namespace qdq
