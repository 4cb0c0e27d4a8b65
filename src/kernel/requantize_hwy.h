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

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
// The last line of the formula for u8 on two rows of 16 at once, in three quarters of Quantizer's instructions: the
// conversion to integers rounds, and most of the bounds are kept by saturation. What exceeds `high` is held before,
// because the conversion gives the lowest integer for numbers beyond 32 bits and for NaN.
struct PackingQuantizer {
  __m256 high;
  __m256i shift, low, order;

  HWY_INLINE explicit PackingQuantizer(const Requantize& q)
      : high(_mm256_set1_ps(static_cast<float>(q.high - q.zero_point))),
        shift(_mm256_set1_epi16(static_cast<int16_t>(q.zero_point))), low(_mm256_set1_epi8(static_cast<char>(q.low))),
        order(_mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) {}
  HWY_INLINE __m256i operator()(__m256 a0, __m256 a1, __m256 b0, __m256 b1) const {
    const __m256i a = _mm256_packs_epi32(integer(a0), integer(a1)), b = _mm256_packs_epi32(integer(b0), integer(b1));
    const __m256i bytes = _mm256_packus_epi16(_mm256_adds_epi16(a, shift), _mm256_adds_epi16(b, shift));
    return _mm256_permutevar8x32_epi32(_mm256_max_epu8(bytes, low), order);
  }

 private:
  // The instruction gives its second operand if one is NaN.
  HWY_INLINE __m256i integer(__m256 steps) const { return _mm256_cvtps_epi32(_mm256_min_ps(high, steps)); }
};
#endif

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
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if constexpr (kVectors == 2 && kWidth == 8) {
    const PackingQuantizer quantize(q);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r += 2) {
      constexpr int kLast = kRows - 1;
      hn::Vec<decltype(df)> t[2], next[2];
      steps_of(r, t);
      steps_of(HWY_MIN(r + 1, kLast), next);
      const __m256i bytes = quantize(t[0].raw, t[1].raw, next[0].raw, next[1].raw);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + r * finish.out_stride), _mm256_castsi256_si128(bytes));
      if (r < kLast)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (r + 1) * finish.out_stride),
                         _mm256_extracti128_si256(bytes, 1));
    }
    return;
  }
#endif
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
  std::byte* out = finish.out + (pixel * finish.out_stride + channel) * (q.out_is_float ? 4 : 1);
  const auto store_rows = [&](int begin, int end, auto&& result) HWY_ATTR __attribute__((always_inline)) {
    for (int r = begin; r < end; ++r) {
      using V = decltype(result(0, 0));
      V value[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) value[v] = result(r, v);
      if constexpr (std::is_same_v<V, VF>) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          hn::StoreU(value[v], df, reinterpret_cast<float*>(out) + r * finish.out_stride + v * kWidth);
      } else {
        store_bytes<kVectors>(d, value, reinterpret_cast<uint8_t*>(out) + r * finish.out_stride);
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
