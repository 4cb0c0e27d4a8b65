#include "tensor/dtype.h"

#include <bit>
#include <limits>

namespace qdq {

size_t size_of(DType dtype) {
  return visit_dtype(dtype, [](auto type) { return sizeof(typename decltype(type)::type); });
}

namespace {
struct Name {
  DType dtype;
  std::string_view name;
};
constexpr Name kNames[] = {
    {DType::kU8, "uint8"},  {DType::kS8, "int8"},       {DType::kS16, "int16"},   {DType::kS32, "int32"},
    {DType::kS64, "int64"}, {DType::kF16, "float16"},   {DType::kF32, "float32"}, {DType::kF64, "float64"},
    {DType::kBool, "bool"}, {DType::kBF16, "bfloat16"}, {DType::kU16, "uint16"},
};
}  // namespace

std::string_view to_string(DType dtype) {
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
  for (const Name& entry : kNames)
    if (static_cast<int64_t>(entry.dtype) == number) return entry.dtype;
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

}  // namespace qdq
