// What qdq runs on, in words.
#include "cli/machine.h"

#include "base/error.h"
#include "lower/lower.h"

namespace qdq {

std::string machine_text() {
  std::string out;
#ifdef __EMSCRIPTEN__
  out = "WebAssembly";
#else
  out = "native";
#endif
#if defined(__x86_64__) && !defined(__EMSCRIPTEN__)
  const auto add = [&](bool has, const char* name) {
    if (has) out += concat(", ", name);
  };
  add(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), "AVX2");
  add(__builtin_cpu_supports("avxvnni"), "AVX-VNNI");
  add(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"), "AVX-512");
  add(__builtin_cpu_supports("avx512vnni"), "AVX-512 VNNI");
  add(__builtin_cpu_supports("avx512bf16"), "AVX-512 BF16");
  add(__builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("amx-bf16"), "AMX");
#endif
  return concat(out, "; integers by ", integer_products());
}

}  // namespace qdq
