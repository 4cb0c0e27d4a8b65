#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/background.h"
#include "base/error.h"

namespace qdq::parallel_test {
namespace {

// One thread again when a test is over.
class ParallelFor : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(1); }
};

// Many short jobs: workers come late, sleep and wake in between.
TEST_P(ParallelFor, VisitsEveryIndexOnce) {
  for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
    for (const int64_t grain : {0, 1, 5, 2000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<int> visits(static_cast<size_t>(count));
        parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          ASSERT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        ASSERT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1)) << count << " by " << grain;
      }
    }
  }
}

TEST_P(ParallelFor, RunsInnerLoopsInTheirThread) {
  std::atomic<int64_t> sum{0};
  parallel_for(20, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t own = 0;
      parallel_for(100, 1, [&](int64_t from, int64_t to) {
        for (int64_t k = from; k < to; ++k) own += k;
      });
      sum += own;
    }
  });
  EXPECT_EQ(sum, 20 * 4950);
}

TEST_P(ParallelFor, RethrowsAndGoesOn) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    EXPECT_THROW(parallel_for(64, 1,
                              [](int64_t begin, int64_t end) {
                                if (begin <= 40 && 40 < end) throw std::runtime_error("no");
                              }),
                 std::runtime_error);
    std::atomic<int64_t> sum{0};
    parallel_for(64, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 64);
  }
}

// A module of WebAssembly that shares no memory has one caller.
#if !defined(__EMSCRIPTEN__) || defined(__EMSCRIPTEN_PTHREADS__)
TEST_P(ParallelFor, ServesSeveralCallersAtOnce) {
  std::atomic<int64_t> sum{0};
  const auto call = [&] {
    for (int repeat = 0; repeat < 200; ++repeat)
      parallel_for(64, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum, 2 * 200 * 64);
}
#endif

// Everybody of a team waits for all others.
TEST_P(ParallelFor, TeamsRunAtTheSameTime) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> come{0}, most{0};
    std::vector<std::atomic<int>> visits(4);
    parallel_team(4, [&](int index, int size) {
      ++visits[static_cast<size_t>(index)];
      most = size;
      ++come;
      while (come < size) std::this_thread::yield();
    });
    ASSERT_GE(most, 1);
    ASSERT_LE(most, std::min(4, num_threads()));
    for (int i = 0; i < 4; ++i) ASSERT_EQ(visits[static_cast<size_t>(i)], i < most ? 1 : 0);
  }
}

TEST_P(ParallelFor, TeamsInsideOfABodyAreAlone) {
  std::atomic<int> sum{0};
  parallel_for(20, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) parallel_team(3, [&](int index, int size) { sum += 10 * index + size; });
  });
  // Alone only where the loop itself has threads.
  if (num_threads() > 1) {
    EXPECT_EQ(sum, 20);
  }
}

TEST_P(ParallelFor, RunsBesideTasksInTheBackground) {
  std::atomic<int64_t> sum{0}, done{0};
  {
    std::vector<std::unique_ptr<Background>> tasks;
    for (int i = 0; i < 100; ++i)
      tasks.push_back(std::make_unique<Background>([&] {
        parallel_for(10, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
        ++done;
      }));
    for (int repeat = 0; repeat < 20; ++repeat)
      parallel_for(64, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    for (const auto& task : tasks) task->finish();
    EXPECT_EQ(done, 100);
    EXPECT_EQ(sum, 100 * 10 + 20 * 64);
  }
  EXPECT_EQ(done, 100);
}

TEST_P(ParallelFor, TasksThatAreNotWantedAnyMoreAreLeftOut) {
  std::atomic<int64_t> done{0};
  for (int repeat = 0; repeat < 50; ++repeat) {
    auto value = std::make_unique<int64_t>(1);
    {
      std::vector<std::unique_ptr<Background>> tasks;
      for (int i = 0; i < 20; ++i) tasks.push_back(std::make_unique<Background>([&] { done += *value; }));
    }
    value.reset();  // nobody looks at it any more
  }
  EXPECT_LE(done, 50 * 20);
  if (num_threads() == 1) {
    EXPECT_EQ(done, 0);
  }
}

TEST_P(ParallelFor, TasksThrowWhereTheyAreFinished) {
  Background bad([] { throw std::runtime_error("bad"); }), good([] {});
  good.finish();
  EXPECT_THROW(bad.finish(), std::runtime_error);
}

// Nobody who works alone would ever see another do the task.
TEST_P(ParallelFor, WorkersTakeTasksWhileTheCallerDoesOtherThings) {
  if (num_threads() == 1) GTEST_SKIP() << "one thread does all when it is finished";
  std::atomic<bool> done{false};
  const Background task([&] { done = true; });
  while (!done) std::this_thread::yield();
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelFor, testing::Values(1, 2, 3, 5));

TEST(SetNumThreads, RefusesFewerThanOne) {
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_EQ(num_threads(), 1);
}

}  // namespace
}  // namespace qdq::parallel_test
