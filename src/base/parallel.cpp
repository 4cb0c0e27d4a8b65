#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

#if !defined(__EMSCRIPTEN__) || defined(__EMSCRIPTEN_PTHREADS__)
#define QDQ_HAS_THREADS 1
#include <condition_variable>
#else
#define QDQ_HAS_THREADS 0
#endif

namespace qdq {
namespace {

std::atomic<int> g_num_threads{1};

#if QDQ_HAS_THREADS
thread_local bool t_inside = false;
#endif

#if defined(_OPENMP)
// OpenMP's workers, which oneDNN uses as well: they spin for a while after a job, and workers of another pool would wait for a processor
// until these give up.
class Pool {
 public:
  void run(int64_t count, int64_t chunk, int workers, const std::function<void(int64_t, int64_t)>& body) {
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
#pragma omp parallel num_threads(workers + 1)
    {
      t_inside = true;
      for (;;) {
        const int64_t begin = next.fetch_add(chunk);
        if (begin >= count) break;
        try {
          body(begin, std::min(begin + chunk, count));
        } catch (...) {
          std::lock_guard<std::mutex> lock(mutex);
          if (!error) error = std::current_exception();
          next = count;
        }
      }
      t_inside = false;
    }
    if (error) std::rethrow_exception(error);
  }
};
#elif QDQ_HAS_THREADS
// Workers sleep until a job with a new number appears, take chunks of it, and report when none is left.
class Pool {
 public:
  ~Pool() { resize(0); }

  void run(int64_t count, int64_t chunk, int workers, const std::function<void(int64_t, int64_t)>& body) {
    std::lock_guard<std::mutex> one_job_at_a_time(job_mutex_);
    if (static_cast<int>(threads_.size()) != workers) resize(workers);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      count_ = count;
      chunk_ = chunk;
      next_ = 0;
      error_ = nullptr;
      busy_ = workers;
      ++job_;
    }
    wake_.notify_all();
    take_chunks();
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void resize(int workers) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    stop_ = false;
    const uint64_t seen = job_;
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this, seen] { work(seen); });
  }

  void work(uint64_t seen) {
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || job_ != seen; });
        if (stop_) return;
        seen = job_;
      }
      take_chunks();
      std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_all();
    }
  }

  void take_chunks() {
    t_inside = true;
    for (;;) {
      const int64_t begin = next_.fetch_add(chunk_);
      if (begin >= count_) break;
      try {
        (*body_)(begin, std::min(begin + chunk_, count_));
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = count_;
      }
    }
    t_inside = false;
  }

  std::mutex job_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<std::thread> threads_;
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  std::atomic<int64_t> next_{0};
  int64_t count_ = 0;
  int64_t chunk_ = 1;
  int busy_ = 0;
  uint64_t job_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
};
#endif

#if QDQ_HAS_THREADS
Pool& pool() {
  static Pool instance;
  return instance;
}
#endif

}  // namespace

int num_threads() { return g_num_threads; }

void set_num_threads(int count) {
  QDQ_CHECK(count >= 1, kInvalidArgument, "the number of threads is ", count, ", it must be at least 1");
#if QDQ_HAS_THREADS
  g_num_threads = std::min(count, 256);
#endif
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
#if QDQ_HAS_THREADS
  const int threads = g_num_threads;
  grain = std::max<int64_t>(grain, 1);
  if (threads > 1 && count > grain && !t_inside) {
    // Four chunks a thread even out unequal work.
    const int64_t chunk = std::max(grain, (count + 4 * threads - 1) / (4 * threads));
    pool().run(count, chunk, threads - 1, body);
    return;
  }
#else
  (void)grain;
#endif
  body(0, count);
}

}  // namespace qdq
