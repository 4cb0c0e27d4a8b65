// Resizing: four rows at a time, which are summed along the height, turned so that they lie side by side, summed along
// the width, and turned back. So any number of taps takes vectors, and no element is gathered.
#include "kernel/resample.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernel/panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/resample_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kTogether = 4;
using D4 = hn::FixedTag<float, kTogether>;

// Output i of the rows of a plane, `n` elements each.
void sum_rows(const float* plane, int64_t n, const Taps& rows, int64_t i, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t begin = rows.first[i], end = rows.first[i + 1];
  const auto at = [&](int64_t x, auto&& load) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t t = begin; t < end; ++t) {
      const auto product = hn::Mul(load(plane + rows.index[t] * n + x), hn::Set(d, rows.weight[t]));
      sum = t == begin ? product : hn::Add(sum, product);
    }
    return sum;
  };
  int64_t x = 0;
  for (; x + lanes <= n; x += lanes)
    hn::StoreU(at(x, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); }), d, out + x);
  const auto rest = static_cast<size_t>(n - x);
  if (rest > 0)
    hn::StoreN(at(x, [&](const float* from) HWY_ATTR { return hn::LoadN(d, from, rest); }), d, out + x, rest);
}

// Four rows, `stride` apart, as [n][4]; n is a multiple of 4.
void turn(const float* rows, int64_t stride, int64_t n, float* out) {
  const D4 d;
  for (int64_t x = 0; x < n; x += kTogether)
    hn::StoreInterleaved4(hn::LoadU(d, rows + x), hn::LoadU(d, rows + stride + x), hn::LoadU(d, rows + 2 * stride + x),
                          hn::LoadU(d, rows + 3 * stride + x), d, out + kTogether * x);
}
void turn_back(const float* columns, int64_t n, int64_t stride, float* rows) {
  const D4 d;
  for (int64_t x = 0; x < n; x += kTogether) {
    hn::Vec<D4> a, b, c, e;
    hn::LoadInterleaved4(d, columns + kTogether * x, a, b, c, e);
    hn::StoreU(a, d, rows + x);
    hn::StoreU(b, d, rows + stride + x);
    hn::StoreU(c, d, rows + 2 * stride + x);
    hn::StoreU(e, d, rows + 3 * stride + x);
  }
}

// The outputs of columns [in][4] as [size][4].
void sum_columns(const float* in, const Taps& columns, float* out) {
  const D4 d;
  const auto product = [&](int64_t t) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, in + kTogether * columns.index[t]), hn::Set(d, columns.weight[t]));
  };
  for (int64_t j = 0; j < columns.size; ++j, out += kTogether) {
    const int64_t begin = columns.first[j], end = columns.first[j + 1];
    auto sum = hn::Zero(d);
    if (begin < end) sum = product(begin);
    for (int64_t t = begin + 1; t < end; ++t) sum = hn::Add(sum, product(t));
    hn::StoreU(sum, d, out);
  }
}

// Blocks of four rows from `begin` to before `end`, `blocks` of them a plane.
void resample(const float* x, int64_t in_h, int64_t in_w, const Taps& rows, const Taps& columns, int64_t blocks,
              int64_t begin, int64_t end, float* out) {
  const int64_t in = round_up(in_w, kTogether), width = round_up(columns.size, kTogether);
  const Scratch summed = make_scratch(kTogether * in), turned = make_scratch(kTogether * in),
                sums = make_scratch(kTogether * width), back = make_scratch(kTogether * width);
  std::fill_n(summed.get(), kTogether * in, 0.0f);
  std::fill_n(sums.get(), kTogether * width, 0.0f);
  for (int64_t b = begin; b < end; ++b) {
    const int64_t plane = b / blocks, first = b % blocks * kTogether, count = std::min(kTogether, rows.size - first);
    for (int64_t r = 0; r < count; ++r) sum_rows(x + plane * in_h * in_w, in_w, rows, first + r, summed.get() + r * in);
    turn(summed.get(), in, in, turned.get());
    sum_columns(turned.get(), columns, sums.get());
    turn_back(sums.get(), width, width, back.get());
    for (int64_t r = 0; r < count; ++r)
      std::copy_n(back.get() + r * width, columns.size, out + (plane * rows.size + first + r) * columns.size);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(resample);
}  // namespace

void resample_f32(const float* x, int64_t planes, int64_t in_h, int64_t in_w, const Taps& rows, const Taps& columns,
                  float* out) {
  if (planes * rows.size * columns.size == 0) return;
  const int64_t blocks = divide_up(rows.size, 4);
  parallel_for(planes * blocks, std::max<int64_t>(1, 4096 / columns.size), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(resample)(x, in_h, in_w, rows, columns, blocks, begin, end, out);
  });
}

}  // namespace qdq::kernel
#endif
