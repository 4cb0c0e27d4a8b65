// Float pooling: vectors run along outputs, a window is visited tap by tap.
#include "kernel/pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernel/math.h"
#include "kernel/panel.h"
#include "kernel/plane.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/pool_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

bool has_nan(const float* x, int64_t n) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto found = hn::IsNaN(hn::Zero(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) found = hn::Or(found, hn::IsNaN(hn::LoadU(d, x + i)));
  if (i < n) found = hn::Or(found, hn::IsNaN(hn::LoadN(d, x + i, static_cast<size_t>(n - i))));
  return !hn::AllFalse(d, found);
}

// The larger of two numbers, the first of equal ones.
template <class V> HWY_INLINE V larger(V first, V second) {
#if HWY_ARCH_X86
  return hn::Max(second, first);  // which gives its second operand for two zeros
#else
  return hn::IfThenElse(hn::Gt(second, first), second, first);
#endif
}

// out[i] = largest of planes[offset + i] over the offsets, in order; writes whole vectors. Without NaN.
void max_taps(const float* planes, const int64_t* offsets, int64_t taps, int64_t n, float* out) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto least = hn::Set(d, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  // Two at a time, so that the one need not wait for the other.
  for (; i + lanes < n; i += 2 * lanes) {
    auto one = least, two = least;
    for (int64_t t = 0; t < taps; ++t) {
      const float* at = planes + offsets[t] + i;
      one = larger(one, hn::LoadU(d, at));
      two = larger(two, hn::LoadU(d, at + lanes));
    }
    hn::StoreU(one, d, out + i);
    hn::StoreU(two, d, out + i + lanes);
  }
  for (; i < n; i += lanes) {
    auto one = least;
    for (int64_t t = 0; t < taps; ++t) one = larger(one, hn::LoadU(d, planes + offsets[t] + i));
    hn::StoreU(one, d, out + i);
  }
}

// The same with NaN, which is the result where there is one.
void max_taps_or_nan(const float* planes, const int64_t* offsets, int64_t taps, int64_t n, float* out) {
  const hn::CappedTag<float, 16> d;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (int64_t t = 0; t < taps; ++t) {
      const auto v = hn::LoadU(d, planes + offsets[t] + i);
      largest = hn::IfThenElse(hn::Or(hn::Gt(v, largest), hn::IsNaN(v)), v, largest);
    }
    hn::StoreU(largest, d, out + i);
  }
}

// which[i] = the number of the offset whose element max_taps_or_nan gives: of equal ones the first, of several NaN the
// last. 0 where all are -inf.
void largest_taps(const float* planes, const int64_t* offsets, int64_t taps, int64_t n, float* which) {
  const hn::CappedTag<float, 16> d;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    auto largest = hn::Set(d, -std::numeric_limits<float>::infinity()), place = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t) {
      const auto v = hn::LoadU(d, planes + offsets[t] + i);
      const auto takes = hn::Or(hn::Gt(v, largest), hn::IsNaN(v));
      largest = hn::IfThenElse(takes, v, largest);
      place = hn::IfThenElse(takes, hn::Set(d, static_cast<float>(t)), place);
    }
    hn::StoreU(place, d, which + i);
  }
}

// out[i] = sum of planes[offset + i] over the offsets, in order from 0; writes whole vectors.
void sum_taps(const float* planes, const int64_t* offsets, int64_t taps, int64_t n, float* out) {
  const hn::CappedTag<float, 16> d;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t) sum = hn::Add(sum, hn::LoadU(d, planes + offsets[t] + i));
    hn::StoreU(sum, d, out + i);
  }
}

