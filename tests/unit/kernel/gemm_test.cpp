// Float products against plain loops that add in the documented order, bit for bit.
#include "kernel/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::gemm_test {
namespace {

struct GemmCase {
  int64_t rows, columns, depth;
};

std::vector<float> plain_gemm(const GemmCase& p, const std::vector<float>& a, const std::vector<float>& b,
                              const std::vector<float>& bias, BiasAxis axis) {
  std::vector<float> out(static_cast<size_t>(p.rows * p.columns));
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.columns; ++j) {
      BlockSum sum;
      for (int64_t k = 0; k < p.depth; ++k) sum.add(at(a, i * p.depth + k), at(b, k * p.columns + j));
      float value = sum.total();
      if (axis != BiasAxis::kNone) value = value + at(bias, axis == BiasAxis::kRow ? i : j);
      at(out, i * p.columns + j) = value;
    }
  }
  return out;
}

TEST(Gemm, MatchesTheDocumentedOrderForAnyShapeBiasAndThreads) {
  const GemmCase cases[] = {{1, 1, 1},     {1, 70, 300}, {3, 5, 7},     {17, 33, 257}, {16, 64, 256},
                            {50, 49, 513}, {2, 130, 0},  {270, 20, 31}, {0, 5, 7},     {5, 0, 7},
                            {1, 64, 300},  {4, 96, 600}, {2, 16, 0},    {33, 1, 300},  {5, 1, 0}};
  Random random(1);
  for (const GemmCase& p : cases) {
    const auto a = random.floats(p.rows * p.depth), b = random.floats(p.depth * p.columns);
    const auto bias = random.floats(std::max(p.rows, p.columns));
    for (BiasAxis axis : {BiasAxis::kNone, BiasAxis::kRow, BiasAxis::kColumn}) {
      const auto want = plain_gemm(p, a, b, bias, axis);
      for (int threads : {1, 2, 3}) {
        set_num_threads(threads);
        std::vector<float> out(want.size(), NAN);
        gemm_f32(p.rows, p.columns, p.depth, {a.data(), p.depth, 1}, {b.data(), p.columns, 1}, bias.data(), axis,
                 out.data(), p.columns);
        EXPECT_TRUE(same_bits(out, want)) << p.rows << "x" << p.columns << "x" << p.depth << " threads " << threads;
      }
    }
  }
  set_num_threads(1);
}

TEST(Gemm, LinearEqualsGemmWithTheTransposedWeight) {
  const GemmCase cases[] = {{1, 10, 512}, {5, 1000, 33}, {197, 65, 300}};
  Random random(2);
  for (const GemmCase& p : cases) {
    const auto x = random.floats(p.rows * p.depth), wt = random.floats(p.depth * p.columns),
               bias = random.floats(p.columns);
    std::vector<float> w(wt.size());
    for (int64_t n = 0; n < p.columns; ++n)
      for (int64_t k = 0; k < p.depth; ++k) at(w, n * p.depth + k) = at(wt, k * p.columns + n);
    const PackedRows packed = pack_rows({w.data(), p.depth, 1}, p.columns, p.depth);
    std::vector<float> out(static_cast<size_t>(p.rows * p.columns));
    linear_f32(x.data(), p.rows, packed, bias.data(), out.data());
    EXPECT_TRUE(same_bits(out, plain_gemm(p, x, wt, bias, BiasAxis::kColumn)));
    linear_f32(x.data(), p.rows, packed, nullptr, out.data());
    EXPECT_TRUE(same_bits(out, plain_gemm(p, x, wt, bias, BiasAxis::kNone)));
  }
}

