// What stands behind the last layers need not be rounded.
#include <unordered_set>

#include "op/facts.h"
#include "quant/prepared_impl.h"
#include "recover/recovery.h"

namespace qdq {

namespace {

// Whether integers make the operator faster by much: it multiplies.
bool multiplies_tensors(const Node& node) {
  for (const Family family : {Family::kConvolution, Family::kTransposedConvolution, Family::kLinear, Family::kMatmul,
                              Family::kAttention, Family::kRecurrent, Family::kEmbedding, Family::kControlFlow})
    if (is_a(node, family)) return true;
  return false;
}

}  // namespace

int64_t release_outputs(Recovery& recovery) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  const std::vector<Node*> nodes = impl.program.graph->nodes();
  std::unordered_set<const Node*> before_layers;
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at)
    for (const Node* user : (*at)->users())
      if (multiplies_tensors(*user) || before_layers.count(user) != 0) before_layers.insert(*at);
  std::vector<Node*> behind;
  for (Node* node : nodes)
    if (const auto group = impl.group_of_module(*node);
        group && before_layers.count(node) == 0 && impl.of_constants.count(impl.groups[*group].observer.get()) == 0)
      behind.push_back(node);
  if (behind.empty()) return 0;
  recovery.set_rounding_to_few(false);
  const Undo round_weights([&] { recovery.set_rounding_to_few(true); });
  const double before = recovery.decibels();
  const Undo forget([&] { recovery.forget_simulation(); });
  for (const Node* node : behind) recovery.simulation().bypass(*node);
  if (!(recovery.decibels() > before)) return 0;
  for (Node* node : behind) {
    std::erase(impl.groups[*impl.group_of_module(*node)].inserted_as, node->name());
    impl.modules.erase(node->target());
    node->replace_all_uses_with(node->arg(0).node());
    impl.program.graph->erase(node);
  }
  impl.interpreter.reset();
  return static_cast<int64_t>(behind.size());
}

}  // namespace qdq
