// oneDNN's engine, and the sizes of caches that oneDNN asks for. They share a file so that who links the one has the
// other.
#include "lower/backend/onednn.h"

#include <dlfcn.h>
#include <unistd.h>

namespace qdq::onednn {

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

unsigned cache_bytes(int level, unsigned found, long told) {
  constexpr unsigned kLeast = 4096, kUsual[] = {32U << 10, 512U << 10, 1024U << 10};
  if (found >= kLeast || level < 1 || level > 3) return found;
  return level < 3 && told >= kLeast ? static_cast<unsigned>(told) : kUsual[level - 1];
}

}  // namespace qdq::onednn

// A function inside oneDNN. A program's own symbols come before those of the libraries that it loads, so libdnnl.so
// calls this one.
namespace dnnl::impl::cpu::platform {

__attribute__((visibility("default"))) unsigned get_per_core_cache_size(int level);
unsigned get_per_core_cache_size(int level) {
  static auto* const next =
      reinterpret_cast<unsigned (*)(int)>(dlsym(RTLD_NEXT, "_ZN4dnnl4impl3cpu8platform23get_per_core_cache_sizeEi"));
  const long told = level == 1 ? sysconf(_SC_LEVEL1_DCACHE_SIZE) : level == 2 ? sysconf(_SC_LEVEL2_CACHE_SIZE) : 0;
  return qdq::onednn::cache_bytes(level, next == nullptr ? 0 : next(level), told);
}

}  // namespace dnnl::impl::cpu::platform
