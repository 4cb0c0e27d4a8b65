// Copies of many short rows, where a call for each row would take longer than its bytes, and of rows read backwards.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qdq::kernel {

// Nothing here reads or writes outside the rows, and inputs and outputs do not overlap. T is uint8_t or
// float where nothing else is said.

// to[r * to_stride + i] = from[r * from_stride + i] for r < rows, i < bytes; strides in bytes.
void copy_row_bytes(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t bytes,
                    int64_t rows);

// to[r * to_stride + i] = from[r * from_stride + 2 * i] for r < rows, i < n; strides in elements.
template <class T>
void take_every_second(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n, int64_t rows);

// Two to four lines of n elements, `line` elements apart, become one: to[r * to_stride + lines * i + k] =
// from[r * from_stride + k * line + i] for r < rows, i < n, k < lines.
template <class T>
void interleave(const T* from, int64_t from_stride, int64_t line, int64_t lines, T* to, int64_t to_stride, int64_t n,
                int64_t rows);

// to[i] = from[n - 1 - i] for i < n. T is uint8_t, uint16_t, uint32_t or uint64_t.
template <class T> void reverse(const T* from, int64_t n, T* to);

}  // namespace qdq::kernel
