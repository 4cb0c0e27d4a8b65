// Which instruction sets the room's Highway files are compiled for; included before hwy/foreach_target.h.
//
// Three on x86: the baseline, AVX2, and AVX-512; the finer steps between them change nothing for float loops and each
// costs a compilation. WebAssembly has the one it is built for.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
