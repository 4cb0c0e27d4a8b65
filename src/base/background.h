// Work ahead: what will be needed soon, done by threads that have nothing else to do.
#pragma once

#include <functional>
#include <memory>

namespace qdq {

// A task that is offered to the workers of parallel_for, which take tasks in the order of their offers while no
// parallel_for or parallel_team wants them. One that nobody has begun when it is needed the caller does itself: so it
// is with one thread, and in builds without threads.
class Background {
 public:
  explicit Background(std::function<void()> task);
  // Nobody begins the task any more; a worker that is at it is waited for.
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
