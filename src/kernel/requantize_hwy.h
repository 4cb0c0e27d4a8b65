// The formula of kernel/requantize.h on vectors; included by the room's Highway files after hwy/highway.h, once a
// target.
#if defined(QDQ_KERNEL_REQUANTIZE_HWY_H) == defined(HWY_TARGET_TOGGLE)
#ifdef QDQ_KERNEL_REQUANTIZE_HWY_H
#undef QDQ_KERNEL_REQUANTIZE_HWY_H
#else
#define QDQ_KERNEL_REQUANTIZE_HWY_H
#endif

#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernel/curve_hwy.h"
#include "kernel/requantize.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of kRounder, to which a float below 2^22 is added: the sum's bits show the integer that it was rounded to.
constexpr int32_t kRounderBits = 0x4B400000;

// Lanes of u8 less their zero point, as floats. D is a tag of s32.
template <class D> HWY_INLINE hn::Vec<hn::Rebind<float, D>> load_real(D d, const uint8_t* at, int32_t zero_point) {
  const auto wide = hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint8_t, D>(), at));
  return hn::ConvertTo(hn::Rebind<float, D>(), hn::Sub(wide, hn::Set(d, zero_point)));
}

// real(x) of kVectors vectors of u8 less their zero point, or of f32, from element `at` on. `valid` of them exist;
// where that is fewer than the vectors hold, nothing beyond is read and the rest is any number.
template <int kVectors, class D>
HWY_INLINE void load_operand(D d, const std::byte* data, bool is_float, int32_t zero_point, int64_t at, int64_t valid,
                             hn::Vec<hn::Rebind<float, D>> (&real)[kVectors]) {
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D)), kColumns = kVectors * kWidth;
  const int64_t size = is_float ? 4 : 1;
  const std::byte* from = data + at * size;
  alignas(16) std::byte copy[kColumns * 4];
  if (valid < kColumns) {
    std::memset(copy, 0, sizeof copy);
    std::memcpy(copy, from, static_cast<size_t>(valid * size));
    from = copy;
  }
  if (is_float) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      real[v] = hn::LoadU(hn::Rebind<float, D>(), reinterpret_cast<const float*>(from) + v * kWidth);
    return;
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  if constexpr (kVectors % 2 == 0 && kWidth == 4) {
    // Two vectors from one load, with half of the subtractions.
    const hn::Repartition<int16_t, D> d16;
    const hn::Rebind<float, D> df;
    const auto shift = hn::Set(d16, static_cast<int16_t>(zero_point));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v += 2) {
      const auto eight = hn::LoadU(hn::Rebind<uint8_t, decltype(d16)>(), bytes + v * kWidth);
      const auto wide = hn::Sub(hn::PromoteTo(d16, eight), shift);
      real[v] = hn::ConvertTo(df, hn::PromoteLowerTo(d, wide));
      real[v + 1] = hn::ConvertTo(df, hn::PromoteUpperTo(d, wide));
    }
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) real[v] = load_real(d, bytes + v * kWidth, zero_point);
  }
}

// Stores kVectors vectors of integers as bytes, to which they saturate.
template <int kVectors, class D> HWY_INLINE void store_bytes(D d, const hn::Vec<D> (&value)[kVectors], uint8_t* out) {
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D));
  if constexpr (kWidth <= 8 && kVectors % 2 == 0) {
    const hn::Repartition<int16_t, D> d16;
    const hn::Half<hn::Repartition<uint8_t, D>> d8;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v += 2)
      hn::StoreU(hn::DemoteTo(d8, hn::OrderedDemote2To(d16, value[v], value[v + 1])), d8, out + v * kWidth);
  } else {
    const hn::Rebind<uint8_t, D> d8;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::DemoteTo(d8, value[v]), d8, out + v * kWidth);
  }
  (void)d;
}