// to[i * columns + j] = values[i * stride + j] / (down[i] * across[j]).
void divide_rows(const float* values, int64_t stride, int64_t rows, int64_t columns, const float* down,
                 const float* across, float* to) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i, values += stride, to += columns) {
    const auto factor = hn::Set(d, down[i]);
    for (int64_t j = 0; j < columns; j += lanes) {
      const auto count = static_cast<size_t>(std::min(lanes, columns - j));
      const auto divisor = hn::Mul(factor, hn::LoadN(d, across + j, count));
      hn::StoreN(hn::Div(hn::LoadN(d, values + j, count), divisor), d, to + j, count);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(has_nan);
HWY_EXPORT(max_taps);
HWY_EXPORT(max_taps_or_nan);
HWY_EXPORT(largest_taps);
HWY_EXPORT(sum_taps);
HWY_EXPORT(divide_rows);

Window window_of(const Pool2d& p, bool dilated) {
  return {p.in_h,
          p.in_w,
          p.out_h,
          p.out_w,
          p.kernel_h,
          p.kernel_w,
          p.stride_h,
          p.stride_w,
          p.pad_h,
          p.pad_w,
          dilated ? p.dilation_h : 1,
          dilated ? p.dilation_w : 1};
}

// Reduces the window of every output of every plane by reduce(plane, padded planes, offsets, taps, outputs, to), and
// hands each plane on: store(values, stride of the rows, to).
template <class Reduce, class Store>
void slide(const Pool2d& pool, const Window& window, float padding, const float* x, float* out, Reduce&& reduce,
           Store&& store) {
  if (pool.planes * pool.out_h * pool.out_w == 0) return;
  const Planes planes(window, 1, pool.out_h);
  const int64_t taps = static_cast<int64_t>(planes.offsets().size());
  const int64_t n = (pool.out_h - 1) * planes.width() + pool.out_w;
  parallel_for(pool.planes, 1 + 100000 / (n * taps), [&](int64_t begin, int64_t end) {
    const Scratch padded = make_scratch(planes.elements()), values = make_scratch(round_up(n, kPanel));
    planes.clear(padding, padded.get());
    for (int64_t p = begin; p < end; ++p) {
      const float* plane = x + p * pool.in_h * pool.in_w;
      planes.fill(plane, 0, padded.get());
      reduce(plane, padded.get(), planes.offsets().data(), taps, n, values.get());
      store(values.get(), planes.width(), out + p * pool.out_h * pool.out_w);
    }
  });
}

// The elements of the windows along one axis that the divisor counts; 1 where that is none, since a window wholly in
// the padding has the sum 0.
std::vector<float> counted(int64_t out, int64_t stride, int64_t pad, int64_t kernel, int64_t extent, bool include_pad) {
  std::vector<float> counts;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = o * stride - pad, end = std::min(begin + kernel, extent + pad),
                  count = include_pad ? end - begin : std::min(end, extent) - std::max<int64_t>(begin, 0);
    counts.push_back(static_cast<float>(std::max<int64_t>(count, 1)));
  }
  return counts;
}

// Sums of windows that lie apart and inside the image, eight of a row at a time.
void sum_apart(const float* plane, const Pool2d& pool, float* out) {
  constexpr int64_t kTogether = 8;
  for (int64_t i = 0; i < pool.out_h; ++i)
    for (int64_t j = 0; j < pool.out_w; j += kTogether) {
      float sums[kTogether] = {};
      const float* windows[kTogether];
      for (int64_t w = 0; w < kTogether; ++w)
        windows[w] = plane + i * pool.stride_h * pool.in_w + std::min(j + w, pool.out_w - 1) * pool.stride_w;
      for (int64_t y = 0; y < pool.kernel_h; ++y)
        for (int64_t at = y * pool.in_w; at < y * pool.in_w + pool.kernel_w; ++at)
          for (int64_t w = 0; w < kTogether; ++w) sums[w] += windows[w][at];
      out = std::copy_n(sums, std::min(kTogether, pool.out_w - j), out);
    }
}
bool lies_apart(const Pool2d& p) {
  return p.pad_h == 0 && p.pad_w == 0 && p.stride_w >= p.kernel_w && p.kernel_w > 2 &&
         (p.out_h - 1) * p.stride_h + p.kernel_h <= p.in_h && (p.out_w - 1) * p.stride_w + p.kernel_w <= p.in_w;
}

}  // namespace

void max_pool2d_f32(const float* x, const Pool2d& pool, float* out) {
  // Windows that overlap much: along the rows first, and of these along the columns. The largest is the same, and of
  // equal ones the first.
  const bool in_turn = pool.stride_h == 1 && pool.stride_w == 1 && pool.kernel_h * pool.kernel_w >= 9;
  const auto reduce = [&](const float* plane, const float* planes, const int64_t* offsets, int64_t taps, int64_t n,
                          float* to) {
    const auto run = HWY_DYNAMIC_DISPATCH(has_nan)(plane, pool.in_h * pool.in_w) ? HWY_DYNAMIC_POINTER(max_taps_or_nan)
                                                                                 : HWY_DYNAMIC_POINTER(max_taps);
    if (!in_turn) return run(planes, offsets, taps, n, to);
    std::vector<int64_t> down;
    for (int64_t t = 0; t < taps; t += pool.kernel_w) down.push_back(offsets[t] - offsets[0]);
    const int64_t all = n + down.back();
    const Scratch rows = make_scratch(round_up(all, kPanel) + kPlaneSlack);
    run(planes, offsets, pool.kernel_w, all, rows.get());
    run(rows.get(), down.data(), pool.kernel_h, n, to);
  };
  slide(pool, window_of(pool, true), -std::numeric_limits<float>::infinity(), x, out, reduce,
        [&](const float* values, int64_t stride, float* to) {
          store_rows(values, stride, pool.out_h, pool.out_w, nullptr, to, pool.out_w);
        });
}

