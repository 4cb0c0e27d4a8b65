// oneDNN's OpenMP regions on the pool's threads.
#include "lower/backend/onednn_openmp.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <vector>

#include "base/parallel.h"

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
extern "C" void GOMP_barrier();

namespace qdq::onednn::onednn_openmp_test {
namespace {

// What GCC makes of `#pragma omp parallel num_threads(threads)`.
template <class Body> void region(unsigned threads, Body body) {
  GOMP_parallel([](void* data) { (*static_cast<Body*>(data))(); }, &body, threads, 0);
}

class Regions : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(1); }
};

// As many shares as were asked for, whoever runs them.
TEST_P(Regions, GiveEveryIndependentShareOnce) {
  const OpenMpRegions regions(OpenMpRegions::Threads::kIndependent);
  EXPECT_EQ(omp_get_max_threads(), GetParam());
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<std::atomic<int>> visits(5);
    region(5, [&] {
      EXPECT_EQ(omp_get_num_threads(), 5);
      EXPECT_NE(omp_in_parallel(), 0);
      ++visits[static_cast<size_t>(omp_get_thread_num())];
    });
    for (const auto& visit : visits) ASSERT_EQ(visit, 1);
  }
  EXPECT_EQ(omp_in_parallel(), 0);
}

// At most as many as there are threads, and their barriers hold.
TEST_P(Regions, RunSharesTogetherThatWaitForEachOther) {
  const OpenMpRegions regions(OpenMpRegions::Threads::kTogether);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> come{0};
    std::atomic<int> wrong{0};
    region(5, [&] {
      for (int barrier = 1; barrier <= 3; ++barrier) {
        ++come;
        GOMP_barrier();
        if (come != barrier * omp_get_num_threads()) ++wrong;
        GOMP_barrier();
      }
      if (omp_get_num_threads() > GetParam()) ++wrong;
    });
    ASSERT_EQ(wrong, 0);
  }
}

TEST_P(Regions, LeaveThoseOfOthersToOpenMp) {
  omp_set_num_threads(3);
  EXPECT_EQ(omp_get_max_threads(), 3);
  std::atomic<int> sum{0};
  region(0, [&] {
    sum += omp_get_num_threads();
    GOMP_barrier();
  });
  EXPECT_EQ(sum, 9);
}

INSTANTIATE_TEST_SUITE_P(Threads, Regions, testing::Values(1, 2, 3));

TEST(ThreadsOf, KnowsWhichImplementationsWaitInside) {
  using Threads = OpenMpRegions::Threads;
  EXPECT_EQ(threads_of("gemm:jit:f32"), Threads::kTogether);
  EXPECT_EQ(threads_of("x64:gemm:jit"), Threads::kTogether);
  for (const char* name : {"brg_matmul:avx512_core_vnni", "brgconv_1x1:avx2", "brgemm:avx512_core", "jit_int:sse41",
                           "brdgmm_dw:avx512_core", "simple:any", "reference"})
    EXPECT_EQ(threads_of(name), Threads::kIndependent) << name;
}

}  // namespace
}  // namespace qdq::onednn::onednn_openmp_test