// The last line of the formula for u8, with its constants in registers.
template <class D> struct Quantizer {
  using DF = hn::Rebind<float, D>;
  hn::Vec<DF> low, high, rounder;
  hn::Vec<D> shift;

  HWY_INLINE explicit Quantizer(const Requantize& q)
      : low(hn::Set(DF(), static_cast<float>(q.low - q.zero_point))),
        high(hn::Set(DF(), static_cast<float>(q.high - q.zero_point))),
        rounder(hn::Set(DF(), hidden(kExpConstants)[1])), shift(hn::Set(D(), kRounderBits - q.zero_point)) {}
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<DF> steps) const { return rounded(hn::Min(hn::Max(steps, low), high)); }
  // The integer less the zero point on top of the rounder's bits.
  HWY_INLINE hn::Vec<D> bits(hn::Vec<DF> steps) const {
    return hn::BitCast(D(), hn::Add(hn::Min(hn::Max(steps, low), high), rounder));
  }
  // The integer of steps whose size is less than 2^22, and which saturation to bytes bounds.
  HWY_INLINE hn::Vec<D> rounded(hn::Vec<DF> steps) const {
    return hn::Sub(hn::BitCast(D(), hn::Add(steps, rounder)), shift);
  }
};

// Quantizes kVectors vectors of y, if q says so, and stores them at `out`.
template <int kVectors, class D>
HWY_INLINE void store_real(D d, const Requantize& q, const hn::Vec<hn::Rebind<float, D>> (&y)[kVectors],
                           std::byte* out) {
  const hn::Rebind<float, D> df;
  if (q.out_is_float) {
    float* to = reinterpret_cast<float*>(out);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(y[v], df, to + v * static_cast<int64_t>(HWY_MAX_LANES_D(D)));
    return;
  }
  const Quantizer<D> quantize(q);
  const auto inverse = hn::Set(df, q.inverse_scale);
  hn::Vec<D> value[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) value[v] = quantize(hn::Mul(y[v], inverse));
  store_bytes<kVectors>(d, value, reinterpret_cast<uint8_t*>(out));
}

// Whether finish_plain_rows gives what finish_rows gives: only the first and the last line of the formula remain, and
// the second where the residual is u8.
HWY_INLINE bool is_plain_or_sum(const Requantize& q) {
  return !(q.has_residual && q.residual_is_float) && !q.activation && !q.out_is_float && q.inverse_scale == 1.0f;
}
HWY_INLINE bool is_plain(const Requantize& q) { return !q.has_residual && is_plain_or_sum(q); }

// finish_rows for pixels whose vectors are all full and whose formula is plain, from registers.
template <bool kResidual, int kRows, int kVectors, class D>
HWY_INLINE void finish_plain_rows(D d, const Finish& finish, const hn::Vec<D> (&sum)[kRows][kVectors], int64_t pixel,
                                  int64_t channel) {
  const hn::Rebind<float, D> df;
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D));
  const Requantize& q = *finish.requantize;
  hn::Vec<decltype(df)> multiplier[kVectors], offset[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    multiplier[v] = hn::LoadU(df, finish.multiplier + channel + v * kWidth);
    offset[v] = hn::LoadU(df, finish.offset + channel + v * kWidth);
  }
  uint8_t* out = reinterpret_cast<uint8_t*>(finish.out) + pixel * finish.out_stride + channel;
  const auto steps_of = [&](int r, hn::Vec<decltype(df)>(&t)[kVectors]) HWY_ATTR __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) t[v] = hn::Add(hn::Mul(hn::ConvertTo(df, sum[r][v]), multiplier[v]), offset[v]);
    if constexpr (kResidual) {
      hn::Vec<decltype(df)> residual[kVectors];
      load_operand<kVectors>(d, finish.residual, false, q.residual_zero_point,
                             (pixel + r) * finish.residual_stride + channel, kVectors * kWidth, residual);
      const auto by = hn::Set(df, q.residual_multiplier);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) t[v] = hn::Add(t[v], hn::Mul(residual[v], by));
    }
  };
  const Quantizer<D> quantize(q);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, out += finish.out_stride) {
    hn::Vec<decltype(df)> t[kVectors];
    steps_of(r, t);
    hn::Vec<D> value[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) value[v] = quantize(t[v]);
    store_bytes<kVectors>(d, value, out);
  }
}

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
// What finish_plain_block needs for 16 channels, in memory, because the sums fill the registers. Two pixels at once
// take three quarters of Quantizer's instructions: the conversion to integers rounds, and saturation keeps most of the
// bounds. What exceeds `high` is held before, because the conversion gives the lowest integer for numbers beyond
// 32 bits and for NaN.
struct alignas(32) PlainConstants {
  float multiplier[16], offset[16], high[8], residual_multiplier[8];
  int16_t shift[16], residual_shift[16];
  uint8_t low[32];
  int32_t order[8];

