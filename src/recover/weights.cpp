// Scales of weights.
#include <algorithm>

#include "quant/observers/observer_statistics.h"
#include "quant/prepared_impl.h"
#include "recover/recovery.h"

namespace qdq {

int64_t free_weight_scales(Recovery& recovery) {
  Prepared& prepared = recovery.prepared();
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<std::pair<size_t, std::shared_ptr<Observer>>> original;
  const double before = recovery.decibels();
  for (size_t i = 0; i < impl.groups.size(); ++i) {
    const std::shared_ptr<Observer> observer = impl.groups[i].observer;
    if (!impl.takes_range(i) || impl.of_constants.count(observer.get()) == 0) continue;
    const auto eps = static_cast<float>(observer->args().eps);
    const std::vector<float> scales = observer->calculate_qparams().scale;
    if (std::none_of(scales.begin(), scales.end(), [&](float scale) { return scale <= eps; })) continue;
    prepared.set_range(i, observer->min_val(), observer->max_val());
    original.emplace_back(i, observer);
  }
  if (original.empty()) return 0;
  if (recovery.decibels() > before) return static_cast<int64_t>(original.size());
  for (const auto& [i, observer] : original) {
    impl.of_constants.erase(impl.groups[i].observer.get());
    impl.of_constants.insert(observer.get());
    impl.groups[i].observer = observer;
  }
  recovery.simulation().refresh();
  return 0;
}

}  // namespace qdq
