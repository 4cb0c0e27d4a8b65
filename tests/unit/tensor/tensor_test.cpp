#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace qdq {
namespace {

TEST(Tensor, ViewsShareBytesAndCopiesDoNot) {
  const Tensor t = Tensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  const Tensor column = t.select(1, 1);
  column.copy_from(Tensor::scalar(9.f));
  EXPECT_EQ(t.data<float>()[1], 9);
  EXPECT_EQ(t.data<float>()[4], 9);
  EXPECT_FALSE(t.transpose(0, 1).is_contiguous());
  const Tensor copy = t.transpose(0, 1).contiguous();
  EXPECT_EQ(copy.data<float>()[1], 3);
  copy.copy_from(Tensor::scalar(0.f));
  EXPECT_EQ(t.data<float>()[3], 3);
}

TEST(Tensor, ReshapeIsAViewWhereStridesAllowIt) {
  const Tensor t = Tensor::of<int64_t>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(t.reshape({4, 2}).storage(), t.storage());
  EXPECT_EQ(t.permute({2, 0, 1}).reshape({2, 4}).storage(), t.storage());  // the last two axes stay one run
  const Tensor swapped = t.permute({0, 2, 1}).reshape({8});
  EXPECT_NE(swapped.storage(), t.storage());
  const std::vector<int64_t> want{0, 2, 1, 3, 4, 6, 5, 7};
  EXPECT_TRUE(std::equal(want.begin(), want.end(), swapped.data<int64_t>()));
  EXPECT_THROW(t.reshape({3, 3}), Error);
}

TEST(Tensor, RefusesViewsOutsideItsStorage) {
  const Tensor t = Tensor::empty({4}, DType::kF32);
  EXPECT_THROW(t.as_strided({2}, {4}, 0), Error);
  EXPECT_THROW(t.as_strided({1}, {1}, 4), Error);
  EXPECT_THROW(t.as_strided({2, 1LL << 62}, {1, 4}, 0), Error);
  EXPECT_NO_THROW(t.as_strided({2, 2}, {2, 1}, 0));
  EXPECT_THROW(Tensor::empty({1LL << 40, 1LL << 40}, DType::kF32), Error);
}

TEST(DType, HalvesRoundHalfToEven) {
  EXPECT_EQ(F16(65504.f).bits, 0x7bff);
  EXPECT_EQ(F16(65520.f).bits, 0x7c00);
  EXPECT_EQ(F16(1.f + 0x1p-11f).bits, 0x3c00);
  EXPECT_EQ(F16(1.f + 0x3p-11f).bits, 0x3c02);
  EXPECT_EQ(F16(0x1p-25f).bits, 0);
  EXPECT_EQ(F16(0x1.8p-24f).bits, 2);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    F16 half;
    half.bits = static_cast<uint16_t>(bits);
    const float value = half;
    if (!std::isnan(value)) { EXPECT_EQ(F16(value).bits, bits); }
    BF16 brain;
    brain.bits = static_cast<uint16_t>(bits);
    if (!std::isnan(static_cast<float>(brain))) { EXPECT_EQ(BF16(static_cast<float>(brain)).bits, bits); }
  }
}

TEST(Tensor, BroadcastsLikePyTorch) {
  EXPECT_EQ(broadcast_shapes({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_THROW(broadcast_shapes({2}, {3}), Error);
  EXPECT_EQ(Tensor::of<float>({2, 1}, {1, 2}).expand({2, 3}).contiguous().data<float>()[5], 2);
}

}  // namespace
}  // namespace qdq
