#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

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
    if (!std::isnan(value)) {
      EXPECT_EQ(F16(value).bits, bits);
    }
    BF16 brain;
    brain.bits = static_cast<uint16_t>(bits);
    if (!std::isnan(static_cast<float>(brain))) {
      EXPECT_EQ(BF16(static_cast<float>(brain)).bits, bits);
    }
  }
}

// Conversions of every dtype into every other, contiguous and strided, against the element alone.
TEST(Tensor, ConvertsEveryPairOfDtypes) {
  constexpr DType kDtypes[] = {DType::kU8,  DType::kS8,  DType::kS16,  DType::kS32,  DType::kS64, DType::kF16,
                               DType::kF32, DType::kF64, DType::kBool, DType::kBF16, DType::kU16};
  const Tensor numbers =
      Tensor::of<double>({3, 2, 2}, {0, 1, -1, 2.5, -2.5, 127, 128, -300.75, 65504, 70000, 1e10, -1e10});
  const Tensor many = Tensor::empty({300, 3}, DType::kF64);  // rows longer than what is converted at a time
  for (int64_t i = 0; i < many.numel(); ++i) many.data<double>()[i] = static_cast<double>(i) * 0.75 - 100;
  for (const Tensor& wide : {numbers, many}) {
    for (const DType from : kDtypes) {
      const Tensor x = wide.to(from);
      for (const DType to : kDtypes) {
        const Tensor flat = x.to(to), turned = x.transpose(0, -1).to(to).transpose(0, -1).contiguous();
        EXPECT_TRUE(bitwise_equal(flat, turned)) << to_string(from) << " to " << to_string(to);
        const Tensor one_by_one = x.to(to).clone();
        const Tensor elements = x.reshape({x.numel()}), out = one_by_one.reshape({x.numel()});
        for (int64_t i = 0; i < x.numel(); ++i) out.select(0, i).copy_from(elements.select(0, i));
        EXPECT_TRUE(bitwise_equal(flat, one_by_one)) << to_string(from) << " to " << to_string(to);
      }
    }
  }
  const Tensor whole = Tensor::of<int64_t>({3}, {(1LL << 53) + 1, -1, 1LL << 40});
  EXPECT_EQ(whole.to(DType::kF32).data<float>()[0], 9007199254740992.f);  // rounded once, from the integer itself
  EXPECT_EQ(whole.to(DType::kU8).data<uint8_t>()[1], 255);
  EXPECT_EQ(whole.to(DType::kS32).data<int32_t>()[2], 0);
  const Tensor odd = Tensor::of<float>({4}, {std::nanf(""), 1e30f, -1.75f, 300.f});
  EXPECT_EQ(odd.to(DType::kS64).data<int64_t>()[0], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(odd.to(DType::kS64).data<int64_t>()[1], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(odd.to(DType::kS8).data<int8_t>()[2], -1);
  EXPECT_EQ(odd.to(DType::kU8).data<uint8_t>()[3], 44);
  EXPECT_TRUE(odd.to(DType::kBool).data<bool>()[0]);
  EXPECT_EQ(Tensor::of<double>({1}, {1.0 + 0x1p-11}).to(DType::kF16).data<F16>()->bits, 0x3c00);
}

TEST(Tensor, WalksRowsInOrder) {
  const Tensor t = Tensor::of<int64_t>({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tensor turned = t.permute({2, 0, 1});
  std::vector<int64_t> seen;
  for_each_index<1>(turned.sizes(), {turned.strides().data()},
                    [&](const std::array<int64_t, 1>& at) { seen.push_back(at[0]); });
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  int visits = 0;
  for_each_index<1>({}, {nullptr}, [&](const std::array<int64_t, 1>&) { ++visits; });
  EXPECT_EQ(visits, 1);
  for (const Shape& none : {Shape{0}, Shape{2, 0}, Shape{0, 2}})
    for_each_index<1>(none, {contiguous_strides(none).data()}, [&](const std::array<int64_t, 1>&) { ++visits; });
  EXPECT_EQ(visits, 1);
}

TEST(Tensor, BroadcastsLikePyTorch) {
  EXPECT_EQ(broadcast_shapes({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_THROW(broadcast_shapes({2}, {3}), Error);
  EXPECT_EQ(Tensor::of<float>({2, 1}, {1, 2}).expand({2, 3}).contiguous().data<float>()[5], 2);
}

}  // namespace
}  // namespace qdq
