// Quotients of floats that are integers, and their rests, by PyTorch's rules: of one pair, and of arrays. The bits are
// the same natively and in WASM, on any vector width and number of threads.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace qdq::kernel {

// One of two floats without a branch, which would be taken at random.
template <class C> C chosen(bool first, C a, C b) {
  using Bits = std::conditional_t<sizeof(C) == sizeof(uint32_t), uint32_t, uint64_t>;
  const Bits mask = first ? ~Bits{0} : Bits{0};
  return std::bit_cast<C>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
}
// The integer below; std::floor is a call.
template <class C> C floor_of(C x) {
  if constexpr (std::is_same_v<C, float>)
    if (std::fabs(x) < 0x1p28f) {
      const auto whole = static_cast<float>(static_cast<int32_t>(x));
      return whole - static_cast<float>(whole > x);
    }
  return std::floor(x);
}
template <class C> bool has_other_sign(C rest, C y) { return (rest != 0) & ((y < 0) != (rest < 0)); }

// What C's fmod gives, of two floats mostly in double: an exact quotient below 2^28 is no integer if it is not one when
// it is rounded there, and its integer times y is exact.
template <class C> [[gnu::noinline]] C any_rest_of(C x, C y) { return std::fmod(x, y); }
template <class C> C rest_of(C x, C y) {
  if constexpr (std::is_same_v<C, float>) {
    const double quotient = static_cast<double>(x) / static_cast<double>(y);
    if (std::fabs(quotient) < 0x1p28 && std::isfinite(y)) {
      const double whole = static_cast<double>(static_cast<int32_t>(quotient)) * static_cast<double>(y);
      return std::copysign(static_cast<float>(static_cast<double>(x) - whole), x);
    }
  }
  return any_rest_of(x, y);
}
// The rest that has the sign of y.
template <class C> C floor_rest_of(C x, C y) {
  const C rest = rest_of(x, y);
  return chosen(has_other_sign(rest, y), rest + y, rest);
}
// The integer below x / y, exact where x / y rounds up to it; x / y for y = 0 (c10/util/generic_math.h,
// div_floor_floating).
template <class C> C floor_quotient_of(C x, C y) {
  if (y == 0) return x / y;
  const C rest = rest_of(x, y);
  const C quotient = (x - rest) / y - static_cast<C>(has_other_sign(rest, y)), floored = floor_of(quotient);
  return chosen(quotient == 0, std::copysign(C(0), x / y), floored + static_cast<C>(quotient - floored > C(0.5)));
}

// The same of n pairs; `out` may be the same array as an input.
void rest_f32(const float* x, const float* y, int64_t n, float* out);
void floor_rest_f32(const float* x, const float* y, int64_t n, float* out);
void floor_quotient_f32(const float* x, const float* y, int64_t n, float* out);

}  // namespace qdq::kernel
