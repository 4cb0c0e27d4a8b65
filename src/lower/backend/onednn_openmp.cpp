// The entry points of GCC's OpenMP that oneDNN uses. A program's own symbols come before those of the libraries that it
// loads, so libdnnl.so calls these; what is not meant for them goes on to OpenMP itself.
#include "lower/backend/onednn_openmp.h"

#include <dlfcn.h>
#include <omp.h>

#include <atomic>
#include <thread>

#include "base/parallel.h"

namespace qdq::onednn {
namespace {

// Those who run a region at the same time, for its barriers.
struct OpenMpTeam {
  int size = 1;
  std::atomic<int> arrived{0};
  std::atomic<int> barriers{0};
};

// What a thread does of a region; none if size is 0.
struct OpenMpShare {
  int index = 0, size = 0;
  OpenMpTeam* team = nullptr;
};

constexpr int kForeign = -1;
thread_local int t_regions = kForeign;
thread_local OpenMpShare t_share;

class ShareScope {
 public:
  explicit ShareScope(const OpenMpShare& share) : outer_(t_share) { t_share = share; }
  ~ShareScope() { t_share = outer_; }
  ShareScope(const ShareScope&) = delete;
  ShareScope& operator=(const ShareScope&) = delete;

 private:
  OpenMpShare outer_;
};

// The function of this name behind ours in the order of libraries.
template <class Function> Function* next_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void run_region(void (*body)(void*), void* data, int threads) {
  if (threads <= 0) threads = num_threads();
  if (t_share.size > 0) threads = 1;
  if (t_regions == static_cast<int>(OpenMpRegions::Threads::kTogether) && threads > 1) {
    OpenMpTeam team;
    parallel_team(threads, [&](int index, int size) {
      if (index == 0) team.size = size;
      const ShareScope scope({index, size, &team});
      body(data);
    });
    return;
  }
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const ShareScope scope({static_cast<int>(index), threads, nullptr});
      body(data);
    }
  });
}

void wait_for_team(OpenMpTeam& team, int size) {
  const int barrier = team.barriers;
  if (team.arrived.fetch_add(1) + 1 == size) {
    team.arrived = 0;
    ++team.barriers;
    return;
  }
  for (int looks = 0; team.barriers == barrier; ++looks)
    if (looks > 1000) std::this_thread::yield();
}

}  // namespace

OpenMpRegions::OpenMpRegions(Threads threads) : outer_(t_regions) { t_regions = static_cast<int>(threads); }
OpenMpRegions::~OpenMpRegions() { t_regions = outer_; }

OpenMpRegions::Threads threads_of(std::string_view implementation) {
  const bool is_gemm = implementation.find("gemm") != implementation.npos && !implementation.starts_with("brg");
  return is_gemm ? OpenMpRegions::Threads::kTogether : OpenMpRegions::Threads::kIndependent;
}

}  // namespace qdq::onednn

#define QDQ_OPENMP extern "C" __attribute__((visibility("default")))
// GCC's header promises that these throw nothing, clang's does not.
#ifdef __clang__
#define QDQ_NOTHROW
#else
#define QDQ_NOTHROW noexcept
#endif

// The names are those of GCC's OpenMP.
// NOLINTBEGIN(readability-identifier-naming)
QDQ_OPENMP void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  if (qdq::onednn::t_regions != qdq::onednn::kForeign || qdq::onednn::t_share.size > 0) {
    qdq::onednn::run_region(body, data, static_cast<int>(threads));
    return;
  }
  static auto* const next =
      qdq::onednn::next_function<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  next(body, data, threads, flags);
}

QDQ_OPENMP void GOMP_barrier() noexcept {
  if (qdq::onednn::t_share.size > 0) {
    if (qdq::onednn::t_share.team != nullptr)
      qdq::onednn::wait_for_team(*qdq::onednn::t_share.team, qdq::onednn::t_share.size);
    return;
  }
  static auto* const next = qdq::onednn::next_function<void()>("GOMP_barrier");
  next();
}

QDQ_OPENMP int omp_get_thread_num() QDQ_NOTHROW {
  if (qdq::onednn::t_share.size > 0) return qdq::onednn::t_share.index;
  static auto* const next = qdq::onednn::next_function<int()>("omp_get_thread_num");
  return next();
}

QDQ_OPENMP int omp_get_num_threads() QDQ_NOTHROW {
  if (qdq::onednn::t_share.size > 0) return qdq::onednn::t_share.size;
  static auto* const next = qdq::onednn::next_function<int()>("omp_get_num_threads");
  return next();
}

QDQ_OPENMP int omp_in_parallel() QDQ_NOTHROW {
  if (qdq::onednn::t_share.size > 0) return qdq::onednn::t_share.size > 1 ? 1 : 0;
  static auto* const next = qdq::onednn::next_function<int()>("omp_in_parallel");
  return next();
}

QDQ_OPENMP int omp_get_max_threads() QDQ_NOTHROW {
  if (qdq::onednn::t_share.size > 0) return 1;
  if (qdq::onednn::t_regions != qdq::onednn::kForeign) return qdq::num_threads();
  static auto* const next = qdq::onednn::next_function<int()>("omp_get_max_threads");
  return next();
}
// NOLINTEND(readability-identifier-naming)
