#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <time.h>
#endif

#include "base/background.h"
#include "base/error.h"

#if !defined(__EMSCRIPTEN__) || defined(__EMSCRIPTEN_PTHREADS__)
#define QDQ_HAS_THREADS 1
#else
#define QDQ_HAS_THREADS 0
#endif

namespace qdq {

// What a Background offers. Who sets `is_begun` first does the task.
struct Background::Offer {
  bool begin() { return !is_begun.exchange(true); }
  void run() {
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    task = nullptr;
  }

  std::function<void()> task;
  std::atomic<bool> is_begun{false}, is_done{false};
  std::exception_ptr error;
};

namespace {

std::atomic<int> g_num_threads{1};

#if QDQ_HAS_THREADS
thread_local bool t_inside = false;

// While one lives, this thread is inside of a body.
class Inside {
 public:
  Inside() { t_inside = true; }
  ~Inside() { t_inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};
#endif

#if QDQ_HAS_THREADS
// The processor's time of some threads, in nanoseconds: what shows that one of them had no core.
class ProcessorTime {
 public:
#if defined(__linux__)
  void add(std::thread& thread) {
    clockid_t clock;
    if (pthread_getcpuclockid(thread.native_handle(), &clock) == 0) clocks_.push_back(clock);
  }
  int64_t read() const {
    int64_t sum = 0;
    for (const clockid_t clock : clocks_) {
      timespec at{};
      clock_gettime(clock, &at);
      sum += int64_t{1000000000} * at.tv_sec + at.tv_nsec;
    }
    return sum;
  }
  static constexpr bool kIsKnown = true;

 private:
  std::vector<clockid_t> clocks_;
#else
  void add(std::thread&) {}
  int64_t read() const { return 0; }
  static constexpr bool kIsKnown = false;
#endif
};

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A worker looks for the next job for some microseconds before it sleeps: a network has a hundred jobs, and to wake a
// thread takes as long as a small one of them. A job is done when its chunks are: a worker that wakes too late for one
// is not waited for.
//
// Other programs may want the cores. A worker that loses its core in the middle of a chunk is waited for, which takes
// as long as the other program keeps the core, some milliseconds. After such a wait the callers work alone for eight
// times as long, so that it costs an eighth in the long run.
//
// One job runs at a time. Who comes while the workers are taken works alone.
//
// A worker that finds no job takes what a Background offers. It is not waited for meanwhile: a job that opens then is
// done by the others.
class Pool {
 public:
  // Starts workers until there are so many, or the host gives no more. Returns how many there are.
  int grow(int workers) {
    const std::lock_guard<std::mutex> lock(growing_);
    while (size_ < workers) {
      try {
        std::thread thread([this, index = size_] { work(index); });
        time_.add(thread);
        thread.detach();
      } catch (const std::system_error&) {
        break;
      }
      ++size_;
    }
    return std::min(size_, workers);
  }

  // False if nobody can help now: the caller does all itself.
  bool run(int64_t count, int64_t chunk, int workers, FunctionRef<void(int64_t, int64_t)> body) {
    if (taken_.exchange(true)) return false;
    if (ProcessorTime::kIsKnown && alone_until_ != 0) {
      if (nanoseconds() < alone_until_) {
        taken_ = false;
        return false;
      }
      alone_until_ = 0;
    }
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
    if (!looks([this] { return inside_ == 0; })) wait_for_others();
    const std::exception_ptr error = std::exchange(error_, nullptr);
    taken_ = false;
    if (error) std::rethrow_exception(error);
    return true;
  }

  // Waits until as many of the workers have come as are not at a Background's task, some of which may be asleep; the
  // caller's, inside of a job.
  void gather(int most, const std::atomic<int>& come) {
    if (looks([&] { return come + at_offers_ >= most; }) || !ProcessorTime::kIsKnown) return;
    alone_until_ = nanoseconds() + kAlone * kWorthAlone;
  }

  using Offer = Background::Offer;

  void offer(std::shared_ptr<Offer> offer) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      offers_.push_back(std::move(offer));
      ++num_offers_;
    }
    if (sleeping_ > 0) wake_.notify_all();
  }

  void wait_for(const Offer& offer) {
    if (looks([&] { return offer.is_done.load(); })) return;
    std::unique_lock<std::mutex> lock(mutex_);
    offer_done_.wait(lock, [&] { return offer.is_done.load(); });
  }

 private:
#if defined(__EMSCRIPTEN__)
  // About 30 microseconds; there is no instruction that rests a core meanwhile.
  static constexpr int kLooks = 10000;
  static void rest() {}
#else
  // An instruction that rests the core takes 15 to 50 nanoseconds: 30 to 100 microseconds.
  static constexpr int kLooks = 2000;
  static void rest() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }
#endif
  static constexpr int64_t kAlone = 8;

