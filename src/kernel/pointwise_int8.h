// Integer pools, sums, products and tables over channels-last u8 tensors, by the formula of kernel/requantize.h: what
// surrounds the convolutions of an int8 network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel/pool.h"
#include "kernel/requantize.h"

namespace qdq::kernel {

// An operand whose row r begins at data + r * row_stride elements; stride 0 repeats a row.
struct RealRows {
  const std::byte* data = nullptr;
  bool is_float = false;   // else u8
  int32_t zero_point = 0;  // of u8
  int64_t row_stride = 0;
};

// out[r, i] = finish(real(a) * a_multiplier + real(b) * b_multiplier) for rows x n elements, out contiguous, where
// real(x) = f32(x - zero_point) for u8 and x for f32, and finish is the formula from t on. out may be an operand of the
// same element size whose rows are contiguous.
void add_rows(const RealRows& a, float a_multiplier, const RealRows& b, float b_multiplier, int64_t rows, int64_t n,
              const Requantize& to, void* out);
// out[r, i] = finish((real(a) * multiplier) * real(b)).
void mul_rows(const RealRows& a, const RealRows& b, float multiplier, int64_t rows, int64_t n, const Requantize& to,
              void* out);

// out[r, i] = finish(t) with t = real(x) * multiplier where that is above 0, else real(x) * multiplier * slopes[i].
void prelu_rows(const RealRows& x, float multiplier, const float* slopes, int64_t rows, int64_t n, const Requantize& to,
                void* out);

// out[i] = finish(real(x) * multiplier) for n elements of one row; out may be x if the sizes of elements are equal.
void convert_row(const RealRows& x, float multiplier, int64_t n, const Requantize& to, void* out);

// A table of 256 bytes made ready for vectors, which look 16 entries up at once: below `low` and above `high` it has
// one value each, so only the entries between them are searched.
struct ByteTable {
  explicit ByteTable(const uint8_t* table);
  uint8_t low = 0, high = 255;
  int pieces = 0;  // of 16 entries, from table[low] on
  std::array<uint8_t, 256> entries{}, whole{};
};

// out[i] = table[x[i]]; out may be x.
void map_u8(const uint8_t* x, int64_t n, const ByteTable& table, uint8_t* out);
void map_u8(const uint8_t* x, int64_t n, const float* table, float* out);

// The largest of every window of x [batch, in_h, in_w, channels]; taps in the padding do not count, and every window
// has one tap inside the image. pool.planes is not used.
void max_pool2d_u8(const uint8_t* x, int64_t batch, int64_t channels, const Pool2d& pool, uint8_t* out);

// sums[c] = the sum of x over rows x columns pixels, less their zero points. Strides in elements. At most 2^23 pixels.
void sum_pixels_u8(const uint8_t* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                   int64_t channels, int32_t zero_point, int32_t* sums);
// The same of f32, added in the order of rows and columns from 0.
void sum_pixels_f32(const float* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                    int64_t channels, float* sums);
// sums[c] = the sum of q(x) - zero_point, where q is the formula's last line for u8 of x itself, by the rounding's
// inverse_scale, zero_point, low and high. As many pixels as above.
void sum_rounded_pixels_f32(const float* x, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                            int64_t channels, const Requantize& rounding, int32_t* sums);
// out[i] = finish(f32(sums[i]) * multiplier).
void requantize_sums(const int32_t* sums, int64_t n, float multiplier, const Requantize& to, void* out);

// An image of planes as channels-last pixels, out[p, c] = x[c, p], and back through a table, out[c, p] = table[x[p,
// c]], where T is uint8_t or float. x and out do not alias.
void interleave_planes_u8(const uint8_t* x, int64_t channels, int64_t pixels, uint8_t* out);
template <class T> void map_to_planes_u8(const uint8_t* x, int64_t channels, int64_t pixels, const T* table, T* out);

}  // namespace qdq::kernel
