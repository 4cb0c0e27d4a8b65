#include "base/memory.h"

#include "base/error.h"

#ifdef __EMSCRIPTEN__
#include <malloc.h>
#endif

namespace qdq {

std::optional<uint64_t> available_memory() {
#ifdef __EMSCRIPTEN__
  // All of the 4 GB is the module's, and its memory grows up to them.
  return (uint64_t{1} << 32) - static_cast<uint32_t>(mallinfo().uordblks);
#else
  return std::nullopt;
#endif
}

void check_memory(uint64_t bytes, std::string_view what, std::optional<uint64_t> available) {
  if (!available || bytes <= *available) return;
  const auto megabytes = [](uint64_t count) { return concat((count + 500'000) / 1'000'000, " MB"); };
  fail(ErrorCode::kOutOfMemory, what, " needs at least ", megabytes(bytes), " of memory, and ", megabytes(*available),
       " are left of the 4 GB that WebAssembly has; use smaller batches, or the native program");
}

}  // namespace qdq
