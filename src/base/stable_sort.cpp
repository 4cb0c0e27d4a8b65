#include "base/stable_sort.h"

#include <algorithm>
#include <numeric>

namespace qdq {

std::vector<size_t> stable_order(size_t count, const void* items, bool (*is_before)(const void*, size_t, size_t)) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return is_before(items, a, b); });
  return order;
}

}  // namespace qdq
