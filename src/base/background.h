// Work done ahead, by threads that have nothing else to do.
#pragma once

#include <functional>
#include <memory>

namespace qdq {

// A task for the workers of parallel_for, which begin tasks in the order of their creation while no parallel_for or
// parallel_team needs them. If no worker has begun the task when its result is needed, the caller does it; this is
// always so with one thread and in builds without threads.
class Background {
 public:
  explicit Background(std::function<void()> task);
  // Cancels the task if no worker has begun it, and waits for a worker that has.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Returns once the task is done. Rethrows what it threw. May be called once, outside of tasks.
  void finish();

  struct Offer;  // what parallel.cpp makes of the task

 private:
  std::shared_ptr<Offer> offer_;
};

}  // namespace qdq
