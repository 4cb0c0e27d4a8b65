// Scales of weights.
#include <algorithm>

#include "base/undo.h"
#include "quant/prepared_impl.h"
#include "recover/recovery.h"

namespace qdq {

int64_t free_weight_scales(Recovery& recovery) {
  Prepared& prepared = recovery.prepared();
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<std::pair<size_t, std::shared_ptr<Observer>>> original;
  std::unordered_set<const Observer*> of_constants = impl.of_constants;
  Undo undo([&] {
    for (const auto& [i, observer] : original) impl.groups[i].observer = observer;
    impl.of_constants.swap(of_constants);
  });
  constexpr int64_t kSamples = 32;
  const double before = recovery.decibels(), of_some = recovery.decibels(kSamples);
  for (size_t i = 0; i < impl.groups.size(); ++i) {
    const std::shared_ptr<Observer> observer = impl.groups[i].observer;
    if (!impl.takes_range(i) || impl.of_constants.count(observer.get()) == 0) continue;
    const auto eps = static_cast<float>(observer->args().eps);
    const std::vector<float> scales = observer->calculate_qparams().scale;
    if (std::none_of(scales.begin(), scales.end(), [&](float scale) { return scale <= eps; })) continue;
    original.emplace_back(i, observer);
    prepared.set_range(i, observer->min_val(), observer->max_val());
  }
  if (original.empty()) return 0;
  // Where some samples lose, the others need not run.
  if (!(recovery.decibels(kSamples) > of_some) || !(recovery.decibels() > before)) return 0;
  undo.keep();
  return static_cast<int64_t>(original.size());
}

}  // namespace qdq