void max_pool2d_places_f32(const float* x, const Pool2d& pool, float* out, int64_t* places) {
  const int64_t plane = pool.in_h * pool.in_w, results = pool.out_h * pool.out_w;
  std::vector<int64_t> moves;  // from the first tap
  for (int64_t h = 0; h < pool.kernel_h; ++h)
    for (int64_t w = 0; w < pool.kernel_w; ++w) moves.push_back(h * pool.dilation_h * pool.in_w + w * pool.dilation_w);
  // The first element along an axis that lies in the image, for windows that hold nothing but -inf.
  const auto inside = [](int64_t at, int64_t dilation) {
    return at < 0 ? at + divide_up(-at, dilation) * dilation : at;
  };
  const auto reduce = [](const float*, const float* planes, const int64_t* offsets, int64_t taps, int64_t n,
                         float* which) { HWY_DYNAMIC_DISPATCH(largest_taps)(planes, offsets, taps, n, which); };
  const auto store = [&](const float* which, int64_t stride, float* to) {
    const float* image = x + (to - out) / results * plane;
    int64_t* place = places + (to - out);
    for (int64_t i = 0; i < pool.out_h; ++i, which += stride)
      for (int64_t j = 0; j < pool.out_w; ++j) {
        int64_t y = i * pool.stride_h - pool.pad_h, z = j * pool.stride_w - pool.pad_w;
        const auto tap = static_cast<size_t>(which[j]);
        if (tap == 0) y = inside(y, pool.dilation_h), z = inside(z, pool.dilation_w);
        *place = y * pool.in_w + z + moves[tap];
        *to++ = image[*place++];
      }
  };
  slide(pool, window_of(pool, true), -std::numeric_limits<float>::infinity(), x, out, reduce, store);
}

void avg_pool2d_f32(const float* x, const Pool2d& pool, float* out) {
  const bool include_pad = pool.count_include_pad;
  std::vector<float> across = counted(pool.out_w, pool.stride_w, pool.pad_w, pool.kernel_w, pool.in_w, include_pad),
                     down = counted(pool.out_h, pool.stride_h, pool.pad_h, pool.kernel_h, pool.in_h, include_pad);
  if (pool.divisor_override != 0) {
    across.assign(across.size(), static_cast<float>(pool.divisor_override));
    down.assign(down.size(), 1.0f);
  }
  const auto store = [&](const float* values, int64_t stride, float* to) {
    HWY_DYNAMIC_DISPATCH(divide_rows)(values, stride, pool.out_h, pool.out_w, down.data(), across.data(), to);
  };
  const auto reduce = [&](const float*, const float* planes, const int64_t* offsets, int64_t taps, int64_t n,
                          float* to) { HWY_DYNAMIC_DISPATCH(sum_taps)(planes, offsets, taps, n, to); };
  if (!lies_apart(pool)) return slide(pool, window_of(pool, false), 0.0f, x, out, reduce, store);
  const int64_t plane = pool.in_h * pool.in_w, results = pool.out_h * pool.out_w;
  parallel_for(pool.planes, 1 + 100000 / plane, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      sum_apart(x + p * plane, pool, out + p * results);
      store(out + p * results, pool.out_w, out + p * results);
    }
  });
}

void adaptive_avg_pool2d_f32(const float* x, const Pool2d& pool, float* out) {
  const int64_t plane = pool.in_h * pool.in_w, grain = std::max<int64_t>(1, 100000 / std::max<int64_t>(plane, 1));
  if (pool.out_h == 1 && pool.out_w == 1) {
    sum_rows_f32(x, pool.planes, plane, out);
    for (int64_t p = 0; p < pool.planes; ++p) out[p] /= static_cast<float>(plane);
    return;
  }
  parallel_for(pool.planes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * pool.out_h * pool.out_w; i < end * pool.out_h * pool.out_w; ++i) {
      const int64_t ow = i % pool.out_w, oh = i / pool.out_w % pool.out_h, p = i / pool.out_w / pool.out_h;
      const int64_t top = oh * pool.in_h / pool.out_h, bottom = divide_up((oh + 1) * pool.in_h, pool.out_h);
      const int64_t left = ow * pool.in_w / pool.out_w, right = divide_up((ow + 1) * pool.in_w, pool.out_w);
      float sum = 0.0f;
      for (int64_t y = top; y < bottom; ++y)
        for (int64_t z = left; z < right; ++z) sum += x[p * plane + y * pool.in_w + z];
      out[i] = sum / static_cast<float>(bottom - top) / static_cast<float>(right - left);
    }
  });
}

}  // namespace qdq::kernel
#endif
