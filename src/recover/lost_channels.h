// Channels of outputs that vary in float and are one number in integers, such as scores that share a scale with boxes.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

// Adds up batch by batch. Channels are those of OutputError. A channel is lost if its float values span 0.05 or more,
// as scores do that say something, and all its quantized values are equal.
class LostChannels {
 public:
  struct Loss {
    size_t lost, channels, first;  // how many of how many, and the place of the first one
    float span;                    // the largest of theirs in float
  };

  // Takes outputs of equal sizes. Outputs that are no floats have no channels.
  void add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found);
  // Nothing if the output lost none, or all of its channels: then it is lost as a whole.
  std::optional<Loss> of(size_t output) const;

 private:
  struct Range {
    float low = std::numeric_limits<float>::infinity(), high = -std::numeric_limits<float>::infinity();
    void add(float value);
  };
  struct Channel {
    Range reference, found;
  };
  std::vector<std::vector<Channel>> outputs_;
};

}  // namespace qdq