  // kFours: the channels of sums are in the order of kernel/depthwise_int8.h's depthwise_channel.
  template <bool kFours = false> HWY_INLINE void set(const Finish& finish, int64_t channel) {
    const Requantize& q = *finish.requantize;
    in_order<kFours>(finish.multiplier + channel, multiplier);
    in_order<kFours>(finish.offset + channel, offset);
    _mm256_store_ps(high, _mm256_set1_ps(static_cast<float>(q.high - q.zero_point)));
    _mm256_store_ps(residual_multiplier, _mm256_set1_ps(q.residual_multiplier));
    store(shift, _mm256_set1_epi16(static_cast<int16_t>(q.zero_point)));
    store(residual_shift, _mm256_set1_epi16(static_cast<int16_t>(q.residual_zero_point)));
    store(low, _mm256_set1_epi8(static_cast<char>(q.low)));
    store(order, kFours ? _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7) : _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }

 private:
  static HWY_INLINE void store(void* at, __m256i x) { _mm256_store_si256(static_cast<__m256i*>(at), x); }
  template <bool kFours> static HWY_INLINE void in_order(const float* from, float* to) {
    const __m256 a = _mm256_loadu_ps(from), b = _mm256_loadu_ps(from + 8);
    _mm256_store_ps(to, kFours ? _mm256_permute2f128_ps(a, b, 0x20) : a);
    _mm256_store_ps(to + 8, kFours ? _mm256_permute2f128_ps(a, b, 0x31) : b);
  }
};

// Stores two pixels' bytes, of sums as 16-bit integers; only the first one's if there is one.
HWY_INLINE void store_plain(const PlainConstants& c, __m256i first, __m256i second, uint8_t* out, int64_t stride,
                            bool is_pair) {
  const __m256i bytes =
      _mm256_max_epu8(_mm256_packus_epi16(first, second), _mm256_load_si256(reinterpret_cast<const __m256i*>(c.low)));
  const __m256i placed =
      _mm256_permutevar8x32_epi32(bytes, _mm256_load_si256(reinterpret_cast<const __m256i*>(c.order)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(placed));
  if (is_pair) _mm_storeu_si128(reinterpret_cast<__m128i*>(out + stride), _mm256_extracti128_si256(placed, 1));
}

// A pixel's 16 channels as integers of 16 bits.
template <bool kResidual>
HWY_INLINE __m256i plain_words(const PlainConstants& c, __m256i sum0, __m256i sum1, const std::byte* residual) {
  const __m256i sum[2] = {sum0, sum1};
  __m256i steps[2];
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    __m256 t = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum[v]), _mm256_load_ps(c.multiplier + 8 * v)),
                             _mm256_load_ps(c.offset + 8 * v));
    if constexpr (kResidual) {
      const __m128i words =
          _mm_sub_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(residual + 8 * v))),
                        _mm_load_si128(reinterpret_cast<const __m128i*>(c.residual_shift)));
      t = _mm256_add_ps(
          t, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(words)), _mm256_load_ps(c.residual_multiplier)));
    }
    // The minimum gives its second operand if one is NaN.
    steps[v] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_load_ps(c.high), t));
  }
  return _mm256_adds_epi16(_mm256_packs_epi32(steps[0], steps[1]),
                           _mm256_load_si256(reinterpret_cast<const __m256i*>(c.shift)));
}

