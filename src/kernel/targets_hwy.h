// Which instruction sets the room's Highway files are compiled for; included before hwy/foreach_target.h.
//
// Three on x86: the baseline, AVX2, and AVX-512; the finer steps between them change nothing for float loops and each
// costs a compilation. A file of integer products defines QDQ_TARGETS_WITH_BYTE_DOT and gets a fourth, AVX-512 with
// VNNI; one that does not gain by AVX-512 defines QDQ_TARGETS_UP_TO_AVX2. WebAssembly has the one it is built for.
#pragma once

#if defined(QDQ_TARGETS_WITH_BYTE_DOT)
#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
#elif defined(QDQ_TARGETS_UP_TO_AVX2)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
#endif

#include "hwy/targets.h"

namespace qdq::kernel {

// Looks at the processor if no kernel has run yet.
inline void choose_target() {
#if (HWY_TARGETS & (HWY_TARGETS - 1)) != 0
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
#endif
}

}  // namespace qdq::kernel

// A function to be called many times. HWY_DYNAMIC_POINTER alone gives, before a kernel has run, one that looks at the
// processor at every call, which takes 40 us in a virtual machine.
#define QDQ_CHOSEN(FUNCTION) (choose_target(), HWY_DYNAMIC_POINTER(FUNCTION))
