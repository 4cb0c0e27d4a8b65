// Gates by tables beside the exact functions.
#include "kernel/gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"

#if !defined(__EMSCRIPTEN__)
#include "hwy/targets.h"
#endif

namespace qdq::kernel::gate_test {
namespace {

struct Function {
  const char* name;
  const GateTable& table;
  double (*exact)(double);
};

std::vector<Function> functions() {
  return {{"silu", silu_table(), [](double x) { return x / (1 + std::exp(-x)); }},
          {"gelu", gelu_table(), [](double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752440); }},
          {"gelu_tanh", gelu_tanh_table(),
           [](double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }}};
}

std::vector<float> grid() {
  std::vector<float> x;
  for (int i = -30011; i <= 30011; ++i) x.push_back(static_cast<float>(i) * 0.001f);
  return x;
}

TEST(Gate, IsNearTheFunction) {
  const std::vector<float> x = grid();
  Requantize to;
  to.out_is_float = true;
  for (const Function& f : functions()) {
    std::vector<float> y(x.size());
    gate(f.table, x.data(), static_cast<int64_t>(x.size()), to, y.data());
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = f.exact(static_cast<double>(x[i]));
      largest = std::max(largest, std::fabs(static_cast<double>(y[i]) - exact) / std::max(1.0, std::fabs(exact)));
    }
    EXPECT_LT(largest, 1e-5) << f.name;
  }
}

TEST(Gate, RoundsToBytesAsTheFormulaSays) {
  const std::vector<float> x = grid();
  Requantize real, to;
  real.out_is_float = true;
  to.inverse_scale = 17.3f;
  to.zero_point = 5;
  to.high = 250;
  for (const int64_t n : {int64_t{1}, int64_t{63}, int64_t{65}, static_cast<int64_t>(x.size())}) {
    std::vector<float> y(static_cast<size_t>(n));
    std::vector<uint8_t> q(static_cast<size_t>(n) + 1, 77);
    gate(silu_table(), x.data() + x.size() / 2, n / 2 + 1, real, y.data());
    gate(silu_table(), x.data() + x.size() / 2, n / 2 + 1, to, q.data());
    for (size_t i = 0; i < static_cast<size_t>(n / 2 + 1); ++i) {
      const float steps = std::min(std::max(std::nearbyint(y[i] * 17.3f), -5.0f), 245.0f);
      ASSERT_EQ(q[i], static_cast<uint8_t>(static_cast<int>(steps) + 5)) << x[x.size() / 2 + i];
    }
    EXPECT_EQ(q[static_cast<size_t>(n / 2 + 1)], 77) << "written behind the end";
  }
}

TEST(Gate, KeepsEdges) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{infinity, -infinity, nan, 0.0f, 1e30f, -1e30f};
  std::vector<float> y(x.size());
  Requantize to;
  to.out_is_float = true;
  gate(silu_table(), x.data(), 6, to, y.data());
  EXPECT_EQ(y[0], infinity);
  EXPECT_NEAR(y[1], 0, 1e-5);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], 1e30f);
  EXPECT_NEAR(y[5], 0, 1e-5);
}

#if !defined(__EMSCRIPTEN__)
TEST(Gate, GivesTheSameBitsOnEveryInstructionSetWithFusedProductsAndThreadCount) {
  const std::vector<float> x = grid();
  Requantize to;
  to.out_is_float = true;
  Requantize bytes;
  bytes.inverse_scale = 11.7f;
  bytes.zero_point = 9;
  std::vector<float> first(x.size());
  std::vector<uint8_t> first_bytes(x.size());
  const int threads = num_threads();
  set_num_threads(1);
  gate(silu_table(), x.data(), static_cast<int64_t>(x.size()), to, first.data());
  gate(silu_table(), x.data(), static_cast<int64_t>(x.size()), bytes, first_bytes.data());
  const int64_t supported = hwy::SupportedTargets();
  for (const int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}}) {
    if (!(supported & target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    for (const int n : {1, 2}) {
      set_num_threads(n);
      std::vector<float> y(x.size());
      gate(silu_table(), x.data(), static_cast<int64_t>(x.size()), to, y.data());
      EXPECT_EQ(y, first) << hwy::TargetName(target) << ", " << n << " threads";
      std::vector<uint8_t> q(x.size());
      gate(silu_table(), x.data(), static_cast<int64_t>(x.size()), bytes, q.data());
      EXPECT_EQ(q, first_bytes) << hwy::TargetName(target) << ", " << n << " threads";
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  set_num_threads(threads);
}
#endif

}  // namespace
}  // namespace qdq::kernel::gate_test