// finish_plain_rows for 16 channels, from registers.
template <bool kResidual, int kRows, class V>
HWY_INLINE void finish_plain_block(const Finish& finish, const PlainConstants& c, const V (&sum)[kRows][2],
                                   int64_t pixel, int64_t channel) {
  const int64_t stride = finish.out_stride;
  uint8_t* out = reinterpret_cast<uint8_t*>(finish.out) + pixel * stride + channel;
  const std::byte* residual = kResidual ? finish.residual + pixel * finish.residual_stride + channel : nullptr;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r += 2, out += 2 * stride) {
    constexpr int kLast = kRows - 1;
    const __m256i first = plain_words<kResidual>(c, sum[r][0].raw, sum[r][1].raw, residual);
    if constexpr (kResidual) residual += finish.residual_stride;
    const __m256i second = r < kLast ? plain_words<kResidual>(c, sum[HWY_MIN(r + 1, kLast)][0].raw,
                                                              sum[HWY_MIN(r + 1, kLast)][1].raw, residual)
                                     : first;
    if constexpr (kResidual) residual += finish.residual_stride;
    store_plain(c, first, second, out, stride, r < kLast);
  }
}

// The same from memory: sums[rows][16].
HWY_INLINE void finish_plain_sums(const Finish& finish, const PlainConstants& c, const int32_t* HWY_RESTRICT sums,
                                  int64_t rows, int64_t pixel, int64_t channel) {
  const int64_t stride = finish.out_stride;
  uint8_t* out = reinterpret_cast<uint8_t*>(finish.out) + pixel * stride + channel;
  const auto words = [&](int64_t r) HWY_ATTR __attribute__((always_inline)) {
    const auto* at = reinterpret_cast<const __m256i*>(sums + r * 16);
    return plain_words<false>(c, _mm256_loadu_si256(at), _mm256_loadu_si256(at + 1), nullptr);
  };
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2, out += 2 * stride) store_plain(c, words(r), words(r + 1), out, stride, true);
  if (r == rows) return;
  const __m256i last = words(r);
  store_plain(c, last, last, out, stride, false);
}

// store_bytes for two rows of 16 at once, which takes half of its instructions.
HWY_INLINE void store_two_rows(__m256i first0, __m256i first1, __m256i second0, __m256i second1, uint8_t* out,
                               int64_t stride) {
  const __m256i bytes = _mm256_permutevar8x32_epi32(
      _mm256_packus_epi16(_mm256_packs_epi32(first0, first1), _mm256_packs_epi32(second0, second1)),
      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + stride), _mm256_extracti128_si256(bytes, 1));
}
#endif

// Whether every x beyond the function's bounds gives the byte that x at the bounds gives, and no x one that saturation
// to bytes does not bound.
HWY_INLINE bool silu_bounds_steps(const Requantize& q) {
  return q.low == 0 && q.high == 255 && 255.5f - static_cast<float>(q.zero_point) < kNearSiluBound * q.inverse_scale &&
         q.inverse_scale < 65536.0f;
}

// Whether finish_curve_rows gives what finish_rows gives.
HWY_INLINE bool has_curve(const Requantize& q) {
  return (q.curve.kind == Activation::Kind::kNearSilu || q.curve.kind == Activation::Kind::kHardSwish) &&
         !q.has_residual;
}

// The most that the magnitude of a sum of so many products is: of inputs less their zero point with weights.
HWY_INLINE float most_sum_of(int64_t products) { return 255.0f * 128.0f * static_cast<float>(products); }

