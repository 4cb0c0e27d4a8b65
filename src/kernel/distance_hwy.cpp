// Distances in vectors that run along the results.
#include "kernel/distance.h"

#include <algorithm>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/distance_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of at most four rows; those that are missing are computed as the last one and not stored.
void distances(const float* x, int64_t rows, int64_t depth, const float* y, int64_t columns, int64_t stride,
               float* out) {
  constexpr int64_t kRows = 4;
  const hn::CappedTag<float, kDistanceColumns> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* row[kRows];
  for (int64_t r = 0; r < kRows; ++r) row[r] = x + std::min(r, rows - 1) * depth;
  for (int64_t c = 0; c < columns; c += lanes) {
    hn::Vec<decltype(d)> sums[kRows] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t i = 0; i < depth; ++i) {
      const auto v = hn::LoadU(d, y + i * stride + c);
      for (int64_t r = 0; r < kRows; ++r) {
        const auto way = hn::Sub(hn::Set(d, row[r][i]), v);
        sums[r] = hn::Add(sums[r], hn::Mul(way, way));
      }
    }
    for (int64_t r = 0; r < rows; ++r)
      hn::StoreN(sums[r], d, out + r * columns + c, static_cast<size_t>(std::min(lanes, columns - c)));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(distances);
}  // namespace

void squared_distances_f32(const float* x, int64_t rows, int64_t depth, const float* y, int64_t columns, int64_t stride,
                           float* out) {
  constexpr int64_t kTogether = 4;
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(kTogether * depth * columns, 1));
  parallel_for((rows + kTogether - 1) / kTogether, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin * kTogether; r < std::min(end * kTogether, rows); r += kTogether)
      HWY_DYNAMIC_DISPATCH(distances)
    (x + r * depth, std::min(kTogether, rows - r), depth, y, columns, stride, out + r * columns);
  });
}

}  // namespace qdq::kernel
#endif
