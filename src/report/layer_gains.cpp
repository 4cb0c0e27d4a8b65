#include "report/layer_gains.h"

#include <map>
#include <optional>

#include "lower/lower.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Seconds of the steps of a lowered program.
class StepTimes {
 public:
  StepTimes(const Program& program, std::span<const Tensor> inputs) {
    constexpr int kWarm = 3;  // a session may be made anew for sizes that come again
    constexpr size_t kRepeats = 15;
    Session session = lower(program);
    for (int i = 0; i < kWarm; ++i) session.run(inputs);
    std::vector<Session::Timing> timings;
    session.run_repeated(inputs, kRepeats, timings);
    for (const Session::Timing& timing : timings) {
      seconds_[timing.name] += timing.seconds;
      kinds_[timing.name] = timing.what;
    }
    for (const Session::Placement& placement : session.placements())
      steps_[placement.node] = placement.step.empty() ? placement.node : placement.step;
  }

  double of_all() const {
    double out = 0;
    for (const auto& [name, seconds] : seconds_) out += seconds;
    return out;
  }
  // Of the step that a node is part of; nothing if none is.
  std::optional<double> of(const std::string& node) const {
    const auto step = steps_.find(node);
    const auto seconds = step == steps_.end() ? seconds_.end() : seconds_.find(step->second);
    return seconds == seconds_.end() ? std::nullopt : std::optional(seconds->second);
  }
  // The same if the step does nothing but quantize, else 0.
  double of_rounding(const Node& quantize) const {
    const auto step = steps_.find(quantize.name());
    const auto kind = step == steps_.end() ? kinds_.end() : kinds_.find(step->second);
    const bool is_alone = kind != kinds_.end() && (kind->second == "quantize" || kind->second == quantize.target());
    return is_alone ? of(quantize.name()).value_or(0) : 0;
  }

 private:
  std::map<std::string, double> seconds_;
  std::map<std::string, std::string> kinds_, steps_;
};

bool is_layer(const Node& node) {
  return is_a(node, Family::kConvolution) || is_a(node, Family::kTransposedConvolution) ||
         is_a(node, Family::kLinear) || is_a(node, Family::kMatmul);
}

}  // namespace

std::vector<LayerTimes> layer_times(const Program& original, const Program& converted, std::span<const Tensor> inputs) {
  const StepTimes floats(original, inputs), integers(converted, inputs);
  std::vector<LayerTimes> out;
  for (const Node* node : converted.graph->nodes()) {
    const Node* input = is_layer(*node) ? input_of(*node) : nullptr;
    if (input == nullptr || !is_a(*input, Family::kDequantize)) continue;
    const std::optional<double> before = floats.of(node->name()), after = integers.of(node->name());
    if (!before || !after) continue;
    const Node* quantize = input->arg(0).node();
    const double rounding = quantize == nullptr || quantize->op() != Node::Op::kCallFunction
                                ? 0
                                : integers.of_rounding(*quantize) / static_cast<double>(input->users().size());
    out.push_back({node->name(), *before, *after + rounding});
  }
  return out;
}

double seconds_of_steps(const Program& program, std::span<const Tensor> inputs) {
  return StepTimes(program, inputs).of_all();
}

}  // namespace qdq
