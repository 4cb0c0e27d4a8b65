#include "lower/backend/onednn.h"

#include <dlfcn.h>

namespace qdq::onednn {

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

unsigned cache_bytes(int level, unsigned found) {
  constexpr unsigned kLeast = 4096, kUsual[] = {32U << 10, 512U << 10, 1024U << 10};
  return found < kLeast && level >= 1 && level <= 3 ? kUsual[level - 1] : found;
}

}  // namespace qdq::onednn

// A function inside oneDNN. A program's own symbols come before those of the libraries that it loads, so libdnnl.so
// calls this one.
namespace dnnl::impl::cpu::platform {

__attribute__((visibility("default"))) unsigned get_per_core_cache_size(int level);
unsigned get_per_core_cache_size(int level) {
  static auto* const next =
      reinterpret_cast<unsigned (*)(int)>(dlsym(RTLD_NEXT, "_ZN4dnnl4impl3cpu8platform23get_per_core_cache_sizeEi"));
  return qdq::onednn::cache_bytes(level, next == nullptr ? 0 : next(level));
}

}  // namespace dnnl::impl::cpu::platform
