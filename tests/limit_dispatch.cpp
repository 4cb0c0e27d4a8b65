// Linked into a program, or loaded before it (`qdq_limit_dispatch`): the kernels' own dispatch obeys DNNL_MAX_CPU_ISA,
// which oneDNN reads itself, so that one variable makes a program run as on a processor of that level.
#include <hwy/targets.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

struct Level {
  std::string_view isa;
  int64_t target;
};
// AVX2_VNNI and AMX are oneDNN's alone: the kernels have no road of their own for them.
constexpr Level kLevels[] = {{"SSE41", HWY_SSE2},
                             {"AVX2", HWY_AVX2},
                             {"AVX2_VNNI", HWY_AVX2},
                             {"AVX512_CORE", HWY_AVX3},
                             {"AVX512_CORE_VNNI", HWY_AVX3_DL},
                             {"AVX512_CORE_AMX", HWY_AVX3_DL}};

// Better targets have lower bits.
[[maybe_unused]] const bool is_limited = [] {
  const char* const isa = std::getenv("DNNL_MAX_CPU_ISA");
  if (isa == nullptr) return false;
  for (const Level& level : kLevels) {
    if (level.isa != isa) continue;
    hwy::DisableTargets(level.target - 1);
    return true;
  }
  // Figures and tests of a level that is misspelt would be those of another.
  std::abort();
}();

}  // namespace
