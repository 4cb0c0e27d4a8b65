// A plan with its steps compiled, and the memory it runs in.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lower/step_backend.h"

namespace qdq {

// The arena and the scratch memory that the plans of one session share: they run one after the other.
class Workspace {
 public:
  std::byte* arena() { return arena_ == nullptr ? nullptr : arena_->data(); }
  std::byte* scratch() { return scratch_ == nullptr ? nullptr : scratch_->data(); }
  void reserve(uint64_t arena_bytes, uint64_t scratch_bytes);
  uint64_t bytes() const { return (arena_ ? arena_->size() : 0) + (scratch_ ? scratch_->size() : 0); }

 private:
  std::unique_ptr<Storage> arena_, scratch_;
};

class CompiledPlan {
 public:
  // Asks the backends in order for every step of a specialized plan; one of them must take everything.
  CompiledPlan(Plan plan, std::span<const std::shared_ptr<StepBackend>> backends, Workspace& workspace);

  // Who runs a step.
  struct StepPlacement {
    std::string backend, description;
    std::vector<std::pair<std::string, std::string>> refusals;  // (backend, reason)
  };
  const std::vector<StepPlacement>& placements() const { return placements_; }
  const Plan& plan() const { return plan_; }

  // Called before every step and after the last with the step's index.
  using StepHook = std::function<void(size_t step)>;
  // The outputs, as the plan's buffers say, for inputs as these say or with other strides (then copied). Throws
  // Error{kInternal} if an input has another dtype or shape.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const StepHook* hook = nullptr);
  // Executes each step `repeats` times in a row and appends the median of its seconds: the time of the bare kernel with
  // its data in the cache. Returns tensors like those of run(), whose values mean nothing: a step may have added to its
  // own result.
  std::vector<Tensor> run_repeated(std::span<const Tensor> inputs, size_t repeats, std::vector<double>& seconds);

 private:
  // Finds the addresses of all buffers for a run; inputs that had to be copied are kept in `copies`.
  std::vector<Tensor> bind(std::span<const Tensor> inputs, std::vector<Tensor>& copies);
  // Finds the address of a buffer of the arena, or of a view whose base has one.
  void place(size_t buffer);
  void place_in_arena();
  void run_step(size_t s);

  Plan plan_;
  Workspace* workspace_;
  std::vector<std::unique_ptr<CompiledStep>> steps_;
  std::vector<StepPlacement> placements_;
  std::vector<std::byte*> addresses_;  // of every buffer, in the current run
  std::vector<size_t> moving_;         // views of the caller's bytes, which every run brings anew
  std::byte* arena_ = nullptr;         // where the other buffers' addresses are
  bool is_placed_ = false;
  std::vector<const std::byte*> step_inputs_;  // of one step
};

}  // namespace qdq
