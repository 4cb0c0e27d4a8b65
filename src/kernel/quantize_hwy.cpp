// Quantize, dequantize and fake-quantize loops in vectors.
#include "kernel/quantize.h"

#include <algorithm>
#include <vector>
#include <type_traits>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/quantize_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef QDQ_KERNEL_QUANTIZE_CONSTANTS
#define QDQ_KERNEL_QUANTIZE_CONSTANTS
namespace qdq::kernel {

// An Affine with everything rounded to f32, as the loops use it.
struct RoundedAffine {
  float factor;  // the reciprocal of the scale, or the scale where the loop divides
  float scale;
  float zero_point;
  float qmin, qmax;
  bool divide;
};

}  // namespace qdq::kernel
#endif

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Calls body(i, count) for whole vectors, and for the rest.
template <class Body> HWY_INLINE void for_vectors(int64_t n, Body&& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, static_cast<size_t>(lanes));
  if (i < n) body(i, static_cast<size_t>(n - i));
}

template <class DT, class T> HWY_INLINE hn::Vec<DT> load(DT d, const T* from, size_t count) {
  return count == hn::Lanes(d) ? hn::LoadU(d, from) : hn::LoadN(d, from, count);
}

template <class DT, class T> HWY_INLINE void store(hn::Vec<DT> v, DT d, T* to, size_t count) {
  if (count == hn::Lanes(d)) {
    hn::StoreU(v, d, to);
  } else {
    hn::StoreN(v, d, to, count);
  }
}

// nearbyint(x scaled) + zero_point, with NaN as 0.
template <bool kDivide> HWY_INLINE V to_grid(V x, const RoundedAffine& c) {
  const D d;
  const V factor = hn::Set(d, c.factor);
  const V grid = hn::Add(hn::Round(kDivide ? hn::Div(x, factor) : hn::Mul(x, factor)), hn::Set(d, c.zero_point));
  return hn::IfThenElseZero(hn::Eq(grid, grid), grid);
}

HWY_INLINE V limit(V grid, const RoundedAffine& c) {
  const D d;
  return hn::Min(hn::Max(grid, hn::Set(d, c.qmin)), hn::Set(d, c.qmax));
}

template <class T> HWY_INLINE auto narrow(hn::Vec<hn::RebindToSigned<D>> v) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return v;
  } else {
    return hn::DemoteTo(hn::Rebind<T, D>(), v);
  }
}

template <class T> HWY_INLINE auto widen(hn::Vec<hn::Rebind<T, D>> v) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return v;
  } else {
    return hn::PromoteTo(hn::RebindToSigned<D>(), v);
  }
}

template <class T, bool kDivide> void quantize_loop(const float* x, int64_t n, const RoundedAffine& c, T* out) {
  const D d;
  for_vectors(n, [&](int64_t i, size_t count) HWY_ATTR {
    const V q = limit(to_grid<kDivide>(load(d, x + i, count), c), c);
    store(narrow<T>(hn::ConvertTo(hn::RebindToSigned<D>(), q)), hn::Rebind<T, D>(), out + i, count);
  });
}

template <class T> void quantize_run(const float* x, int64_t n, const RoundedAffine& c, T* out) {
  if (c.divide) {
    quantize_loop<T, true>(x, n, c, out);
  } else {
    quantize_loop<T, false>(x, n, c, out);
  }
}

template <class T> void dequantize_run(const T* q, int64_t n, const RoundedAffine& c, float* out) {
  const D d;
  const V zero_point = hn::Set(d, c.zero_point), scale = hn::Set(d, c.scale);
  for_vectors(n, [&](int64_t i, size_t count) HWY_ATTR {
    const V v = hn::ConvertTo(d, widen<T>(load(hn::Rebind<T, D>(), q + i, count)));
    store(hn::Mul(hn::Sub(v, zero_point), scale), d, out + i, count);
  });
}

template <bool kDivide>
void fake_quantize_loop(const float* x, int64_t n, const RoundedAffine& c, float* out, uint8_t* mask) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  for_vectors(n, [&](int64_t i, size_t count) HWY_ATTR {
    const V grid = to_grid<kDivide>(load(d, x + i, count), c), q = limit(grid, c);
    store(hn::Mul(hn::Sub(q, hn::Set(d, c.zero_point)), hn::Set(d, c.scale)), d, out + i, count);
    if (mask) {
      const auto inside = hn::RebindMask(di, hn::Eq(grid, q));
      store(hn::DemoteTo(d8, hn::IfThenElseZero(inside, hn::Set(di, 1))), d8, mask + i, count);
    }
  });
}

void fake_quantize_run(const float* x, int64_t n, const RoundedAffine& c, float* out, uint8_t* mask) {
  if (c.divide) {
    fake_quantize_loop<true>(x, n, c, out, mask);
  } else {
    fake_quantize_loop<false>(x, n, c, out, mask);
  }
}

#define QDQ_RUN(suffix, T)                                                                                          \
  void quantize_##suffix(const float* x, int64_t n, const RoundedAffine& c, T* out) { quantize_run(x, n, c, out); } \
  void dequantize_##suffix(const T* q, int64_t n, const RoundedAffine& c, float* out) { dequantize_run(q, n, c, out); }
