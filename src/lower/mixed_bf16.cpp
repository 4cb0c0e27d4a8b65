#include "lower/mixed_bf16.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace qdq {
namespace {

using Kind = PlanStep::Kind;

class MixedBf16 {
 public:
  explicit MixedBf16(Plan& plan) : plan_(plan), readers_(plan.buffers.size()) {
    for (size_t s = 0; s < plan.steps.size(); ++s)
      for (size_t i = 0; i < plan.steps[s].inputs.size(); ++i) readers_[plan.steps[s].inputs[i]].push_back({s, i});
    for (const PlanBuffer& buffer : plan.buffers)
      if (buffer.location == PlanBuffer::Location::kView) readers_[buffer.base].push_back({kView, 0});
  }

  std::vector<size_t> run() {
    std::vector<size_t> moved;
    std::vector<PlanStep> steps = plan_.steps;
    for (PlanStep& step : steps) {
      for (const size_t input : step.inputs) follow_base(input);
      place(step);
      std::optional<PlanStep> behind;
      if (dtype(step.output) == DType::kBF16 && buffer(step.output).location == PlanBuffer::Location::kOutput)
        behind = widening(step);
      moved.push_back(steps_.size());
      steps_.push_back(std::move(step));
      if (behind) steps_.push_back(std::move(*behind));
    }
    for (size_t b = 0; b < plan_.buffers.size(); ++b) follow_base(b);
    plan_.steps = std::move(steps_);
    return moved;
  }

 private:
  static constexpr size_t kView = static_cast<size_t>(-1);
  struct Reader {
    size_t step, input;
  };

  PlanBuffer& buffer(size_t at) { return plan_.buffers[at]; }
  DType dtype(size_t at) const { return plan_.buffers[at].dtype; }
  void follow_base(size_t at) {
    if (buffer(at).location == PlanBuffer::Location::kView) buffer(at).dtype = dtype(buffer(at).base);
  }
  bool may_be_bf16(size_t output) const {
    return plan_.buffers[output].dtype == DType::kF32 && plan_.buffers[output].location == PlanBuffer::Location::kArena;
  }
  // The same of a step that computes: what leaves the plan is widened behind it.
  bool gives_float(size_t output) const {
    return may_be_bf16(output) || (plan_.buffers[output].dtype == DType::kF32 &&
                                   plan_.buffers[output].location == PlanBuffer::Location::kOutput);
  }

  // Whether autocast converts this operand of a step.
  static bool is_autocast(const PlanStep& step, size_t input) {
    if (step.kind() == Kind::kAttention) return true;
    return (step.kind() == Kind::kConvolution || step.kind() == Kind::kLinear) && has_float_weight(step) && input == 0;
  }
  // Whether nobody needs more of a buffer than its bf16.
  bool is_read_as_bf16(size_t at) const {
    return !readers_[at].empty() && std::all_of(readers_[at].begin(), readers_[at].end(), [&](const Reader& reader) {
      return reader.step != kView && is_autocast(plan_.steps[reader.step], reader.input);
    });
  }

  void place(PlanStep& step) {
    switch (step.kind()) {
      case Kind::kConvolution:
      case Kind::kLinear: return place_product(step);
      case Kind::kAttention:
        for (size_t& input : step.inputs) input = as(input, DType::kBF16);
        if (gives_float(step.output)) buffer(step.output).dtype = DType::kBF16;
        return;
      case Kind::kDynamicLinear:
      case Kind::kGroupLinear:
      case Kind::kDynamicConvolution:
      case Kind::kDynamicRound:
      case Kind::kPrelu: return read_all_as(step, DType::kF32);
      case Kind::kLayerNorm:
        if (step.as<PlanStep::LayerNorm>().roundings.any()) return read_all_as(step, DType::kF32);
        break;
      case Kind::kQuantize:
        if (step.activation.kind != Activation::Kind::kNone) read_all_as(step, DType::kF32);
        return;
      case Kind::kArrange:
      case Kind::kDequantize:
        // These convert anyway, and may as well do so to bf16.
        if (step.activation.kind == Activation::Kind::kNone) {
          if (may_be_bf16(step.output) && (dtype(step.inputs[0]) == DType::kBF16 || is_read_as_bf16(step.output)))
            buffer(step.output).dtype = DType::kBF16;
          return;
        }
        break;
      default: break;
    }
    const bool all =
        std::all_of(step.inputs.begin(), step.inputs.end(), [&](size_t input) { return dtype(input) == DType::kBF16; });
    if (all && gives_float(step.output)) buffer(step.output).dtype = DType::kBF16;
    else read_all_as(step, DType::kF32);
  }

  void place_product(PlanStep& step) {
    if (has_float_weight(step)) step.inputs[0] = as(step.inputs[0], DType::kBF16);
    if (dtype(step.output) != DType::kF32) return;
    Tensor& bias = step.weights()->bias;
    if (bias.defined()) bias = bias.to(DType::kBF16).to(DType::kF32);
    const bool has_residual = step.inputs.size() > 1;
    if (gives_float(step.output) && (!has_residual || dtype(step.inputs[1]) == DType::kBF16))
      buffer(step.output).dtype = DType::kBF16;
    else if (has_residual && dtype(step.inputs[1]) == DType::kBF16) step.inputs[1] = as(step.inputs[1], DType::kF32);
  }

  // The step that widens a bf16 which leaves the plan: its bytes there are f32.
  PlanStep widening(PlanStep& step) {
    PlanBuffer narrow = buffer(step.output);
    narrow.location = PlanBuffer::Location::kArena;
    buffer(step.output).dtype = DType::kF32;
    PlanStep out;
    out.form = PlanStep::Arrange{};
    out.name = narrow.name;
    out.inputs = {plan_.buffers.size()};
    out.output = std::exchange(step.output, plan_.buffers.size());
    plan_.buffers.push_back(std::move(narrow));
    return out;
  }

  void read_all_as(PlanStep& step, DType to) {
    for (size_t& input : step.inputs)
      if (dtype(input) != DType::kU8) input = as(input, to);
  }

  // The buffer itself, or a copy of it in the other float.
  size_t as(size_t at, DType to) {
    if (dtype(at) == to) return at;
    const auto [known, is_new] = copies_.emplace(at, plan_.buffers.size());
    if (!is_new) return known->second;
    PlanBuffer copy = buffer(at);
    copy.location = PlanBuffer::Location::kArena;
    copy.dtype = to;
    PlanStep step;
    step.form = PlanStep::Arrange{};
    step.name = copy.name;
    step.inputs = {at};
    step.output = plan_.buffers.size();
    plan_.buffers.push_back(std::move(copy));
    steps_.push_back(std::move(step));
    return known->second;
  }

  Plan& plan_;
  std::vector<std::vector<Reader>> readers_;  // of every old buffer
  std::vector<PlanStep> steps_;
  std::map<size_t, size_t> copies_;  // buffer -> the same in the other float; each is only ever wanted in one other
};

}  // namespace

std::vector<size_t> keep_floats_in_bf16(Plan& plan) { return MixedBf16(plan).run(); }

}  // namespace qdq
