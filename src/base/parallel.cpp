#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

#if defined(_OPENMP) || defined(__EMSCRIPTEN_PTHREADS__)
#define QDQ_HAS_THREADS 1
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
// OpenMP's workers, which oneDNN uses as well: they spin for a while after a job, and workers of another pool would
// wait for a processor until these give up.
class Pool {
 public:
  int grow(int workers) { return workers; }

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
// A worker looks for the next job for some microseconds before it sleeps: a network has a hundred jobs, and to wake a
// thread takes as long as a small one of them. A job is done when its chunks are: a worker that wakes too late for one
// is not waited for.
class Pool {
 public:
  // Starts workers until there are so many, or the host gives no more. Returns how many there are.
  int grow(int workers) {
    while (size_ < workers) {
      try {
        std::thread([this, index = size_] { work(index); }).detach();
      } catch (const std::system_error&) {
        break;
      }
      ++size_;
    }
    return std::min(size_, workers);
  }

  void run(int64_t count, int64_t chunk, int workers, const std::function<void(int64_t, int64_t)>& body) {
    body_ = &body;
    count_ = count;
    chunk_ = chunk;
    workers_ = workers;
    next_ = 0;
    error_ = nullptr;
    ++job_;  // open
    if (sleeping_ > 0) signal(wake_);
    take_chunks();
    ++job_;  // closed: who has not come in yet stays out
    if (!looks([this] { return inside_ == 0; })) {
      std::unique_lock<std::mutex> lock(mutex_);
      waiting_ = true;
      done_.wait(lock, [this] { return inside_ == 0; });
      waiting_ = false;
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // About 30 microseconds; there is no instruction that rests a core meanwhile.
  static constexpr int kLooks = 10000;

  template <class Condition> static bool looks(const Condition& holds) {
    for (int i = 0; i < kLooks; ++i) {
      if (holds()) return true;
    }
    return false;
  }

  // Who waits has checked its condition under the mutex.
  void signal(std::condition_variable& condition) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    condition.notify_all();
  }

  void work(int index) {
    for (uint32_t seen = 0;;) {
      const auto another = [&] { return job_ != seen; };
      if (!looks(another)) {
        std::unique_lock<std::mutex> lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, another);
        --sleeping_;
      }
      const uint32_t job = job_;
      if (job % 2 == 1) {
        ++inside_;
        // While somebody is inside of an open job, its fields stand.
        if (job_ == job && index < workers_) take_chunks();
        if (--inside_ == 0 && waiting_) signal(done_);
      }
      seen = job;
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

  int size_ = 0;
  std::atomic<uint32_t> job_{0};  // odd: open
  std::atomic<uint32_t> inside_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> waiting_{false};
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  std::atomic<int64_t> next_{0};
  int64_t count_ = 0;
  int64_t chunk_ = 1;
  int workers_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::exception_ptr error_;
};
#endif

#if QDQ_HAS_THREADS
Pool& pool() {
  static Pool* const instance = new Pool;  // its workers may outlive what the end of the process destroys
  return *instance;
}
#endif

}  // namespace

int num_threads() { return g_num_threads; }

void set_num_threads(int count) {
  QDQ_CHECK(count >= 1, kInvalidArgument, "the number of threads is ", count, ", it must be at least 1");
#if QDQ_HAS_THREADS
  g_num_threads = 1 + pool().grow(std::min(count, 256) - 1);
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