TEST(Gemm, MatmulTakesStridesAndBroadcastsBatches) {
  const GemmCase p{9, 21, 40};
  Random random(3);
  const auto a = random.floats(5 * p.rows * p.depth), bt = random.floats(p.columns * p.depth);
  std::vector<float> b(bt.size());
  for (int64_t n = 0; n < p.columns; ++n)
    for (int64_t k = 0; k < p.depth; ++k) at(b, k * p.columns + n) = at(bt, n * p.depth + k);
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    std::vector<float> out(static_cast<size_t>(5 * p.rows * p.columns));
    matmul_f32(5, p.rows, p.columns, p.depth, {a.data(), p.depth, 1}, p.rows * p.depth, {bt.data(), 1, p.depth}, 0,
               out.data());
    for (int64_t i = 0; i < 5; ++i) {
      const std::vector<float> ai(a.begin() + i * p.rows * p.depth, a.begin() + (i + 1) * p.rows * p.depth);
      const std::vector<float> got(out.begin() + i * p.rows * p.columns, out.begin() + (i + 1) * p.rows * p.columns);
      EXPECT_TRUE(same_bits(got, plain_gemm(p, ai, b, {}, BiasAxis::kNone))) << i;
    }
  }
  set_num_threads(1);
}

// Which nobody packs: one row by columns that lie one after the other, and rows by one column.
TEST(Gemm, VectorsTakeTheDocumentedOrder) {
  Random random(6);
  for (const GemmCase& p : {GemmCase{40, 1, 1}, GemmCase{7, 1, 300}, GemmCase{33, 1, 777}, GemmCase{64, 1, 1024},
                            GemmCase{17, 1, 63}, GemmCase{5, 1, 0}}) {
    const auto m = random.floats(p.rows * p.depth), x = random.floats(p.depth);
    const auto want = plain_gemm(p, m, x, {}, BiasAxis::kNone);
    for (int threads : {1, 3}) {
      set_num_threads(threads);
      std::vector<float> out(want.size(), NAN);
      gemm_f32(p.rows, 1, p.depth, {m.data(), p.depth, 1}, {x.data(), 1, 1}, nullptr, BiasAxis::kNone, out.data(), 1);
      EXPECT_TRUE(same_bits(out, want)) << "matrix by vector, " << p.rows << " x " << p.depth;
      std::fill(out.begin(), out.end(), NAN);
      gemm_f32(1, p.rows, p.depth, {x.data(), p.depth, 1}, {m.data(), 1, p.depth}, nullptr, BiasAxis::kNone, out.data(),
               p.rows);
      EXPECT_TRUE(same_bits(out, want)) << "vector by columns, " << p.rows << " x " << p.depth;
    }
  }
  set_num_threads(1);
}

TEST(Gemm, OutMayHaveALargerRowStride) {
  const GemmCase p{3, 4, 5};
  Random random(4);
  const auto a = random.floats(15), b = random.floats(20);
  std::vector<float> out(3 * 6, 7.0f);
  gemm_f32(3, 4, 5, {a.data(), 5, 1}, {b.data(), 4, 1}, nullptr, BiasAxis::kNone, out.data(), 6);
  const auto want = plain_gemm(p, a, b, {}, BiasAxis::kNone);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(at(out, i * 6 + j), at(want, i * 4 + j));
    EXPECT_EQ(at(out, i * 6 + 4), 7.0f);
    EXPECT_EQ(at(out, i * 6 + 5), 7.0f);
  }
}

TEST(Gemm, SumsAreCloseToDouble) {
  const GemmCase p{4, 20, 3000};
  Random random(5);
  const auto a = random.floats(p.rows * p.depth), b = random.floats(p.depth * p.columns);
  std::vector<float> out(static_cast<size_t>(p.rows * p.columns));
  gemm_f32(p.rows, p.columns, p.depth, {a.data(), p.depth, 1}, {b.data(), p.columns, 1}, nullptr, BiasAxis::kNone,
           out.data(), p.columns);
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.columns; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < p.depth; ++k) {
        const double product = static_cast<double>(at(a, i * p.depth + k)) * at(b, k * p.columns + j);
        sum += product;
        size += std::fabs(product);
      }
      EXPECT_NEAR(at(out, i * p.columns + j), sum, size * 2e-6);
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::gemm_test
