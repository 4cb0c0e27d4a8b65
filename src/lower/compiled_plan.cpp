#include "lower/compiled_plan.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>

#include "base/memory.h"

namespace qdq {
namespace {

std::unique_ptr<Storage> storage_of(uint64_t bytes) {
  QDQ_CHECK(bytes <= std::numeric_limits<size_t>::max(), kOutOfMemory, "a plan needs ", bytes,
            " bytes, which this build cannot address");
  return std::make_unique<Storage>(static_cast<size_t>(bytes));
}

// Where the tensor's bytes lie as the buffer wants them: there, or in a copy that goes to `copies`. The bytes of int8
// are taken as they are (PlanBuilder::hold_given_integers).
std::byte* arranged(const Tensor& given, const PlanBuffer& buffer, std::vector<Tensor>& copies) {
  const bool are_bytes = given.dtype() == DType::kS8 && buffer.dtype == DType::kU8;
  QDQ_CHECK((given.dtype() == buffer.dtype || are_bytes) && given.sizes() == buffer.sizes, kInternal, "a plan got ",
            to_string(given.dtype()), to_string(given.sizes()), " for ", buffer.name, ", which is ",
            to_string(buffer.dtype), to_string(buffer.sizes));
  const Shape strides = buffer.strides();
  bool fits = true;
  for (size_t axis = 0; axis < strides.size(); ++axis)
    fits = fits && (buffer.sizes[axis] == 1 || given.strides()[axis] == strides[axis]);
  if (fits) return given.raw();
  copies.push_back(Tensor::empty({given.numel()}, given.dtype()).as_strided(buffer.sizes, strides, 0));
  copies.back().copy_from(given);
  return copies.back().raw();
}

// The buffer whose bytes a view shows, or the buffer itself.
size_t root_of(const Plan& plan, size_t buffer) {
  while (plan.buffers[buffer].location == PlanBuffer::Location::kView) buffer = plan.buffers[buffer].base;
  return buffer;
}

// Sizes that were open when the graph was read may not fit together in a run.
void check_joined(const Plan& plan, const PlanStep& step) {
  const PlanBuffer& out = plan.buffers[step.output];
  const auto axis = static_cast<size_t>(step.as<PlanStep::Concat>().axis);
  int64_t joined = 0;
  for (const size_t input : step.inputs) {
    Shape sizes = plan.buffers[input].sizes;
    bool fits = sizes.size() == out.sizes.size();
    if (fits) {
      joined += sizes[axis];
      sizes[axis] = out.sizes[axis];
      fits = sizes == out.sizes;
    }
    QDQ_CHECK(fits, kInvalidArgument, step.name, " joins a tensor of shape ", to_string(plan.buffers[input].sizes),
              " to one of ", to_string(out.sizes), " along axis ", axis);
  }
  QDQ_CHECK(joined == out.sizes[axis], kInvalidArgument, step.name, " joins ", joined, " elements along axis ", axis,
            ", wanted ", out.sizes[axis]);
}

}  // namespace

void Workspace::reserve(uint64_t arena_bytes, uint64_t scratch_bytes) {
  if (arena_bytes > 0 && (arena_ == nullptr || arena_->size() < arena_bytes)) arena_ = storage_of(arena_bytes);
  if (scratch_bytes > 0 && (scratch_ == nullptr || scratch_->size() < scratch_bytes))
    scratch_ = storage_of(scratch_bytes);
}

CompiledPlan::CompiledPlan(Plan plan, std::span<const std::shared_ptr<StepBackend>> backends, Workspace& workspace)
    : plan_(std::move(plan)), workspace_(&workspace), addresses_(plan_.buffers.size(), nullptr) {
  check_memory(plan_.arena_bytes, "a run of the program");
  uint64_t scratch_bytes = 0;
  for (const PlanStep& step : plan_.steps) {
    if (step.kind() == PlanStep::Kind::kConcat) check_joined(plan_, step);
    StepPlacement placement;
    std::unique_ptr<CompiledStep> compiled;
    for (const auto& backend : backends) {
      auto outcome = backend->compile(plan_, step);
      if (auto* taken = std::get_if<std::unique_ptr<CompiledStep>>(&outcome)) {
        compiled = std::move(*taken);
        placement.backend = backend->name();
        placement.description = compiled->description();
        break;
      }
      placement.refusals.emplace_back(backend->name(), std::move(std::get<std::string>(outcome)));
    }
    QDQ_CHECK(compiled != nullptr, kInternal, "no backend takes the step ", to_string(step.kind()), " of ", step.name);
    scratch_bytes = std::max<uint64_t>(scratch_bytes, compiled->scratch_bytes());
    steps_.push_back(std::move(compiled));
    placements_.push_back(std::move(placement));
  }
  workspace.reserve(plan_.arena_bytes, scratch_bytes);
  for (size_t b = 0; b < plan_.buffers.size(); ++b)
    if (plan_.buffers[b].location == PlanBuffer::Location::kView &&
        plan_.buffers[root_of(plan_, b)].location != PlanBuffer::Location::kArena)
      moving_.push_back(b);
}

std::vector<Tensor> CompiledPlan::bind(std::span<const Tensor> inputs, std::vector<Tensor>& copies) {
  std::vector<Tensor> outputs;
  outputs.reserve(plan_.outputs.size());
  for (size_t i = 0; i < plan_.inputs.size(); ++i)
    addresses_[plan_.inputs[i]] = arranged(inputs[i], plan_.buffers[plan_.inputs[i]], copies);
  for (const size_t output : plan_.outputs) {
    const PlanBuffer& buffer = plan_.buffers[output];
    outputs.push_back(
        Tensor::empty({numel_of(buffer.sizes)}, buffer.dtype).as_strided(buffer.sizes, buffer.strides(), 0));
    addresses_[output] = outputs.back().raw();
  }
  // Another plan of the session may have made the arena larger.
  if (!is_placed_ || arena_ != workspace_->arena()) place_in_arena();
  for (const size_t view : moving_) place(view);
  return outputs;
}

void CompiledPlan::place(size_t buffer) {
  const PlanBuffer& placed = plan_.buffers[buffer];
  if (placed.location == PlanBuffer::Location::kArena) addresses_[buffer] = arena_ + placed.offset;
  else if (placed.location == PlanBuffer::Location::kView)
    addresses_[buffer] = addresses_[placed.base] + placed.view_offset * static_cast<int64_t>(size_of(placed.dtype));
}

void CompiledPlan::place_in_arena() {
  arena_ = workspace_->arena();
  is_placed_ = true;
  for (size_t b = 0; b < plan_.buffers.size(); ++b) place(b);
}

void CompiledPlan::run_step(size_t s) {
  step_inputs_.clear();
  for (const size_t input : plan_.steps[s].inputs) step_inputs_.push_back(addresses_[input]);
  steps_[s]->run(step_inputs_, addresses_[plan_.steps[s].output], workspace_->scratch());
}

std::vector<Tensor> CompiledPlan::run(std::span<const Tensor> inputs, const StepHook* hook) {
  std::vector<Tensor> copies, outputs = bind(inputs, copies);
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (hook != nullptr) (*hook)(s);
    run_step(s);
  }
  if (hook != nullptr) (*hook)(steps_.size());
  return outputs;
}

std::vector<Tensor> CompiledPlan::run_repeated(std::span<const Tensor> inputs, size_t repeats,
                                               std::vector<double>& seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<Tensor> copies, outputs = bind(inputs, copies);
  std::vector<double> times(repeats);
  for (size_t s = 0; s < steps_.size(); ++s) {
    run_step(s);
    for (double& time : times) {
      const Clock::time_point began = Clock::now();
      run_step(s);
      time = std::chrono::duration<double>(Clock::now() - began).count();
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(repeats / 2), times.end());
    seconds.push_back(times[repeats / 2]);
  }
  return outputs;
}

}  // namespace qdq
