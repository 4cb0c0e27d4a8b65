#include "exec/tail.h"

#include <algorithm>

#include "base/parallel.h"

namespace qdq {
namespace {

// Elements that all loops pass over before the next ones: two arrays of so many fit the first-level cache.
constexpr int64_t kBlock = int64_t{1} << 12;
// Blocks worth a thread.
constexpr int64_t kGrain = 16;

}  // namespace

bool Tail::begin(const Tensor& result, bool is_owned) {
  if (!is_owned || result.dtype() != DType::kF32 || !result.is_contiguous() || result.numel() == 0) return false;
  work_ = find_(result);
  if (!work_.wants_range && work_.loops.empty()) return false;
  result_ = result;
  if (work_.wants_range) range_ = kernel::min_max_f32(nullptr, 0);
  return true;
}

void Tail::written(int64_t begin, int64_t count) {
  kernel::MinMax range = kernel::min_max_f32(nullptr, 0);
  for (const int64_t end = begin + count; begin < end; begin += kBlock) {
    const int64_t block = std::min(kBlock, end - begin);
    for (const Loop& loop : work_.loops) loop(begin, block);
    if (range_) range = kernel::joined(range, kernel::min_max_f32(result_.data<float>() + begin, block));
  }
  if (!range_) return;
  std::lock_guard<std::mutex> lock(mutex_);
  range_ = kernel::joined(*range_, range);
}

void Tail::run(const Loop& head) {
  const int64_t numel = result_.numel();
  parallel_for((numel + kBlock - 1) / kBlock, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i * kBlock, count = std::min(kBlock, numel - begin);
      if (head) head(begin, count);
      written(begin, count);
    }
  });
}

}  // namespace qdq
