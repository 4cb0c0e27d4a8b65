// Comparisons and logic beside plain loops, at every length around those of vectors.
#include "kernel/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace qdq::kernel::compare_test {
namespace {

constexpr Comparison kAll[] = {Comparison::kEqual, Comparison::kLess, Comparison::kLessEqual};

template <class T> bool plain(Comparison how, T a, T b) {
  return how == Comparison::kEqual ? a == b : how == Comparison::kLess ? a < b : a <= b;
}

template <class T> void check(const std::vector<T>& values) {
  for (int64_t n = 1; n < 70; ++n)
    for (const Comparison how : kAll)
      for (const auto& [x_step, y_step] : {std::pair(1, 1), std::pair(1, 0), std::pair(0, 1), std::pair(0, 0)}) {
        std::vector<T> x, y;
        for (int64_t i = 0; i < n; ++i) {
          x.push_back(values[static_cast<size_t>(i * 7 + 1) % values.size()]);
          y.push_back(values[static_cast<size_t>(i * 3 + n) % values.size()]);
        }
        const auto count = static_cast<size_t>(n);
        const std::unique_ptr<bool[]> out(new bool[count]);
        compare(how, x.data(), x_step, y.data(), y_step, n, out.get());
        for (size_t i = 0; i < count; ++i)
          ASSERT_EQ(out[i], plain(how, x[x_step == 0 ? 0 : i], y[y_step == 0 ? 0 : i])) << n << " at " << i;
      }
}

TEST(Compare, NumbersAreComparedExactly) {
  check<float>({0.0f, -0.0f, NAN, 1.5f, -INFINITY, INFINITY, 1e-40f, 3.0f});
  check<int32_t>({0, -1, 7, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()});
  check<int64_t>({0, -1, int64_t{1} << 53, (int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), 7, int64_t{1} << 32});
}

TEST(Compare, TruthValuesAreCombined) {
  for (int64_t n = 1; n < 140; ++n)
    for (const Logic how : {Logic::kAnd, Logic::kOr, Logic::kXor})
      for (const int64_t y_step : {0, 1}) {
        const auto count = static_cast<size_t>(n);
        const std::unique_ptr<bool[]> x(new bool[count]), y(new bool[count]), out(new bool[count]);
        for (size_t i = 0; i < count; ++i) x[i] = i * i % 3 == 1, y[i] = (i + count) % 5 < 2;
        combine(how, x.get(), 1, y.get(), y_step, n, out.get());
        for (size_t i = 0; i < count; ++i) {
          const bool a = x[i], b = y[y_step == 0 ? 0 : i];
          ASSERT_EQ(out[i], how == Logic::kAnd ? a && b : how == Logic::kOr ? a || b : a != b) << n << " at " << i;
        }
      }
}

}  // namespace
}  // namespace qdq::kernel::compare_test
