// A decoder's loops over one token for every vector width.
#include "kernel/attention.h"

#include <algorithm>
#include <limits>

#include "kernel/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/attention_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DA = hn::CappedTag<float, 16>;
using VA = hn::Vec<DA>;
constexpr int64_t kLanesA = static_cast<int64_t>(HWY_MAX_LANES_D(DA));
constexpr int64_t kStrandsA = 16;
constexpr int kVectorsA = static_cast<int>(kStrandsA / kLanesA);

// The sum of the strands, in the order of kernel/math.h.
HWY_INLINE float total_of(const VA (&strands)[kVectorsA]) {
  const DA d;
  float s[kStrandsA], lane[4];
  for (int j = 0; j < kVectorsA; ++j) hn::StoreU(strands[j], d, s + j * kLanesA);
  for (int i = 0; i < 4; ++i) lane[i] = (s[i] + s[8 + i]) + (s[4 + i] + s[12 + i]);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

HWY_INLINE float dot(const float* a, const float* b, int64_t n) {
  const DA d;
  VA strands[kVectorsA];
  for (int j = 0; j < kVectorsA; ++j) strands[j] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStrandsA <= n; i += kStrandsA)
    for (int j = 0; j < kVectorsA; ++j)
      strands[j] = hn::Add(strands[j], hn::Mul(hn::LoadU(d, a + i + j * kLanesA), hn::LoadU(d, b + i + j * kLanesA)));
  for (int j = 0; j < kVectorsA && i < n; ++j, i += kLanesA) {
    const size_t rest = static_cast<size_t>(std::min(n - i, kLanesA));
    strands[j] = hn::Add(strands[j], hn::Mul(hn::LoadN(d, a + i, rest), hn::LoadN(d, b + i, rest)));
  }
  return total_of(strands);
}

void scores_of(const float* query, const CacheRows& rows, int64_t end, float factor, const float* mask, float* scores) {
  for (int64_t s = 0; s < end; ++s) {
    const float score = dot(query, rows.keys + s * rows.key_stride, rows.depth) * factor;
    scores[s] = mask != nullptr ? score + mask[s] : score;
  }
}

// out[0 .. count * lanes) = sum_s weights[s] * values[s, ...]
template <int count>
HWY_INLINE void weighted(const float* weights, const float* values, int64_t stride, int64_t end, float* out) {
  const DA d;
  VA sums[count];
  for (int j = 0; j < count; ++j) sums[j] = hn::Zero(d);
  for (int64_t s = 0; s < end; ++s) {
    const VA weight = hn::Set(d, weights[s]);
    for (int j = 0; j < count; ++j)
      sums[j] = hn::Add(sums[j], hn::Mul(weight, hn::LoadU(d, values + s * stride + j * kLanesA)));
  }
  for (int j = 0; j < count; ++j) hn::StoreU(sums[j], d, out + j * kLanesA);
}

void weighted_sum(const float* weights, const CacheRows& rows, int64_t end, float* out) {
  const DA d;
  int64_t e = 0;
  for (; e + 4 * kLanesA <= rows.width; e += 4 * kLanesA)
    weighted<4>(weights, rows.values + e, rows.value_stride, end, out + e);
  for (; e + kLanesA <= rows.width; e += kLanesA)
    weighted<1>(weights, rows.values + e, rows.value_stride, end, out + e);
  if (e == rows.width) return;
  const size_t rest = static_cast<size_t>(rows.width - e);
  VA sum = hn::Zero(d);
  for (int64_t s = 0; s < end; ++s)
    sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[s]), hn::LoadN(d, rows.values + s * rows.value_stride + e, rest)));
  hn::StoreN(sum, d, out + e, rest);
}

void turn_halves(const float* x, const float* cos, const float* sin, int64_t width, float* out) {
  const DA d;
  const int64_t half = width / 2;
  const auto part = [&](int64_t i, size_t n) HWY_ATTR {
    const VA a = hn::LoadN(d, x + i, n), b = hn::LoadN(d, x + i + half, n);
    hn::StoreN(hn::Sub(hn::Mul(a, hn::LoadN(d, cos + i, n)), hn::Mul(b, hn::LoadN(d, sin + i, n))), d, out + i, n);
    hn::StoreN(hn::Add(hn::Mul(b, hn::LoadN(d, cos + half + i, n)), hn::Mul(a, hn::LoadN(d, sin + half + i, n))), d,
               out + half + i, n);
  };
  for (int64_t i = 0; i < half; i += kLanesA) part(i, static_cast<size_t>(std::min(half - i, kLanesA)));
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
HWY_EXPORT(scores_of);
HWY_EXPORT(weighted_sum);
HWY_EXPORT(turn_halves);

void attend_f32(const float* query, const CacheRows& rows, float factor, const float* mask, float* scores, float* out) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  int64_t end = rows.count;
  while (mask != nullptr && end > 0 && mask[end - 1] == kHidden) --end;
  if (end == 0) {
    std::fill_n(out, rows.width, 0.0f);
    return;
  }
  HWY_DYNAMIC_DISPATCH(scores_of)(query, rows, end, factor, mask, scores);
  softmax_f32(scores, 1, end, scores);
  HWY_DYNAMIC_DISPATCH(weighted_sum)(scores, rows, end, out);
}

void rotate_halves_f32(const float* x, const float* cos, const float* sin, int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(turn_halves)(x, cos, sin, width, out);
}

}  // namespace qdq::kernel
#endif
