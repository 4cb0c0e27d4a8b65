// Sums and products of activations whose range explodes.

#include "base/stable_sort.h"
#include "base/undo.h"
#include "op/facts.h"
#include "quant/prepared_impl.h"
#include "quant/layers.h"
#include "recover/recovery.h"

namespace qdq {

namespace {

// In dB: less is not worth sums in float.
constexpr double kWorthFloats = 3;
// In dB: outputs that are as near are near enough.
constexpr double kNearEnough = 30;
// In dB: as much may be lost again by those that are rounded after all.
constexpr double kSpare = 0.5;

// Whether a layer that multiplies reads the value, perhaps through views and pools of its integers.
bool feeds_layer(const Node& value) {
  std::vector<const Node*> open = {&value};
  for (size_t i = 0; i < open.size(); ++i)
    for (const Node* user : open[i]->users()) {
      if (multiplies_tensors(*user)) return true;
      const OpDef* op = user->op() == Node::Op::kCallFunction ? op_of(*user) : nullptr;
      if (op != nullptr && op->keeps_numbers) open.push_back(user);
    }
  return false;
}

// The observers that no layer reads, and that may be taken out.
std::vector<Node*> observers_of_sums(Recovery& recovery) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  std::vector<Node*> nodes;
  for (Node* node : impl.program.graph->nodes()) {
    const auto group = impl.group_of_module(*node);
    if (!group || impl.of_constants.count(impl.groups[*group].observer.get()) != 0 || feeds_layer(*node)) continue;
    if (recovery.keeps_rounded(*node->arg(0).node())) continue;
    nodes.push_back(node);
  }
  return nodes;
}

// Puts the one first behind which channels lose most.
void sort_by_loss(Recovery& recovery, std::vector<Node*>& nodes) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  std::unordered_map<const Node*, OutputError> errors;
  for (const Node* node : nodes) errors[node];
  Simulation& simulation = recovery.simulation();
  simulation.refresh();
  Interpreter floats(impl.program, impl.backends);
  floats.set_module_handler([&](const Node& node, std::span<const Value> args, const kernel::MinMax*) {
    const auto error = errors.find(&node);
    const Tensor* x = args[0].get_if<Tensor>();
    if (error != errors.end() && x != nullptr && x->dtype() == DType::kF32 && x->numel() > 0)
      error->second.add({*x}, {simulation.rounded(*impl.group_of_module(node), *x)});
    return args[0];
  });
  constexpr int64_t kSamples = 16;
  for (const Batch* batch : recovery.some_batches(kSamples)) {
    recovery.tell_again();
    floats.run(*batch);
  }
  sort_stably(nodes, [&](const Node* a, const Node* b) { return errors[a].decibels() < errors[b].decibels(); });
}

}  // namespace

int64_t release_sums(Recovery& recovery) {
  recovery.set_rounding_to_few(false);
  const Undo round_weights([&] { recovery.set_rounding_to_few(true); });
  std::vector<Node*> nodes = observers_of_sums(recovery);
  if (nodes.empty()) return 0;
  constexpr int64_t kSamples = 32;
  const auto decibels_without = [&](size_t count) {
    const Undo forget([&] { recovery.forget_rounding(); });
    for (size_t i = 0; i < count; ++i) recovery.simulation().bypass(*nodes[i]);
    return recovery.decibels(kSamples);
  };
  const double before = recovery.decibels(kSamples);
  if (before > kNearEnough) return 0;
  const double most = decibels_without(nodes.size());
  if (!(most > before + kWorthFloats)) return 0;
  sort_by_loss(recovery, nodes);
  size_t few = 0, enough = nodes.size();
  while (few + 1 < enough) {
    const size_t middle = few + (enough - few) / 2;
    (decibels_without(middle) < most - kSpare ? few : enough) = middle;
  }
  const std::vector<Node*> released(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(enough));
  erase_observers(Prepared::Impl::of(recovery.prepared()), released, kLeftInFloat);
  recovery.forget_rounding();
  return static_cast<int64_t>(released.size());
}

}  // namespace qdq
