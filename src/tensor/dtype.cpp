#include "tensor/dtype.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace qdq {

size_t size_of(DType dtype) {
  if (is_float8(dtype)) return 1;
  if (is_complex(dtype)) return sizeof(Complex64);
  if (dtype == DType::kString) return sizeof(StringId);
  return visit_dtype(dtype, [](auto type) { return sizeof(typename decltype(type)::type); });
}

namespace {
struct Name {
  DType dtype;
  std::string_view name;
};
constexpr Name kNames[] = {
    {DType::kU8, "uint8"},
    {DType::kS8, "int8"},
    {DType::kS16, "int16"},
    {DType::kS32, "int32"},
    {DType::kS64, "int64"},
    {DType::kF16, "float16"},
    {DType::kF32, "float32"},
    {DType::kF64, "float64"},
    {DType::kC64, "complex64"},
    {DType::kBool, "bool"},
    {DType::kBF16, "bfloat16"},
    {DType::kU16, "uint16"},
    {DType::kU32, "uint32"},
    {DType::kU64, "uint64"},
    {DType::kF8E4M3FN, "float8_e4m3fn"},
    {DType::kF8E5M2, "float8_e5m2"},
    {DType::kF8E4M3FNUZ, "float8_e4m3fnuz"},
    {DType::kF8E5M2FNUZ, "float8_e5m2fnuz"},
};
}  // namespace

std::string_view to_string(DType dtype) {
  if (dtype == DType::kString) return "string";
  for (const Name& entry : kNames)
    if (entry.dtype == dtype) return entry.name;
  return "unknown";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name.substr(0, 6) == "torch.") name.remove_prefix(6);
  for (const Name& entry : kNames)
    if (entry.name == name) return entry.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_number(int64_t number) {
  constexpr int64_t kNoNumber = 64;
  for (const Name& entry : kNames)
    if (static_cast<int64_t>(entry.dtype) == number && number < kNoNumber) return entry.dtype;
  return std::nullopt;
}

namespace {
template <class Body> int64_t integer_limit(DType dtype, Body body) {
  return visit_dtype(dtype, [&](auto type) -> int64_t {
    using T = typename decltype(type)::type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return body(std::numeric_limits<T>{});
    fail(ErrorCode::kInvalidArgument, to_string(dtype), " is not an integer dtype");
  });
}
}  // namespace

int64_t min_of(DType dtype) {
  return integer_limit(dtype, [](auto limits) { return static_cast<int64_t>(limits.min()); });
}
int64_t max_of(DType dtype) {
  QDQ_CHECK(dtype != DType::kU64, kInvalidArgument, "an int64 cannot hold the largest uint64");
  return integer_limit(dtype, [](auto limits) { return static_cast<int64_t>(limits.max()); });
}

F16::F16(float value) {
  const uint32_t f = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (f >> 16) & 0x8000u;
  const uint32_t magnitude = f & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24; adding 0.5 lines the bits up and rounds
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  } else {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

F16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

BF16::BF16(float value) {
  const uint32_t f = std::bit_cast<uint32_t>(value);
  bits = value != value ? 0x7fc0u : static_cast<uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
}

BF16::operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void refuse_arithmetic(DType dtype) {
  QDQ_CHECK(dtype != DType::kString, kUnsupported,
            "strings are wanted as numbers here; an ONNX Cast makes numbers of them");
  QDQ_CHECK(!is_complex(dtype), kUnsupported,
            "a complex64 tensor is wanted as real numbers here; take real, imag, abs or view_as_real of it first");
  fail(ErrorCode::kUnsupported, "nothing computes with ", to_string(dtype), " tensors; cast them to float32 first");
}

namespace {
// sign, exponent, fraction. Without infinities the highest bits are NaN alone (fn); with one zero the bits of -0 are
// NaN (fnuz).
struct Float8 {
  int fraction_bits, bias;
  uint8_t largest;  // the bits of the largest number
  uint8_t beyond;   // the bits of what is more
  uint8_t nan;
  bool has_one_zero;
};
Float8 float8_of(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3FN: return {3, 7, 0x7e, 0x7f, 0x7f, false};
    case DType::kF8E5M2: return {2, 15, 0x7b, 0x7c, 0x7f, false};
    case DType::kF8E4M3FNUZ: return {3, 8, 0x7f, 0x80, 0x80, true};
    case DType::kF8E5M2FNUZ: return {2, 16, 0x7f, 0x80, 0x80, true};
    default: fail(ErrorCode::kInternal, to_string(dtype), " has no 8 bits of a float");
  }
}
}  // namespace

float float8_value(DType dtype, uint8_t bits) {
  const Float8 form = float8_of(dtype);
  const uint8_t magnitude = bits & 0x7f;
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  if (form.has_one_zero ? bits == form.nan : magnitude > form.largest) {
    const bool is_infinite = form.beyond != form.nan && magnitude == form.beyond;
    return sign * (is_infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN());
  }
  const int exponent = magnitude >> form.fraction_bits, fraction = magnitude & ((1 << form.fraction_bits) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << form.fraction_bits);
  // The numbers below the first exponent have the steps of the first.
  const int power = std::max(exponent, 1) - form.bias - form.fraction_bits;
  return sign * static_cast<float>(whole) * std::bit_cast<float>(static_cast<uint32_t>(power + 127) << 23);
}

float float8_max(DType dtype) { return float8_value(dtype, float8_of(dtype).largest); }

uint8_t float8_bits(DType dtype, float value) {
  const Float8 form = float8_of(dtype);
  const uint32_t f = std::bit_cast<uint32_t>(value), magnitude = f & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>((f >> 24) & 0x80u);
  const auto with_sign = [&](uint32_t bits) {
    const bool is_alone = form.has_one_zero && (bits == 0 || bits == form.nan);
    return static_cast<uint8_t>(is_alone ? bits : bits | sign);
  };
  if (magnitude > 0x7f800000u) return with_sign(form.nan);
  const uint32_t least = static_cast<uint32_t>(128 - form.bias) << 23;  // the first exponent, 2^(1 - bias)
  uint32_t bits = 0;
  if (magnitude < least) {  // adding a number whose last bit is a step lines the bits up and rounds
    const auto power = static_cast<uint32_t>(127 + 1 - form.bias - form.fraction_bits + 23) << 23;
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(power)) - power;
  } else {
    const int dropped = 23 - form.fraction_bits;
    const uint32_t rounded = magnitude + (1u << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1u);
    bits = (rounded - (static_cast<uint32_t>(127 - form.bias) << 23)) >> dropped;
  }
  return with_sign(bits > form.largest ? form.beyond : bits);
}

}  // namespace qdq
