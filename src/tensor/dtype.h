// Data types of tensor elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace qdq {

// The numbers are those of torch.export's schema (torch/_export/serde/schema.py, ScalarType).
enum class DType : uint8_t {
  kU8 = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kBool = 12,
  kBF16 = 13,
  kU16 = 28,
};

// Bytes of one element.
size_t size_of(DType dtype);
// PyTorch's name without "torch.": "float32", "int8", "bool".
std::string_view to_string(DType dtype);
// The dtype of PyTorch's name, with or without "torch."; nothing if qdq does not have it.
std::optional<DType> dtype_from_name(std::string_view name);
std::optional<DType> dtype_from_number(int64_t number);

inline bool is_floating(DType t) {
  return t == DType::kF16 || t == DType::kF32 || t == DType::kF64 || t == DType::kBF16;
}
inline bool is_integral(DType t) { return !is_floating(t) && t != DType::kBool; }
// Smallest and largest value of an integer dtype. Throws Error{kInvalidArgument} for others.
int64_t min_of(DType dtype);
int64_t max_of(DType dtype);

// IEEE half and bfloat16 as storage: 16 bits that convert to and from float (rounding half to even).
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float value);
  operator float() const;
};
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float value);
  operator float() const;
};

// The dtype of a C++ element type.
template <class T> struct DTypeOf;
template <> struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <> struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kS8;
};
template <> struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kS16;
};
template <> struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kS32;
};
template <> struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kS64;
};
template <> struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <> struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <> struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <> struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <> struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <> struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kU16;
};

template <class T> struct Type {
  using type = T;
};

// Calls body(Type<T>{}) with the C++ type of the dtype.
template <class Body> decltype(auto) visit_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kU8: return body(Type<uint8_t>{});
    case DType::kS8: return body(Type<int8_t>{});
    case DType::kS16: return body(Type<int16_t>{});
    case DType::kS32: return body(Type<int32_t>{});
    case DType::kS64: return body(Type<int64_t>{});
    case DType::kF16: return body(Type<F16>{});
    case DType::kF32: return body(Type<float>{});
    case DType::kF64: return body(Type<double>{});
    case DType::kBool: return body(Type<bool>{});
    case DType::kBF16: return body(Type<BF16>{});
    case DType::kU16: return body(Type<uint16_t>{});
  }
  fail(ErrorCode::kInternal, "unknown dtype number ", static_cast<int>(dtype));
}

}  // namespace qdq
