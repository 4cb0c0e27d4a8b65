// Layer norms with roundings; vectors run along the columns of a row.
#include "kernel/rounded_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernel/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/rounded_norm_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

// A float below 2^22 plus this shows no digits behind the binary point.
constexpr float kWholeNumbers = 12582912.0f;

struct Rounder {
  bool rounds;
  V inverse, scale, low, high;
  HWY_INLINE explicit Rounder(const RealRounding& to)
      : rounds(to.rounds), inverse(hn::Set(D(), to.inverse_scale)), scale(hn::Set(D(), to.scale)),
        low(hn::Set(D(), to.low)), high(hn::Set(D(), to.high)) {}
  HWY_INLINE V operator()(V x) const {
    if (!rounds) return x;
    const V steps = hn::Mul(x, inverse), whole = hn::Set(D(), kWholeNumbers);
    const V bounded = hn::IfThenElse(hn::Gt(steps, low), hn::Min(steps, high), low);  // NaN: low
    return hn::Mul(hn::Sub(hn::Add(bounded, whole), whole), scale);
  }
};

float round_one(const RealRounding& to, float x) { return hn::GetLane(Rounder(to)(hn::Set(D(), x))); }

template <class F> HWY_INLINE void for_vectors(int64_t n, F&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t i = 0; i < n; i += lanes) f(i, static_cast<size_t>(std::min(lanes, n - i)));
}

// out = x - mean, and its squares.
void center_row(const float* x, int64_t n, float mean, float* squares, float* out) {
  const V by = hn::Set(D(), mean);
  for_vectors(n, [&](int64_t i, size_t count) HWY_ATTR {
    const V centered = hn::Sub(hn::LoadN(D(), x + i, count), by);
    hn::StoreN(centered, D(), out + i, count);
    hn::StoreN(hn::Mul(centered, centered), D(), squares + i, count);
  });
}

void finish_row(int64_t n, float root, const RoundedNorm& norm, float* out) {
  const V by = hn::Set(D(), root);
  const Rounder normalized(norm.normalized), scaled(norm.scaled);
  for_vectors(n, [&](int64_t i, size_t count) HWY_ATTR {
    V y = normalized(hn::Div(hn::LoadN(D(), out + i, count), by));
    if (norm.gamma != nullptr) y = scaled(hn::Mul(y, hn::LoadN(D(), norm.gamma + i, count)));
    if (norm.beta != nullptr) y = hn::Add(y, hn::LoadN(D(), norm.beta + i, count));
    hn::StoreN(y, D(), out + i, count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(round_one);
HWY_EXPORT(center_row);
HWY_EXPORT(finish_row);
}  // namespace

void rounded_layer_norm_f32(const float* x, int64_t rows, int64_t columns, const RoundedNorm& norm, float* out) {
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(columns, 1));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    const auto round = QDQ_CHOSEN(round_one);
    const auto center = QDQ_CHOSEN(center_row);
    const auto finish = QDQ_CHOSEN(finish_row);
    std::vector<float> squares(static_cast<size_t>(columns));
    const float count = static_cast<float>(columns);
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row * columns;
      float* to = out + row * columns;
      const float mean = round(norm.mean, sum_f32(from, columns) / count);
      center(from, columns, mean, squares.data(), to);
      const float variance = round(norm.variance, sum_f32(squares.data(), columns) / count);
      finish(columns, std::sqrt(round(norm.shifted, variance + norm.epsilon)), norm, to);
    }
  });
}

}  // namespace qdq::kernel
#endif
