#include "lower/round_in_pools.h"

#include <limits>

namespace qdq {

std::vector<size_t> round_in_pools(Plan& plan) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> writer(plan.buffers.size(), kNone), readers(plan.buffers.size(), 0);
  for (const PlanBuffer& buffer : plan.buffers)
    if (buffer.location == PlanBuffer::Location::kView) ++readers[buffer.base];
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    writer[plan.steps[s].output] = s;
    for (const size_t input : plan.steps[s].inputs) ++readers[input];
  }
  std::vector<size_t> taken_by(plan.steps.size(), kNone);
  bool changes = false;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    PlanStep& pool = plan.steps[s];
    if (pool.kind() != PlanStep::Kind::kAveragePool) continue;
    const size_t rounded = pool.inputs[0], q = writer[rounded];
    if (q == kNone || plan.buffers[rounded].location != PlanBuffer::Location::kArena || readers[rounded] != 1) continue;
    const PlanStep& quantize = plan.steps[q];
    if (quantize.kind() != PlanStep::Kind::kQuantize || quantize.activation.kind != Activation::Kind::kNone) continue;
    const PlanBuffer& x = plan.buffers[quantize.inputs[0]];
    if (x.location == PlanBuffer::Location::kView || x.channels_last != plan.buffers[rounded].channels_last) continue;
    pool.as<PlanStep::AveragePool>().rounding = plan.buffers[rounded].qparams;
    pool.inputs[0] = quantize.inputs[0];
    taken_by[q] = s;
    changes = true;
  }
  if (!changes) return {};
  std::vector<PlanStep> steps;
  std::vector<size_t> place(plan.steps.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (taken_by[s] != kNone) continue;
    place[s] = steps.size();
    steps.push_back(std::move(plan.steps[s]));
  }
  for (size_t s = 0; s < place.size(); ++s)
    if (taken_by[s] != kNone) place[s] = place[taken_by[s]];
  plan.steps = std::move(steps);
  return place;
}

}  // namespace qdq
