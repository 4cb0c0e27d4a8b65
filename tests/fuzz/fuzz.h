// What every fuzz target shares: an input may be refused with an Error, and nothing else may happen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/bytes.h"

// Begins the function of a target: what libFuzzer calls, or, where many are linked into one program that replays the
// corpus (fuzz/replay_test.cpp), a function of the target's name.
#ifdef QDQ_FUZZ_REPLAY
#define QDQ_FUZZ_TARGET(name) int fuzz_##name
#else
#define QDQ_FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput
#endif

namespace qdq::fuzz {

inline format::ByteSpan input(const uint8_t* data, size_t size) { return std::as_bytes(std::span(data, size)); }

// Any other exception, and an Error that says that qdq itself is wrong, goes on and ends the run.
template <class Body> void refusable(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code == ErrorCode::kInternal) throw;
  }
}

}  // namespace qdq::fuzz
