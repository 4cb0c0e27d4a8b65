// How far the outputs of a quantized program are from the float ones, as one number.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace qdq {

// Adds up batch by batch. Every float output counts the same, and within an output every channel: boxes do not hide
// what happens to the scores beside them. Channels are what lies along the last axis of an output of three axes
// [N, A, C], along axis 1 of one with more, and all elements together of others.
class OutputError {
 public:
  // Throws Error{kInvalidArgument} if the outputs do not have the same number and sizes.
  void add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found);
  // 10 log10 of signal over noise, the mean over channels of min(1, noise / signal) taken for their quotient; the
  // signal is the sum of squares around the channel's mean. 200 where nothing differs.
  double decibels() const;

 private:
  struct Sums {
    double count = 0, sum = 0, squares = 0, noise = 0;
  };
  std::vector<std::vector<Sums>> outputs_;  // by output and channel
};

}  // namespace qdq
