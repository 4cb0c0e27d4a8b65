// Elementwise operators behind another operator, run on each stretch of its result while the caches hold it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "kernel/observe.h"
#include "tensor/tensor.h"

namespace qdq {

// An activation of a batch is larger than the caches, and a pass over it for each of relu, add and an observer's range
// would read and write all of it in memory. The operator at the head tells here what its result is, before it is
// written, and then each stretch of it that is complete; the loops of the operators behind it go over the stretch in
// place, and its range is taken.
class Tail {
 public:
  // Computes elements [begin, begin + count) of a result from elements at the same places. Called from several threads.
  using Loop = std::function<void(int64_t begin, int64_t count)>;
  struct Work {
    std::vector<Loop> loops;  // each writes over the result, in this order
    bool wants_range = false;
  };

  // `find` tells what is to be done to a result; it is called at most once.
  explicit Tail(std::function<Work(const Tensor& result)> find) : find_(std::move(find)) {}

  // Takes the result, of which nothing need be written yet. Returns false if there is nothing to do, and then nothing
  // more is to be told: also for a result that is not contiguous f32 or that others see (`is_owned` is false), which no
  // operator behind may write over.
  bool begin(const Tensor& result, bool is_owned);
  // The elements [begin, begin + count) of the result are written. The stretches cover it without overlap. From any
  // thread.
  void written(int64_t begin, int64_t count);
  // The whole result block by block: `head`, if there is one, then what is behind it. Divides the blocks among the
  // threads.
  void run(const Loop& head = {});

  // After all is written: how many loops ran, and the range of the result behind them, if it was wanted. Nothing before
  // `begin` was true.
  size_t length() const { return work_.loops.size(); }
  const std::optional<kernel::MinMax>& range() const { return range_; }

 private:
  std::function<Work(const Tensor& result)> find_;
  Work work_;
  Tensor result_;
  std::mutex mutex_;  // of range_
  std::optional<kernel::MinMax> range_;
};

}  // namespace qdq