QDQ_RUN(u8, uint8_t)
QDQ_RUN(s8, int8_t)
QDQ_RUN(u16, uint16_t)
QDQ_RUN(s16, int16_t)
QDQ_RUN(s32, int32_t)
#undef QDQ_RUN

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {

HWY_EXPORT(fake_quantize_run);

#define QDQ_RUN(suffix, T)                                                         \
  HWY_EXPORT(quantize_##suffix);                                                   \
  HWY_EXPORT(dequantize_##suffix);                                                 \
  void quantize_any(const float* x, int64_t n, const RoundedAffine& c, T* out) {   \
    HWY_DYNAMIC_DISPATCH(quantize_##suffix)(x, n, c, out);                         \
  }                                                                                \
  void dequantize_any(const T* q, int64_t n, const RoundedAffine& c, float* out) { \
    HWY_DYNAMIC_DISPATCH(dequantize_##suffix)(q, n, c, out);                       \
  }
QDQ_RUN(u8, uint8_t)
QDQ_RUN(s8, int8_t)
QDQ_RUN(u16, uint16_t)
QDQ_RUN(s16, int16_t)
QDQ_RUN(s32, int32_t)
#undef QDQ_RUN

constexpr int64_t kGrain = int64_t{1} << 16;

RoundedAffine constants_of(const Affine& a) {
  const bool divide = a.scaling == Scaling::kDivide;
  const float scale = static_cast<float>(a.scale);
  return {divide ? scale : static_cast<float>(1.0 / a.scale),
          scale,
          static_cast<float>(a.zero_point),
          static_cast<float>(a.qmin),
          static_cast<float>(a.qmax),
          divide};
}

RoundedAffine constants_of(const ChannelAffine& a, int64_t channel) {
  return constants_of(Affine{a.scales[channel], a.zero_points ? a.zero_points[channel] : 0, a.qmin, a.qmax, a.scaling});
}

template <class Body> void for_ranges(int64_t n, Body&& body) {
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

// Calls body(first element, count, constants) for the elements of each channel that lie together.
template <class Body> void for_channels(const ChannelAffine& a, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(a.inner, 1));
  parallel_for(a.outer * a.channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i * a.inner, a.inner, constants_of(a, i % a.channels));
  });
}

// Rows [outer, channels] whose every element has constants of its own.
template <class T> void dequantize_last_axis(const T* q, const ChannelAffine& a, float* out) {
  std::vector<float> zero_points(static_cast<size_t>(a.channels));
  for (int64_t c = 0; c < a.channels; ++c)
    zero_points[static_cast<size_t>(c)] = a.zero_points ? static_cast<float>(a.zero_points[c]) : 0.0f;
  parallel_for(a.outer, std::max<int64_t>(1, kGrain / a.channels), [&](int64_t begin, int64_t end) {
    const float *zeros = zero_points.data(), *scales = a.scales;
    for (int64_t row = begin; row < end; ++row) {
      const T* from = q + row * a.channels;
      float* to = out + row * a.channels;
      for (int64_t c = 0; c < a.channels; ++c) to[c] = (static_cast<float>(from[c]) - zeros[c]) * scales[c];
    }
  });
}

}  // namespace

template <class T> void quantize_f32(const float* x, int64_t n, const Affine& affine, T* out) {
  const RoundedAffine c = constants_of(affine);
  for_ranges(n, [&](int64_t at, int64_t count) { quantize_any(x + at, count, c, out + at); });
}

template <class T> void dequantize_f32(const T* q, int64_t n, const Affine& affine, float* out) {
  const RoundedAffine c = constants_of(affine);
  for_ranges(n, [&](int64_t at, int64_t count) { dequantize_any(q + at, count, c, out + at); });
}

template <class T> void quantize_channels_f32(const float* x, const ChannelAffine& affine, T* out) {
  for_channels(affine,
               [&](int64_t at, int64_t count, const RoundedAffine& c) { quantize_any(x + at, count, c, out + at); });
}

template <class T> void dequantize_channels_f32(const T* q, const ChannelAffine& affine, float* out) {
  if (affine.inner == 1) return dequantize_last_axis(q, affine, out);
  for_channels(affine,
               [&](int64_t at, int64_t count, const RoundedAffine& c) { dequantize_any(q + at, count, c, out + at); });
}

#define QDQ_INSTANTIATE(T)                                                        \
  template void quantize_f32<T>(const float*, int64_t, const Affine&, T*);        \
  template void dequantize_f32<T>(const T*, int64_t, const Affine&, float*);      \
  template void quantize_channels_f32<T>(const float*, const ChannelAffine&, T*); \
  template void dequantize_channels_f32<T>(const T*, const ChannelAffine&, float*);
QDQ_INSTANTIATE(uint8_t)
QDQ_INSTANTIATE(int8_t)
QDQ_INSTANTIATE(uint16_t)
QDQ_INSTANTIATE(int16_t)
QDQ_INSTANTIATE(int32_t)
#undef QDQ_INSTANTIATE

void fake_quantize_f32(const float* x, int64_t n, const Affine& affine, float* out, uint8_t* mask) {
  const RoundedAffine c = constants_of(affine);
  for_ranges(n, [&](int64_t at, int64_t count) {
    HWY_DYNAMIC_DISPATCH(fake_quantize_run)(x + at, count, c, out + at, mask ? mask + at : nullptr);
  });
}

void fake_quantize_channels_f32(const float* x, const ChannelAffine& affine, float* out, uint8_t* mask) {
  for_channels(affine, [&](int64_t at, int64_t count, const RoundedAffine& c) {
    HWY_DYNAMIC_DISPATCH(fake_quantize_run)(x + at, count, c, out + at, mask ? mask + at : nullptr);
  });
}

}  // namespace qdq::kernel
#endif