// finish_rows for `rows` pixels whose vectors are all full, from memory: sums[rows][kVectors vectors], of at most
// most_sum in magnitude (any s32 if it is not told). Not inlined, so that the constants get the registers.
template <int kVectors, class D>  // NOLINTNEXTLINE(readability-function-size): all of it shares constants in registers
HWY_NOINLINE void finish_curve_rows(D d, const Finish& finish, const int32_t* HWY_RESTRICT sums, int rows,
                                    int64_t pixel, int64_t channel, float most_sum = 0x1p31f) {
  const hn::Rebind<float, D> df;
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D)), kColumns = kVectors * kWidth;
  const Requantize& q = *finish.requantize;
  const float *multiplier = finish.multiplier + channel, *offset = finish.offset + channel;
  using VF = hn::Vec<decltype(df)>;
  // t of vector v of row r.
  const auto real = [&](int r, int v) HWY_ATTR {
    const auto sum = hn::ConvertTo(df, hn::LoadU(d, sums + r * kColumns + v * kWidth));
    return hn::Add(hn::Mul(sum, hn::LoadU(df, multiplier + v * kWidth)), hn::LoadU(df, offset + v * kWidth));
  };
  // Stores what `result` gives for the vectors of some rows, floats or integers. This and the passes below are inlined,
  // or clang lets them fetch every constant from memory at each use.
  const int64_t out_stride = finish.out_stride;
  std::byte* out = finish.out + (pixel * out_stride + channel) * (q.out_is_float ? 4 : 1);
  const auto store_rows = [&](int begin, int end, auto&& result) HWY_ATTR __attribute__((always_inline)) {
    using V = decltype(result(0, 0));
    int r = begin;
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
    if constexpr (kVectors == 2 && kWidth == 8 && std::is_same_v<V, hn::Vec<D>>) {
      for (; r + 2 <= end; r += 2)
        store_two_rows(result(r, 0).raw, result(r, 1).raw, result(r + 1, 0).raw, result(r + 1, 1).raw,
                       reinterpret_cast<uint8_t*>(out) + r * out_stride, out_stride);
    }
#endif
    for (; r < end; ++r) {
      V value[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) value[v] = result(r, v);
      if constexpr (std::is_same_v<V, VF>) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          hn::StoreU(value[v], df, reinterpret_cast<float*>(out) + r * out_stride + v * kWidth);
      } else {
        store_bytes<kVectors>(d, value, reinterpret_cast<uint8_t*>(out) + r * out_stride);
      }
    }
  };
  const Quantizer<D> quantize(q);
  if (q.curve.kind == Activation::Kind::kHardSwish) {
    const Hard<decltype(df)> hard;
    if (q.out_is_float) return store_rows(0, rows, [&](int r, int v) HWY_ATTR { return hard.swish(real(r, v)); });
    const auto by = hn::Set(df, q.inverse_scale);
    return store_rows(0, rows, [&](int r, int v) HWY_ATTR { return quantize(hn::Mul(hard.swish(real(r, v)), by)); });
  }
  // SiLU in two passes over some rows: all operations of an element are one chain, and a processor holds only so many
  // that wait for others.
  const NearSilu<decltype(df)> silu;
  constexpr int kTogether = 8, kParts = 3;
  HWY_ALIGN float parts[kTogether * kColumns * kParts];
  // first(t, x) gives the argument within the bounds and x, last(y) the result for the function's y / kNearSiluScale.
  const auto in_passes = [&](auto&& first, auto&& last) HWY_ATTR __attribute__((always_inline)) {
    for (int begin = 0; begin < rows; begin += kTogether) {
      const int end = HWY_MIN(rows, begin + kTogether);
      const auto part = [&](int r, int v) HWY_ATTR { return parts + ((r - begin) * kColumns + v * kWidth) * kParts; };
      for (int r = begin; r < end; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          VF x, below;
          const VF above = silu.above(first(real(r, v), x), below);
          hn::Store(above, df, part(r, v));
          hn::Store(below, df, part(r, v) + kWidth);
          hn::Store(x, df, part(r, v) + 2 * kWidth);
        }
      }
      store_rows(begin, end, [&](int r, int v) HWY_ATTR {
        const float* at = part(r, v);
        return last(silu.unscaled(hn::Load(df, at + 2 * kWidth), hn::Load(df, at), hn::Load(df, at + kWidth)));
      });
    }
  };
  const auto bounded = [&](VF t, VF& x) HWY_ATTR {
    x = t;
    return silu.bounded(t);
  };
  if (q.out_is_float) {
    const auto scale = hn::Set(df, kNearSiluScale);
    return in_passes(bounded, [&](VF y) HWY_ATTR { return hn::Mul(y, scale); });
  }
  // A power of two, which may be taken off at once.
  const auto inverse = hn::Set(df, q.inverse_scale * kNearSiluScale);
  // Beyond its upper bound the quotient of the cubics only grows, and what is more than a byte is one anyway: the bound
  // need not be held, which the chain of operations behind one another is shorter by, unless a cubic could overflow.
  auto fits = hn::Ge(inverse, inverse);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const auto most = hn::Add(hn::Mul(hn::Abs(hn::LoadU(df, multiplier + v * kWidth)), hn::Set(df, most_sum)),
                              hn::Abs(hn::LoadU(df, offset + v * kWidth)));
    fits = hn::And(fits, hn::Le(most, hn::Set(df, 1e6f)));
  }
  if (silu_bounds_steps(q) && hn::AllTrue(df, fits)) {
    const auto raised = [&](VF t, VF& x) HWY_ATTR { return x = hn::Max(t, silu.low); };
    in_passes(raised, [&](VF y) HWY_ATTR { return quantize.rounded(hn::Mul(y, inverse)); });
  } else {
    in_passes(bounded, [&](VF y) HWY_ATTR { return quantize(hn::Mul(y, inverse)); });
  }
}