  template <class Condition> static bool looks(const Condition& holds) {
    for (int i = 0; i < kLooks; ++i) {
      if (holds()) return true;
      rest();
    }
    return false;
  }

  // Who waits has checked its condition under the mutex.
  void signal(std::condition_variable& condition) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    condition.notify_all();
  }

  void wait_for_others() {
    const int64_t begin = nanoseconds(), worked = time_.read();
    {
      std::unique_lock<std::mutex> lock(mutex_);
      waiting_ = true;
      done_.wait(lock, [this] { return inside_ == 0; });
      waiting_ = false;
    }
    if (!ProcessorTime::kIsKnown) return;
    const int64_t end = nanoseconds();
    const int64_t lost = end - begin - (time_.read() - worked);
    if (lost > kWorthAlone) alone_until_ = end + kAlone * lost;
  }

  void work(int index) {
    for (uint32_t seen = 0;;) {
      const auto another = [&] { return job_ != seen || (num_offers_ > 0 && index + 1 < g_num_threads); };
      if (!looks(another)) {
        std::unique_lock<std::mutex> lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, another);
        --sleeping_;
      }
      const uint32_t job = job_;
      if (job == seen) {
        take_offer();
        continue;
      }
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
    const Inside inside;
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
  }

  void take_offer() {
    std::shared_ptr<Offer> offer;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (offers_.empty()) return;
      offer = std::move(offers_.front());
      offers_.pop_front();
      --num_offers_;
    }
    if (!offer->begin()) return;
    ++at_offers_;
    {
      const Inside inside;
      offer->run();
    }
    --at_offers_;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      offer->is_done = true;
    }
    offer_done_.notify_all();
  }

  static constexpr int64_t kWorthAlone = 30000;  // to wake the caller takes as long

  std::mutex growing_;
  int size_ = 0;
  ProcessorTime time_;
  std::atomic<bool> taken_{false};
  int64_t alone_until_ = 0;       // 0: not alone
  std::atomic<uint32_t> job_{0};  // odd: open
  std::atomic<uint32_t> inside_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> waiting_{false};
  const FunctionRef<void(int64_t, int64_t)>* body_ = nullptr;
  std::atomic<int64_t> next_{0};
  int64_t count_ = 0;
  int64_t chunk_ = 1;
  int workers_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::exception_ptr error_;
  std::deque<std::shared_ptr<Offer>> offers_;
  std::atomic<int> num_offers_{0}, at_offers_{0};
  std::condition_variable offer_done_;
};

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

void parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (count <= 0) return;
#if QDQ_HAS_THREADS
  const int threads = g_num_threads;
  grain = std::max<int64_t>(grain, 1);
  if (threads > 1 && count > grain && !t_inside) {
    // Four chunks a thread even out unequal work.
    const int64_t chunk = std::max(grain, (count + 4 * threads - 1) / (4 * threads));
    if (pool().run(count, chunk, threads - 1, body)) return;
    const Inside inside;
    return body(0, count);
  }
#else
  (void)grain;
#endif
  body(0, count);
}

void parallel_team(int count, FunctionRef<void(int, int)> body) {
#if QDQ_HAS_THREADS
  const int most = std::min(count, g_num_threads.load());
  if (most > 1 && !t_inside) {
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> come{1}, size{0};
    const auto join = [&](int64_t, int64_t) {
      if (std::this_thread::get_id() == caller) {
        if (size != 0) return;
        pool().gather(most, come);
        size = std::min(most, come.exchange(most));
        body(0, size);
        return;
      }
      const int index = come.fetch_add(1);
      if (index >= most) return;
      while (size == 0) std::this_thread::yield();
      body(index, size);
    };
    // A thread takes one of so many tickets; those that are left the caller takes and leaves alone.
    if (pool().run(most, 1, most - 1, join)) return;
    const Inside inside;
    return body(0, 1);
  }
#else
  (void)count;
#endif
  body(0, 1);
}

Background::Background(std::function<void()> task) : offer_(std::make_shared<Offer>()) {
  offer_->task = std::move(task);
#if QDQ_HAS_THREADS
  if (g_num_threads > 1) pool().offer(offer_);
#endif
}

Background::~Background() {
  if (offer_->begin()) {
    offer_->task = nullptr;
    return;
  }
#if QDQ_HAS_THREADS
  pool().wait_for(*offer_);
#endif
}

void Background::finish() {
  if (offer_->begin()) {
    offer_->run();
    offer_->is_done = true;
  }
#if QDQ_HAS_THREADS
  pool().wait_for(*offer_);
#endif
  if (const std::exception_ptr error = std::exchange(offer_->error, nullptr)) std::rethrow_exception(error);
}

}  // namespace qdq
