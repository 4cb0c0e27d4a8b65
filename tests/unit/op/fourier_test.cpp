// Fourier transforms of one row against the plain sum.
#include "op/fourier.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "unit/base/limited_memory.h"

namespace qdq::fourier_test {
namespace {

std::vector<Complex> row_of(int64_t length) {
  std::vector<Complex> out;
  for (int64_t i = 0; i < length; ++i)
    out.push_back({static_cast<double>(i * 7 % 11) - 4, static_cast<double>(i * 5 % 13) / 3 - 2});
  return out;
}
std::vector<Complex> transformed(const std::vector<Complex>& row, bool is_inverse) {
  std::vector<Complex> out(row.size());
  FourierTransform(static_cast<int64_t>(row.size()), is_inverse).run(row.data(), out.data());
  return out;
}
std::vector<Complex> plain_sums(const std::vector<Complex>& row, bool is_inverse) {
  const auto n = static_cast<int64_t>(row.size());
  std::vector<Complex> out(row.size());
  for (int64_t k = 0; k < n; ++k) {
    long double real = 0, imag = 0;
    for (int64_t t = 0; t < n; ++t) {
      const long double angle = 2 * 3.14159265358979323846264338327950288L * static_cast<long double>(t * k % n) /
                                static_cast<long double>(n);
      const long double c = std::cos(angle), s = is_inverse ? std::sin(angle) : -std::sin(angle);
      const Complex z = row[static_cast<size_t>(t)];
      real += z.real * c - z.imag * s;
      imag += z.real * s + z.imag * c;
    }
    out[static_cast<size_t>(k)] = {static_cast<double>(real), static_cast<double>(imag)};
  }
  return out;
}
void expect_near(const std::vector<Complex>& found, const std::vector<Complex>& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t k = 0; k < found.size(); ++k) {
    ASSERT_NEAR(found[k].real, wanted[k].real, tolerance) << "bin " << k;
    ASSERT_NEAR(found[k].imag, wanted[k].imag, tolerance) << "bin " << k;
  }
}

// Every radix and its products, and lengths that become a convolution: 37, 41, ..., 257, 1021 = 1021, 998 = 2 * 499.
TEST(FourierTransform, IsThePlainSum) {
  std::vector<int64_t> lengths{128, 210, 243, 257, 625, 961, 998, 1021, 1024};
  for (int64_t n = 1; n <= 75; ++n) lengths.push_back(n);
  for (const int64_t n : lengths)
    for (const bool is_inverse : {false, true}) {
      SCOPED_TRACE(n);
      const std::vector<Complex> row = row_of(n);
      expect_near(transformed(row, is_inverse), plain_sums(row, is_inverse), 1e-12 * static_cast<double>(n));
    }
}

TEST(FourierTransform, IsUndoneByTheInverse) {
  for (const int64_t n : {1 << 12, 3 * 5 * 7 * 11, 4999}) {
    std::vector<Complex> row = row_of(n), back = transformed(transformed(row, false), true);
    for (Complex& z : row) z = {z.real * static_cast<double>(n), z.imag * static_cast<double>(n)};
    expect_near(back, row, 1e-9 * static_cast<double>(n));
  }
}

TEST(FourierTransform, GivesSeveralRowsTheBitsOfOne) {
  for (const int64_t n : {1, 2, 12, 30, 49, 64, 37 * 2, 101, 1024}) {
    std::vector<ComplexRows> rows(static_cast<size_t>(n)), found(rows.size());
    std::vector<std::vector<Complex>> each(kernel::kFourierRows);
    for (size_t r = 0; r < each.size(); ++r) {
      each[r] = row_of(n);
      for (size_t t = 0; t < rows.size(); ++t) {
        each[r][t].real += static_cast<double>(r) * each[r][(t + 1) % rows.size()].imag;
        rows[t].real[r] = each[r][t].real;
        rows[t].imag[r] = each[r][t].imag;
      }
    }
    FourierTransform(n, true).run(rows.data(), found.data());
    for (size_t r = 0; r < each.size(); ++r) {
      const std::vector<Complex> wanted = transformed(each[r], true);
      for (size_t k = 0; k < rows.size(); ++k) {
        EXPECT_EQ(found[k].real[r], wanted[k].real) << n;
        EXPECT_EQ(found[k].imag[r], wanted[k].imag) << n;
      }
    }
  }
}

TEST(FourierTransform, RootsAreThoseOfTheirAngles) {
  for (const int64_t n : {1, 2, 8, 30, 400, 1024})
    for (const double sign : {1.0, -1.0}) {
      const std::vector<Complex> roots = roots_of_one(n, n, sign);
      ASSERT_EQ(roots.size(), static_cast<size_t>(n));
      for (int64_t k = 0; k < n; ++k) {
        const Complex want = root_of_one(k, n, sign), got = roots[static_cast<size_t>(k)];
        EXPECT_NEAR(got.real, want.real, 1e-15) << k << " of " << n;
        EXPECT_NEAR(got.imag, want.imag, 1e-15) << k << " of " << n;
      }
    }
  EXPECT_EQ(roots_of_one(3, 1024, -1).size(), 3u);
}

TEST(FourierTransform, RefusesLengthsThatItDoesNotTransform) {
  const auto message_of = [](int64_t length) -> std::string {
    try {
      FourierTransform(length, false);
    } catch (const Error& error) {
      return error.message;
    }
    return "nothing was thrown";
  };
  const std::string ends = " elements is wanted; qdq transforms 1 to 16777216";
  EXPECT_EQ(message_of(0), "a Fourier transform of 0" + ends);
  EXPECT_EQ(message_of(-3), "a Fourier transform of -3" + ends);
  EXPECT_EQ(message_of(FourierTransform::kMostLength + 1), "a Fourier transform of 16777217" + ends);
  EXPECT_EQ(message_of(8388617),  // the first prime above 2^23
            "a Fourier transform of 8388617 elements is wanted, a number with a prime factor above 31; qdq transforms "
            "such numbers up to 8388608");
}

TEST(FourierTransform, AsksForItsMemory) {
  const LimitedMemory limited(1 << 20);
  EXPECT_THROW(FourierTransform(1 << 17, false), Error);
  EXPECT_THROW(FourierTransform(10007, false), Error);
  EXPECT_NO_THROW(FourierTransform(1 << 12, false));
}

}  // namespace
}  // namespace qdq::fourier_test
