// Data types of tensor elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace qdq {

// The numbers below 64 are those of torch.export's schema (torch/_export/serde/schema.py, ScalarType; float8 has some
// only after PyTorch 2.6). The schema has none for the others.
enum class DType : uint8_t {
  kU8 = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kC64 = 10,
  kBool = 12,
  kBF16 = 13,
  kU16 = 28,
  kF8E4M3FN = 29,
  kF8E5M2 = 30,
  kF8E4M3FNUZ = 31,
  kF8E5M2FNUZ = 32,
  kU32 = 64,
  kU64 = 65,
  kString = 255,  // which PyTorch does not have: the number of a text (tensor/strings.h)
};

// Bytes of one element.
size_t size_of(DType dtype);
// PyTorch's name without "torch.": "float32", "int8", "bool"; or "string".
std::string_view to_string(DType dtype);
// The dtype of PyTorch's name, with or without "torch."; nothing if qdq does not have it. Strings are none of
// PyTorch's.
std::optional<DType> dtype_from_name(std::string_view name);
// The dtype of a number of torch.export's schema; nothing if qdq does not have it.
std::optional<DType> dtype_from_number(int64_t number);

// The floats of 8 bits hold numbers; nothing computes with them.
inline bool is_float8(DType t) { return t >= DType::kF8E4M3FN && t <= DType::kF8E5M2FNUZ; }
inline bool is_floating(DType t) {
  return t == DType::kF16 || t == DType::kF32 || t == DType::kF64 || t == DType::kBF16 || is_float8(t);
}
// Complex numbers are elements for the operators of op/complex.cpp and for those that only move elements.
inline bool is_complex(DType t) { return t == DType::kC64; }
inline bool is_integral(DType t) {
  return !is_floating(t) && !is_complex(t) && t != DType::kBool && t != DType::kString;
}
// Smallest and largest value of an integer dtype. Throws Error{kInvalidArgument} for others, and for the largest of
// uint64.
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

// The bits of a float in a dtype of 8 bits, rounding half to even. What rounds beyond the largest number is infinity,
// or NaN in the dtypes without infinities; fnuz has one zero and one NaN (c10/util/Float8_*.h).
uint8_t float8_bits(DType dtype, float value);
float float8_value(DType dtype, uint8_t bits);
// The largest number of a dtype of 8 bits.
float float8_max(DType dtype);

// An element of a tensor of strings: the number of its text. No operator computes with it.
struct StringId {
  uint64_t number = 0;
};

// An element of a complex64 tensor.
struct Complex64 {
  float real = 0, imag = 0;
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
template <> struct DTypeOf<Complex64> {
  static constexpr DType value = DType::kC64;
};
template <> struct DTypeOf<StringId> {
  static constexpr DType value = DType::kString;
};

template <> struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <> struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kU64;
};

template <class T> struct Type {
  using type = T;
};

[[noreturn]] void refuse_arithmetic(DType dtype);

// Calls body(Type<T>{}) with the C++ type of the dtype. Throws Error{kUnsupported} for floats of 8 bits, complex
// numbers and strings, which have none that computes.
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
    case DType::kU32: return body(Type<uint32_t>{});
    case DType::kU64: return body(Type<uint64_t>{});
    case DType::kC64:
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
    case DType::kString: refuse_arithmetic(dtype);
  }
  fail(ErrorCode::kInternal, "unknown dtype number ", static_cast<int>(dtype));
}

}  // namespace qdq
