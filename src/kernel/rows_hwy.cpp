#include "kernel/rows.h"

#include <cstring>

#define QDQ_TARGETS_UP_TO_AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/rows_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows are too short for more.
template <class T> using Tag = hn::CappedTag<T, 16 / sizeof(T)>;

template <class T>
void every_second(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n, int64_t rows) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    int64_t i = 0;
    // The second of the last pair may lie behind the row.
    for (; i + lanes < n; i += lanes) {
      const auto low = hn::LoadU(d, from + 2 * i), high = hn::LoadU(d, from + 2 * i + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, to + i);
    }
    for (; i < n; ++i) to[i] = from[2 * i];
  }
}

template <int64_t lines, class T>
void woven(const T* from, int64_t from_stride, int64_t line, T* to, int64_t to_stride, int64_t n, int64_t rows) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    const auto at = [&](int64_t k, int64_t i) HWY_ATTR { return hn::LoadU(d, from + k * line + i); };
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      if constexpr (lines == 2) hn::StoreInterleaved2(at(0, i), at(1, i), d, to + 2 * i);
      else if constexpr (lines == 3) hn::StoreInterleaved3(at(0, i), at(1, i), at(2, i), d, to + 3 * i);
      else hn::StoreInterleaved4(at(0, i), at(1, i), at(2, i), at(3, i), d, to + 4 * i);
    }
    for (; i < n; ++i)
      for (int64_t k = 0; k < lines; ++k) to[lines * i + k] = from[k * line + i];
  }
}
template <class T>
void any_woven(const T* from, int64_t from_stride, int64_t line, int64_t lines, T* to, int64_t to_stride, int64_t n,
               int64_t rows) {
  if (lines == 2) woven<2>(from, from_stride, line, to, to_stride, n, rows);
  else if (lines == 3) woven<3>(from, from_stride, line, to, to_stride, n, rows);
  else woven<4>(from, from_stride, line, to, to_stride, n, rows);
}

void every_second_u8(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride, int64_t n,
                     int64_t rows) {
  every_second(from, from_stride, to, to_stride, n, rows);
}
void every_second_f32(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t n, int64_t rows) {
  every_second(from, from_stride, to, to_stride, n, rows);
}
void woven_u8(const uint8_t* from, int64_t from_stride, int64_t line, int64_t lines, uint8_t* to, int64_t to_stride,
              int64_t n, int64_t rows) {
  any_woven(from, from_stride, line, lines, to, to_stride, n, rows);
}
void woven_f32(const float* from, int64_t from_stride, int64_t line, int64_t lines, float* to, int64_t to_stride,
               int64_t n, int64_t rows) {
  any_woven(from, from_stride, line, lines, to, to_stride, n, rows);
}

template <class T> HWY_INLINE void backwards(const T* from, int64_t n, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, from + n - i - lanes)), d, to + i);
  for (; i < n; ++i) to[i] = from[n - 1 - i];
}
void backwards_u8(const uint8_t* from, int64_t n, uint8_t* to) { backwards(from, n, to); }
void backwards_u16(const uint16_t* from, int64_t n, uint16_t* to) { backwards(from, n, to); }
void backwards_u32(const uint32_t* from, int64_t n, uint32_t* to) { backwards(from, n, to); }
void backwards_u64(const uint64_t* from, int64_t n, uint64_t* to) { backwards(from, n, to); }

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {

HWY_EXPORT(every_second_u8);
HWY_EXPORT(every_second_f32);
HWY_EXPORT(woven_u8);
HWY_EXPORT(woven_f32);
HWY_EXPORT(backwards_u8);
HWY_EXPORT(backwards_u16);
HWY_EXPORT(backwards_u32);
HWY_EXPORT(backwards_u64);

namespace {

// From here on the call costs less than the bytes.
constexpr int64_t kLongRow = 256;

// Blocks of kBlock bytes, the last of which ends where the row ends, and so overlaps the one in front of it.
template <int64_t kBlock>
void copy_blocks(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t bytes,
                 int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    for (int64_t i = 0; i + kBlock < bytes; i += kBlock) std::memcpy(to + i, from + i, kBlock);
    std::memcpy(to + bytes - kBlock, from + bytes - kBlock, kBlock);
  }
}

}  // namespace

void copy_row_bytes(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t bytes,
                    int64_t rows) {
  if (bytes >= kLongRow) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to + r * to_stride, from + r * from_stride, static_cast<size_t>(bytes));
  } else if (bytes >= 16) {
    copy_blocks<16>(from, from_stride, to, to_stride, bytes, rows);
  } else if (bytes >= 8) {
    copy_blocks<8>(from, from_stride, to, to_stride, bytes, rows);
  } else if (bytes >= 4) {
    copy_blocks<4>(from, from_stride, to, to_stride, bytes, rows);
  } else if (bytes > 0) {
    copy_blocks<1>(from, from_stride, to, to_stride, bytes, rows);
  }
}

template <>
void take_every_second(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride, int64_t n,
                       int64_t rows) {
  HWY_DYNAMIC_DISPATCH(every_second_u8)(from, from_stride, to, to_stride, n, rows);
}
template <>
void take_every_second(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t n, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(every_second_f32)(from, from_stride, to, to_stride, n, rows);
}

template <>
void interleave(const uint8_t* from, int64_t from_stride, int64_t line, int64_t lines, uint8_t* to, int64_t to_stride,
                int64_t n, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(woven_u8)(from, from_stride, line, lines, to, to_stride, n, rows);
}
template <>
void interleave(const float* from, int64_t from_stride, int64_t line, int64_t lines, float* to, int64_t to_stride,
                int64_t n, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(woven_f32)(from, from_stride, line, lines, to, to_stride, n, rows);
}

template <> void reverse(const uint8_t* from, int64_t n, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(backwards_u8)(from, n, to);
}
template <> void reverse(const uint16_t* from, int64_t n, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(backwards_u16)(from, n, to);
}
template <> void reverse(const uint32_t* from, int64_t n, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(backwards_u32)(from, n, to);
}
template <> void reverse(const uint64_t* from, int64_t n, uint64_t* to) {
  HWY_DYNAMIC_DISPATCH(backwards_u64)(from, n, to);
}

}  // namespace qdq::kernel
#endif
