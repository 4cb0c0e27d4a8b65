#include "lower/backend/onednn_widened.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "kernel/half.h"

namespace qdq::onednn {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements

// From the first element to the last: a view has others between its own.
int64_t extent_of(const PlanBuffer& buffer) {
  const Shape strides = buffer.strides();
  int64_t last = 0;
  for (size_t axis = 0; axis < buffer.sizes.size(); ++axis) last += (buffer.sizes[axis] - 1) * strides[axis];
  return last + 1;
}

class WidenedStep : public CompiledStep {
 public:
  // What a buffer of the step in bf16 has: 0 for others.
  struct Elements {
    std::vector<int64_t> inputs;
    int64_t output = 0;
  };
  WidenedStep(std::unique_ptr<CompiledStep> step, Elements elements)
      : step_(std::move(step)), elements_(std::move(elements)) {}
  size_t scratch_bytes() const override {
    size_t bytes = floats_bytes(elements_.output);
    for (const int64_t count : elements_.inputs) bytes += floats_bytes(count);
    return bytes + step_->scratch_bytes();
  }
  std::string description() const override { return step_->description() + ", widened from bfloat16"; }
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
    std::vector<const std::byte*> operands(inputs.begin(), inputs.end());
    for (size_t i = 0; i < operands.size(); ++i) {
      const int64_t count = elements_.inputs[i];
      if (count == 0) continue;
      const auto* halves = reinterpret_cast<const BF16*>(inputs[i]);
      auto* floats = reinterpret_cast<float*>(std::exchange(scratch, scratch + floats_bytes(count)));
      parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
        kernel::floats_of_halves(halves + begin, end - begin, floats + begin);
      });
      operands[i] = reinterpret_cast<const std::byte*>(floats);
    }
    const int64_t count = elements_.output;
    if (count == 0) return step_->run(operands, output, scratch);
    std::byte* const result = std::exchange(scratch, scratch + floats_bytes(count));
    step_->run(operands, result, scratch);
    parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      kernel::halves_of_floats(reinterpret_cast<const float*>(result) + begin, end - begin,
                               reinterpret_cast<BF16*>(output) + begin);
    });
  }

 private:
  static size_t floats_bytes(int64_t count) { return aligned(static_cast<size_t>(count) * sizeof(float)); }
  std::unique_ptr<CompiledStep> step_;
  Elements elements_;
};

}  // namespace

bool is_in_bf16(const Plan& plan, const PlanStep& step) {
  const auto is_bf16 = [&](size_t buffer) { return plan.buffers[buffer].dtype == DType::kBF16; };
  return is_bf16(step.output) || std::any_of(step.inputs.begin(), step.inputs.end(), is_bf16);
}

Compiled widened(const Plan& plan, const PlanStep& step, const CompileStep& compile) {
  Plan floats;
  floats.buffers = plan.buffers;
  const auto widen = [&](size_t at) {
    PlanBuffer& buffer = floats.buffers[at];
    if (plan.buffers[at].dtype != DType::kBF16) return int64_t{0};
    buffer.dtype = DType::kF32;
    return extent_of(buffer);
  };
  WidenedStep::Elements elements;
  for (const size_t input : step.inputs) elements.inputs.push_back(widen(input));
  elements.output = widen(step.output);
  PlanStep in_floats = step;
  if (has_float_weight(step) && elements.inputs[0] > 0) {
    Tensor& weights = in_floats.weights()->values;
    weights = weights.to(DType::kBF16).to(DType::kF32).contiguous();
  }
  Compiled compiled = compile(floats, in_floats);
  if (compiled.index() == 1) return compiled;
  return std::make_unique<WidenedStep>(std::move(std::get<0>(compiled)), std::move(elements));
}

}  // namespace qdq::onednn
