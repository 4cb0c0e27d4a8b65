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
