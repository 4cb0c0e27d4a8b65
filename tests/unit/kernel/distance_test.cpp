// Distances against plain loops, bit for bit.
#include "kernel/distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::distance_test {
namespace {

TEST(Distance, SumsSquaresInTheirOrder) {
  struct Case {
    int64_t rows, depth, columns;
  };
  Random random(1);
  for (const auto& [rows, depth, columns] : {Case{1, 1, 1}, Case{7, 33, 40}, Case{70, 64, 130}, Case{4, 0, 5}}) {
    const int64_t stride = (columns + kDistanceColumns - 1) / kDistanceColumns * kDistanceColumns;
    const auto x = random.floats(rows * depth), y = random.floats(depth * stride);
    std::vector<float> want, got(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        float sum = 0;
        for (int64_t d = 0; d < depth; ++d) {
          const float way = at(x, r * depth + d) - at(y, d * stride + c);
          sum += way * way;
        }
        want.push_back(sum);
      }
    for (const int threads : {1, 3}) {
      std::fill(got.begin(), got.end(), NAN);
      set_num_threads(threads);
      squared_distances_f32(x.data(), rows, depth, y.data(), columns, stride, got.data());
      set_num_threads(1);
      EXPECT_TRUE(same_bits(got, want)) << rows << " rows of " << depth << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::distance_test
