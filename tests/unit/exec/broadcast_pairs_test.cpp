#include "exec/broadcast_pairs.h"

#include <gtest/gtest.h>

#include "kernel/pointwise.h"

namespace qdq::broadcast_pairs_test {
namespace {

int64_t calls = 0;

void count(const float* a, const float* b, float, int64_t n, float* out) {
  ++calls;
  kernel::sub_f32(a, b, n, out);
}

Tensor counted(Shape sizes) {
  Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i * i % 97);
  return out;
}

// As distances of all points to all others have it; the coordinates of a point lie side by side or apart.
TEST(BroadcastPairs, RepeatedRowsGoTogetherInEveryPlane) {
  for (const int64_t width : {3, 32, 200})
    for (const int form : {0, 1, 2, 3}) {
      SCOPED_TRACE(concat(width, ", ", form));
      const bool is_swapped = form % 2 == 1, is_view = form / 2 == 1;
      const auto points = [&](int64_t n) {
        return is_view ? counted({2, width, n}).transpose(1, 2) : counted({2, n, width});
      };
      Tensor a = points(5).unsqueeze(2), b = points(40).unsqueeze(1);
      if (is_swapped) std::swap(a, b);
      Tensor out = Tensor::empty({2, 5, 40, width}, DType::kF32);
      calls = 0;
      broadcast_pairs(count, 1, a, b, out);
      if (width < 100) {
        EXPECT_LE(calls, 10 * (40 * width / 256 + 1));
      }
      const Tensor x = a.expand(out.sizes()).contiguous(), y = b.expand(out.sizes()).contiguous();
      for (int64_t i = 0; i < out.numel(); ++i)
        ASSERT_EQ(out.data<float>()[i], x.data<float>()[i] - y.data<float>()[i]) << i;
    }
}

}  // namespace
}  // namespace qdq::broadcast_pairs_test
