// The samples of a training: all in memory, taken in an order that changes from epoch to epoch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/host.h"
#include "data/data.h"

namespace qdq {

class TrainingSamples {
 public:
  // `labels`: the class of each sample, or nothing. Reads all of the data.
  TrainingSamples(Data& data, const std::vector<int64_t>& labels, Host& host);

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  // Batches of an epoch; samples that do not fill one wait for another epoch's order.
  int64_t num_batches() const { return std::max<int64_t>(1, size() / batch_size_); }
  struct Batch {
    std::vector<int64_t> samples;  // their places in the data
    std::vector<Tensor> inputs;
    Tensor target;  // undefined without labels
  };
  Batch batch(int64_t index) const;
  // A new order (Fisher and Yates), which the state of a 64-bit congruential generator gives: the state becomes
  // 6364136223846793005 state + 1442695040888963407, and its upper 31 bits modulo the places left choose one.
  void shuffle(uint64_t& state);
  // A hash of all samples and labels.
  std::string fingerprint() const;
  // The order: places in the data.
  const std::vector<int64_t>& order() const { return order_; }
  // Throws Error{kInvalidArgument} if it is no order of these samples.
  void set_order(std::vector<int64_t> order);

 private:
  std::vector<Tensor> inputs_;
  Tensor labels_;
  std::vector<int64_t> order_;
  int64_t batch_size_ = 1;
};

}  // namespace qdq
