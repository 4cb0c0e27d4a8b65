// Sorts by one loop for all callers, since every kind of std::sort adds 2 to 4 kB to a WASM module. It is for lists of
// parts of a model; the numbers of tensors are sorted in place by std::sort.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace qdq {

// The positions 0, 1, ..., count - 1 in ascending order, equal ones as they are. `is_before` gets `items` and two
// positions.
std::vector<size_t> stable_order(size_t count, const void* items, bool (*is_before)(const void*, size_t, size_t));

// std::stable_sort of a vector or a string.
template <class Items, class Less = std::less<>> void sort_stably(Items& items, const Less& less = {}) {
  if (items.size() < 2) return;
  const std::pair<const Items&, const Less&> both(items, less);
  const std::vector<size_t> order = stable_order(items.size(), &both, [](const void* pair, size_t a, size_t b) {
    const auto& [all, is_less] = *static_cast<const std::pair<const Items&, const Less&>*>(pair);
    return is_less(all[a], all[b]);
  });
  Items sorted;
  for (const size_t i : order) sorted.push_back(std::move(items[i]));
  items = std::move(sorted);
}

}  // namespace qdq
