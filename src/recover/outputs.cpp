// What stands behind the last layers need not be rounded.
#include <unordered_set>

#include "base/undo.h"
#include "quant/prepared_impl.h"
#include "quant/layers.h"
#include "recover/recovery.h"

namespace qdq {

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
  Recovery::Errors after;
  {
    const Undo forget([&] { recovery.forget_rounding(); });
    for (const Node* node : behind) recovery.simulation().bypass(*node);
    if (!(recovery.decibels() > before)) return 0;
    after = recovery.errors();
  }
  erase_observers(impl, behind, kLeftInFloat);
  recovery.set_errors(std::move(after));
  return static_cast<int64_t>(behind.size());
}

}  // namespace qdq
