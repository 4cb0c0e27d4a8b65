#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tensor/sym_arithmetic.h"
#include "tensor/sym_int.h"

namespace qdq::tensor_test {
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

// Copies in another order take roads of their own: squares, joined axes, elements of 1, 2, 4 and 8 bytes.
TEST(Tensor, CopiesFromAnyOrderIntoAnyOther) {
  const auto check = [](auto zero, const Shape& sizes, const std::vector<int64_t>& axes, const Shape& into) {
    using Element = decltype(zero);
    const Tensor t = Tensor::empty(sizes, DTypeOf<Element>::value);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<Element>()[i] = static_cast<Element>(i * 7 % 251);
    const Tensor from = t.permute(axes), to = Tensor::empty(from.sizes(), t.dtype());
    const Tensor other =
        into.empty() ? Tensor() : Tensor::empty({from.numel()}, t.dtype()).as_strided(from.sizes(), into, 0);
    to.copy_from(from);
    if (!into.empty()) other.copy_from(from);
    for (int64_t i = 0; i < to.numel(); ++i) {
      int64_t at = 0, place = 0, rest = i;
      for (size_t a = axes.size(); a-- > 0; rest /= from.sizes()[a]) {
        at += rest % from.sizes()[a] * from.strides()[a];
        if (!into.empty()) place += rest % from.sizes()[a] * into[a];
      }
      ASSERT_EQ(to.data<Element>()[i], t.data<Element>()[at]) << i;
      if (!into.empty()) {
        ASSERT_EQ(other.data<Element>()[place], t.data<Element>()[at]) << i;
      }
    }
  };
  check(float(), {2, 1, 3, 3, 7, 5}, {0, 1, 4, 2, 5, 3}, {});  // pixel shuffle
  check(float(), {70, 67}, {1, 0}, {});
  check(float(), {70, 256}, {1, 0}, {});  // rows that are a power of two apart
  check(float(), {5, 3, 9, 4}, {0, 2, 3, 1}, {});
  check(uint8_t(), {3, 40, 37}, {0, 2, 1}, {});
  check(int16_t(), {4, 5, 6}, {2, 1, 0}, {});
  check(int64_t(), {2, 3, 4, 5}, {0, 2, 3, 1}, {});
  check(float(), {2, 6, 5, 4}, {0, 1, 2, 3}, {120, 1, 24, 6});  // into channels last
  check(float(), {2, 0, 4}, {2, 1, 0}, {});
}

TEST(Tensor, RefusesViewsOutsideItsStorage) {
  const Tensor t = Tensor::empty({4}, DType::kF32);
  EXPECT_THROW(t.as_strided({2}, {4}, 0), Error);
  EXPECT_THROW(t.as_strided({1}, {1}, 4), Error);
  EXPECT_THROW(t.as_strided({2, 1LL << 62}, {1, 4}, 0), Error);
  EXPECT_NO_THROW(t.as_strided({2, 2}, {2, 1}, 0));
  EXPECT_THROW(Tensor::empty({1LL << 40, 1LL << 40}, DType::kF32), Error);
}

TEST(Tensor, RefusesSizesWhoseStridesOverflowThoughItIsEmpty) {
  EXPECT_THROW(contiguous_strides({0, 1LL << 62, 1LL << 62}), Error);
  EXPECT_THROW(Tensor::empty({1LL << 62, 1LL << 62, 0}, DType::kF32), Error);
  EXPECT_EQ(contiguous_strides({0, 1LL << 40, 1 << 10}), (Shape{1LL << 50, 1 << 10, 1}));
}

TEST(SymInt, EvaluatesFloorDivisionsThatDoNotComeOutEven) {
  const SymInt s = SymInt::symbol("s0"), halves = (s - 1).floor_div(2), nested = (halves * 3 + 2).floor_div(4) + 1;
  for (int64_t value : {1, 2, 7, 224, 225}) {
    EXPECT_EQ(halves.evaluate({{"s0", value}}), (value - 1) / 2) << value;
    EXPECT_EQ(nested.evaluate({{"s0", value}}), ((value - 1) / 2 * 3 + 2) / 4 + 1) << value;
  }
  EXPECT_EQ((s - 256).floor_div(256).evaluate({{"s0", 1}}), -1);  // toward minus infinity
  EXPECT_EQ(nested.evaluate({{"s1", 4}}), std::nullopt);
  EXPECT_EQ(s.floor_div(s - 1).evaluate({{"s0", 1}}), std::nullopt);
  const SymInt most = SymInt::parse("Max(Symbol('s0', positive=True), Mod(Symbol('s1'), Integer(7)))");
  EXPECT_EQ(most.evaluate({{"s0", 2}, {"s1", 13}}), 6);
  EXPECT_EQ(most.evaluate({{"s0", 2}}), std::nullopt);
  EXPECT_EQ(SymInt::parse("Heaviside(Symbol('s0'))").evaluate({{"s0", 2}}), std::nullopt);
}

TEST(SymInt, DividesTheLeastNumberByMinusOneOnlyWhereTheResultFits) {
  const SymInt least(INT64_MIN), s = SymInt::symbol("s0");
  EXPECT_THROW(least.floor_div(-1), Error);
  EXPECT_THROW((s * least).floor_div(-1), Error);
  EXPECT_THROW((s * least).floor_div(s * -1), Error);
  EXPECT_THROW(SymInt(0) - least, Error);
  EXPECT_THROW((s * least + 1).floor_div(-1), Error);
  EXPECT_EQ((s * (INT64_MIN + 1)).floor_div(-1), s * INT64_MAX);
  EXPECT_EQ(size_modulo(least, -1), SymInt(0));
  EXPECT_EQ(size_modulo(least, 3), SymInt(1));
  EXPECT_EQ(size_modulo(SymInt(INT64_MAX), INT64_MIN), SymInt(-1));
  EXPECT_EQ(size_modulo(SymInt(7), -2), SymInt(-1));
  EXPECT_EQ(size_modulo(SymInt(-7), 2), SymInt(1));
  EXPECT_THROW(size_modulo(s, 0), Error);
  const SymInt quotient = SymInt::parse("FloorDiv(Symbol('s0'), Symbol('s1'))");
  EXPECT_THROW(quotient.evaluate({{"s0", INT64_MIN}, {"s1", -1}}), Error);
  const SymInt rest = SymInt::parse("Mod(Symbol('s0'), Symbol('s1'))");
  EXPECT_EQ(rest.evaluate({{"s0", INT64_MIN}, {"s1", -1}}), 0);
  EXPECT_EQ(rest.evaluate({{"s0", INT64_MIN}, {"s1", 3}}), 1);
}

TEST(SymInt, SpellsASymbolInOneWay) {
  const SymInt u = SymInt::parse("Symbol('u0', integer=True)");
  const std::string symbol = "Symbol('u0', positive=True, integer=True)";
  EXPECT_EQ(u.to_srepr(), symbol);
  const SymInt most = SymInt::parse("Max(Integer(1), Symbol('u0', integer=True), Mod(Symbol('u0'), Integer(2)))");
  EXPECT_EQ(most.to_srepr(), "Max(Integer(1), " + symbol + ", Mod(" + symbol + ", Integer(2)))");
  EXPECT_EQ(most, SymInt::parse(most.to_srepr()));
  EXPECT_THROW(SymInt::parse("Max(Symbol('u0', Integer(1)"), Error);
}

TEST(SymInt, ReadsNumbersOf64Bits) {
  EXPECT_EQ(SymInt::parse("Integer(9223372036854775807)"), SymInt(INT64_MAX));
  EXPECT_EQ(SymInt::parse("Integer(-9223372036854775808)"), SymInt(INT64_MIN));
  EXPECT_THROW(SymInt::parse("Integer(9223372036854775808)"), Error);
  EXPECT_THROW(SymInt::parse("Integer(-)"), Error);
  EXPECT_EQ(SymInt::parse("Min(Symbol('s0'), Integer(9223372036854775807))").evaluate({{"s0", 5}}), 5);
}

TEST(SymInt, HasPowers) {
  const SymInt s = SymInt::symbol("s0"), k = SymInt::symbol("s1");
  EXPECT_EQ(size_power(s, 2), s * s);
  EXPECT_EQ(size_power(s, 0), SymInt(1));
  EXPECT_EQ(size_power(SymInt(-3), 3), SymInt(-27));
  EXPECT_EQ(size_power(SymInt(-2), 63), SymInt(INT64_MIN));
  EXPECT_THROW(size_power(SymInt(2), 63), Error);
  EXPECT_THROW(size_power(SymInt(3), INT64_MAX), Error);
  EXPECT_EQ(size_power(SymInt(-1), INT64_MAX), SymInt(-1));
  EXPECT_EQ(size_power(SymInt(0), 0), SymInt(1));
  EXPECT_EQ(size_power(SymInt(0), INT64_MAX), SymInt(0));
  EXPECT_THROW(size_power(s, -1), Error);
  EXPECT_EQ(size_power(s, 40).evaluate({{"s0", 2}}), int64_t{1} << 40);
  EXPECT_THROW(size_power(s, 40).evaluate({{"s0", 3}}), Error);
  EXPECT_EQ(size_power(s, k).evaluate({{"s0", 3}, {"s1", 4}}), 81);
  EXPECT_EQ(size_power(s, k).evaluate({{"s0", 3}, {"s1", -4}}), std::nullopt);
  EXPECT_EQ(SymInt::parse("PowByNatural(Symbol('s0'), Integer(2))"), s * s);
}

TEST(SymInt, TellsTheLeastNumber) {
  EXPECT_EQ(SymInt(INT64_MIN).to_string(), "-9223372036854775808");
  const SymInt s = SymInt::symbol("s0");
  EXPECT_EQ((s + SymInt(INT64_MIN)).to_string(), "s0 - 9223372036854775808");
  EXPECT_EQ((SymInt(0) - s * 2 - 3).to_string(), "-2*s0 - 3");
  EXPECT_EQ((SymInt(1) - s).to_string(), "-s0 + 1");
  EXPECT_EQ((((s - 256).floor_div(256) + 1) * 2).to_string(), "2*((s0 - 256)//256) + 2");
  EXPECT_EQ(s.floor_div(2).floor_div(s + 1).to_string(), "((s0//2)//(s0 + 1))");
  EXPECT_EQ(((s - 2).floor_div(2) - 1).floor_div(2).to_string(), "((((s0 - 2)//2) - 1)//2)");
  EXPECT_EQ(SymInt::parse("Max(Integer(1), Mod(Symbol('s0'), Integer(4)))").to_string(), "Max(1, (s0 % 4))");
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

// What PyTorch 2.6 makes of these numbers.
TEST(DType, FloatsOf8BitsRoundAsInPyTorch) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kNumbers[] = {448,   464,   464.1f, 480, 1e6f, inf,    nan,  -1e6f, 1e-7f,    -0.f,      0x1p-10f,
                                57344, 61440, 61439,  240, 248,  247.9f, 0.3f, -inf,  0x1p-17f, 0x1.8p-17f};
  const std::pair<DType, std::vector<int>> kBits[] = {
      {DType::kF8E4M3FN, {0x7e, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0xff, 0, 0x80, 0,
                          0x7f, 0x7f, 0x7f, 0x77, 0x78, 0x77, 0x2a, 0xff, 0, 0}},
      {DType::kF8E4M3FNUZ,
       {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 0x80, 0x80, 0x80, 0x7f, 0x80, 0x7f, 0x32, 0x80, 0, 0}},
      {DType::kF8E5M2, {0x5f, 0x5f, 0x5f, 0x60, 0x7c, 0x7c, 0x7f, 0xfc, 0, 0x80, 0x14,
                        0x7b, 0x7c, 0x7b, 0x5c, 0x5c, 0x5c, 0x35, 0xfc, 0, 1}},
      {DType::kF8E5M2FNUZ, {0x63, 0x63, 0x63, 0x64, 0x80, 0x80, 0x80, 0x80, 0, 0, 0x18,
                            0x7f, 0x80, 0x7f, 0x60, 0x60, 0x60, 0x39, 0x80, 1, 2}}};
  for (const auto& [dtype, bits] : kBits) {
    for (size_t i = 0; i < bits.size(); ++i)
      EXPECT_EQ(float8_bits(dtype, kNumbers[i]), bits[i]) << to_string(dtype) << " of " << kNumbers[i];
    int finite = 0;
    for (int all = 0; all < 256; ++all) {
      const float value = float8_value(dtype, static_cast<uint8_t>(all));
      finite += std::isfinite(value);
      if (!std::isnan(value)) {
        EXPECT_EQ(float8_bits(dtype, value), all) << to_string(dtype);
      }
    }
    EXPECT_EQ(finite, dtype == DType::kF8E4M3FN ? 254 : dtype == DType::kF8E5M2 ? 248 : 255);
    EXPECT_EQ(Tensor::full({2}, dtype, 2).select(0, 1).item(), 2);
    EXPECT_EQ(Tensor::scalar(3.f).to(dtype).item_int(), 3);
    EXPECT_EQ(dtype_from_name(to_string(dtype)), dtype);
  }
  EXPECT_EQ(float8_max(DType::kF8E4M3FN), 448);
  EXPECT_EQ(float8_max(DType::kF8E4M3FNUZ), 240);
  EXPECT_EQ(float8_max(DType::kF8E5M2), 57344);
  EXPECT_EQ(float8_max(DType::kF8E5M2FNUZ), 57344);
}

// Beyond what an int64 holds, as in PyTorch 2.6.
TEST(DType, Uint64ConvertsToItsNumber) {
  const Tensor large = Tensor::of<uint64_t>({3}, {(uint64_t{1} << 63) + 1025, ~uint64_t{0}, (uint64_t{1} << 54) + 1});
  EXPECT_EQ(large.to(DType::kF64).data<double>()[0], 0x1p63 + 2048);
  EXPECT_EQ(large.to(DType::kF32).data<float>()[0], 0x1p63f);
  EXPECT_EQ(large.to(DType::kF32).data<float>()[1], 0x1p64f);
  EXPECT_EQ(static_cast<float>(large.to(DType::kBF16).data<BF16>()[0]), 0x1p63f);
  EXPECT_EQ(large.to(DType::kS64).data<int64_t>()[1], -1);
  EXPECT_EQ(large.to(DType::kU32).data<uint32_t>()[0], 1025u);
  EXPECT_THROW(large.select(0, 1).item_int(), Error);
  EXPECT_EQ(large.select(0, 2).item_int(), (int64_t{1} << 54) + 1);
  // Floats beyond int64, as a file may have them where integers are wanted.
  for (const float value : {1e30f, -1e30f, 0x1p63f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(Tensor::scalar(value).item_int(), Error) << value;
  EXPECT_EQ(Tensor::scalar(-0x1p63f).item_int(), std::numeric_limits<int64_t>::min());
  const Tensor numbers = Tensor::of<double>({4}, {1.5e19, -1.5, 3e9, 1e20});
  EXPECT_EQ(numbers.to(DType::kU64).data<uint64_t>()[0], 15000000000000000000u);
  EXPECT_EQ(numbers.to(DType::kU64).data<uint64_t>()[1], ~uint64_t{0});
  EXPECT_EQ(numbers.to(DType::kU64).data<uint64_t>()[3], 0u);
  EXPECT_EQ(numbers.to(DType::kU32).data<uint32_t>()[1], ~uint32_t{0});
  EXPECT_EQ(numbers.to(DType::kU32).data<uint32_t>()[2], 3000000000u);
}

// Conversions of every dtype into every other, contiguous and strided, against the element alone.
TEST(Tensor, ConvertsEveryPairOfDtypes) {
  constexpr DType kDtypes[] = {DType::kU8,  DType::kS8,  DType::kS16, DType::kS32,      DType::kS64,
                               DType::kF16, DType::kF32, DType::kF64, DType::kBool,     DType::kBF16,
                               DType::kU16, DType::kU32, DType::kU64, DType::kF8E4M3FN, DType::kF8E5M2FNUZ};
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

// Lines that are woven into one, and lines of which every other element is taken, have loops of their own.
TEST(Tensor, CopiesOfViewsHaveTheirElements) {
  for (const DType dtype : {DType::kU8, DType::kS16, DType::kF32, DType::kS64}) {
    for (const int64_t lines : {1, 2, 3, 4, 5}) {
      const int64_t length = 37, planes = 3;
      const Tensor numbers = Tensor::empty({planes, lines, length}, DType::kS64);
      for (int64_t i = 0; i < numbers.numel(); ++i) numbers.data<int64_t>()[i] = i % 251;
      const Tensor x = numbers.to(dtype);
      const auto expect = [&](const Tensor& view, auto&& place) {
        const Tensor out = view.clone().to(DType::kS64);
        int64_t at = 0;
        for (int64_t p = 0; p < view.size(0); ++p)
          for (int64_t i = 0; i < view.size(1); ++i)
            for (int64_t j = 0; j < view.size(2); ++j)
              ASSERT_EQ(out.data<int64_t>()[at++], place(p, i, j) % 251) << to_string(dtype) << " " << lines;
      };
      expect(x.transpose(1, 2), [&](int64_t p, int64_t i, int64_t j) { return (p * lines + j) * length + i; });
      expect(x.transpose(0, 2), [&](int64_t p, int64_t i, int64_t j) { return (j * lines + i) * length + p; });
      for (const int64_t step : {2, 3, 4, 5})
        expect(x.slice(2, 1, length, step),
               [&](int64_t p, int64_t i, int64_t j) { return (p * lines + i) * length + 1 + j * step; });
    }
  }
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

TEST(Tensor, RowsReachAsFarAsAllOperandsGoOnEvenly) {
  const Shape sizes{4, 1, 3, 5, 1}, dense = contiguous_strides(sizes), of_channels{3, 3, 1, 0, 0};
  RowWalk alone(sizes, std::array{dense.data()});
  EXPECT_EQ(alone.extent(), 60);
  EXPECT_TRUE(alone.next());
  EXPECT_FALSE(alone.next());
  const std::array strides{dense.data(), of_channels.data()};
  RowWalk both(sizes, strides);
  EXPECT_EQ(both.extent(), 5);
  EXPECT_EQ(both.step(0), 1);
  EXPECT_EQ(both.step(1), 0);
  for (int64_t i = 0; i < 12; ++i) {
    ASSERT_TRUE(both.next());
    EXPECT_EQ(both.offset(0), 5 * i);
    EXPECT_EQ(both.offset(1), i);
  }
  EXPECT_FALSE(both.next());
}

TEST(Tensor, BroadcastsLikePyTorch) {
  EXPECT_EQ(broadcast_shapes({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_THROW(broadcast_shapes({2}, {3}), Error);
  EXPECT_EQ(Tensor::of<float>({2, 1}, {1, 2}).expand({2, 3}).contiguous().data<float>()[5], 2);
}

TEST(SymInt, ARefusalOfLongExpressionsNamesTheRemedy) {
  try {
    SymInt::symbol(std::string(5000, 's'));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("give the model's inputs fixed sizes (--fix"), std::string::npos);
  }
}

}  // namespace
}  // namespace qdq::tensor_test
