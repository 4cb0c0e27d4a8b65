// Copies of short rows beside plain loops, at every length around those of vectors.
#include "kernel/rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace qdq::kernel::rows_test {
namespace {

constexpr int64_t kRows = 3, kGap = 5;

// Numbers for `rows` rows of `stride` elements, and not one more.
template <class T> std::vector<T> numbers(int64_t count) {
  std::vector<T> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(i * 7 % 251);
  return out;
}

template <class T> void check_every_second(int64_t n) {
  const int64_t stride = 2 * n + kGap, to_stride = n + kGap;
  const std::vector<T> x = numbers<T>((kRows - 1) * stride + 2 * n - 1);
  std::vector<T> found(static_cast<size_t>(kRows * to_stride), T(1)), wanted = found;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t i = 0; i < n; ++i)
      wanted[static_cast<size_t>(r * to_stride + i)] = x[static_cast<size_t>(r * stride + 2 * i)];
  take_every_second(x.data(), stride, found.data(), to_stride, n, kRows);
  EXPECT_EQ(found, wanted) << n;
}

template <class T> void check_lines(int64_t n, int64_t lines) {
  const int64_t line = n + 2, stride = lines * line + kGap, to_stride = lines * n + kGap;
  const std::vector<T> x = numbers<T>((kRows - 1) * stride + (lines - 1) * line + n);
  std::vector<T> found(static_cast<size_t>(kRows * to_stride), T(1)), wanted = found;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t i = 0; i < lines * n; ++i)
      wanted[static_cast<size_t>(r * to_stride + i)] =
          x[static_cast<size_t>(r * stride + i % lines * line + i / lines)];
  interleave(x.data(), stride, line, lines, found.data(), to_stride, n, kRows);
  EXPECT_EQ(found, wanted) << n << " " << lines;
}

TEST(Rows, CopyBytes) {
  for (const int64_t bytes : {0, 1, 3, 4, 5, 7, 8, 15, 16, 17, 24, 32, 33, 255, 256, 300}) {
    const int64_t from_stride = bytes + kGap, to_stride = bytes + 2 * kGap;
    const std::vector<uint8_t> x = numbers<uint8_t>((kRows - 1) * from_stride + bytes);
    std::vector<uint8_t> found(static_cast<size_t>(kRows * to_stride), 1), wanted = found;
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < bytes; ++i)
        wanted[static_cast<size_t>(r * to_stride + i)] = x[static_cast<size_t>(r * from_stride + i)];
    copy_row_bytes(reinterpret_cast<const std::byte*>(x.data()), from_stride,
                   reinterpret_cast<std::byte*>(found.data()), to_stride, bytes, kRows);
    EXPECT_EQ(found, wanted) << bytes;
  }
}

template <class T> void check_reverse(int64_t n) {
  const std::vector<T> x = numbers<T>(n);
  std::vector<T> found(x.size(), T(1));
  reverse(x.data(), n, found.data());
  EXPECT_EQ(found, std::vector<T>(x.rbegin(), x.rend())) << n;
}

TEST(Rows, AreReadBackwards) {
  for (int64_t n = 1; n < 70; ++n) {
    check_reverse<uint8_t>(n);
    check_reverse<uint16_t>(n);
    check_reverse<uint32_t>(n);
    check_reverse<uint64_t>(n);
  }
}

TEST(Rows, EverySecondElementIsTaken) {
  for (int64_t n = 1; n < 70; ++n) {
    check_every_second<uint8_t>(n);
    check_every_second<float>(n);
  }
}

TEST(Rows, LinesAreInterleaved) {
  for (const int64_t lines : {2, 3, 4})
    for (int64_t n = 1; n < 70; ++n) {
      check_lines<uint8_t>(n, lines);
      check_lines<float>(n, lines);
    }
}

}  // namespace
}  // namespace qdq::kernel::rows_test