// The formula from t on, for rows of kVectors vectors: row r goes to `to` + r * to_stride bytes, `valid` elements of
// each.
template <int kRows, int kVectors, class D>
HWY_INLINE void finish_real(D d, const Requantize& q, hn::Vec<hn::Rebind<float, D>> (&t)[kRows][kVectors],
                            std::byte* to, int64_t to_stride, int64_t valid) {
  const hn::Rebind<float, D> df;
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D)), kColumns = kVectors * kWidth;
  if (q.activation) {
    // One call for all rows: a call costs as much as a few elements.
    constexpr int64_t kCount = kRows * kColumns;
    HWY_ALIGN float values[kCount], results[kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) hn::Store(t[r][v], df, values + r * kColumns + v * kWidth);
    }
    activate(df, q, values, kCount, results);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) t[r][v] = hn::Load(df, results + r * kColumns + v * kWidth);
    }
  }
  for (int r = 0; r < kRows; ++r, to += to_stride) {
    if (valid >= kColumns) {
      store_real<kVectors>(d, q, t[r], to);
    } else {
      alignas(16) std::byte copy[kColumns * 4];
      store_real<kVectors>(d, q, t[r], copy);
      std::memcpy(to, copy, static_cast<size_t>(q.out_is_float ? 4 * valid : valid));
    }
  }
}

// Requantizes sums[kRows][kVectors vectors]: channels from `channel` on of kRows pixels. `valid` of them exist; rows
// with fewer than the vectors hold go through a copy, and nothing beyond is read or written.
template <int kRows, int kVectors, class D>
HWY_INLINE void finish_rows(D d, const Finish& finish, const hn::Vec<D> (&sum)[kRows][kVectors], int64_t pixel,
                            int64_t channel, int64_t valid) {
  const hn::Rebind<float, D> df;
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(D));
  const Requantize& q = *finish.requantize;
  hn::Vec<decltype(df)> t[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      t[r][v] = hn::Add(hn::Mul(hn::ConvertTo(df, sum[r][v]), hn::LoadU(df, finish.multiplier + channel + v * kWidth)),
                        hn::LoadU(df, finish.offset + channel + v * kWidth));
    }
  }
  if (q.has_residual) {
    const auto by = hn::Set(df, q.residual_multiplier);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      hn::Vec<decltype(df)> residual[kVectors];
      load_operand<kVectors>(d, finish.residual, q.residual_is_float, q.residual_zero_point,
                             (pixel + r) * finish.residual_stride + channel, valid, residual);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) t[r][v] = hn::Add(t[r][v], hn::Mul(residual[v], by));
    }
  }
  const int64_t out_bytes = q.out_is_float ? 4 : 1;
  finish_real<kRows, kVectors>(d, q, t, finish.out + (pixel * finish.out_stride + channel) * out_bytes,
                               finish.out_stride * out_bytes, valid);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#endif
