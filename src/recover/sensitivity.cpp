#include "recover/sensitivity.h"
#include "graph/shown_module.h"

#include <algorithm>

#include "op/facts.h"
#include "quant/prepared_impl.h"

namespace qdq {

namespace {

// An operator with rounded inputs, and the errors so far.
struct Suspect {
  const Node *in_exact, *in_rounded;
  OutputError own, alone, without;
};

std::vector<Tensor> finish(Interpreter::Walk walk, const Node& node, const Value& value) {
  walk.advance();
  walk.set_value(node, value);
  while (walk.next() != nullptr) walk.advance();
  return walk.outputs();
}

// The inputs of the node that are rounded, each with what `other` gives for it.
template <class Other>
std::vector<std::pair<const Node*, Value>> rounded_inputs(const Simulation& simulation, const Node& node,
                                                          Other&& other) {
  std::vector<std::pair<const Node*, Value>> out;
  for (const Node* input : node.input_nodes())
    if (const auto observer = simulation.observer_behind(*input)) {
      Tensor value = other(*input, *observer);
      if (value.defined()) out.emplace_back(input, std::move(value));
    }
  return out;
}

bool gives_floats(const Value& value) {
  const Tensor* tensor = value.get_if<Tensor>();
  return tensor != nullptr && is_floating(tensor->dtype());
}

}  // namespace

std::vector<Sensitivity> sensitivities(Recovery& recovery, double* all) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  Simulation exact(recovery.prepared()), rounding(recovery.prepared());
  for (size_t i = 0; i < impl.groups.size(); ++i) exact.set_rounding(i, false);
  rounding.keep_unrounded();
  std::vector<Suspect> suspects;
  std::vector<const Node*> nodes;
  for (const Node* node : impl.program.graph->nodes()) {
    const Node *in_exact = exact.node(*node), *in_rounded = rounding.node(*node);
    if (node->op() != Node::Op::kCallFunction || in_exact == nullptr || in_rounded == nullptr) continue;
    const std::vector<Node*> inputs = in_rounded->input_nodes();
    if (std::none_of(inputs.begin(), inputs.end(),
                     [&](const Node* input) { return rounding.observer_behind(*input).has_value(); }))
      continue;
    suspects.push_back({in_exact, in_rounded, {}, {}, {}});
    nodes.push_back(node);
  }
  if (suspects.empty()) return {};

  constexpr int64_t kRuns = 20, kFewest = 4;
  const int64_t samples = recovery.num_samples();
  const auto count = static_cast<int64_t>(suspects.size());
  OutputError together;
  double done = 0;
  const std::vector<const Batch*> batches =
      recovery.some_batches(std::max(kFewest, std::min(samples, samples * kRuns / count)));
  for (const Batch* batch : batches) {
    const std::vector<Tensor> wanted = recovery.judged(exact.run(*batch));
    together.add(wanted, recovery.judged(rounding.run(*batch)));
    Interpreter::Walk floats = exact.walk(*batch), integers = rounding.walk(*batch);
    for (Suspect& suspect : suspects) {
      recovery.tell("sensitivity", done++ / static_cast<double>(count) / static_cast<double>(batches.size()));
      while (floats.next() != suspect.in_exact) floats.advance();
      while (integers.next() != suspect.in_rounded) integers.advance();
      const Value plain = floats.result_with({});
      if (!gives_floats(plain)) continue;
      const Value value =
          floats.result_with(rounded_inputs(exact, *suspect.in_exact, [&](const Node& input, size_t observer) {
            const Tensor* x = floats.value(input).get_if<Tensor>();
            return x != nullptr && is_floating(x->dtype()) ? rounding.rounded(observer, *x) : Tensor();
          }));
      suspect.own.add({*plain.get_if<Tensor>()}, {*value.get_if<Tensor>()});
      suspect.alone.add(wanted, recovery.judged(finish(floats.clone(), *suspect.in_exact, value)));
      const Value unrounded = integers.result_with(rounded_inputs(
          rounding, *suspect.in_rounded, [&](const Node& input, size_t) { return rounding.unrounded(input); }));
      suspect.without.add(wanted, recovery.judged(finish(integers.clone(), *suspect.in_rounded, unrounded)));
    }
  }
  if (all != nullptr) *all = together.decibels();
  std::vector<Sensitivity> out;
  for (size_t i = 0; i < suspects.size(); ++i)
    out.push_back({nodes[i]->name(), shown_module(nodes[i]->meta).value_or(""),
                   std::string(short_name(nodes[i]->target())), suspects[i].own.decibels(),
                   suspects[i].alone.decibels(), suspects[i].without.decibels()});
  return out;
}

}  // namespace qdq
